"""Where computations happen, what may not be laid out, and memory that is shared."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.errors import JaxRuntimeError
from curta.sharding import AxisType


def rows():
    mesh = curta.make_mesh((8,), ("x",), (AxisType.Auto,))
    return NamedSharding(mesh, P("x"))


def put(x, i):
    return curta.device_put(x, curta.devices()[i])


@pytest.mark.parametrize("op", [lax.add, lax.atan2, lax.concatenate])
def test_errors_name_the_op_and_its_operands(op):
    args = put(jnp.ones(2), 2), put(jnp.ones(2), 3)
    said = rf"args\[0\] of {op.__name__} .* args\[1\] of {op.__name__} "
    with pytest.raises(ValueError, match=said):
        op(args, 0) if op is lax.concatenate else op(*args)


@pytest.mark.filterwarnings("ignore:backend and device argument")
def test_a_jitted_function_with_a_device_moves_its_arguments():
    x, devices = jnp.ones(2), curta.devices()
    with pytest.raises(ValueError, match="Received incompatible devices"):
        curta.jit(jnp.add)(put(x, 2), put(x, 3))
    for where, place in ({"device": devices[4]}, 4), ({"backend": "cpu"}, 0):
        add = curta.jit(lambda a, b: a + b, **where)
        for a, b in (x, x), (1, 2), (put(x, 2), x), (put(x, 2), put(x, 3)):
            out = add(a, b)
            assert out.committed and out.devices() == {devices[place]}
            np.testing.assert_array_equal(out, np.add(a, b))


LAYOUTS = {
    "device_put": lambda x: curta.device_put(x, rows()),
    "in a jitted function": lambda x: curta.jit(lambda x: curta.device_put(x, rows()))(
        x
    ),
    "with_sharding_constraint": lambda x: lax.with_sharding_constraint(x, rows()),
    "in_shardings": lambda x: curta.jit(lambda x: x, in_shardings=rows())(x),
    "out_shardings": lambda x: curta.jit(lambda x: x, out_shardings=rows())(x),
    "zeros": lambda x: jnp.zeros(x.shape, device=rows()),
    "full": lambda x: lax.full(x.shape, 1.0, sharding=rows()),
    "callback": lambda x: curta.make_array_from_callback(
        x.shape, rows(), lambda index: np.asarray(x)[index]
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_are_divided_evenly_or_not_at_all(name):
    for count in 3, 12:
        with pytest.raises(ValueError, match=f"but the dimension size is {count}"):
            LAYOUTS[name](jnp.arange(float(count)))
    for count in 8, 16:
        assert LAYOUTS[name](jnp.arange(float(count))).sharding == rows()


COPIES = {
    "device_put": lambda x: curta.device_put(x, curta.devices()[0], may_alias=False),
    "from_dlpack": lambda x: jnp.from_dlpack(x),
    "copy": lambda x: x.copy(),
    "jit": lambda x: curta.jit(lambda y: y)(x),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("size", [3, 3000])
@pytest.mark.parametrize("places", [0, (0, 1)])
def test_copies_outlive_what_was_donated(name, size, places):
    x = jnp.arange(float(size)) + 0
    y = COPIES[name](x)
    first, second = curta.jit(lambda x, y: (x + 100, y * 2), donate_argnums=places)(
        x, y
    )
    assert x.is_deleted() and y.is_deleted() is (places != 0)
    np.testing.assert_array_equal(first, np.arange(size) + 100)
    np.testing.assert_array_equal(second, np.arange(size) * 2)
    if places == 0:
        np.testing.assert_array_equal(y, np.arange(size))


@pytest.mark.parametrize("may_alias", [None, True])
def test_what_shares_memory_is_not_donated_and_read(may_alias):
    x = jnp.arange(3.0) + 0
    y = curta.device_put(x, curta.devices()[0], may_alias=may_alias)
    with pytest.raises(JaxRuntimeError, match="donate a buffer which is also used"):
        curta.jit(lambda x, y: x + y, donate_argnums=0)(x, y)
