"""Steps over trees of many arrays, kept and donated."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Case, Thunk

_LEAVES = (1, 10, 100, 300, 1000, 3000)


_LARGE = 30_000  # elements


def _step(lib: Any, count: int, donate: bool, size: int = 0) -> Thunk:
    step = lib.jit(
        lambda tree: [x * 0.5 + 1 for x in tree],
        donate_argnums=(0,) if donate else (),
    )
    state = [[lib.numpy.full(size or 3 + i % 5, float(i)) for i in range(count)]]

    def call() -> Any:
        state[0] = step(state[0])
        return state[0]

    for _ in range(40):  # to the fixed point, so that both libraries give the same
        call()
    return call


def _case(count: int, donate: bool) -> Case:
    kind = "donated" if donate else "kept"
    name = f"step over {count} {kind} arrays"
    return Case(name, lambda lib: _step(lib, count, donate), 0.5)


def _large_case(count: int, donate: bool) -> Case:
    kind = "donated" if donate else "kept"
    name = f"step over {count} {kind} arrays of {_LARGE}"
    return Case(name, lambda lib: _step(lib, count, donate, _LARGE), 0.8)


DONATED_CASES = [
    *(_case(n, d) for n in _LEAVES for d in (False, True)),
    *(_large_case(n, d) for n in (10, 100) for d in (False, True)),
]
