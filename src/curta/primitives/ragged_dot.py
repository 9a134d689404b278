"""`ragged_dot_general`: products in which rows have a matrix for each group of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.op import BatchDims, Batched
from curta.core.shapes import sequence
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.composed import Composed
from curta.primitives.cumulative import CumSum
from curta.primitives.dot import Dims, DotDims, DotGeneral, dot_dims, others
from curta.primitives.elementwise import and_, ge, lt, select_n, sub
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.shape import Iota
from curta.primitives.structure import (
    BroadcastInDim,
    Transpose,
    add_tangents,
    batch_dim_at,
    zero_like_output,
    zeros,
)


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """The dims of a ragged product.

    dot_dimension_numbers: as of `dot_general`.
    lhs_ragged_dimensions: the dim of lhs that is parted in groups.
    rhs_group_dimensions: the dim of rhs that runs over the groups, if any.

    >>> from curta import lax, numpy as jnp
    >>> dims = (((1,), (1,)), ((), ()))
    >>> numbers = lax.RaggedDotDimensionNumbers(dims, [0], [0])
    >>> rows, matrices, sizes = jnp.ones((3, 2)), jnp.ones((2, 2, 4)), jnp.array([1, 2])
    >>> lax.ragged_dot_general(rows, matrices, sizes, numbers).shape
    (3, 4)
    """

    dot_dimension_numbers: DotDims
    lhs_ragged_dimensions: Dims
    rhs_group_dimensions: Dims

    def __post_init__(self) -> None:
        numbers = dot_dims("ragged_dot_general", self.dot_dimension_numbers)
        object.__setattr__(self, "dot_dimension_numbers", numbers)
        for field in "lhs_ragged_dimensions", "rhs_group_dimensions":
            value = sequence(f"ragged_dot_general {field}", getattr(self, field))
            object.__setattr__(self, field, value)


@dataclass(frozen=True)
class RaggedDotGeneral(Composed):
    """A `dot_general` of groups, whose sizes along a dim of lhs are data.

    Where that dim is free, each group has its own part of rhs; where it is contracted,
    each group has its own result, along a new first dim; where it is a batch dim,
    groups make no difference. Rows past the last group are zero.
    """

    name: ClassVar[str] = "ragged_dot_general"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "ragged_dot_dimension_numbers": "numbers",
        "group_offset": None,
        "out_sharding": None,
    }
    numbers: RaggedDotDimensionNumbers
    precision: Any = None
    preferred_element_type: Any = None

    # ---- what the numbers say

    def _mode(self) -> str:
        """Which kind of dim of lhs is ragged: free, contracting or batch."""
        (contract, _), (batch, _) = self.numbers.dot_dimension_numbers
        (ragged,) = self.numbers.lhs_ragged_dimensions
        if ragged in contract:
            return "contracting"
        return "batch" if ragged in batch else "free"

    def _outer(self, rank: int, ragged: int) -> list[int]:
        """The dims of lhs for each index of which there may be group sizes."""
        contract, batch = (d[0] for d in self.numbers.dot_dimension_numbers)
        mode = self._mode()
        if mode == "batch":
            return list(batch[: batch.index(ragged)])
        among = contract if mode == "contracting" else others(rank, contract, batch)
        return [*batch, *among[: among.index(ragged)]]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        lhs, rhs, sizes = avals
        self._check(lhs, rhs, sizes)
        if not dtypes.issubdtype(sizes.dtype, np.integer):
            raise TypeError(
                "ragged_dot_general requires that group_sizes.dtype is subtype of"
                f" np.integer, got {sizes.dtype.name}."
            )
        _, numbers = self._dot_numbers()
        groups = sizes.shape[-1]
        mode = self._mode()
        if mode != "batch" and is_symbolic_dim(groups):
            raise TypeError(
                "ragged_dot_general requires the group count (last dimension of"
                f" group_sizes) to be static, got {groups}. Only where lhs is ragged"
                " along a batch dimension may it be symbolic."
            )
        wide = [
            a.update(shape=(groups, *a.shape)) if w else a
            for a, w in zip((lhs, rhs), _expanded(mode), strict=True)
        ]
        return self._dot(numbers).aval(*wide)

    def _check(self, lhs: ShapedArray, rhs: ShapedArray, sizes: ShapedArray) -> None:
        numbers = self.numbers
        if len(numbers.lhs_ragged_dimensions) != 1:
            raise TypeError(
                "ragged_dot_general expects exactly one lhs ragged dimension."
            )
        (ragged,) = numbers.lhs_ragged_dimensions
        _check_dim("lhs ragged dimension", ragged, "lhs", lhs.ndim)
        mode = self._mode()
        if not sizes.shape:
            raise TypeError("expected rank of group_sizes to be >=1.")
        if sizes.ndim > 1:
            outer = self._outer(lhs.ndim, ragged)
            wanted = (*(lhs.shape[d] for d in outer), sizes.shape[-1])
            if sizes.shape != wanted:
                raise TypeError(
                    f"expected group_sizes to have shape {wanted}, got {sizes.shape}."
                )
        of_rhs = numbers.rhs_group_dimensions
        if mode != "free" and of_rhs:
            raise TypeError(
                "ragged_dot_general requires zero group dimensions in the rhs when lhs"
                " ragged dimension is contracting or batch."
            )
        if mode == "free":
            self._check_groups(rhs, sizes.shape[-1])

    def _check_groups(self, rhs: ShapedArray, groups: int) -> None:
        of_rhs = self.numbers.rhs_group_dimensions
        if len(of_rhs) != 1:
            raise TypeError(
                "ragged_dot_general requires exactly one rhs group dimension when lhs"
                " ragged dimension is noncontracting."
            )
        _check_dim("rhs group dimension", of_rhs[0], "rhs", rhs.ndim)
        (_, contract), (_, batch) = self.numbers.dot_dimension_numbers
        if of_rhs[0] in (*contract, *batch):
            raise TypeError(
                "ragged_dot_general requires rhs group dimension numbers to be distinct"
                " from contracting and batch dimensions."
            )
        if rhs.shape[of_rhs[0]] != groups:
            raise TypeError(
                f"expected rhs group dimension size to be {groups}, got"
                f" {rhs.shape[of_rhs[0]]}."
            )

    # ---- as a product of arrays with a dim for groups

    def _dot(self, numbers: DotDims) -> DotGeneral:
        return DotGeneral(numbers, self.precision, self.preferred_element_type)

    def _dot_numbers(self) -> tuple[str, DotDims]:
        """The numbers of the product, for operands whose groups are dim 0."""
        mode = self._mode()
        contract, batch = self.numbers.dot_dimension_numbers
        if mode == "batch":
            return mode, (contract, batch)
        more = [tuple(d + 1 for d in dims) for dims in (contract[0], batch[0])]
        if mode == "free":
            (group,) = self.numbers.rhs_group_dimensions
            sums = (*more[0], 0), (*contract[1], group)
            return mode, (sums, (more[1], batch[1]))
        rest = [tuple(d + 1 for d in dims) for dims in (contract[1], batch[1])]
        return mode, ((more[0], rest[0]), ((0, *more[1]), (0, *rest[1])))

    def compose(self, *args: Any) -> Any:
        lhs, rhs, sizes = args
        mode, numbers = self._dot_numbers()
        if mode == "batch":
            return self._dot(numbers)(lhs, rhs)
        (ragged,) = self.numbers.lhs_ragged_dimensions
        outer = self._outer(typeof(lhs).ndim, ragged)
        lhs = _by_group(lhs, ragged, outer, sizes)
        if mode == "contracting":
            contract, batch = self.numbers.dot_dimension_numbers
            position = contract[0].index(ragged)
            outer = [*batch[1], *contract[1][:position]]
            rhs = _by_group(rhs, contract[1][position], outer, sizes)
        return self._dot(numbers)(lhs, rhs)

    # ---- derivatives

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        lhs, rhs, sizes = primals
        out = self(lhs, rhs, sizes)
        left, right = (zero_like_output(out),) * 2
        if type(tangents[0]) is not Zero:
            left = self(tangents[0], rhs, sizes)
        if type(tangents[1]) is not Zero:
            right = self(lhs, tangents[1], sizes)
        return out, add_tangents(left, right)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        lhs, rhs, sizes = args
        mode = self._mode()
        if mode != "free":
            kind = "CONTRACTING" if mode == "contracting" else "BATCH"
            side = "x" if is_linear(lhs) else "y"
            raise NotImplementedError(
                f"Unimplemented grad_{side}_dims for ragged dot general in mode"
                f" RAGGED_{kind}. Use dot_general of masked operands."
            )
        if is_linear(lhs):
            return [self._lhs_cotangent(cotangent, lhs.aval, rhs, sizes), None, None]
        return [None, self._rhs_cotangent(cotangent, lhs, rhs.aval, sizes), None]

    def _lhs_cotangent(self, ct: Any, lhs: ShapedArray, rhs: Any, sizes: Any) -> Any:
        (contract, r_contract), (batch, r_batch) = self.numbers.dot_dimension_numbers
        free = others(lhs.ndim, contract, batch)
        groups = self.numbers.rhs_group_dimensions
        r_free = others(typeof(rhs).ndim, r_contract, r_batch, groups)
        first = len(batch) + len(free)
        ct_free = tuple(range(first, first + len(r_free)))
        (ragged,) = self.numbers.lhs_ragged_dimensions
        numbers = RaggedDotDimensionNumbers(
            ((ct_free, r_free), (tuple(range(len(batch))), r_batch)),
            (len(batch) + free.index(ragged),),
            groups,
        )
        by_dim = sorted(range(len(r_contract)), key=r_contract.__getitem__)
        order = [*batch, *free, *(contract[i] for i in by_dim)]
        return self._turned(numbers, (ct, rhs, sizes), order, lhs)

    def _rhs_cotangent(self, ct: Any, lhs: Any, rhs: ShapedArray, sizes: Any) -> Any:
        (contract, r_contract), (batch, r_batch) = self.numbers.dot_dimension_numbers
        free = others(typeof(lhs).ndim, contract, batch)
        groups = self.numbers.rhs_group_dimensions
        r_free = others(rhs.ndim, r_contract, r_batch, groups)
        ct_free = tuple(range(len(batch), len(batch) + len(free)))
        numbers = RaggedDotDimensionNumbers(
            ((free, ct_free), (batch, tuple(range(len(batch))))),
            self.numbers.lhs_ragged_dimensions,
            (),
        )
        by_dim = sorted(range(len(contract)), key=contract.__getitem__)
        order = [*groups, *r_batch, *(r_contract[i] for i in by_dim), *r_free]
        return self._turned(numbers, (lhs, ct, sizes), order, rhs)

    def _turned(
        self,
        numbers: RaggedDotDimensionNumbers,
        args: Sequence[Any],
        order: Sequence[int],
        aval: ShapedArray,
    ) -> Any:
        """The product whose dim i belongs to dim `order[i]` of an operand."""
        out = dataclasses.replace(self, numbers=numbers)(*args)
        permutation = tuple(sorted(range(len(order)), key=order.__getitem__))
        if permutation != tuple(range(len(order))):
            out = Transpose(permutation)(out)
        if typeof(out).dtype != aval.dtype:
            out = convert_element_type(out, aval.dtype, aval.weak_type)
        return out

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        lhs, rhs, sizes = (
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        )
        rank, aval = typeof(lhs).ndim - 1, typeof(sizes)
        mode = self._mode()
        (contract, r_contract), (batch, r_batch) = self.numbers.dot_dimension_numbers
        (ragged,) = self.numbers.lhs_ragged_dimensions
        outer = [typeof(lhs).shape[d + 1] for d in self._outer(rank, ragged)]
        if aval.ndim == 2 and outer:  # one set of sizes for all: for each an own one
            shape = (aval.shape[0], *outer, aval.shape[1])
            sizes = BroadcastInDim(shape, (0, len(shape) - 1))(sizes)
        numbers = RaggedDotDimensionNumbers(
            (
                (_more(contract), _more(r_contract)),
                ((0, *_more(batch)), (0, *_more(r_batch))),
            ),
            (ragged + 1,),
            _more(self.numbers.rhs_group_dimensions),
        )
        op = dataclasses.replace(self, numbers=numbers)
        return op(lhs, rhs, sizes), int(mode == "contracting")

    @classmethod
    def samples(cls) -> Iterator[Any]:
        sizes = ((3,), "int32", {"values": [2, 0, 3], "constant": True})
        plain = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
        yield cls(plain), [((5, 2), "number"), ((3, 2, 4), "number"), sizes]
        permuted = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (1,), (2,))
        yield cls(permuted), [((2, 6), "number"), ((2, 4, 3), "number"), sizes]


def _expanded(mode: str) -> tuple[bool, bool]:
    """Which operands get a dim for groups."""
    return mode != "batch", mode == "contracting"


def _more(dims: Dims) -> Dims:
    return tuple(d + 1 for d in dims)


def _check_dim(what: str, dim: int, name: str, rank: int) -> None:
    if not 0 <= dim < rank:
        raise TypeError(
            f"ragged_dot_general requires {what} numbers to be nonnegative and less"
            f" than the number of axes of the {name} value, got {dim} for {name} of"
            f" rank {rank}."
        )


def _by_group(x: Any, ragged: int, outer: Sequence[int], sizes: Any) -> Any:
    """`x` once for each group, along a new first dim, zero outside of the group.

    The last dim of `sizes` runs over groups; the dims before, if any, are those that
    `outer` says of `x`.
    """
    aval, of = typeof(x), typeof(sizes)
    shape = (of.shape[-1], *aval.shape)
    ends = CumSum(of.ndim - 1)(sizes)
    shifted = tuple(d + 1 for d in outer) if of.ndim > 1 else ()

    def wide(y: Any) -> Any:
        order = sorted([*shifted, 0])
        permuted = [[*shifted, 0].index(p) for p in order]
        if permuted != list(range(len(permuted))):
            y = Transpose(tuple(permuted))(y)
        return BroadcastInDim(shape, tuple(order))(y)

    here = Iota(of.dtype, shape, ragged + 1)()
    inside = and_(ge(here, wide(sub(ends, sizes))), lt(here, wide(ends)))
    full = BroadcastInDim(shape, tuple(range(1, len(shape))))(x)
    return select_n(inside, zeros(aval.update(shape=shape)), full)
