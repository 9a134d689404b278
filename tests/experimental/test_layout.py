"""Layouts and formats: how arrays are stored."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.experimental.layout import Format, Layout, with_layout_constraint
from curta.sharding import SingleDeviceSharding

HERE = SingleDeviceSharding(curta.devices()[0])


def test_values():
    assert Layout([1, 0]) == Layout((1, 0)) != Layout((0, 1))
    assert hash(Format(Layout((0,)), HERE)) == hash(Format(Layout((0,)), HERE))
    assert Layout((1, 0)).update(tiling=[[8, 128]]).tiling == ((8, 128),)
    assert repr(Format(Layout.AUTO)) == "Format(layout=AUTO, sharding=None)"


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((Layout((0,)),), ValueError, "Sharding has to be concrete when layout is"),
        ((3,), TypeError, "Invalid value received for the layout argument"),
        ((None, 3), TypeError, "Invalid value received for the sharding argument"),
    ],
)
def test_mistakes(args, error, words):
    with pytest.raises(error, match=words):
        Format(*args)


def test_formats_are_accepted_where_shardings_are():
    x = np.ones((2, 3), np.float32)
    turned = Format(Layout((1, 0)), HERE)
    put = curta.device_put(x, turned)
    assert put.committed
    assert put.format == Format(Layout((0, 1), ()), put.sharding)
    assert curta.ShapeDtypeStruct((2, 3), "float32", sharding=turned).sharding == HERE
    f = curta.jit(jnp.transpose, in_shardings=turned, out_shardings=Format(Layout.AUTO))
    np.testing.assert_array_equal(f(x), x.T)


def test_formats_of_compiled_functions():
    compiled = curta.jit(lambda x, y: x.sum()).lower(jnp.ones((2, 3)), y=1).compile()
    ((matrix,), others) = compiled.input_formats
    assert matrix.layout == Layout((0, 1), ())
    assert others["y"].layout == compiled.output_formats.layout == Layout((), ())


def test_constraint_of_another_rank():
    with pytest.raises(ValueError, match="Length of major_to_minor and the rank"):
        curta.jit(lambda x: with_layout_constraint(x, Layout((0, 1))))(jnp.ones(2))
