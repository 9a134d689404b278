"""Ops that are made of other ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.core.stage import stage
from curta.core.trace import typeof


class Composed(Op):
    """An op that `compose` says in terms of others; programs are compiled to those.

    It is differentiated as what it is made of, unless a subclass knows better.
    """

    makes_nan: ClassVar[bool] = True

    def compose(self, *args: Any) -> Any:
        """The output(s), by other ops."""
        self._missing("eval")

    def expansion(self, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
        """The jaxpr that the op stands for, on operands of these avals."""
        return _expansion(self, tuple(avals))

    def eval(self, *args: Any) -> Any:
        closed = self.expansion([typeof(x) for x in args])
        outs = evaluate(closed.jaxpr, closed.consts, args)
        return outs if self.multiple_results else outs[0]


@kept_by_settings(maxsize=1024)
def _expansion(op: Composed, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    def run(*args: Any) -> Sequence[Any]:
        out = op.compose(*args)
        return out if op.multiple_results else [out]

    return stage(run, avals)
