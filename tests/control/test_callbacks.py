"""Callbacks: how often they are made, in which order, and with which values."""

import contextvars
from functools import partial

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import debug, lax
from curta.control.callback import DEBUG
from curta.errors import JaxRuntimeError
from curta.experimental import io_callback

F32 = np.float32
SCALAR = curta.ShapeDtypeStruct((), F32)
MODES = [lambda f: f, curta.jit]
both = pytest.mark.parametrize("mode", MODES, ids=["eager", "jit"])


class Seen(list):
    """The arguments of callbacks, as Python values."""

    def __call__(self, x):
        assert isinstance(x, curta.Array)
        self.append(np.asarray(x).tolist())

    def taken(self):
        found = self[:]
        self.clear()
        return found


@pytest.fixture
def seen():
    return Seen()


def counted(seen, x):
    """`x`, through a callback with a result that takes note of it."""

    def look(x):
        seen(x)
        return x

    return io_callback(look, curta.ShapeDtypeStruct(x.shape, x.dtype), x)


# ---- in every kind of program, in order


@both
def test_straight_line(mode, seen):
    def f(x):
        debug.callback(seen, x)
        y = jnp.sin(x) * 2
        debug.callback(seen, x + 1)
        return counted(seen, x + 2) + y

    run = mode(f)
    for _ in range(2):  # the second call takes the shorter ways
        np.testing.assert_allclose(run(F32(1)), 3 + 2 * np.sin(1), rtol=1e-6)
        assert seen.taken() == [1, 2, 3]


@both
def test_without_results_and_without_arguments(mode, seen):
    run = mode(lambda: debug.callback(lambda: seen(jnp.ones(()))))
    assert run() is None
    run()
    assert seen == [1, 1]


@both
def test_unused_results(mode, seen):
    """Effects are kept; what is pure and unused is not, once compiled."""

    def f(x):
        counted(seen, x)
        return x

    mode(f)(F32(4))
    assert seen.taken() == [4]
    curta.jit(lambda x: (curta.pure_callback(counted_pure(seen), SCALAR, x), x)[1])(1.0)
    assert seen == []


def counted_pure(seen):
    def fun(x):
        seen(x)
        return x

    return fun


@both
def test_equal_calls_are_all_made(mode, seen):
    def f(x):
        for _ in range(3):
            debug.callback(seen, x)
        return counted(seen, x) + counted(seen, x)

    assert mode(f)(F32(2)) == 4
    assert seen == [2] * 5


@both
def test_large_arrays(mode, seen):
    x = np.arange(1 << 16, dtype=F32)
    keep = []

    def f(x):
        y = x * 2
        debug.callback(keep.append, y)
        z = curta.pure_callback(lambda y: y + 1, y, y)
        return (z * 3).sum(), z

    _, z = mode(f)(x)
    np.testing.assert_array_equal(z, 2 * x + 1)
    np.testing.assert_array_equal(keep[0], 2 * x)  # not in memory that is used again


@both
def test_scan(mode, seen):
    def body(c, x):
        debug.callback(seen, c)
        y = counted(seen, x * 10)
        debug.callback(seen, c + x)
        return c + x, y

    carry, ys = mode(lambda xs: lax.scan(body, F32(0), xs))(np.arange(3, dtype=F32))
    assert carry == 3 and ys.tolist() == [0, 10, 20]
    assert seen == [0, 0, 0, 0, 10, 1, 1, 20, 3]


@both
def test_scan_over_nothing_but_callbacks(mode, seen):
    def body(c, _):
        debug.callback(seen, jnp.ones(()))
        return c, None

    mode(lambda: lax.scan(body, None, None, length=3))()
    assert seen == [1, 1, 1]


@both
def test_nested_loops(mode, seen):
    def inner(j, c):
        debug.callback(seen, c)
        return c + 1

    def outer(c):
        debug.callback(seen, -c)
        return lax.fori_loop(0, 2, inner, c)

    assert mode(lambda x: lax.while_loop(lambda c: c < 3, outer, x))(F32(0)) == 4
    assert seen == [0, 0, 1, -2, 2, 3]


@both
def test_while_condition(mode, seen):
    def going(c):
        debug.callback(seen, c)
        return c < 2

    assert mode(lambda x: lax.while_loop(going, lambda c: c + 1, x))(F32(0)) == 2
    assert seen == [0, 1, 2]


