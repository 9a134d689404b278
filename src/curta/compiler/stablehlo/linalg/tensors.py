"""Matrices in programs, written as NumPy writes them.

All are of rank 2, so that shapes broadcast without a word: a column is (m, 1), a row
(1, n), a number (1, 1). Batches come from the batching rules (`staged`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curta.compiler.linalg.parts import ElementwiseArithmetic, Index, where
from curta.control.while_loop import While
from curta.core.stage import stage
from curta.core.trace import current_trace, typeof
from curta.primitives.collective import Pmax
from curta.primitives.elementwise.arithmetic import add, div, mul, neg, sub
from curta.primitives.elementwise.bitwise import and_, not_, or_
from curta.primitives.elementwise.comparison import eq, ge, gt, le, lt, ne
from curta.primitives.elementwise.complex import conj, imag, real
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.magnitude import abs_, max_, min_
from curta.primitives.elementwise.powers import sqrt
from curta.primitives.elementwise.rounding import is_finite
from curta.primitives.elementwise.select import select
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.joining import Concatenate
from curta.primitives.linalg.matrices import matmul, swapped
from curta.primitives.reduction import ArgMax, ReduceAnd, ReduceMax
from curta.primitives.shape import Iota, Rev
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Reshape, reduce_sum

INT = np.dtype(np.int32)
EXAMPLES = "matrices"
"""The name of the axis along which matrices are a batch."""


class Iteration:
    """The number of an iteration of a loop of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __add__(self, other: int) -> Iteration:
        return Iteration(add(self.value, INT.type(other)))


class TensorRange(NamedTuple):
    """Rows or columns from one number to another; None is the first, or beyond all."""

    start: Index | None
    stop: Index | None


def scalar(index: Index) -> Any:
    """An index as a number of the program."""
    return INT.type(index) if isinstance(index, int) else index.value


def inside(numbers: MatrixTensor, selected: Any) -> MatrixTensor | None:
    """Which rows or columns are selected, an index or a range; None if all are."""
    if not isinstance(selected, TensorRange):
        return numbers.equals(scalar(selected))
    start, stop = selected
    above = None if start is None else numbers >= scalar(start)
    return both(above, None if stop is None else numbers < scalar(stop))


def both(x: MatrixTensor | None, y: MatrixTensor | None) -> MatrixTensor | None:
    """Where two conditions hold, of which None always does."""
    if x is None or y is None:
        return y if x is None else x
    return x & y


