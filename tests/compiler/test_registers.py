"""Loops over small values as code in registers, against their `eval` rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import RandomProgram, assert_compiles, staged
from tests.conformance.checks import array, as_list, assert_close, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.loops.nodes import Buffer, For, Load, LoopNest, Region, Statement
from curta.compiler.lower.batch_vectorisation import lane_code
from curta.compiler.lower.registers import register_code
from curta.config import enable_x64
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate as evaluate_jaxpr
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.stage import stage
from curta.runtime.backends import executable

RNG = np.random.default_rng(0)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every region is checked before code is made of it."""
    monkeypatch.setenv("CURTA_CHECK", "1")


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test has the same numbers, whichever ran before it."""
    RNG.bit_generator.state = START


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def in_registers(closed: ClosedJaxpr) -> bool:
    """Whether the last loop of a jaxpr becomes code in registers."""
    return (
        any(e.op.regions for e in closed.jaxpr.eqns)
        and code_of(loop_of(closed)) is not None
    )


def loop_of(closed: ClosedJaxpr) -> Eqn:
    """The last loop or branch of a jaxpr."""
    return [e for e in closed.jaxpr.eqns if e.op.regions][-1]


def code_of(eqn: Eqn) -> Region | None:
    """The code of a loop or branch; None if it does not qualify."""
    arrays = [Buffer("array", np.dtype("float32"), 100) for _ in eqn.invars]
    return register_code(eqn, arrays, arrays[:1] * len(eqn.outvars), host())


def computed(block: Sequence[Statement]) -> list[LoopNest]:
    """The nests of a block that do more than copy."""
    nests = [s for s in block if isinstance(s, LoopNest)]
    return [s for s in nests if not all(isinstance(x.value, Load) for x in s.stores)]


def check(fun: Any, *args: Any, rtol: float = 2e-5) -> None:
    """The function is a loop in registers, and gives what `eval` does."""
    closed = staged(lambda *a: list(fun(*a)), *args)
    assert in_registers(closed)
    compiled = assert_compiles(closed, *args, rtol=rtol)
    assert compiled.native is not None


@pytest.mark.parametrize(
    ("leaves", "size", "qualifies"),
    [(60, 3, True), (300, 3, False), (300, 32, True), (15, 30, True), (30, 30, False)],
)
def test_loops_that_carry_too_much_are_no_code_in_registers(
    leaves: int, size: int, qualifies: bool
) -> None:
    """LLVM takes odd rows apart, and time by the square of what it hands on."""

    def fun(*tree: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return [x * 0.5 + y for x, y in zip(carry, carry[1:] + carry[:1])], ()

        return lax.scan(body, list(tree), None, length=3)[0]

    tree = [normal(size) for _ in range(leaves)]
    closed = staged(lambda *a: fun(*a), *tree)
    assert in_registers(closed) == qualifies
    if not qualifies:
        assert_compiles(closed, *tree, rtol=2e-5)


# ------------------------------------------------------------ every op in a loop


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_ops_inside_of_loops(cls: Any) -> None:
    """Ops on rows in registers give the same results as outside."""
    with enable_x64(True):
        loops = [looped(c) for c in cases(cls)[::4] if is_small(c)]
        found = [f for f in loops if in_registers(stage_loop(f))]
        for (case, *_), outs in zip(found, run_together(found), strict=True):
            wanted = evaluate(case.op, case.args)
            for n, (rows, want) in enumerate(zip(outs, wanted, strict=True)):
                for row in np.asarray(rows):
                    assert_close(row, want, f"{case}, output {n}")


Looped = tuple[Case, Scan, list[ShapedArray]]


def is_small(case: Case) -> bool:
    return bool(case.avals) and all(0 < a.size <= 64 for a in case.avals)


def looped(case: Case) -> Looped:
    """The case as the body of a loop of two turns, with equal rows."""
    body = stage(lambda *xs: as_list(case.op, case.op(*xs)), case.avals)
    rows = [ShapedArray((2, *a.shape), a.dtype) for a in case.avals]
    return case, Scan(body, 2, False, 0, 0), rows


def stage_loop(found: Looped) -> ClosedJaxpr:
    _, loop, rows = found
    return stage(lambda *xs: list(loop(*xs)), rows)


def run_together(found: list[Looped]) -> list[list[Any]]:
    """The outputs of all loops, from one program: compiling once is much faster."""

    def program(*flat: Any) -> list[Any]:
        rest = iter(flat)
        outs = [list(loop(*[next(rest) for _ in rows])) for _, loop, rows in found]
        counts[:] = map(len, outs)
        return [x for several in outs for x in several]

    counts: list[int] = []
    closed = stage(program, [a for _, _, rows in found for a in rows])
    args = [
        np.stack([storage(array(x, a))] * 2)
        for case, *_ in found
        for x, a in zip(case.args, case.avals, strict=True)
    ]
    outs = iter(executable(closed)(*args))
    return [[next(outs) for _ in range(count)] for count in counts]


# -------------------------------------------------------------- random programs


class SmallProgram(RandomProgram):
    """A random program on small values."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, length=8)
        self.shapes = self.random.choices([(), (1,), (3,), (2, 2), (7,)], k=2)


