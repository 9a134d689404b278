"""Transposes in registers: a square tile is loaded by rows and used by columns.

Where a map reads along one dim and writes along another, going by either dim touches a
new cache line with every element. A tile of whole cache lines on both sides is read
line by line, transposed by shuffles, and written line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.transposes import transposed
from curta.compiler.llvm.types import Value
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Load, LoopNest


def transposable(nest: LoopNest, row: LoopVar, lane: LoopVar) -> list[Load]:
    """The loads with contiguous elements along `row`, which need a tile."""
    return [
        e
        for e in nest.body
        if isinstance(e, Load)
        and e.where is None
        and e.offset.coefficient(row) == 1
        and e.offset.coefficient(lane) != 0
        and not _hide(e.offset, (row, lane))
    ]


def _hide(offset: Affine, variables: tuple[LoopVar, LoopVar]) -> bool:
    """Whether one of the variables is inside another atom: a quotient, say."""
    others = {a: k for a, k in offset.terms.items() if a not in variables}
    return any(a in variables for a in Affine(others, 0).atoms())


def transposed_rows(
    values: Evaluator,
    loads: list[Load],
    row: tuple[LoopVar, Value],
    lane: LoopVar,
) -> Iterator[AbstractContextManager[None]]:
    """A scope for each row of the tile, in which the loads have their values."""
    variable, first = row
    tiles: dict[Load, list[Value]] = {}
    with values.scope():
        values.bind(variable, first)
        for load in loads:
            lines = values.load_lines(load, load.offset.coefficient(lane))
            tiles[load] = transposed(values.b, lines)
    for i in range(values.lanes):
        yield _row(
            values, {e: tile[i] for e, tile in tiles.items()}, variable, first, i
        )


@contextmanager
def _row(
    values: Evaluator, known: dict[Load, Value], row: LoopVar, first: Value, i: int
) -> Iterator[None]:
    with values.scope():
        values.bind(row, values.b.add(first, i) if i else first)
        for load, value in known.items():
            values.define(load, values.as_value(load, value))
        yield
