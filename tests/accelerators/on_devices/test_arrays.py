"""Arrays on the default device, where that is one of a plugin."""

import subprocess
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.runtime import device_call
from curta.runtime.backends import CompileOptions
from curta.runtime.device_data import DeviceData
from curta.sharding import AxisType


def is_there(x):
    return x._data is None and type(x._pending) is DeviceData


@pytest.fixture
def x():
    return jnp.arange(6.0).reshape(2, 3)


def test_the_plugin_is_the_default():
    assert curta.default_backend() == curta.devices()[0].platform != "cpu"
    assert curta.devices("cpu")[0].platform == "cpu"


def test_a_program_that_never_asks_for_devices():
    program = (
        "import curta, curta.numpy as jnp; x = jnp.arange(3.0) + 1;"
        " assert x._data is None; print(x.devices() == {curta.devices()[0]})"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "True", done.stderr[-2000:]


def test_results_of_ops_stay_there(x):
    for y in (x + 1, -x, x**2, x[0], jnp.sin(x), jnp.where(x > 1, x, 0), x.T @ x):
        assert is_there(y)
        assert y.devices() == {curta.devices()[0]}
        assert not y.committed


def test_values(x):
    host = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(x, host)
    np.testing.assert_allclose(jnp.exp(x) / 3, np.exp(host) / 3, rtol=1e-6)
    assert [[float(v) for v in row] for row in x] == host.tolist()
    assert str(x[1, 2]) == "5.0"


def test_jit_grad_vmap(x):
    f = curta.jit(lambda x: (jnp.tanh(x) @ x.T).sum())
    host = curta.device_put(x, curta.devices("cpu")[0])
    assert is_there(f(x))
    assert f(host).devices() == {curta.devices("cpu")[0]}
    np.testing.assert_allclose(f(x), f(host), rtol=1e-5)
    np.testing.assert_allclose(curta.grad(f)(x), curta.grad(f)(host), rtol=1e-5)
    np.testing.assert_array_equal(curta.vmap(lambda r: r * r)(x), host * host)


def test_loops_and_branches(x):
    grown = curta.lax.fori_loop(0, 5, lambda i, c: c * 2, x)
    np.testing.assert_array_equal(grown, 32 * np.asarray(x))
    carry, ys = curta.lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x)
    np.testing.assert_array_equal(carry, [3, 5, 7])
    np.testing.assert_array_equal(ys, [[0, 0, 0], [0, 1, 2]])
    chosen = curta.lax.cond(True, lambda a: a + 1, lambda a: a - 1, x)
    np.testing.assert_array_equal(chosen, np.asarray(x) + 1)


def test_random_numbers_are_those_of_the_cpu():
    key = curta.random.key(7)
    with curta.default_device(curta.devices("cpu")[0]):
        wanted = np.asarray(curta.random.normal(curta.random.key(7), (5,)))
    np.testing.assert_allclose(curta.random.normal(key, (5,)), wanted, rtol=1e-6)
    words = curta.random.key_data(curta.random.split(key))
    assert words.shape == (2, 2)
    assert is_there(curta.random.split(key))


def test_donated_arrays_are_gone():
    f = curta.jit(lambda a, b: (a + b, b * 2), donate_argnums=0)
    a, b = jnp.ones(1000), jnp.ones(1000)
    total, doubled = f(a, b)
    assert a.is_deleted() and not b.is_deleted()
    assert float(total.sum()) == float(doubled.sum()) == 2000
    with pytest.raises(RuntimeError, match="deleted"):
        a + 1


def test_committed_arrays(x):
    if len(curta.devices()) < 3:
        pytest.skip("needs three devices")
    second = curta.devices()[1]
    y = curta.device_put(x, second)
    assert y.committed and y.devices() == {second}
    assert (y * x).devices() == {second}  # what is not committed follows
    with pytest.raises(ValueError, match="incompatible devices"):
        y + curta.device_put(x, curta.devices()[2])


def test_from_and_to_the_host():
    given = np.arange(4, dtype=np.int8)
    there = curta.device_put(given, curta.devices()[-1])
    assert is_there(there)
    np.testing.assert_array_equal(curta.device_get(there), given)
    back = curta.device_put(there, curta.devices("cpu")[0])
    assert back._data is not None
    np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize(
    "dtype", ["bool", "int4", "uint8", "int32", "float16", "bfloat16", "float8_e4m3fn",
              "float32", "complex64"]
)  # fmt: skip
def test_dtypes_go_there_and_back(dtype):
    given = np.array([0, 1, 1, 0]).astype(jnp.dtype(dtype))
    there = curta.device_put(given, curta.devices()[0])
    assert is_there(there)
    np.testing.assert_array_equal(np.asarray(there), given)
    assert there.dtype == given.dtype