@pytest.mark.parametrize("seed", range(40))
def test_random_bodies(seed: int) -> None:
    """Loops, branches and loops in loops around random straight code."""
    kind = seed % 4
    first, second = args = SmallProgram(seed).arguments()

    def program(*xs: Any) -> list[Any]:  # the same one, however often it is traced
        made = SmallProgram(seed)
        made.arguments()
        return made(*xs)

    outs = staged(program, *args).out_avals

    def step(carry: Any, _: Any = None) -> tuple[Any, Any]:
        found = program(jnp.tanh(carry), second)
        total = sum(jnp.nan_to_num(jnp.sum(x), posinf=1.0, neginf=2.0) for x in found)
        total = jnp.tanh(total.astype("float32"))
        return jnp.sin(carry + total), found[-1]

    def branch(carry: Any, _: Any = None) -> tuple[Any, Any]:
        zeros = jnp.zeros(outs[-1].shape, outs[-1].dtype)
        return lax.cond(jnp.sum(carry) > 0, step, lambda c: (jnp.sin(c), zeros), carry)

    def nested(carry: Any, _: Any = None) -> tuple[Any, Any]:
        carry, found = lax.scan(step, carry, None, length=3)
        return carry, found[-1]

    def stepping(carry: Any) -> list[Any]:
        def turn(state: Any) -> Any:
            return state[0] + 1, step(state[1])[0]

        return list(lax.while_loop(lambda s: s[0] < 5, turn, (jnp.int32(0), carry)))

    def run(carry: Any) -> list[Any]:
        if kind == 3:
            return stepping(carry)
        body = (step, branch, nested)[kind]
        return list(lax.scan(body, carry, None, length=4, reverse=seed % 3 == 0))

    closed = staged(run, first)
    compiled = assert_compiles(closed, first, rtol=2e-3)
    if in_registers(closed):
        assert compiled.native is not None


# ----------------------------------------------------------------- what is exact


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint32", "bool"])
def test_dtypes_that_are_carried(dtype: str) -> None:
    x = (3 * normal(4)).astype(jnp.dtype(dtype))
    rows = (3 * normal(6, 4)).astype(jnp.dtype(dtype))

    def step(c: Any, x: Any) -> Any:
        total, wide = c
        joined = total ^ x if dtype == "bool" else total * x + x
        return (joined, wide + x.astype("float32")), (joined[::-1], jnp.max(x))

    check(
        lambda c, w, xs: flat(lax.scan(step, (c, w), xs)), x, normal(4), rows,
        rtol=1e-2,
    )  # fmt: skip


def flat(tree: Any) -> list[Any]:
    return curta.tree.leaves(tree)


def test_complex_numbers() -> None:
    z = (normal(2, 2) + 1j * normal(2, 2)).astype(np.complex64)

    def step(c: Any, x: Any) -> Any:
        c = jnp.conj(c @ x) / 2 + x.T
        return c, (c[0, 1], jnp.abs(c), c.imag.sum())

    rows = np.stack([z, z * 1j, z - 1])
    check(lambda c, xs: flat(lax.scan(step, c, xs)), z, rows)