@both
def test_cond(mode, seen):
    def yes(x):
        debug.callback(seen, x)
        return x

    def no(x):
        return counted(seen, -x)

    run = mode(lambda p, x: lax.cond(p, yes, no, x))
    assert run(True, F32(1)) == 1 and run(False, F32(1)) == -1
    assert seen == [1, -1]


@both
def test_inner_jit_and_checkpoint(mode, seen):
    @curta.jit
    def inner(x):
        debug.callback(seen, x)

    mode(lambda x: (inner(x), inner(x + 1)))(F32(1))
    assert seen.taken() == [1, 2]


# ---- differentiation


@both
def test_debugging_sees_primals_once(mode, seen):
    def f(x):
        y = jnp.sin(x)
        debug.callback(seen, x)
        return y * x

    for transformed in (
        curta.grad(f),
        lambda x: curta.jvp(f, (x,), (F32(1),))[1],
        lambda x: curta.linearize(f, x)[1](F32(1)),
        curta.grad(curta.jit(f)),
    ):
        expected = np.cos(2) * 2 + np.sin(2)
        np.testing.assert_allclose(mode(transformed)(F32(2)), expected, rtol=1e-5)
        assert seen.taken() == [2]


@both
def test_gradient_of_loops(mode, seen):
    def body(c, x):
        debug.callback(seen, c)
        return c * x, None

    def f(xs):
        return lax.scan(body, F32(1), xs)[0]

    assert mode(curta.grad(f))(np.array([2, 3], F32)).tolist() == [3, 2]
    assert seen == [1, 2]


@both
def test_gradient_of_loop_with_invariant_callback(mode, seen):
    def f(x, k):
        def body(c, _):
            debug.callback(seen, k * 2)
            return c * jnp.sin(k), None

        return lax.scan(body, x, None, length=2)[0]

    found = mode(curta.grad(f))(F32(1), F32(1))
    np.testing.assert_allclose(found, np.sin(1) ** 2, rtol=1e-6)
    assert seen == [2, 2]


@both
def test_gradient_of_cond(mode, seen):
    def yes(x):
        debug.callback(seen, x)
        return x * x

    f = curta.grad(lambda x: lax.cond(x > 0, yes, lambda x: x, x))
    assert mode(f)(F32(3)) == 6
    assert seen == [3]


@both
def test_checkpoint_calls_again(mode, seen):
    @curta.checkpoint
    def f(x):
        debug.callback(seen, x)
        return jnp.sin(jnp.sin(x))

    mode(curta.grad(f))(F32(1))
    assert seen.taken() == [1, 1]


REMATERIALISED = {
    "nested": (lambda f: curta.checkpoint(lambda x: curta.checkpoint(f)(x) * 2), 3),
    "jit within": (lambda f: curta.checkpoint(lambda x: curta.jit(f)(x)), 2),
    "in a branch": (
        lambda f: curta.checkpoint(lambda x: lax.cond(x > 0, f, lambda x: x, x)),
        2,
    ),
    "in a scan": (
        lambda f: curta.checkpoint(
            lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
        ),
        4,
    ),
    "around a scan": (
        lambda f: (
            lambda x: lax.scan(
                lambda c, _: (curta.checkpoint(f)(c), None), x, None, length=2
            )[0]
        ),
        4,
    ),
    "all is saved": (
        lambda f: curta.checkpoint(
            f, policy=curta.checkpoint_policies.everything_saveable
        ),
        1,
    ),
}


@both
@pytest.mark.parametrize("name", REMATERIALISED)
def test_how_often_checkpoints_call(mode, seen, name):
    """As often as in JAX: at first, and for each time that it is computed again."""
    around, count = REMATERIALISED[name]

    def f(x):
        y = jnp.sin(x)
        debug.callback(lambda v: seen(v), y)
        return jnp.sin(y)

    mode(curta.grad(around(f)))(F32(1))
    assert len(seen) == count


def test_checkpoint_refuses_what_is_to_happen_once(seen):
    f = curta.checkpoint(lambda x: x * counted(seen, lax.stop_gradient(x)))
    assert f(F32(2)) == 4
    with pytest.raises(NotImplementedError, match="Effects not supported.*IO"):
        curta.grad(f)(F32(2))


