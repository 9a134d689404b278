"""Hypothesis strategies of programs, and what worker processes do with them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st
from tests.stress.fuzz.checks import Outs, check, compiled, outcome, same_on_threads
from tests.stress.fuzz.instructions import NESTED, STRUCTURED, op_instructions
from tests.stress.fuzz.programs import DTYPES, SHAPES, Instruction, Program
from tests.stress.fuzz.rows import ROWS

_CHOICES = st.tuples(*[st.integers(0, 15)] * 4)


def _flat(rows: bool) -> st.SearchStrategy[Instruction]:
    structured = st.sampled_from(list(STRUCTURED))
    some = [structured, st.sampled_from(list(op_instructions()))]
    some += [st.sampled_from(list(ROWS))] * rows
    names = st.one_of(some)
    return st.builds(Instruction, names, _CHOICES)


def _nested(body: st.SearchStrategy[Instruction]) -> st.SearchStrategy[Instruction]:
    steps = st.lists(body, min_size=1, max_size=3).map(tuple)

    def of(name: str) -> st.SearchStrategy[Instruction]:
        bodies = st.tuples(*[steps] * NESTED[name][1])
        return st.builds(Instruction, st.just(name), _CHOICES, bodies)

    return st.sampled_from(list(NESTED)).flatmap(of)


def programs(large: bool, *more: str) -> st.SearchStrategy[Program]:
    """Programs of up to eight steps, with bodies in bodies, and `more` settings.

    Those of `uneven` sizes have more instructions along dims that are cut.
    """
    flat = _flat("uneven" in more)
    inner = st.one_of(flat, flat, _nested(flat))
    step = st.one_of(flat, flat, flat, _nested(inner))
    pair = st.tuples(
        st.integers(0, len(DTYPES) - 1), st.integers(0, len(SHAPES) + 2 * large)
    )
    transformations = st.sampled_from(["jit", "grad", "vmap", "jvp", "remat"])
    some = ["x32", "not optimised", "waited for", "eager"]
    chosen = st.lists(st.sampled_from(some), max_size=2, unique=True).map(
        lambda found: tuple(found) + ("large",) * large + more
    )
    return st.builds(
        Program,
        st.integers(0, 1 << 16),
        st.lists(pair, min_size=1, max_size=3).map(tuple),
        st.lists(step, min_size=1, max_size=8).map(tuple),
        st.lists(transformations, max_size=3).map(tuple),
        chosen,
        st.integers(0, 7),
    )


def checked(text: str) -> tuple[Outs | str, bool]:
    """`check`, for a worker process."""
    return check(Program.from_json(text))


def checked_threads(text: str, got: Outs | str) -> None:
    """The compiled results of this process are those of another, bit by bit."""
    same_on_threads(got, outcome(compiled, Program.from_json(text)))


def try_programs(
    number: int,
    count: int,
    check: Callable[[Program], object],
    drawn: st.SearchStrategy[Program],
) -> None:
    """Check `count` programs, drawn by a seed; shrink the first that fails."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(drawn)
    def run(program: Program) -> None:
        check(program)

    run()