def test_special_values_are_kept() -> None:
    """NaN, infinities, -0.0 and subnormal numbers pass and compare as they should."""
    rows = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40]], np.float32)
    rows = np.concatenate([rows, rows[:, ::-1], np.float32([[-0.0] * 6])])

    def step(c: Any, x: Any) -> Any:
        least, most = jnp.minimum(c, x), jnp.maximum(c, x)
        return c * x, (x, least, most, x == c, 1 / x, x - x, jnp.sign(x), x.sum())

    first = np.array([1, 2, -0.0, np.nan, np.inf, 1e-30], np.float32)
    closed = staged(lambda c, xs: flat(lax.scan(step, c, xs)), first, rows)
    assert in_registers(closed)
    got = executable(closed)(first, rows)
    with np.errstate(all="ignore"):
        wanted = evaluate_jaxpr(closed.jaxpr, (), [first, rows])
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            numbers = ~np.isnan(b)
            np.testing.assert_array_equal(
                np.signbit(a[numbers]), np.signbit(b[numbers])
            )


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths(length: int, reverse: bool) -> None:
    def step(c: Any, x: Any) -> Any:
        return c + x, (c, x * 2)

    args = normal(3), normal(length, 3)
    check(lambda c, xs: flat(lax.scan(step, c, xs, reverse=reverse)), *args)


def test_a_loop_that_never_turns() -> None:
    def run(x: Any, n: Any) -> Any:
        return lax.while_loop(
            lambda s: s[1] < n, lambda s: (s[0] * 2, s[1] + 1), (x, 3)
        )

    for n in (0, 3, 7):
        check(run, normal(5), np.asarray(np.int32(n)))


# ----------------------------------------------------------------- what it takes


def test_what_stays_the_same_is_computed_before_the_loop() -> None:
    w = normal(4, 4)

    def step(c: Any, x: Any) -> Any:
        return jnp.tanh(c @ jnp.exp(w) + x), None

    closed = staged(lambda c, xs: [lax.scan(step, c, xs)[0]], normal(4), normal(5, 4))
    region = code_of(loop_of(closed))
    assert region is not None
    *before, loop, _ = region.body
    assert isinstance(loop, For)
    assert len(computed(before)) == 1  # exp
    assert len(computed(loop.body)) == 3
    check(lambda c, xs: [lax.scan(step, c, xs)[0]], normal(4), normal(5, 4))


