"""Native code that calls Python: where, how often, in which thread, when it fails."""

import gc
import signal
import sys
import threading
import traceback
import weakref

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import debug, lax
from curta.compiler.machine_code import host_call
from curta.extend.core import Primitive
from curta.interpreters import batching

VALUE = curta.ShapeDtypeStruct((), np.float32)


@pytest.fixture
def calls(monkeypatch):
    """The names of the ops that native code has called."""
    names = []
    evaluate = host_call.evaluate_op

    def record(op, args):
        names.append(op.name)
        return evaluate(op, args)

    monkeypatch.setattr(host_call, "evaluate_op", record)
    return names


def looped(look, turns=9):
    """A loop of several ops; one of them calls Python with the carry."""

    def body(i, x):
        x = jnp.sin(x) @ jnp.ones((40, 40)) / 40 + i
        look(i, x)
        return jnp.cos(x) * 2

    return curta.jit(lambda x: lax.fori_loop(0, turns, body, x))


X = jnp.ones((40, 40))


def test_a_loop_calls_python_for_callbacks_alone(calls):
    looped(lambda i, x: debug.callback(lambda v: None, x[0, 0]))(X)
    assert calls == ["debug_callback"] * 9


def test_what_is_never_called_costs_nothing(calls):
    def check(i, x):
        lax.cond(jnp.isnan(x).any(), lambda: debug.print("{}", x), lambda: None)

    looped(check)(X).block_until_ready()
    assert calls == []


def test_one_call_in_nested_loops_and_branches(calls):
    def turn(i, x):
        def inner(c):
            j, x = c
            odd = lambda x: curta.pure_callback(lambda v: v + 1, VALUE, x)  # noqa: E731
            return j + 1, lax.cond((i + j) % 2 == 1, odd, lambda x: x * 2, x)

        return lax.while_loop(lambda c: c[0] < i, inner, (0, x))[1]

    f = lambda x: lax.fori_loop(0, 5, turn, x)  # noqa: E731
    with curta.disable_jit():
        expected = f(jnp.float32(1))
    calls.clear()
    assert curta.jit(f)(jnp.float32(1)) == expected
    assert calls == ["pure_callback"] * 6


# ---- exceptions


class Refusal(Exception):
    pass


def refusing(seen, at):
    def refuse(i):
        seen.append(int(i))
        if i == at:
            raise Refusal(f"turn {i}")

    return refuse


def scan(look, x):
    return lax.scan(lambda c, i: (c + 1, look(i)), x, jnp.arange(8))[0]


def while_body(look, x):
    def body(c):
        look(c[0])
        return c[0] + 1, c[1] * 2

    return lax.while_loop(lambda c: c[0] < 8, body, (0, x))[1]


def while_condition(look, x):
    def goes_on(c):
        look(c[0])
        return c[0] < 8

    return lax.while_loop(goes_on, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]


def branch(look, x):
    def body(i, x):
        return lax.cond(i % 2 == 1, lambda x: look(i) or x + 1, lambda x: x, x)

    return lax.fori_loop(0, 8, body, x)


def inner_loop(look, x):
    def body(i, x):
        return lax.fori_loop(0, 2, lambda j, x: look(2 * i + j) or x * 2, x)

    return lax.fori_loop(0, 4, body, x)


def straight(look, x):
    for i in range(8):
        look(i)
    return x + 1


PLACES = [scan, while_body, while_condition, branch, inner_loop, straight]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_an_exception_ends_the_program(place, ordered):
    """At once, with the user's line; the next call is as ever."""
    seen, at = [], [3]

    def refuse(i):
        refusing(seen, at[0])(i)

    def look(i):
        debug.callback(refuse, i, ordered=ordered)

    f = curta.jit(lambda x: place(look, x))
    for _ in range(2):
        with pytest.raises(Refusal, match="turn 3") as caught:
            f(jnp.float32(1)).block_until_ready()
        text = "".join(traceback.format_exception(caught.value))
        assert 'raise Refusal(f"turn {i}")' in text and __file__ in text
        assert seen[-1] == 3 and 4 not in seen
        seen.clear()
    at[0] = -1
    with curta.disable_jit():
        expected = f(jnp.float32(1))
    assert f(jnp.float32(1)) == expected


def test_an_interrupt_passes_through():
    def interrupt(i):
        if i == 2:
            raise KeyboardInterrupt

    f = looped(lambda i, x: debug.callback(interrupt, i))
    with pytest.raises(KeyboardInterrupt):
        f(X)
    with pytest.raises(SystemExit):
        looped(lambda i, x: debug.callback(lambda: sys.exit(1)))(X)


def test_exceptions_of_programs_inside_of_callbacks():
    def refuse(i):
        raise Refusal(f"turn {i}")

    inner = looped(lambda i, x: debug.callback(refuse, i))

    def outer(i):
        with pytest.raises(Refusal, match="turn 0"):
            inner(X)
        if i == 2:
            inner(X + 1)

    with pytest.raises(Refusal, match="turn 0"):
        looped(lambda i, x: debug.callback(outer, i))(X)


