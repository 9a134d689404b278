"""The analysis of memory: small programs in, the printed plan out."""

import itertools

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Buffer, Kernel, LoopNest, Store
from curta.compiler.memory.iterations import IterationOrder
from curta.compiler.pipeline import lower
from curta.compiler.pretty import pretty_memory
from curta.compiler.targets import describe

# A given target: what the machine at hand has does not matter.
LEVEL = describe("x86_64", "x86-64-v3", ["sse4_2", "avx2", "fma", "f16c"], "linux")
X = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)


def printed(fun, *args, in_place=None):
    program = lower(curta.make_jaxpr(fun)(*args), LEVEL, in_place=in_place)
    return "\n--\n".join(map(pretty_memory, program.inner_first()))


def put(x):
    return x.at[3].set(0.0)


@pytest.mark.parametrize(
    "fun, in_place, expected",
    [
        # An update takes the memory of a temporary, which is that of the result.
        (lambda x: put(x @ x), {}, "v2 takes the memory of v1"),
        # An argument stays as it is, unless it is given away.
        (put, {}, "v1 begins as a copy of in0: the caller keeps its argument"),
        (put, {0: 0}, "v1 takes the memory of in0"),
    ],
)
def test_updates(fun, in_place, expected):
    assert expected in printed(fun, X, in_place=in_place)


def test_a_chain_of_values_takes_one_array():
    assert printed(lambda x: curta.nn.softmax(jnp.tanh(x @ x)) @ x, X) == CHAIN


CHAIN = """\
v6 takes the memory of v1
v1: works 0 to 1, 16384 bytes at 0
v6: works 1 to 2, 16384 bytes at 0"""


def test_an_update_copies_what_is_read_later():
    def fun(x):
        y = x @ x
        return put(y) @ x, y @ x

    assert printed(fun, X) == COPIED


COPIED = """\
v2 begins as a copy of v1: v1 is read later
v1: works 0 to 4, 16384 bytes at 0
v2: works 1 to 3, 16384 bytes at 16384"""


def test_a_branch_that_updates_is_lowered_once():
    def fun(p, x):
        return lax.cond(p, put, lambda x: x, x @ x) @ x

    assert printed(fun, True, X) == BRANCHES


BRANCHES = """\
out0 takes the memory of out0.begun
result out0 takes the memory of in0
--
v1 takes the memory of v1.begun
result v1 takes the memory of in0
--
v4 takes the memory of v2
v2: works 0 to 3, 16384 bytes at 0
v3: works 1 to 2, 4 bytes at 16384"""


def test_a_carry_is_updated_in_the_place_of_an_argument():
    def fun(x):
        return lax.fori_loop(0, 9, lambda i, c: c.at[i].set(jnp.tanh(c[i] @ X)), x)

    assert printed(fun, X, in_place={0: 0}) == CARRIED


CARRIED = """\
v7 takes the memory of in2
v6 takes the memory of v5
result v3 does not take the memory of in1
result v7 takes the memory of in2
v5: works 0 to 1, 256 bytes at 0
v6: works 1 to 2, 256 bytes at 0
--
v3 takes the memory of in0
result v3 takes the memory of in0
literal4: works 0 to 1, 4 bytes at 0
v2: works 1 to 1, 4 bytes at 64
next0: works 1 to 1, 4 bytes at 128"""


def test_an_argument_is_no_workspace_for_other_results():
    text = printed(lambda x, y: (y @ y, put(x).sum()), X, X, in_place={0: 0})
    assert "begins as a copy of in0: the caller keeps its argument" in text
    assert "does not take the memory of in0" in text


def test_results_that_are_read_elsewhere_do_not_take_arguments():
    text = printed(lambda x, y: (jnp.flip(y), x + 1), X, X, in_place={0: 0, 1: 1})
    assert text.count("does not take the memory of") == 2


@pytest.mark.parametrize("way", [lambda p: p, lambda p: not p])
def test_a_branch_called_with_two_addresses_copies(way):
    """The operand is needed afterwards, so that branches store elsewhere."""

    def fun(p, x):
        y = x @ x
        return lax.cond(p, put, lambda x: x, y) - 2 * y

    p = way(True)
    y = X @ X
    expected = (np.where(np.arange(64)[:, None] == 3, 0, y) if p else y) - 2 * y
    np.testing.assert_allclose(curta.jit(fun)(p, X), expected, rtol=1e-4, atol=1e-4)
    assert "begins as a copy of v2: v2 is read later" in printed(fun, p, X)


# ------------------------------------------------------- the order within a kernel


def kernel(loaded, stored, outer, inner, first_nest=False):
    """A kernel that loads from `old` and stores to `new`, and what it runs."""
    b = ScalarBuilder()
    old, new = (Buffer(name, np.dtype(np.float32), 64) for name in ("old", "new"))
    i, j = LoopVar("i", outer), LoopVar("j", inner)

    def index(a):
        return as_index(i) * a[0] + as_index(j) * a[1] + a[2]

    value = b.load(old, index(loaded), old.dtype)
    dims = (j,) if inner > 1 else ()
    if not first_nest:
        nests = (LoopNest(dims, (Store(new, index(stored), value),), ()),)
    else:
        spare = Buffer("spare", np.dtype(np.float32), 64)
        kept = Store(spare, index((inner, 1, 0)), value)
        zero = b.const(0.0, np.dtype(np.float32))
        nests = (
            LoopNest(dims, (kept,), ()),
            LoopNest(dims, (Store(new, index(stored), zero),), ()),
        )
    return Kernel((i,) if outer > 1 else (), nests), old, new


def is_right(loaded, stored, outer, inner, first_nest):
    """Whether every order of the outer iterations reads what was there before."""

    def at(a, i, j):
        return a[0] * i + a[1] * j + a[2]

    def steps(i):
        reads = [("read", at(loaded, i, j)) for j in range(inner)]
        writes = [("write", at(stored, i, j)) for j in range(inner)]
        if first_nest:
            return [*reads, *writes]
        return [s for pair in zip(reads, writes, strict=True) for s in pair]

    for order in itertools.permutations(range(outer)):
        written = set()
        for kind, element in (s for i in order for s in steps(i)):
            if kind == "write":
                written.add(element)
            elif element in written:
                return False
    return True


@pytest.mark.parametrize("first_nest", [False, True])
def test_loads_come_before_stores_as_they_do_when_run(first_nest):
    """All small affine loads and stores: a yes is right."""
    accepted = 0
    places = [(a, b, c) for a in (0, 1, 2, 3) for b in (0, 1, 2) for c in (0, 1)]
    for outer, inner in ((1, 3), (3, 1), (3, 2)):
        for loaded, stored in itertools.product(places, places):
            made, old, new = kernel(loaded, stored, outer, inner, first_nest)
            if IterationOrder(made).loads_first([old], [new]):
                accepted += 1
                given = loaded, stored, outer, inner, first_nest
                assert is_right(*given), given
    assert accepted > 50
    same, old, new = kernel((2, 1, 0), (2, 1, 0), 3, 2)
    assert IterationOrder(same).loads_first([old], [new])