@both
def test_custom_derivatives_around_pure_callback(mode):
    @curta.custom_jvp
    def sine(x):
        return curta.pure_callback(np.sin, SCALAR, x)

    sine.defjvp(lambda xs, ts: (sine(*xs), jnp.cos(xs[0]) * ts[0]))
    np.testing.assert_allclose(mode(curta.grad(sine))(F32(1)), np.cos(1), rtol=1e-6)


def test_callbacks_with_results_have_no_derivative():
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP"):
        curta.grad(lambda x: curta.pure_callback(np.sin, SCALAR, x))(1.0)
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        curta.jit(curta.grad(lambda x: io_callback(np.sin, SCALAR, x)))(1.0)


# ---- vmap


@both
def test_debugging_under_vmap(mode, seen):
    def f(x, k):
        debug.callback(seen, x)
        debug.callback(seen, k)  # the same for all examples
        debug.callback(seen, x + k)

    mode(curta.vmap(f, (1, None)))(np.arange(4, dtype=F32).reshape(2, 2), F32(5))
    assert seen == [[0, 2], [1, 3], 5, [5, 7], [6, 8]]


@both
@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), (2,))] * 3),
        ("sequential_unrolled", [((), (2,))] * 3),
        ("expand_dims", [((3,), (1, 2))]),
        ("broadcast_all", [((3,), (3, 2))]),
        ("legacy_vectorized", [((3,), (2,))]),
    ],
)
def test_vmap_methods(mode, method, shapes):
    calls = []

    def host(x, y):
        calls.append((x.shape, y.shape))
        return np.asarray(x) * 2

    def f(x, y):
        return curta.pure_callback(host, SCALAR, x, y, vmap_method=method)

    x, y = np.arange(3, dtype=F32), np.ones(2, F32)
    assert mode(curta.vmap(f, (0, None)))(x, y).tolist() == [0, 2, 4]
    assert calls == shapes


@both
def test_io_callback_under_vmap(mode, seen):
    found = mode(curta.vmap(partial(counted, seen)))(np.arange(3, dtype=F32))
    assert found.tolist() == seen == [0, 1, 2]
    ordered = partial(io_callback, np.sin, SCALAR, ordered=True)
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        mode(curta.vmap(ordered))(np.ones(2, F32))


def test_vmap_wants_a_method():
    f = partial(curta.pure_callback, np.sin, SCALAR)
    with pytest.raises(NotImplementedError, match="vmap is only supported for"):
        curta.vmap(f)(np.ones(2, F32))
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        curta.pure_callback(np.sin, SCALAR, 1.0, vmap_method="fast")


@both
def test_vmap_of_loops(mode, seen):
    def f(x):
        return lax.fori_loop(0, 2, lambda i, c: (debug.callback(seen, c), c + 1)[1], x)

    mode(curta.vmap(f))(np.array([0, 10], F32))
    assert seen == [0, 10, 1, 11]


# ---- printing


@both
def test_print(mode, capsys):
    def f(x):
        debug.print("first")
        debug.print("{} and {y:.2f}, {}", x, "text", y=x[0])
        debug.print("done:", x[1], skip_format_check=True)
        debug.print(ordered=True)("{!r}", x)

    mode(f)(np.array([1.5, 2], F32))
    assert capsys.readouterr().out.splitlines() == [
        "first",
        "[1.5 2. ] and 1.50, text",
        "done: 2.0",
        "Array([1.5, 2. ], dtype=float32)",
    ]


def test_print_keeps_the_print_options(capsys):
    with np.printoptions(precision=2):
        f = curta.jit(lambda x: debug.print("{}", x)).lower(np.ones(1, F32)).compile()
    f(np.array([1.23456], F32))
    assert capsys.readouterr().out == "[1.23]\n"


def test_print_checks_its_arguments():
    with pytest.raises(ValueError, match="Unused positional arguments"):
        debug.print("a", 1)
    with pytest.raises(ValueError, match="Unused keyword arguments.*f-string"):
        debug.print("a", x=1)
    with pytest.raises(IndexError):
        debug.print("{} {}", 1)
    with pytest.raises(KeyError):
        debug.print("{x}")
    with pytest.raises(TypeError, match="two-call form"):
        debug.print(x=1)


# ---- arguments, results, errors


