"""Routines that a plugin knows by name, called on batches of matrices and vectors.

XLA's own are expanded by its compilers (`Qr`); others are handlers of its typed
interface, which somebody has registered (ffi_calls.py).
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from curta._base.lazy_dataclass import dataclass
from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, rule
from curta.core.avals import ShapedArray
from curta.core.op import Op


class CallRoutine(NamedTuple):
    """How an op is made of calls of `targets`, if it `fits`: `function(op, *arrays)`.

    The function gets arrays of dtypes that libraries have, and gives a list of them.
    """

    targets: frozenset[str]
    function: Callable[..., Sequence[Any]]
    fits: Callable[[Any], bool] = lambda op: True


@dataclass(frozen=True)
class HloOp(Op):
    """An operation of StableHLO, with results of given types."""

    name: ClassVar[str] = "operation"
    multiple_results: ClassVar[bool] = True
    operation: str
    results: tuple[ShapedArray, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    def aval(self, *avals: ShapedArray) -> Any:
        return list(self.results)


@rule(HloOp)
def _operation(b: BlockBuilder, op: HloOp, *xs: HloValue) -> Sequence[HloValue]:
    name = f"stablehlo.{op.operation}"
    return b.emit(name, xs, b.out_types, **dict(op.attributes))


def alias(operand: int, result: int, is_only: bool) -> str:
    """That a result lies in the memory of an operand; both by number."""
    indices = "[]" if is_only else f"[{result}]"
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {indices},"
        f" operand_index = {operand}, operand_tuple_indices = []>"
    )


def sharding_rule(
    batch: int, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> RawAttribute:
    """Shardy's rule of a routine: the dims of the batch may be split, others not.

    Every dim has a factor; that of the batch is one for all operands and results. A
    split of other factors is undone before the call, as no result has them.

    >>> matrix = ShapedArray((2, 5, 5), "float32")
    >>> print(sharding_rule(1, [matrix], [ShapedArray((2,), "int32")]))
    #sdy.op_sharding_rule<([i, j, k])->([i]) {i=2, j=5, k=5}, custom>
    """
    names = _factor_names()
    shared = [next(names) for _ in range(batch)]
    sizes: dict[str, int] = {}

    def dims(avals: Sequence[ShapedArray]) -> str:
        rows = []
        for aval in avals:
            leading = shared[: min(batch, aval.ndim)]
            factors = [*leading, *itertools.islice(names, aval.ndim - len(leading))]
            sizes.update(zip(factors, aval.shape, strict=True))
            rows.append(f"[{', '.join(factors)}]")
        return ", ".join(rows)

    mapping = f"({dims(ins)})->({dims(outs)})"
    known = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return RawAttribute(f"#sdy.op_sharding_rule<{mapping} {{{known}}}, custom>")


def _factor_names() -> Iterator[str]:
    """`i` to `z`, then `z_1`, `z_2`, ..., as Shardy writes its factors."""
    yield from string.ascii_lowercase[8:]
    for n in itertools.count(1):
        yield f"z_{n}"
