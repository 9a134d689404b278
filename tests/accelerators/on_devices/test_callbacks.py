"""Functions of Python that programs on devices call."""

import gc
import threading
import weakref

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.errors import JaxRuntimeError
from curta.experimental import io_callback
from curta.sharding import AxisType

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def x():
    return jnp.asarray(X)


def sine(x):
    return curta.pure_callback(np.sin, x, x)


@pytest.mark.parametrize("wrap", [curta.jit, lambda f: f], ids=["jit", "eager"])
def test_results(wrap, x):
    f = wrap(lambda x: sine(x) + 1)
    for _ in range(3):
        y = f(x)
        np.testing.assert_allclose(y, np.sin(X) + 1, rtol=1e-6)
        assert y.devices() == x.devices()


@pytest.mark.parametrize(
    "dtype", "bool int8 uint16 int32 float16 bfloat16 float32 complex64".split()
)
def test_dtypes(dtype, x):
    given = (x > 2).astype(dtype) if dtype == "bool" else x.astype(dtype)
    like = curta.ShapeDtypeStruct(x.shape, given.dtype)
    y = curta.jit(lambda x: curta.pure_callback(lambda x: x[::-1], like, x))(given)
    assert y.dtype == given.dtype
    np.testing.assert_array_equal(y, np.asarray(given)[::-1])


def test_no_operands_no_elements_several_results(x):
    empty, number = (curta.ShapeDtypeStruct(s, np.float32) for s in ((0, 3), ()))
    given = np.zeros((0, 3), np.float32), np.float32(7)
    nothing, seven = curta.jit(
        lambda: curta.pure_callback(lambda: given, (empty, number))
    )()
    assert nothing.shape == (0, 3) and float(seven) == 7
    size = curta.jit(
        lambda x: curta.pure_callback(lambda x: np.float32(x.size), number, x)
    )
    assert float(size(nothing)) == 0


def test_in_loops_branches_and_batches(x):
    add = lambda x: curta.pure_callback(  # noqa: E731
        lambda x: x + 1, x, x, vmap_method="sequential"
    )
    y = curta.jit(lambda x: lax.fori_loop(0, 4, lambda i, x: add(x), x))(x)
    np.testing.assert_array_equal(y, X + 4)
    y = curta.jit(lambda x: lax.cond(x.sum() > 0, add, lambda x: x, x))(x)
    np.testing.assert_array_equal(y, X + 1)
    np.testing.assert_array_equal(curta.vmap(add)(x), X + 1)


def test_what_is_computed_in_a_call_is_computed_on_the_host(x):
    where = []

    def function(x):
        y = jnp.cumsum(x @ x.T)
        where.append(y.devices())
        return y

    like = curta.ShapeDtypeStruct((4,), np.float32)
    y = curta.jit(lambda x: curta.pure_callback(function, like, x))(x)
    np.testing.assert_allclose(y, np.cumsum(X @ X.T))
    assert where == [{curta.devices("cpu")[0]}]


def test_effects_are_awaited(x, capsys):
    go, seen = threading.Event(), []

    def late(x):
        go.wait(30)
        seen.append(float(x))

    curta.jit(lambda x: curta.debug.callback(late, x.sum()))(x)
    threading.Timer(0.2, go.set).start()
    curta.effects_barrier()
    assert seen == [15.0]
    curta.jit(lambda x: curta.debug.print("sum {}", x.sum()))(x)
    curta.effects_barrier()
    assert capsys.readouterr().out == "sum 15.0\n"


def test_errors(x):
    def bad(x):
        raise ValueError("no number today")

    with pytest.raises(JaxRuntimeError, match="no number today"):
        curta.jit(lambda x: curta.pure_callback(bad, x, x))(x).block_until_ready()
    with pytest.raises(JaxRuntimeError, match="Incorrect output shape"):
        f = curta.jit(lambda x: curta.pure_callback(np.sum, x, x))
        f(x).block_until_ready()
    with pytest.raises(JaxRuntimeError, match="no number today"):
        curta.jit(lambda x: curta.debug.callback(bad, x))(x)  # or later
        curta.effects_barrier()
    np.testing.assert_allclose(curta.jit(sine)(x), np.sin(X), rtol=1e-6)


def test_functions_live_as_long_as_their_programs(x):
    class Function:
        def __call__(self, x):
            return x + 1

    function = Function()
    gone = weakref.ref(function)
    f = curta.jit(lambda x, function=function: curta.pure_callback(function, x, x))
    y = f(x)
    del f, function
    np.testing.assert_array_equal(y, X + 1)
    y.block_until_ready()
    curta.clear_caches()
    curta.jit(lambda x: x - 2)(x).block_until_ready()  # frees what is done
    gc.collect()
    assert gone() is None


def test_threads_call_programs_at_once(x):
    f = curta.jit(lambda x: sine(x) * 2)
    wrong = []

    def work():
        for _ in range(20):
            if not np.allclose(f(x), 2 * np.sin(X)):
                wrong.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_each_of_several_devices_calls():
    devices = curta.devices()
    if len(devices) < 4:
        pytest.skip("four devices are needed")
    mesh = curta.make_mesh((4,), ("x",), (AxisType.Auto,))
    x = curta.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    like = curta.ShapeDtypeStruct((2,), np.float32)

    def body(x):
        return io_callback(lambda x: x * 2 + len(x), like, x)

    f = curta.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(curta.jit(f)(x), np.arange(8.0) * 2 + 2)
    whole = curta.jit(lambda x: curta.pure_callback(np.cumsum, x, x))(x)
    np.testing.assert_array_equal(whole, np.cumsum(np.arange(8.0)))