def test_threads_have_exceptions_of_their_own():
    def refuse(i, name):
        if i == 5:
            raise Refusal(int(name))

    def body(i, name):
        debug.callback(refuse, i, name)
        return name

    f = curta.jit(lambda name: lax.fori_loop(0, 9, body, name))
    f.lower(0).compile()
    found = {}

    def call(name):
        for _ in range(20):
            try:
                f(name)
            except Refusal as error:
                found.setdefault(name, set()).add(error.args[0])

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {i: {i} for i in range(4)}


# ---- what Python is given, and where


def test_callbacks_run_in_the_thread_of_the_call():
    """Also in loops that threads would share out."""
    there = set()

    def note(x):
        there.add(threading.get_ident())
        return x

    def body(h, x):
        factor = curta.pure_callback(note, VALUE, jnp.float32(2))
        return jnp.tanh(h * factor + x), h.sum(1)

    x = jnp.ones((20, 512, 64))
    curta.jit(lambda x: lax.scan(body, x[0], x))(x)[0].block_until_ready()
    assert there == {threading.get_ident()}


def test_operands_may_be_kept():
    kept = []
    primitive = Primitive("keeping")
    primitive.def_impl(lambda x: kept.append(x) or x)
    primitive.def_abstract_eval(lambda x: x)
    batching.primitive_batchers[primitive] = lambda a, d: (primitive.bind(*a), d[0])

    def body(i, x):
        debug.callback(kept.append, x)
        return primitive.bind(x) + 1

    curta.jit(lambda x: lax.fori_loop(0, 5, body, x))(jnp.zeros(300))
    for _ in range(5):
        curta.jit(lambda x: lax.fori_loop(0, 5, lambda i, x: x * 7, x))(jnp.ones(300))
    assert [float(x[0]) for x in kept] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert all((np.asarray(x) == np.asarray(x)[0]).all() for x in kept)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "bfloat16", "float8_e4m3fn", "complex64", "uint32"]
)
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3)])
def test_dtypes_and_shapes(dtype, shape):
    x = jnp.arange(6)[: np.prod(shape, dtype=int)].reshape(shape).astype(dtype)

    def body(i, x):
        same = curta.ShapeDtypeStruct(x.shape, x.dtype)
        return curta.pure_callback(lambda v: np.asarray(v)[...].copy(), same, x)

    got = curta.jit(lambda x: lax.fori_loop(0, 3, body, x))(x)
    assert got.dtype == x.dtype and got.shape == x.shape
    np.testing.assert_array_equal(np.asarray(got), np.asarray(x))


def test_keys_in_loops():
    def body(i, key):
        debug.callback(lambda k: seen.append(k), key)
        return curta.random.fold_in(key, i)

    for impl in ("threefry2x32", "rbg"):
        seen = []
        key = curta.random.key(0, impl=impl)
        last = curta.jit(lambda key: lax.fori_loop(0, 3, body, key))(key)
        with curta.disable_jit():
            assert last == lax.fori_loop(0, 3, body, key)
        assert seen[0] == seen[3] == key


def test_callbacks_are_freed_with_their_program():
    class Sink:
        def __call__(self, x):
            pass

    def run(sink):
        looped(lambda i, x: debug.callback(sink, i))(X)
        return weakref.ref(sink)

    gone = run(Sink())
    curta.clear_caches()
    gc.collect()
    assert gone() is None


def test_donated_and_updated_arrays():
    """A callback sees the carry as it is, which the loop overwrites."""
    seen = []

    def body(i, x):
        debug.callback(lambda v: seen.append(np.asarray(v).copy()), x)
        return x.at[i].set(i + 1.0)

    f = curta.jit(lambda x: lax.fori_loop(0, 4, body, x), donate_argnums=0)
    np.testing.assert_array_equal(f(jnp.zeros(4)), [1, 2, 3, 4])
    np.testing.assert_array_equal(seen, np.tril(np.ones((4, 4)), -1) * np.arange(1, 5))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer")
def test_a_signal_ends_a_loop_whose_callback_is_never_taken():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    def body(i, x):
        lax.cond(x < 0, lambda: debug.print("{}", x), lambda: None)
        return x * 0.5 + 1

    f = curta.jit(lambda n: lax.fori_loop(0, n, body, 1.0))
    assert f(10) < 2
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Alarm):
            f(2_000_000_000)  # some minutes
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert f(10) < 2


def test_a_loop_without_turns_in_a_loop():
    """Its body costs nothing, however often it is called."""

    def inner(c, _):
        shape = curta.ShapeDtypeStruct((), np.float32)
        return curta.pure_callback(lambda x: x, shape, c), None

    def body(c, _):
        return lax.scan(inner, c, None, length=0)[0], None

    @curta.jit
    def fun(c):
        return lax.scan(body, c, None, length=3)[0]

    assert fun(jnp.float32(5)) == 5