def test_waiting_and_copies(x):
    y = (x @ x.T).block_until_ready()
    assert y.is_ready()
    y.copy_to_host_async()
    np.testing.assert_array_equal(y.copy(), y)
    assert y.on_device_size_in_bytes() >= 16
    y.delete()
    assert y.is_deleted()


def test_the_guard_of_transfers(x):
    y = x + 1
    with curta.transfer_guard_device_to_host("disallow"):
        with pytest.raises(curta.errors.JaxRuntimeError, match="Disallowed"):
            float(y[0, 0])


def test_programs_are_found_again(monkeypatch):
    closed = curta.make_jaxpr(lambda x: jnp.cos(x) * 3)(jnp.ones(5))
    device = curta.devices()[0]
    make = closed, CompileOptions("f", (device,), (None,), (None,))
    first = device_call.DeviceCall(*make)
    client = device.hardware.client
    monkeypatch.setattr(type(client), "compile", lambda *args: pytest.fail("compiled"))
    again = device_call.DeviceCall(*make)
    for call in (first, again):
        np.testing.assert_allclose(
            call([jnp.zeros(5)], False)[0], np.full(5, 3.0), rtol=1e-6
        )


@pytest.mark.parametrize("wrap", [curta.jit, lambda f: f], ids=["jit", "eager"])
def test_bad_values_are_found(wrap, x):
    with curta.debug_nans(True):
        assert float(wrap(jnp.log)(x + 1)[0, 0]) == 0
        with pytest.raises(FloatingPointError, match="nan"):
            wrap(jnp.log)(x - 10)


def first_log(x):
    return jnp.log(x - 10)


def second_log(x):
    return jnp.log(x - 10)


def test_bad_values_are_traced_to_ops_and_lines(x):
    def f(x):
        y, _ = lax.scan(lambda c, _: (jnp.sqrt(c - 1), None), x, None, length=3)
        return y + 1

    with curta.debug_nans(True):
        for call in (f, curta.jit(f), curta.jit(f, donate_argnums=0)):
            given = x.copy()
            with pytest.raises(FloatingPointError, match=r"sqrt at .*test_arrays"):
                call(given)
        assert given.is_deleted()
        for line in first_log, second_log:  # the program of an op is kept
            with pytest.raises(
                FloatingPointError, match=rf"in log at .*{line.__name__}"
            ):
                line(x)
        mesh = curta.make_mesh((len(curta.devices()),), ("x",), (AxisType.Auto,))
        spread = curta.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
        with pytest.raises(FloatingPointError, match="in log at"):
            curta.jit(lambda x: jnp.log(x - 1))(spread)
    with curta.debug_infs(True), pytest.raises(FloatingPointError, match="in div at"):
        curta.jit(lambda x: 1 / x)(jnp.zeros(2))


def test_donated_arrays_that_no_result_can_take_stay():
    a = jnp.ones(1000)
    with pytest.warns(UserWarning, match="not usable") as found:
        total = curta.jit(lambda a: a.sum(), donate_argnums=0)(a)
    assert len(found) == 1
    assert float(total) == float(a.sum()) == 1000


def test_ahead_of_time(x):
    compiled = curta.jit(lambda x: x @ x.T).lower(x).compile()
    assert compiled.memory_analysis().argument_size_in_bytes == x.nbytes
    assert compiled.runtime_executable().results == [((2, 2), np.dtype("float32"))]
    np.testing.assert_array_equal(compiled(x), np.asarray(x) @ np.asarray(x).T)


@pytest.mark.parametrize("number", [0.0, -0.0, 2, 2.0, 1 + 2j, float("nan"), -7])
def test_numbers_of_python(x, number, monkeypatch):
    def outs():
        ratio = curta.jit(jnp.divide)(1.0, number)
        return np.asarray(x[0] * number), np.asarray(ratio)

    host = curta.device_put(x, curta.devices("cpu")[0])[0] * number
    first = outs()
    client = type(curta.devices()[0].hardware.client)
    put = client.put
    calls = []
    monkeypatch.setattr(
        client, "put", lambda *args, **named: calls.append(args) or put(*args, **named)
    )
    for out, again in zip(first, outs(), strict=True):
        np.testing.assert_array_equal(out, again)
        np.testing.assert_array_equal(np.signbit(out.real), np.signbit(again.real))
    assert first[0].dtype == host.dtype
    np.testing.assert_array_equal(first[0], host)
    # Real ones are brought there once.
    assert not calls or isinstance(number, complex)


def test_numbers_that_are_donated_are_there_again():
    f = curta.jit(lambda a: a + 1, donate_argnums=0)
    assert [float(f(1.5)) for _ in range(3)] == [2.5] * 3


def test_constants_of_many_booleans():
    mask = np.arange(480).reshape(8, 10, 6) % 3 == 0
    out = curta.jit(lambda x: jnp.where(mask, x, 0))(jnp.ones((8, 10, 6)))
    assert np.array_equal(out, mask)
