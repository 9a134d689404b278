"""Loops in registers that update large arrays in memory, element by element."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.lower import control
from curta.config import backend

SIZE = 100


@pytest.fixture(autouse=True)
def in_registers(monkeypatch):
    """Whether each control-flow eqn compiled since became code in registers.

    Every region is checked before code is made of it.
    """
    monkeypatch.setenv("CURTA_CHECK", "1")
    found = []
    make = control.register_code

    def record(*args):
        code = make(*args)
        found.append(code is not None)
        return code

    monkeypatch.setattr(control, "register_code", record)
    return found


def start(dtype="float32"):
    x = np.random.default_rng(0).integers(0, 9, SIZE)
    return jnp.asarray((x * (1 + 1j) if dtype == "complex64" else x).astype(dtype))


def check(f, *args, **options):
    """Compiled, and donated, as by the `eval` rules."""
    with backend("numpy"):
        expected = curta.jit(f)(*args)
    found = curta.jit(f)(*args)
    given = curta.jit(f, donate_argnums=0)(args[0].copy(), *args[1:])
    for a, b, c in zip(*map(curta.tree.leaves, (expected, found, given)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)
        np.testing.assert_allclose(c, a, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
def test_each_element_from_the_one_before(dtype, in_registers):
    def step(i, x):
        return x.at[i].set(x[i - 1] if dtype == "bool" else x[i - 1] + 1)

    check(lambda x: lax.fori_loop(1, SIZE, step, x), start(dtype))
    assert in_registers and all(in_registers)


def test_updates_outside_do_nothing(in_registers):
    def step(i, x):
        x = x.at[3 * i].add(1.0)
        x = x.at[i - 150].multiply(2.0, wrap_negative_indices=False)
        return x.at[2 * i].min(x[5], mode="clip")

    check(lambda x: lax.fori_loop(0, SIZE, step, x), start())
    assert all(in_registers)


def test_old_and_new_elements_in_a_turn(in_registers):
    def swap(i, x):
        j = (7 * i) % SIZE
        a, b = x[i], x[j]
        x = x.at[i].set(b)
        return x.at[j].set(a + x[i])

    check(lambda x: lax.fori_loop(0, SIZE, swap, x), start())

    def several(i, x):
        return x.at[jnp.array([1, 5, 1, 700])].add(x[jnp.array([0, 1, 2, 3])] + i)

    check(lambda x: lax.fori_loop(0, 10, several, x), start())
    assert all(in_registers)


def test_rows_of_an_array_that_the_loop_updates(in_registers):
    def step(carry, element):
        x, i = carry
        return (x.at[(i + 1) % SIZE].set(element + 1), i + 1), element

    def shifted(x):
        return lax.scan(step, (x, 0), x)[0][0]

    check(shifted, start())
    check(lambda x: lax.fori_loop(0, 3, lambda _, x: shifted(x), x), start())
    assert not all(in_registers)


def test_windows(in_registers):
    def step(i, x):
        window = lax.dynamic_slice(x, (i,), (5,))
        return lax.dynamic_update_slice(x, window[::-1] * 0.5, (i + 2,))

    check(lambda x: lax.fori_loop(0, SIZE, step, x), start())
    matrix = start().reshape(20, 5)

    def rows(i, x):
        return x.at[i].set(x[i - 1] * 0.5 + x[0])

    check(lambda x: lax.fori_loop(1, 20, rows, x), matrix)
    assert all(in_registers)


def test_while_loops_sort(in_registers):
    """Insertion sort: a loop in a loop, whose condition reads what the body writes."""

    def sort(x):
        def insert(i, x):
            def swap(state):
                j, x = state
                a, b = x[j - 1], x[j]
                return j - 1, x.at[j].set(a).at[j - 1].set(b)

            def goes_on(state):
                j, x = state
                return (j > 0) & (x[j - 1] > x[j])

            return lax.while_loop(goes_on, swap, (i, x))[1]

        return lax.fori_loop(1, SIZE, insert, x)

    check(sort, start())
    assert all(in_registers)


def test_branches(in_registers):
    def sieve(i, x):
        def strike(x):
            return lax.fori_loop(
                2, SIZE // i + 1, lambda k, x: x.at[k * i].set(False), x
            )

        return lax.cond(x[i], strike, lambda x: x, x)

    check(lambda x: lax.fori_loop(2, SIZE, sieve, x), jnp.ones(SIZE, bool))

    def either(i, state):
        x, y = state
        return lax.switch(
            i % 3,
            [
                lambda x, y: (x.at[i].add(y[0]), y),
                lambda x, y: (x, y.at[i].add(x[1])),
                lambda x, y: (x.at[0].set(y[i]), y.at[1].set(x[i])),
            ],
            x, y,
        )  # fmt: skip

    check(lambda x: lax.fori_loop(0, 80, either, (x, x + 1)), start())
    assert all(in_registers)


def test_scans_with_rows_and_other_carries(in_registers):
    def step(state, row):
        count, x = state
        i = row[0].astype(int)
        x = x.at[i].add(row[1])
        return (count + x[i], x), x[(i + 1) % SIZE]

    rows = jnp.stack([start() * 7, start()], 1)
    check(lambda x: lax.scan(step, (0.0, x), rows), start())
    check(lambda x: lax.scan(step, (0.0, x), rows, reverse=True), start())
    assert all(in_registers)


@pytest.mark.parametrize(
    "body",
    [
        lambda i, s: (s[1], s[0].at[i].add(1.0)),  # in each other's memory
        lambda i, s: (s[0].at[i].add(1.0), s[0]),  # of which the old one is needed
        lambda i, s: (s[0].at[i].add(1.0), s[1].at[i].set(s[0].sum())),
        lambda i, s: (s[0].at[i].add(1.0) * 2, s[1]),
        lambda i, s: (
            s[0].at[i].add(1.0),
            s[1].at[i].set(s[0].at[i].add(1.0)[i] + s[0][i] + s[0].at[0].set(9.0)[0]),
        ),
        lambda i, s: (
            s[0],
            s[1].at[i].set(
                lax.fori_loop(0, 3, lambda j, x: x.at[j].add(s[0][j]), s[0])[i]
            ),
        ),
        lambda i, s: lax.cond(
            i > 4, lambda x, y: (y, x), lambda x, y: (x.at[i].set(0.0), y), *s
        ),
        lambda i, s: lax.cond(
            i > 4, lambda x, y: (x, x), lambda x, y: (x, y.at[i].set(x[0])), *s
        ),
        lambda i, s: (
            lax.cond(i > 4, lambda x: x.at[i].set(0.0)[i], lambda x: x[2], s[0])
            + s[0].at[i].get(),
            s[1],
        )[1:] + (s[0],),
    ],
)  # fmt: skip
def test_what_cannot_be_done_in_place(body):
    """Arrays that are needed as they were before an update."""
    x = start()
    check(lambda x: lax.fori_loop(0, 9, body, (x, x + 1)), x)
    check(lambda x: lax.fori_loop(0, 9, body, (x, x)), x)


def test_arguments_are_left_alone():
    x = start()
    before = np.asarray(x).copy()
    f = curta.jit(lambda x: lax.fori_loop(0, 9, lambda i, x: x.at[i].set(x[i + 1]), x))
    first = f(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(f(x), first)
    both = curta.jit(lambda x: (f(x), x, f(x + 1)))(x)
    np.testing.assert_array_equal(both[1], before)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    """Reads, updates, branches and loops of two arrays, in any order."""
    rng = np.random.default_rng(seed)
    plan = [tuple(rng.integers(0, 8, 4)) for _ in range(5)]

    def run(state, i, depth):
        for kind, a, b, c in plan[depth:]:
            state = act(state, i, depth, kind, int(a), int(b), int(c))
        return state

    def act(state, i, depth, kind, a, b, c):
        x, y, s = state
        place = (a * i + b) % 120
        if kind == 0:
            return x.at[place].set(y[c] + s), y, s
        if kind == 1:
            return x, y.at[place].add(x[(i + c) % SIZE]), s
        if kind == 2:
            return x, y, s * 0.5 + x[place] + y[c]
        if kind == 3 and depth < 2:
            inner = lax.fori_loop(
                0, 3 + c, lambda j, t: run(t, i + j, depth + 2), (x, y, s)
            )
            return inner[0], inner[1], inner[2] * 0.25
        if kind == 4:
            return lax.cond(
                s > c, lambda x, y: (x.at[place].set(1.0), y, y[a]),
                lambda x, y: (x, y.at[c].set(s), x[b]), x, y,
            )  # fmt: skip
        if kind == 5:
            return x.at[place].multiply(0.5), y, s + x[c]
        if kind == 6:
            return (
                x,
                y,
                s + lax.cond(s > b, lambda x: x.at[c].set(2.0)[a], lambda x: x[b], x),
            )
        return x, y.at[a].min(s), s

    def program(x, y):
        return lax.fori_loop(0, 12, lambda i, t: run(t, i, 0), (x, y, 0.0))

    check(program, start(), start() * 0.5)
