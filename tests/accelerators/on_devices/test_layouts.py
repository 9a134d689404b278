"""Arrays on devices that are stored in another order of their dims.

tests/experimental/test_layout.py has the tests for all devices, and runs here as well
(tests/accelerators/__main__.py).
"""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import NamedSharding, P
from curta.errors import JaxRuntimeError
from curta.experimental.layout import Format, Layout
from curta.runtime.device_data import DeviceData
from curta.runtime.laid_out import LaidOutData
from curta.sharding import AxisType, SingleDeviceSharding

X = np.arange(24, dtype=np.float32).reshape(4, 6)
COLUMNS = Layout((1, 0))


def order(x):
    return x.format.layout.major_to_minor


def stored(x):
    """The elements in the order of the device's memory."""
    assert type(x._pending) is LaidOutData and type(x._pending.stored) is DeviceData
    (buffer,) = x._pending.stored.buffers
    return [*buffer.numpy().ravel()]


@pytest.fixture
def columns():
    return Format(COLUMNS, SingleDeviceSharding(curta.devices()[0]))


def test_arrays_lie_there_as_is_said(columns):
    put = curta.device_put(jnp.asarray(X), columns)
    assert put.format.layout == Layout((1, 0), ()) and put.sharding == columns.sharding
    assert stored(put) == [*X.T.ravel()]
    assert stored(curta.jit(lambda x: x + 1, out_shardings=columns)(X)) == [
        *(X.T + 1).ravel()
    ]
    np.testing.assert_array_equal(put, X)
    np.testing.assert_array_equal(put + 1, X + 1)
    np.testing.assert_array_equal(curta.jit(jnp.cumsum)(put), X.cumsum())
    moved = curta.device_put(put, curta.devices()[-1])
    assert moved.devices() == {curta.devices()[-1]}
    np.testing.assert_array_equal(moved, X)
    assert put.is_ready() and put.on_device_size_in_bytes() == X.nbytes
    key = curta.random.split(curta.random.key(0), (2, 3))
    turned = curta.device_put(key, columns)
    assert order(turned) == (1, 0)
    np.testing.assert_array_equal(
        curta.random.key_data(turned), curta.random.key_data(key)
    )


def test_copies_are_their_own(columns):
    put = curta.device_put(X, columns)
    rows = curta.device_put(put, Format(Layout((0, 1)), columns.sharding))
    rows.delete()
    np.testing.assert_array_equal(put, X)
    again = curta.device_put(X, columns)
    np.testing.assert_array_equal(again + put, X + X)
    again.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        again + 1
    np.testing.assert_array_equal(put, X)


def test_parts_over_devices():
    mesh = curta.make_mesh((len(curta.devices()),), ("x",), (AxisType.Auto,))
    rows = NamedSharding(mesh, P("x"))
    x = curta.device_put(X, Format(COLUMNS, rows))
    assert x.sharding == rows and order(x) == (1, 0)
    for shard in x.addressable_shards:
        assert order(shard.data) == (1, 0) and shard.data.devices() == {shard.device}
        assert stored(shard.data) == [*X[shard.index].T.ravel()]
        np.testing.assert_array_equal(shard.data, X[shard.index])
    f = curta.jit(
        lambda x: x.T * 2,
        in_shardings=x.format,
        out_shardings=Format(Layout.AUTO, NamedSharding(mesh, P(None, "x"))),
    )
    y = f(x)
    assert order(y) == (0, 1)  # as it is computed: nothing is moved
    np.testing.assert_array_equal(y, X.T * 2)
    assert curta.jit(lambda x: x.sum(0))(x).tolist() == X.sum(0).tolist()


def test_programs_that_fail_take_nothing(columns):
    def bad(x):
        raise ValueError("no number today")

    f = curta.jit(
        lambda x: curta.pure_callback(bad, x, x) + x,
        in_shardings=columns,
        out_shardings=columns,
    )
    put = curta.device_put(X, columns)
    with pytest.raises(JaxRuntimeError, match="no number today"):
        f(put).block_until_ready()
    np.testing.assert_array_equal(put, X)


def test_ahead_of_time(columns):
    f = curta.jit(
        jnp.transpose, in_shardings=columns, out_shardings=Format(Layout.AUTO)
    )
    lowered = f.lower(X)
    assert 'mhlo.layout_mode = "{0,1}"' in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.input_formats[0][0].layout == Layout((1, 0), ())
    assert compiled.output_formats.layout == Layout((0, 1), ())
    result = compiled(curta.device_put(X, columns))
    assert result.format == compiled.output_formats
    np.testing.assert_array_equal(result, X.T)
    assert "transpose" not in compiled.as_text().partition("ENTRY")[2]
