"""What is asked of the rules that say how the outputs of an op are split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta._base.once import cached_property
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.partition_spec import entry_axes
from curta.errors import ShardingTypeError
from curta.primitives.factors import factors
from curta.primitives.relation import Factors

Entries = tuple[Any, ...]
Sizes = Callable[[Sequence[Any]], int]


class Query:
    """The operands of an op, how they are split, and the avals of its outputs."""

    def __init__(
        self,
        op: Op,
        avals: Sequence[ShapedArray],
        entries: Sequence[Entries],
        outs: Sequence[ShapedArray],
        size_of: Sizes,
        strict: bool,
    ):
        self.op: Any = op
        self.avals = avals
        self.entries = entries
        self.outs = outs
        self.size_of = size_of
        self.strict = strict

    @cached_property
    def relation(self) -> Factors:
        """Which dims of operands and outputs go together."""
        return factors(self.op, self.avals, self.outs)

    def refuse(self, problem: str, *, names_inputs: bool = False) -> None:
        """Raise ShardingTypeError, unless a guess will do."""
        if self.strict:
            inputs = "" if names_inputs else f" Got inputs: {self.inputs}."
            raise ShardingTypeError(problem + inputs)

    @property
    def inputs(self) -> str:
        """The types of the operands as an error shows them."""
        return ", ".join(map(self.shown, self.avals, self.entries))

    def shown(self, aval: ShapedArray, entries: Entries) -> str:
        """The type of an operand as an error shows it."""
        dims = ",".join(
            str(n) if e is None else f"{n}@{_axes_text(e)}"
            for n, e in zip(aval.shape, entries, strict=True)
        )
        return aval.update(shape=()).unplaced().str_short(True)[:-1] + dims + "]"


def _axes_text(entry: Any) -> str:
    axes = entry_axes(entry)
    return str(axes[0]) if len(axes) == 1 else f"({','.join(map(str, axes))})"