@both
def test_pytrees(mode):
    def host(args, *, k):
        return {"sum": args["a"] + args["b"], "k": (k,)}

    shapes = {"sum": curta.ShapeDtypeStruct((2,), F32), "k": (SCALAR,)}

    def f(a, b):
        return curta.pure_callback(host, shapes, {"a": a, "b": b}, k=b[0])

    found = mode(f)(np.ones(2, F32), np.full(2, 2, F32))
    assert found["sum"].tolist() == [3, 3] and found["k"][0] == 2


def test_other_leaves_are_passed_as_they_are():
    found = []
    curta.jit(
        lambda x: debug.callback(
            lambda *args, **kwargs: found.append((args, kwargs)), "s", x, k=(None, str)
        )
    )(F32(1))
    ((args, kwargs),) = found
    assert args == ("s", 1) and kwargs == {"k": (None, str)}


@both
@pytest.mark.parametrize(
    ("host", "message"),
    [
        (lambda x: np.ones(2, F32), "Incorrect output shape for return value #0"),
        (lambda x: np.int32(1), "Incorrect output dtype for return value #0"),
        (lambda x: (x, x), "Mismatched number of outputs from callback"),
        (lambda x: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_wrong_results(mode, host, message):
    run = mode(lambda x: curta.pure_callback(host, SCALAR, x))
    with pytest.raises(JaxRuntimeError, match=message):
        run(F32(1))
    with pytest.raises(JaxRuntimeError, match=message):
        mode(lambda x: io_callback(host, SCALAR, x))(F32(1))


@both
def test_errors_of_debugging_come_through(mode):
    def fail(x):
        raise KeyError("this")

    with pytest.raises(KeyError, match="this"):
        mode(lambda x: debug.callback(fail, x))(F32(1))


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match="must be callable"):
        debug.callback("text")
    with pytest.raises(TypeError, match="Error interpreting argument to pure_callback"):
        curta.pure_callback(np.sin, SCALAR, "text")
    with pytest.raises(ValueError, match="cannot specify 64-bit types"):
        curta.pure_callback(np.sin, np.ones(2), 1.0)
    with pytest.raises(TypeError, match="takes a Sharding as `sharding`, got 'gpu'"):
        curta.pure_callback(np.sin, SCALAR, 0.0, sharding="gpu")


@both
def test_callbacks_may_use_the_library(mode):
    inner = curta.jit(lambda x: jnp.sin(x) * 2)

    def host(x):
        return inner(x) + curta.grad(inner)(x)

    run = mode(lambda x: curta.pure_callback(host, SCALAR, x))
    expected = 2 * np.sin(1) + 2 * np.cos(1)
    np.testing.assert_allclose(run(F32(1)), expected, rtol=1e-6)
    call = partial(curta.pure_callback, host, SCALAR, vmap_method="sequential")
    found = mode(curta.vmap(call))(np.ones(2, F32))
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-6)


def test_numpy_backend(seen):
    def f(x):
        debug.callback(seen, x)
        return lax.fori_loop(0, 2, lambda i, c: counted(seen, c + 1), x)

    before = curta.config.curta_backend
    curta.config.update("curta_backend", "numpy")
    try:
        assert curta.jit(f)(F32(1)) == 3
    finally:
        curta.config.update("curta_backend", before)
    assert seen == [1, 2, 3]


def test_effects_of_jaxprs(seen):
    def f(x):
        lax.fori_loop(0, 2, lambda i, c: (debug.callback(seen, c), c)[1], x)
        return counted(seen, x)

    assert curta.make_jaxpr(curta.jit(f))(F32(1)).effects == {DEBUG, "IO"}
    assert curta.make_jaxpr(jnp.sin)(F32(1)).effects == frozenset()


def test_effects_barrier(seen):
    curta.jit(lambda x: debug.callback(seen, x))(F32(1))
    curta.effects_barrier()
    assert seen == [1]


def test_log_names_the_line(caplog):
    with caplog.at_level("INFO", logger="curta.debugging"):
        curta.jit(lambda x: curta.debug.log("x is {}", x))(2)
    (record,) = caplog.records
    assert record.getMessage() == "x is 2"
    assert record.pathname == __file__ and record.lineno > 0


@pytest.mark.parametrize("jit", [False, True])
def test_keys_are_shown(capsys, jit):
    seen = []

    def f(key):
        curta.debug.print("{} and {k}", 1, k=key)
        curta.debug.callback(seen.append, [key, 2])

    key = curta.random.key(3)
    (curta.jit(f) if jit else f)(key)
    assert "key<fry>" in capsys.readouterr().out
    assert bool(seen[0][0] == key) and seen[0][1] == 2


def test_failures_are_logged(caplog):
    def fail(x):
        raise RuntimeError("oops")

    shape = curta.ShapeDtypeStruct((), np.float32)
    with pytest.raises(curta.errors.JaxRuntimeError, match="oops"):
        curta.jit(lambda x: curta.pure_callback(fail, shape, x))(1.0)
    (record,) = caplog.records  # libraries look for these words under this name
    assert record.getMessage() == "jax.pure_callback failed"
    assert record.name == "jax._src.callback" and record.exc_info
    assert "Traceback (most recent call last)" in caplog.text


def test_sharding_of_callbacks():
    shape = curta.ShapeDtypeStruct((), np.float32)
    device = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    assert curta.pure_callback(np.sin, shape, 0.0, sharding=device) == 0.0


def test_ordered_callbacks_of_the_work_of_devices():
    seen = []

    def note(x):
        seen.append(x.shape)
        return x + 1

    def fun(x):
        shape = curta.ShapeDtypeStruct(x.shape, x.dtype)
        return io_callback(note, shape, x, ordered=True)

    mesh = curta.make_mesh((1,), ("x",), (curta.sharding.AxisType.Auto,))
    mapped = curta.shard_map(
        fun, mesh=mesh, in_specs=curta.P("x"), out_specs=curta.P("x")
    )
    for run in mapped, curta.jit(mapped):
        assert run(jnp.arange(4.0)).tolist() == [1, 2, 3, 4]
    assert seen == [(4,), (4,)]


def test_callbacks_run_in_the_context_of_the_caller(capsys):
    setting = contextvars.ContextVar("setting", default=0)
    setting.set(5)

    def look(x):
        found = setting.get()
        setting.set(found + 1)
        return x + found

    x = np.ones(1, F32)
    assert io_callback(look, curta.ShapeDtypeStruct((1,), F32), x).tolist() == [6]
    assert setting.get() == 6
    with np.printoptions(precision=2):
        debug.callback(lambda x: print(np.asarray(x)), x * F32(1.23456))
        curta.effects_barrier()
    assert capsys.readouterr().out == "[1.23]\n"


def test_callbacks_wait_for_their_branch():
    """A callback of constants is not called ahead of its branch, or of a turn."""

    def never(*args):
        raise AssertionError("called")

    scalar = curta.ShapeDtypeStruct((), "float32")

    def call(*args):
        return curta.pure_callback(never, scalar, *args)

    skipped = curta.jit(lambda p: curta.lax.cond(p, lambda: call(2.0), lambda: 1.0))
    assert skipped(False) == 1
    for start in (0.0, jnp.zeros(300)):
        looped = curta.jit(
            lambda n, x, start=start: curta.lax.fori_loop(
                0, n, lambda i, s: s + call(2.0) + call(x), start
            )
        )
        assert not looped(0, 1.0).any()


@pytest.mark.parametrize("call", [curta.pure_callback, io_callback])
def test_callbacks_get_the_words_of_keys(call):
    seen = []

    def callback(key, x):
        seen.append((key.dtype, key.shape))
        return np.float32(np.asarray(key).sum() + x)

    shape = curta.ShapeDtypeStruct((), np.float32)
    fun = lambda key: call(callback, shape, key, 1.0)  # noqa: E731
    keys = curta.random.wrap_key_data(jnp.array([[0, 3], [2, 4]], jnp.uint32))
    assert fun(keys[0]) == curta.jit(fun)(keys[0]) == 4
    assert {*seen} == {(np.dtype("uint32"), (2,))}
    if call is curta.pure_callback:
        fun = lambda key: call(callback, shape, key, 1.0, vmap_method="sequential")  # noqa: E731
    np.testing.assert_array_equal(curta.vmap(fun)(keys), [4, 7])


def test_results_of_callbacks_are_no_keys():
    shape = curta.eval_shape(curta.random.key, 0)
    with pytest.raises(TypeError, match="Cannot interpret 'key<fry>' as a data type"):
        curta.pure_callback(lambda: curta.random.key(0), shape)