def test_large_arrays_are_read_where_they_are() -> None:
    def run(table: Any, c: Any, places: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            c = c + table[i] * lax.dynamic_slice(table, (i, 1), (2, 2)).sum()
            return c, table[i, 1]

        return flat(lax.scan(step, c, places))

    places = RNG.integers(-5, 1010, 20).astype(np.int32)
    check(run, normal(1000, 3), normal(3), places)


def test_small_arrays_are_read_and_updated_at_indices_from_data() -> None:
    def step(c: Any, i: Any) -> Any:
        row = lax.dynamic_slice(c, (i, i - 1), (2, 3))
        c = c.at[i, 1].set(row.sum()).at[i - 3].add(c[:, i])
        c = lax.dynamic_update_slice(c, row * 0.5, (i - 1, i))
        return c, (row, c[i, ::-1], jnp.cumsum(c, axis=i.ndim), jnp.argmax(c))

    places = RNG.integers(-3, 6, 20).astype(np.int32)
    check(lambda c, xs: flat(lax.scan(step, c, xs)), normal(5, 5), places)


def test_long_rows_are_no_vectors() -> None:
    def step(c: Any, x: Any) -> Any:
        return c + x.sum(), x.max()

    for size, fits in ((200, True), (10_000, False)):
        args = np.asarray(np.float32(0)), normal(4, size)
        closed = staged(lambda *a: flat(lax.scan(step, *a)), *args)
        assert in_registers(closed) == fits
        assert_compiles(closed, *args)


def test_rows_of_rows() -> None:
    """An inner loop over the rows of a row, which is long, and is not copied."""

    def inner(c: Any, x: Any) -> Any:
        return c * 0.5 + x, None

    def outer(c: Any, rows: Any) -> Any:
        c, _ = lax.scan(inner, c, rows)
        return c, c.sum()

    check(lambda c, xs: flat(lax.scan(outer, c, xs)), normal(3), normal(4, 50, 3))


@pytest.mark.parametrize("which", ["solve", "inv", "cholesky", "det"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_matrices_are_factored(which: str, dtype: Any) -> None:
    def spread(shape: Any) -> Any:
        x = normal(*shape).astype(dtype)
        return x + 1j * normal(*shape) if dtype == np.complex64 else x

    def step(c: Any, a: Any) -> Any:
        if which == "solve":
            return c, jnp.linalg.solve(a, a.T[:, :2])
        if which == "cholesky":
            return c, jnp.linalg.cholesky(a @ jnp.conj(a.T) + jnp.eye(3))
        return c, getattr(jnp.linalg, which)(a)

    rows = spread((6, 3, 3)).astype(dtype)
    rows[3, 0, 0] = 0
    rows[4] = [[0, 0, 1], [0, 2, 3], [4, 5, 6]]
    check(lambda xs: [lax.scan(step, None, xs)[1]], rows, rtol=1e-3)


def test_matrices_are_factored_in_other_loops_too() -> None:
    """A state that is too large for registers does not send the loop to Python."""

    def step(p: Any, noise: Any) -> Any:
        gain = jnp.linalg.solve(p[:3, :3] + jnp.eye(3), p[:3]).T
        return 0.9 * (p - gain @ p[:3]) + noise * jnp.eye(12), p[0]

    root = normal(12, 12) / 4
    args = root @ root.T + np.eye(12, dtype=np.float32), normal(5) ** 2
    closed = staged(lambda *a: flat(lax.scan(step, *a)), *args)
    assert not in_registers(closed)
    compiled = assert_compiles(closed, *args, rtol=1e-4)
    assert compiled.native is not None


def test_updates_of_many_examples() -> None:
    def step(state: Any, i: Any) -> Any:
        c, shared = state
        shared = shared.at[2].add(shared[0])
        c = c.at[i].set(c.sum()).at[i - 2].add(c[i]).at[(i + 1) % 5].multiply(0.5)
        c = lax.dynamic_update_slice(c, jnp.stack([c[0], c[i]]), (i,))
        found = lax.dynamic_slice(c, (i,), (2,)), jnp.argmax(c), jnp.cumsum(c)
        return (c * shared[2], shared), found

    def run(c: Any, shared: Any, places: Any) -> Any:
        one = lambda c, p: lax.scan(step, (c, shared), p)  # noqa: E731
        return flat(curta.vmap(one)(c, places))

    places = RNG.integers(-7, 8, (150, 6)).astype(np.int32)
    check_lanes(run, normal(150, 5), normal(3), places, rtol=1e-4)


def test_random_numbers_are_those_of_numpy() -> None:
    def step(key: Any, _: Any) -> Any:
        key, sub = curta.random.split(key)
        return key, (curta.random.normal(sub, (3,)), curta.random.bits(sub))

    for key in (curta.random.key(3), curta.random.PRNGKey(3)):
        fun = curta.jit(lambda k: lax.scan(step, k, None, length=5)[1])
        normals, bits = fun(key)
        with curta.disable_jit():
            wanted, same = fun(key)
        np.testing.assert_array_equal(bits, same)
        np.testing.assert_allclose(normals, wanted, rtol=1e-5)


def test_one_array_in_two_shapes() -> None:
    def step(c: Any, _: Any) -> Any:
        row, column = c
        return (row + column[0], column * row.sum()), row

    def run(x: Any) -> Any:
        x = jnp.exp(x).sum(1)  # a temporary, whose memory a reshape shares
        return flat(lax.scan(step, (x, x.reshape(1, 3)), None, length=4))

    check(run, normal(3, 2), rtol=1e-4)


def test_elements_that_are_moved_often() -> None:
    def step(c: Any, x: Any) -> Any:
        for _ in range(400):
            c = c[::-1].T
        return c + x, None

    check(lambda *a: flat(lax.scan(step, *a)), normal(3, 3), normal(2, 3, 3))


def test_many_functions_are_called() -> None:
    def step(c: Any, x: Any) -> Any:
        for i in range(14):
            c = jnp.sin(c * x + i) + jnp.arctan2(c, x) + jnp.exp(-c[0])
        return c, jnp.tanh(c)[::2]

    check(lambda c, xs: flat(lax.scan(step, c, xs)), normal(7), normal(5, 7), rtol=1e-4)


def test_branches_in_loops() -> None:
    branches = [lambda c: c + 1, lambda c: c * 2, lambda c: -c[::-1]]

    def step(c: Any, i: Any) -> Any:
        c = lax.switch(i, branches, c)
        return c, c[0]

    places = RNG.integers(-2, 6, 20).astype(np.int32)
    check(lambda c, xs: flat(lax.scan(step, c, xs)), normal(7) / 100, places)


def test_a_branch_alone() -> None:
    x = normal(5)
    bodies = tuple(staged(f, x) for f in (lambda x: [x + 1], lambda x: [x * x]))
    for i in (-1, 0, 1, 5):
        check(lambda i, x: Cond(bodies)(i, x), np.asarray(np.int32(i)), x)


# ------------------------------------------------------------- transformations


def lorenz(s: Any, _: Any = None) -> tuple[Any, Any]:
    x, y, z = s
    s = s + 0.01 * jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
    return s, s


def test_backward_scans_are_in_registers_too() -> None:
    def loss(s: Any) -> Any:
        return lax.scan(lorenz, s, None, length=20)[1].sum()

    x = jnp.array([1.0, 2.0, 3.0])
    closed = curta.make_jaxpr(curta.grad(loss))(x)
    for eqn in (e for e in closed.jaxpr.eqns if e.op.name == "scan"):
        assert code_of(eqn) is not None
    got = curta.jit(curta.grad(loss))(x)
    with curta.disable_jit():
        wanted = curta.grad(loss)(x)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


# --------------------------------------------------------------- many examples


def check_lanes(fun: Any, *args: Any, rtol: float = 2e-5) -> None:
    """The function is a loop over blocks of examples, and gives what `eval` does."""
    closed = staged(lambda *a: list(fun(*a)), *args)
    eqn = loop_of(closed)
    made = {
        v: Buffer(f"a{i}", None, 0) for i, v in enumerate(dict.fromkeys(eqn.invars))
    }
    arrays = [made[v] for v in eqn.invars]
    assert code_of(eqn) is None
    assert lane_code(eqn, arrays, arrays[:1] * len(eqn.outvars), host()) is not None
    compiled = assert_compiles(closed, *args, rtol=rtol)
    threaded = executable(closed)(*args)
    for a, b in zip(compiled(*args), threaded, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [128, 131, 1000])
def test_a_scan_over_many_examples(count: int) -> None:
    def step(c: Any, x: Any) -> Any:
        state, n = c
        state, _ = lorenz(state, None)
        return (jnp.tanh(state) * x, n + 1), (state[::-1], n, x > state.sum())

    def run(c: Any, n: Any, xs: Any) -> Any:
        def one(c: Any, n: Any, xs: Any) -> Any:
            return lax.scan(step, (c, n), xs, reverse=count == 131)

        return flat(curta.vmap(one, in_axes=(0, None, 1))(c, n, xs))

    check_lanes(run, normal(count, 3), np.asarray(np.int32(2)), normal(5, count))


def test_a_while_loop_over_many_examples_ends_with_those_of_a_block() -> None:
    def root(x: Any, bound: Any) -> Any:
        def goes_on(c: Any) -> Any:
            return jnp.abs(c[0] * c[0] - x) > bound * x

        def turn(c: Any) -> Any:
            return 0.5 * (c[0] + x / c[0]), c[1] + 1, c[2] * 0.5

        return lax.while_loop(goes_on, turn, (x, 0, jnp.ones(2)))

    x = (normal(200) ** 2 + 1).astype(np.float32)
    x[7] = 0  # at once
    bound = np.asarray(np.float32(1e-3))
    check_lanes(lambda x, e: flat(curta.vmap(root, (0, None))(x, e)), x, bound)


def test_a_condition_of_many_shared_parts() -> None:
    """Compared part by part, not path by path: of those there are 2**60."""

    def goes_on(x: Any) -> Any:
        for _ in range(60):
            x = x * x + x
        return x < 1

    def run(x: Any) -> Any:
        return [curta.vmap(lambda x: lax.while_loop(goes_on, lambda x: x + 0.1, x))(x)]

    check_lanes(run, normal(130) / 100)


def test_loops_in_loops_over_many_examples() -> None:
    def inner(c: Any, x: Any) -> Any:
        return c * 0.9 + x, None

    def outer(c: Any, x: Any) -> Any:
        c, _ = lax.scan(inner, c, x)
        c = lax.fori_loop(0, 3, lambda i, c: c + jnp.sin(i * c), c)
        return lax.cond(x[0] > 0, lambda c: c + 1, lambda c: c * 2, c), c

    def run(c: Any, xs: Any) -> Any:
        return flat(curta.vmap(lambda c, xs: lax.scan(outer, c, xs))(c, xs))

    check_lanes(run, normal(150), normal(150, 4, 3), rtol=1e-4)


def test_matrices_of_many_examples() -> None:
    def step(c: Any, x: Any) -> Any:
        mean, cov = c
        gain = jnp.linalg.solve(cov + jnp.eye(2), cov).T
        mean = mean + gain @ (x - mean)
        cov = 0.9 * (cov - gain @ cov) + 0.1 * jnp.eye(2)
        return (mean, cov), mean[jnp.argmax(x)]

    def run(m: Any, p: Any, xs: Any) -> Any:
        return flat(curta.vmap(lambda m, p, xs: lax.scan(step, (m, p), xs))(m, p, xs))

    cov = normal(140, 2, 2) / 2
    cov = cov @ cov.swapaxes(1, 2) + np.eye(2, dtype=np.float32)
    check_lanes(run, normal(140, 2), cov, normal(140, 6, 2), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "complex64", "bool"])
def test_dtypes_of_many_examples(dtype: str) -> None:
    x = (3 * normal(150)).astype(jnp.dtype(dtype))

    def step(c: Any, x: Any) -> Any:
        small, total = c
        small = small ^ x if dtype == "bool" else small * x + x
        return (small, total + jnp.abs(x).astype("float32")), small == x

    rows = (3 * normal(4, 150)).astype(jnp.dtype(dtype))
    check_lanes(lambda *a: flat(lax.scan(step, a[:2], a[2])), x, normal(150), rows,
                rtol=1e-2)  # fmt: skip


def test_tables_that_all_examples_read() -> None:
    def run(table: Any, c: Any, places: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            return c + table[i], table[jnp.where(c > 0, 1, 5), i % 2].sum()

        one = lambda c, i: lax.scan(step, c, i)  # noqa: E731
        return flat(curta.vmap(one)(c, places))

    places = RNG.integers(-20, 140, (150, 5)).astype(np.int32)
    check_lanes(run, normal(100, 2), normal(150, 2), places)


def test_examples_that_depend_on_each_other_are_no_lanes() -> None:
    def mean(c: Any) -> Any:
        return lax.scan(lambda c, _: (c - c.mean(), None), c, None, length=3)[0]

    def shift(c: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.roll(c, 1), None), c, None, length=3)[0]

    def unmasked(c: Any) -> Any:
        return lax.while_loop(lambda c: jnp.any(c < 5), lambda c: c + 1, c)

    def other_mask(c: Any) -> Any:
        def turn(c: Any) -> Any:
            return jnp.where(c < 4, c + 1, c + 0.5)

        return lax.while_loop(lambda c: jnp.any(c < 5), turn, c)

    x = normal(200)
    for fun in (mean, shift, unmasked, other_mask):
        closed = staged(lambda c, fun=fun: [fun(c)], x)
        eqn = loop_of(closed)
        arrays = [Buffer("a", None, 0) for _ in eqn.invars]
        assert lane_code(eqn, arrays, arrays[:1], host()) is None
        assert_compiles(closed, x)
