"""Layouts that do not fit, or say nothing where they have to."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.experimental.layout import Format, Layout
from curta.sharding import make_single_device_sharding

X = np.arange(8, dtype=np.float32)


def place():
    return make_single_device_sharding(curta.devices()[0])


@pytest.mark.parametrize("sharded", [False, True])
def test_device_put_wants_a_layout(sharded):
    auto = Format(Layout.AUTO, place() if sharded else None)
    with pytest.raises(ValueError, match="sharding and layout.*should be concrete"):
        curta.device_put(X, auto)
    assert curta.device_put(X, Format(None, place())).committed
    assert curta.device_put(X, Format(Layout((0,)), place())).committed


def test_the_rank_of_a_layout():
    cube = Format(Layout((0, 1, 2)), place())
    for call in (
        lambda: curta.device_put(X, cube),
        lambda: curta.jit(jnp.sin, in_shardings=cube)(X),
        lambda: curta.jit(jnp.add, in_shardings=(None, cube))(X, X),
        lambda: curta.jit(jnp.sin, out_shardings=cube)(X),
        lambda: curta.jit(lambda x: (x, {"a": x}), out_shardings=(None, cube))(X),
    ):
        with pytest.raises(ValueError, match="Length of major_to_minor and the rank"):
            call()
    f = curta.jit(
        lambda x, y: (x, y), in_shardings=(None, Format(Layout((0,)), place()))
    )
    assert np.array_equal(f(X, X)[1], X)


def test_descriptions_want_a_layout():
    auto = Format(Layout.AUTO, place())
    with pytest.raises(TypeError, match="AUTO` cannot be used.*in a `ShapeDtypeStruct"):
        curta.ShapeDtypeStruct(X.shape, X.dtype, sharding=auto)
    make = curta.make_array_from_callback
    with pytest.raises(TypeError, match="AUTO` cannot be used in place of a dev"):
        make(X.shape, auto, lambda index: X[index])
    with pytest.raises(TypeError, match="sharding should be an instance of"):
        make(X.shape, Format(None, None), lambda index: X[index])


def test_jit_wants_formats():
    for name in ("in_shardings", "out_shardings"):
        for layout in (Layout.AUTO, Layout((0,))):
            with pytest.raises(ValueError, match="does not accept device-local layou"):
                curta.jit(jnp.sin, **{name: layout})
