"""Samples of ops as modules of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.checks import as_list
from tests.conformance.samples import Case

from curta.compiler.stablehlo import rules
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.lowering import ModuleState
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage

assert rules.FAMILIES  # the table of rules is full


def lower(closed: ClosedJaxpr, platforms: Sequence[str] = ("cpu",)) -> str:
    """The text of a jaxpr."""
    program = ModuleState("jit_f", platforms)
    program.define(closed, "main", public=True)
    return module_text(program.module)


def staged(found: Sequence[Case]) -> tuple[ClosedJaxpr, list[int]]:
    """All cases as one program, and how many outputs each has."""
    counts: list[int] = []

    def program(*flat: Any) -> list[Any]:
        rest = iter(flat)
        outs = [as_list(c.op, c.op(*[next(rest) for _ in c.avals])) for c in found]
        counts[:] = map(len, outs)
        return [x for several in outs for x in several]

    return stage(program, [a for c in found for a in c.avals]), counts
