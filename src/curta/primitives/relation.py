"""How the dims of an op's operands and results go together: the op's factors.

A factor is a range that dims run over, as a letter in an einsum. A dim that runs over
several, the outer first, is the product of a reshape. What may be done to a factor
decides how an op is computed in parts:

- *mapped* (all others): a part of the results is made of the same part of the operands;
- *reduced*: results are a fold over it; those of parts are folded again;
- *whole*: every element is needed at hand; those of windows if the dim is *windowed*.

Rows of a dim that is whole may still lie *along* those of an operand: what a running
fold gives is best cut where its operand is, though each row is made of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray

Dim = tuple[int, ...]
"""The factors of a dim, the outer first."""
Dims = tuple[Dim, ...]
Avals = Sequence[ShapedArray]
OperandDim = tuple[int, int]
"""An operand (or a result), and a dim of it."""


@dataclass(frozen=True)
class Windowed:
    """A dim of a result made of windows that slide over a dim of operands.

    Row i of the dim `result` of the result `number` is made of `extent` rows from
    i * stride - low on, of a dim of the operands with `dilation - 1` holes between
    rows. Of a kernel, row j meets the row j * kernel_dilation of a window. Where the
    windows are `spread`, the first operand has a row for each of them, and they are
    those of the result.
    """

    operands: tuple[OperandDim, ...]
    result: int
    stride: int
    low: int
    extent: int = 1
    dilation: int = 1
    kernel: OperandDim | None = None
    kernel_dilation: int = 1
    spread: bool = False
    number: int = 0


@dataclass(frozen=True)
class Along:
    """A dim of a result whose rows lie as those of dims of operands do.

    What one is made of, the op does not say: the start of a slice is a number that the
    program computes, a running fold needs all rows before.
    """

    operands: tuple[OperandDim, ...]
    result: int
    number: int = 0


@dataclass(frozen=True)
class Factors:
    """The factors of an op at some avals: their `sizes`, and those of each dim.

    `reduced` has the kind of the fold. The operands `once` take part in a fold over
    parts only once: they are added to it.
    """

    sizes: tuple[int, ...]
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    reduced: tuple[tuple[int, str], ...] = ()
    whole: frozenset[int] = frozenset()
    once: frozenset[int] = frozenset()
    windowed: tuple[Windowed, ...] = ()
    along: tuple[Along, ...] = ()


class NamedFactors:
    """Factors as a rule names them: a name for each, anything that has a hash.

    A dim of None is whole, and goes with no other.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.numbers: dict[Any, int] = {}
        self.whole: set[int] = set()

    def dim(self, name: Any, size: int) -> Dim:
        """The factors of a dim of one factor."""
        if name is None:
            self.whole.add(len(self.sizes))
        known = None if name is None else self.numbers.get(name)
        if known is not None:
            return (known,)
        if name is not None:
            self.numbers[name] = len(self.sizes)
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def dims(self, names: Iterable[Any], shape: Sequence[int]) -> Dims:
        """The factors of the dims of an array."""
        pairs = zip(names, shape, strict=True)
        return tuple(self.dim(name, size) for name, size in pairs)


def named(
    avals: Avals,
    outs: Avals,
    operands: Iterable[Iterable[Any]],
    results: Iterable[Iterable[Any]],
    reduced: Mapping[Any, str] | None = None,
    once: Iterable[int] = (),
) -> Factors:
    """The factors by the names of the dims of all operands and results."""
    table = NamedFactors()
    ins = tuple(map(table.dims, operands, [a.shape for a in avals]))
    result = tuple(map(table.dims, results, [a.shape for a in outs]))
    kinds = tuple((table.numbers[n], kind) for n, kind in (reduced or {}).items())
    whole = frozenset(table.whole)
    return Factors(tuple(table.sizes), ins, result, kinds, whole, frozenset(once))