class MatrixTensor(ElementwiseArithmetic["MatrixTensor"]):
    """A matrix of the program; operands of size 1 along a dim are repeated.

    Of a part of a matrix (`linalg/parts.py`) all rows and columns are there, and those
    in a range of `rows` are meant.
    """

    def __init__(self, value: Any, rows: TensorRange | None = None) -> None:
        self.value, self.rows = value, rows

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(typeof(self.value).shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return typeof(self.value).dtype

    def apply(self, name: str, *others: Any) -> MatrixTensor:
        result = _FUNCTIONS[name](self, *others)
        parts = (x for x in (self, *others) if isinstance(x, MatrixTensor))
        return MatrixTensor(result.value, next((x.rows for x in parts if x.rows), None))

    def __le__(self, other: Any) -> MatrixTensor:
        return self.apply("le", other)

    def __ge__(self, other: Any) -> MatrixTensor:
        return self.apply("ge", other)

    def __or__(self, other: Any) -> MatrixTensor:
        return self.apply("or", other)

    def __rsub__(self, other: Any) -> MatrixTensor:
        return _pairwise(lambda x, y: sub(y, x))(self, other)

    def __rtruediv__(self, other: Any) -> MatrixTensor:
        return _pairwise(lambda x, y: div(y, x))(self, other)

    __radd__: ClassVar[Callable[[MatrixTensor, Any], MatrixTensor]] = (
        ElementwiseArithmetic.__add__
    )
    __rmul__: ClassVar[Callable[[MatrixTensor, Any], MatrixTensor]] = (
        ElementwiseArithmetic.__mul__
    )

    def __matmul__(self, other: MatrixTensor) -> MatrixTensor:
        return MatrixTensor(matmul(self.value, other.value))

    def astype(self, dtype: Any) -> MatrixTensor:
        return MatrixTensor(convert_element_type(self.value, np.dtype(dtype)))

    def minimum(self, other: Any) -> MatrixTensor:
        return self.apply("min", other)

    def is_finite(self) -> MatrixTensor:
        if self.is_complex:
            return self.real.is_finite() & self.imag.is_finite()
        return MatrixTensor(is_finite(self.value))

    @property
    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    @property
    def T(self) -> MatrixTensor:
        return MatrixTensor(swapped(self.value))

    @property
    def H(self) -> MatrixTensor:
        return self.T.conj()

    # ------------------------------------------------------------ parts

    def reshape(self, *shape: int) -> MatrixTensor:
        return MatrixTensor(Reshape(shape)(self.value))

    def sum(self, *axes: int) -> MatrixTensor:
        """The sums over the rows, or along these dims, which stay with size 1."""
        return self._reduced(lambda x, axes: reduce_sum(x, axes), axes or (0,), 0)

    def max(self, *axes: int) -> MatrixTensor:
        """The greatest element of all, or along these dims, where there is one."""
        return self._reduced(lambda x, axes: ReduceMax(axes)(x), axes or (0, 1), 0)

    def _reduced(
        self, reduce: Callable[..., Any], axes: tuple[int, ...], neutral: float | bool
    ) -> MatrixTensor:
        kept = [1 if i in axes else d for i, d in enumerate(self.shape)]
        return MatrixTensor(
            Reshape(tuple(kept))(reduce(self._masked(neutral).value, axes))
        )

    def _masked(self, neutral: float | bool) -> MatrixTensor:
        """The elements, and something else in rows that are not meant."""
        mask = self.rows and inside(row_numbers(self.shape[0]), self.rows)
        return self if mask is None else where(mask, MatrixTensor(self.value), neutral)

    def largest(self) -> MatrixTensor:
        """The greatest of numbers >= 0 in the rows; 0 of none."""
        return self.max(0)

    def all(self) -> MatrixTensor:
        """Whether all of conditions hold."""
        return self._reduced(lambda x, axes: ReduceAnd(axes)(x), (0, 1), True)

    def argmax(self, axis: int = 0) -> MatrixTensor:
        """The index of the greatest element, not negative, of a column or row."""
        index = ArgMax((axis,), INT)(self._masked(-1).value)
        return MatrixTensor(Reshape((1, 1))(index))

    def part(self, axis: int, start: int, limit: int) -> MatrixTensor:
        """The rows (axis 0) or columns from `start` to `limit`."""
        low, high = [0, 0], list(self.shape)
        low[axis], high[axis] = start, limit
        return MatrixTensor(Slice(tuple(low), tuple(high), (1, 1))(self.value))

    def reversed(self, *axes: int) -> MatrixTensor:
        return MatrixTensor(Rev(axes)(self.value))

    def block(self, i: Any, j: Any, m: int, n: int) -> MatrixTensor:
        """m rows and n columns, from row i and column j on."""
        return MatrixTensor(DynamicSlice((m, n))(self.value, i, j))

    def column(self, j: Any) -> MatrixTensor:
        return self.block(INT.type(0), j, self.shape[0], 1)

    def row(self, i: Any) -> MatrixTensor:
        return self.block(i, INT.type(0), 1, self.shape[1])

    def element(self, i: Any, j: Any) -> MatrixTensor:
        return self.block(i, j, 1, 1)

    def with_part(self, i: Any, j: Any, new: MatrixTensor) -> MatrixTensor:
        """With other elements from row i and column j on."""
        return MatrixTensor(DynamicUpdateSlice()(self.value, new.value, i, j))

    def with_column(self, j: Any, new: MatrixTensor) -> MatrixTensor:
        return self.with_part(INT.type(0), j, new)

    def with_row(self, i: Any, new: MatrixTensor) -> MatrixTensor:
        return self.with_part(i, INT.type(0), new)

    def with_rows_swapped(self, i: Any, j: Any) -> MatrixTensor:
        first, second = self.row(i), self.row(j)
        return self.with_row(i, second).with_row(j, first)

    def with_columns_swapped(self, i: Any, j: Any) -> MatrixTensor:
        first, second = self.column(i), self.column(j)
        return self.with_column(i, second).with_column(j, first)

    def diagonal(self) -> MatrixTensor:
        """The diagonal as a row."""
        return where(on_diagonal(*self.shape), self, 0).sum(0)


def _alike(x: MatrixTensor, y: Any) -> tuple[Any, Any]:
    """Two operands with one shape and dtype: numbers become what the tensor is."""
    other = y.value if isinstance(y, MatrixTensor) else y
    if not isinstance(y, MatrixTensor) and not typeof(y).shape:
        y = MatrixTensor(BroadcastInDim((1, 1), ())(_number(other, x.dtype)))
    if x.is_complex != y.is_complex and x.dtype.kind in "fc":
        dtype = x.dtype if x.is_complex else y.dtype
        x, y = x.astype(dtype), y.astype(dtype)
    shape = np.broadcast_shapes(x.shape, y.shape)
    return spread(x, shape).value, spread(y, shape).value


def _number(x: Any, dtype: np.dtype[Any]) -> Any:
    return dtype.type(x) if isinstance(x, (bool, int, float)) else x


def spread(x: MatrixTensor, shape: tuple[int, ...]) -> MatrixTensor:
    """`x` repeated along dims of size 1."""
    return (
        x if x.shape == shape else MatrixTensor(BroadcastInDim(shape, (0, 1))(x.value))
    )


def _selected(mask: MatrixTensor, x: Any, y: Any) -> MatrixTensor:
    if not isinstance(x, MatrixTensor):
        b, a = _alike(y, x)
    else:
        a, b = _alike(x, y)
    shape = np.broadcast_shapes(mask.shape, typeof(a).shape)
    chosen = [spread(MatrixTensor(v), shape).value for v in (mask.value, a, b)]
    return MatrixTensor(select(*chosen))


def _pairwise(op: Callable[..., Any]) -> Callable[[MatrixTensor, Any], MatrixTensor]:
    return lambda x, y: MatrixTensor(op(*_alike(x, y)))


def _one_by_one(op: Callable[..., Any]) -> Callable[[MatrixTensor], MatrixTensor]:
    return lambda x: MatrixTensor(op(x.value))


def _with_sign(x: MatrixTensor, y: MatrixTensor) -> MatrixTensor:
    return where(y < 0, -x, x)


_PAIRWISE: dict[str, Callable[..., Any]] = {
    **{"add": add, "sub": sub, "mul": mul, "div": div, "over": div},
    **{"max": max_, "min": min_, "and": and_, "or": or_},
    **{"lt": lt, "le": le, "gt": gt, "ge": ge, "eq": eq, "ne": ne},
}
_ONE_BY_ONE: dict[str, Callable[..., Any]] = {
    **{"neg": neg, "abs": abs_, "sqrt": sqrt, "not": not_},
    **{"conj": conj, "real": real, "imag": imag},
}
_FUNCTIONS: dict[str, Callable[..., MatrixTensor]] = {
    **{name: _pairwise(op) for name, op in _PAIRWISE.items()},
    **{name: _one_by_one(op) for name, op in _ONE_BY_ONE.items()},
    "copysign": _with_sign,
    "select": _selected,
}


def row_numbers(count: int) -> MatrixTensor:
    """0, 1, ... as a column."""
    return MatrixTensor(Iota(INT, (count, 1), 0)())


def column_numbers(count: int) -> MatrixTensor:
    """0, 1, ... as a row."""
    return MatrixTensor(Iota(INT, (1, count), 1)())


def on_diagonal(m: int, n: int) -> MatrixTensor:
    return row_numbers(m).equals(column_numbers(n))


def below_diagonal(m: int, n: int, k: int = 0) -> MatrixTensor:
    """Where the elements are on or below diagonal `k`."""
    return row_numbers(m) + k >= column_numbers(n)


def eye(m: int, n: int, dtype: Any) -> MatrixTensor:
    return on_diagonal(m, n).astype(dtype)


def filled(m: int, n: int, dtype: Any, value: Any = 0) -> MatrixTensor:
    return MatrixTensor(BroadcastInDim((m, n), ())(np.dtype(dtype).type(value)))


def joined(axis: int, *parts: MatrixTensor) -> MatrixTensor:
    """Matrices concatenated along a dim."""
    return MatrixTensor(Concatenate(axis)(*(p.value for p in parts if p.shape[axis])))


def length(x: MatrixTensor) -> MatrixTensor:
    """The Euclidean norm of all elements, without overflow."""
    scale = scale_of(x)
    return scale * (x / scale).squared().sum(0, 1).sqrt()


def scale_of(x: MatrixTensor) -> MatrixTensor:
    """What elements may be divided by to have squares in range: the greatest, or 1."""
    size = x.part_size().max()
    return where((size > 0) & size.is_finite(), size, 1)


def scaled(a: MatrixTensor, always: bool = False) -> tuple[MatrixTensor, MatrixTensor]:
    """`a` with elements whose squares are representable, and what it was divided by.

    That is 1 where they are already, unless it is to be the greatest one `always`.
    """
    greatest = a.abs().max()
    limits = np.finfo(greatest.dtype)
    low, high = float(limits.tiny) ** 0.25, float(limits.max) ** 0.25
    fits = greatest.equals(0)
    if not always:
        fits = fits | ((greatest > low) & (greatest < high))
    factor = where(fits, 1, greatest)
    return a / factor, factor


def greatest_of_batch(x: MatrixTensor) -> MatrixTensor:
    """The greatest of the numbers that the matrices of a batch have here."""
    if EXAMPLES not in current_trace().axis_sizes():
        return x
    return MatrixTensor(Pmax((EXAMPLES,))(x.value))


def repeat(
    count: int,
    body: Callable[..., Sequence[MatrixTensor]],
    carry: Sequence[MatrixTensor],
    consts: Sequence[MatrixTensor] = (),
) -> list[MatrixTensor]:
    """`carry = body(i, *carry, *consts)` for i below `count`."""
    if not count:
        return list(carry)

    def step(i: Any, *rest: MatrixTensor) -> Sequence[MatrixTensor]:
        return body(i.value, *rest)

    def goes_on(i: MatrixTensor, *rest: MatrixTensor) -> MatrixTensor:
        return MatrixTensor(lt(i.value, INT.type(count)))

    def counted(i: MatrixTensor, *rest: MatrixTensor) -> Sequence[MatrixTensor]:
        return [MatrixTensor(add(i.value, INT.type(1))), *step(i, *rest)]

    return repeat_while(goes_on, counted, [MatrixTensor(INT.type(0)), *carry], consts)[
        1:
    ]


def repeat_while(
    goes_on: Callable[..., MatrixTensor],
    body: Callable[..., Sequence[MatrixTensor]],
    carry: Sequence[MatrixTensor],
    consts: Sequence[MatrixTensor] = (),
) -> list[MatrixTensor]:
    """`carry = body(*carry, *consts)` while `goes_on(*carry)`."""
    given = [x.value for x in consts]
    values = [x.value for x in carry]
    avals, fixed = [typeof(x) for x in values], [typeof(x) for x in given]

    def test(*args: Any) -> list[Any]:
        return [Reshape(())(goes_on(*map(MatrixTensor, args)).value)]

    def run(*args: Any) -> list[Any]:
        parts = list(map(MatrixTensor, args))
        following = body(*parts[len(fixed) :], *parts[: len(fixed)])
        return [x.value for x in following]

    op = While(stage(test, avals), stage(run, [*fixed, *avals]), 0, len(fixed))
    return [MatrixTensor(x) for x in op(*given, *values)]
