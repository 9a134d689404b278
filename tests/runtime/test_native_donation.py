"""Donation in native code: the same as in Python, and nothing half done."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

import curta
from curta import numpy as jnp, tree_util
from curta.core import buffers
from curta.errors import JaxRuntimeError, OutOfMemoryError
from curta.runtime import native_call
from curta.runtime.native_call import MISS

pytestmark = pytest.mark.skipif(
    native_call._maker() is None, reason="objects are laid out in another way here"
)


def stepping(fun, *args, donate=(0,)):
    """`fun` jitted, and a first argument for which native code takes the call."""
    f = curta.jit(fun, donate_argnums=donate)
    state, *others = args
    for _ in range(4):  # arrays that nobody else keeps, and storage to use again
        state = f(state, *others)
    return f, state


def halved(tree):
    return [x * 0.5 + 1 for x in tree]


def leaves(n):
    return [jnp.full(3 + i % 5, float(i)) for i in range(n)]


@pytest.mark.parametrize("n", [1, 10, 200])
def test_arrays_are_taken_over(n):
    f, state = stepping(halved, leaves(n))
    wanted = [np.array(x) for x in curta.jit(halved)(state)]
    places = [x.unsafe_buffer_pointer() for x in state]
    out = f._native(state)
    assert out is not MISS
    assert all(x.is_deleted() for x in state)
    assert [x.unsafe_buffer_pointer() for x in out] == places
    for x, y in zip(out, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_deleted_arrays_stay_deleted_while_somebody_has_them():
    f, state = stepping(halved, leaves(3))
    known = [state]
    for i in range(20):
        known.append(f(known[-1]))
        values = [np.array(x) for x in known[-1]]
        assert all(x.is_deleted() for old in known[:-1] for x in old), i
        with pytest.raises(RuntimeError, match="Array has been deleted with shape"):
            known[-2][0] + 1
    out = known.pop()
    known.clear()
    for _ in range(5):
        f(leaves(3))
    for x, y in zip(out, values, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.roll(x, 1) - x,
        lambda x: x[::-1] + x,
        lambda x: x - x.mean(),
        lambda x: x.at[2].set(x[0]),
        lambda x: (jnp.ones((5, 5)) @ x) / 5,
        lambda x: x,
    ],
)
def test_wherever_the_result_lies(fun):
    x = jnp.copy(jnp.arange(5.0))
    plain, f = curta.jit(fun), curta.jit(fun, donate_argnums=0)
    wanted, held = np.array(x), []
    for i in range(12):
        wanted = np.array(plain(wanted))
        before, x = x, f(x)
        assert before.is_deleted()
        np.testing.assert_array_equal(x, wanted)
        if i % 4 == 3:
            held.append((np.asarray(x), wanted.copy()))
    for seen, kept in held:
        np.testing.assert_array_equal(seen, kept)


def test_results_are_used_again():
    """Memory that is not overwritten is used for the next result, with its array
    objects."""
    f, x = stepping(lambda x: jnp.roll(x, 1) - x, jnp.copy(jnp.arange(5.0)))
    assert f._native(x) is not MISS
    x = f(jnp.copy(jnp.arange(5.0)))
    places, objects = set(), set()
    for _ in range(20):
        x = f(x)
        places.add(x.unsafe_buffer_pointer())
        objects.add(id(x))
    assert len(places) <= 3
    assert len(objects) <= 3


def test_memory_that_somebody_sees_is_left_alone():
    f, state = stepping(halved, leaves(3))
    view, value = np.asarray(state[1]), np.array(state[1])
    out = f(state)
    assert all(x.is_deleted() for x in state)
    np.testing.assert_array_equal(view, value)
    np.testing.assert_array_equal(out[1], value * 0.5 + 1)
    assert f._native(out) is not MISS


def test_one_array_donated_twice_is_refused_and_kept():
    f, _ = stepping(lambda pair: (pair[0] + 1, pair[1] * 2), (numbers(), numbers()))
    x = f((numbers(), numbers()))[0]
    for _ in range(2):
        with pytest.raises(JaxRuntimeError, match="donate the same buffer twice"):
            f((x, x))
        assert not x.is_deleted()
    np.testing.assert_array_equal(x, np.arange(4) + 1)


def test_an_array_donated_and_used_is_refused_and_kept():
    f, x = stepping(lambda x, y: x + y, numbers(), numbers())
    value = np.array(x)
    for pair in [(x, x)] * 2:
        with pytest.raises(JaxRuntimeError, match="also used by the same call"):
            f(*pair)
        assert not x.is_deleted()
    np.testing.assert_array_equal(x, value)


def test_arguments_that_are_not_read_are_not_donated():
    x, y = numbers(), numbers()
    f = curta.jit(lambda x, y: y + 1, donate_argnums=0)
    for _ in range(3):
        f(x, y)
    f(x, x)
    assert not x.is_deleted()
    curta.jit(lambda x, y: y + 1, donate_argnums=0, keep_unused=True)(x, y)
    assert x.is_deleted()


def test_an_array_donated_and_not_read_elsewhere_is_donated():
    f, x = stepping(lambda x, y: x * 2, numbers(), numbers())
    for _ in range(3):
        value, given = np.array(x), x
        x = f(x, x)
        assert given.is_deleted()
        np.testing.assert_array_equal(x, value * 2)


def test_two_arrays_of_one_storage_are_one():
    f, _ = stepping(lambda pair: (pair[0] + 1, pair[1] * 2), (numbers(), numbers()))
    x = f((numbers(), numbers()))[0]
    twin = type(x)(x._storage(), x.aval)
    with pytest.raises(JaxRuntimeError, match="donate the same buffer twice"):
        f((x, twin))
    assert not x.is_deleted()
    assert not twin.is_deleted()


def test_one_function_donates_what_another_one_made():
    made = curta.jit(lambda x: x + 1)
    f, _ = stepping(lambda x, y: x * y, numbers(), numbers(), donate=(0,))
    y, held = numbers(), []
    for i in range(12):
        x = made(numbers())
        np.testing.assert_array_equal(x, np.arange(4) + 1)
        out = f(x, y)
        assert x.is_deleted()
        np.testing.assert_array_equal(out, (np.arange(4) + 1) * np.arange(4))
        if i % 3 == 0:
            held.append(x)
    assert all(x.is_deleted() for x in held)


def test_weak_references_do_not_outlive_arrays():
    f, state = stepping(halved, leaves(1))
    reference = weakref.ref(state[0])
    out = f(state)
    state = None
    for _ in range(5):
        out = f(out)
    assert reference() is None or reference().is_deleted()


def test_want_of_memory_leaves_the_arguments(monkeypatch):
    def fun(x):
        return jnp.roll(x, 1) - x, x + 1

    f = curta.jit(fun, donate_argnums=0)
    x, value = numbers(), np.arange(4)
    for _ in range(3):
        x, _ = f(x)
    value = np.array(x)
    buffers.trim()  # nothing is kept to be used again

    def refuse(size):
        raise MemoryError

    monkeypatch.setattr(buffers, "from_system", refuse)
    for _ in range(2):
        with pytest.raises(OutOfMemoryError):
            f(x)
        assert not x.is_deleted()
    monkeypatch.undo()
    np.testing.assert_array_equal(x, value)
    np.testing.assert_array_equal(f(x)[1], value + 1)
    assert x.is_deleted()


class Broken:
    """A node that cannot be made while `broken` is set."""

    broken = False

    def __init__(self, x):
        self.x = x


def _unflatten(_, children):
    if Broken.broken:
        raise ZeroDivisionError("no node")
    return Broken(*children)


tree_util.register_pytree_node(Broken, lambda n: ((n.x,), None), _unflatten)


def test_errors_in_the_result_come_after_the_program():
    f = curta.jit(lambda x: Broken(x + 1), donate_argnums=0)
    x = numbers()
    for _ in range(3):
        x = f(x).x
    Broken.broken = True
    try:
        with pytest.raises(ZeroDivisionError):
            f(x)
    finally:
        Broken.broken = False
    assert x.is_deleted()
    np.testing.assert_array_equal(f(numbers()).x, np.arange(4) + 1)


def test_reading_what_another_thread_donates():
    """A read returns the old value, or raises because the array is deleted."""
    f, state = stepping(lambda tree: [x + 1 for x in tree], [jnp.zeros(50)] * 1)
    shown, done, wrong = [state[0]], threading.Event(), []

    def read():
        while not done.is_set():
            x = shown[0]
            try:
                view = np.asarray(x)
            except RuntimeError as error:
                if "deleted" not in str(error):
                    wrong.append(error)
                continue
            first = view.copy()
            if not (first == first[0]).all() or not (view == first).all():
                wrong.append(first)

    def donate_too():
        while not done.is_set():
            try:
                f([shown[0]])
            except (RuntimeError, JaxRuntimeError) as error:
                if "deleted" not in str(error) and "donate" not in str(error):
                    wrong.append(error)

    threads = [threading.Thread(target=t) for t in (read, read, donate_too)]
    for t in threads:
        t.start()
    x = state[0]
    for i in range(2000):
        try:
            (x,) = f([x])
        except RuntimeError:  # another thread was there first
            x = jnp.full(50, float(i))
        shown[0] = x
    done.set()
    for t in threads:
        t.join()
    assert not wrong


def test_many_arrays_do_not_go_through_the_stack():
    f = curta.jit(lambda x, rest: x + rest[0], donate_argnums=0)
    rest, result = [numbers()] * 6000, []

    def run():
        x = numbers()
        for _ in range(3):
            x = f(x, rest)
        result.append(f._native(x, rest))

    before = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    np.testing.assert_array_equal(result[0], 5 * np.arange(4))


def numbers():
    return jnp.copy(jnp.arange(4.0))
