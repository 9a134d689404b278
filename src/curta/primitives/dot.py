"""`dot_general`: products contracted over some dims and batched over others."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched, Op
from curta.core.shapes import integer
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.base import ANY, check_dtype
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.precision import DotAlgorithm, DotAlgorithmPreset
from curta.primitives.structure import Transpose, add_tangents, zero_like_output
from curta.primitives.taylor import product

Dims = tuple[int, ...]
DotDims = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]
"""((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""


def dot_dims(name: str, numbers: Any) -> DotDims:
    """`numbers` as tuples of ints; a lone dim stands for a tuple of one.

    Raises TypeError or ValueError unless they are two pairs.
    """
    try:
        (lhs, rhs), (lhs_batch, rhs_batch) = numbers
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):  # a traced value
            raise
        raise type(error)(
            f"{error}: dimension_numbers of {name} are ((lhs contracting dims, rhs"
            " contracting dims), (lhs batch dims, rhs batch dims)), got"
            f" {numbers}"
        ) from None
    return (
        (_dims(name, lhs), _dims(name, rhs)),
        (_dims(name, lhs_batch), _dims(name, rhs_batch)),
    )


def _dims(name: str, dims: Any) -> Dims:
    dims = tuple(dims) if hasattr(dims, "__iter__") else (dims,)
    if all(type(d) is int for d in dims):
        return dims
    return tuple(integer(f"{name} dimension_numbers", d) for d in dims)


class Bilinear(Op):
    """An op on two operands that is linear in each."""

    arity: ClassVar[int | None] = 2

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        return product(self, k, *series)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        lhs, rhs = primals
        dlhs, drhs = tangents
        out = self(lhs, rhs)
        zero = zero_like_output(out)
        left = zero if type(dlhs) is Zero else self(dlhs, rhs)
        right = zero if type(drhs) is Zero else self(lhs, drhs)
        return out, add_tangents(left, right)


@dataclass(frozen=True)
class DotGeneral(Bilinear):
    """Sums of products over the contracting dims, for every index of the batch dims.

    The output has the batch dims, then the other dims of lhs, then those of rhs.
    """

    name: ClassVar[str] = "dot_general"
    makes_nan: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    dimension_numbers: DotDims
    precision: Any = None
    preferred_element_type: Any = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        lhs, rhs = avals
        for position, x in enumerate(avals):
            check_dtype(self.name, x.dtype, ANY, f" at position {position}")
        self._check(lhs.shape, rhs.shape)
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = self.dimension_numbers
        shape = (
            *(lhs.shape[d] for d in lhs_batch),
            *(lhs.shape[d] for d in others(lhs.ndim, lhs_batch, lhs_contract)),
            *(rhs.shape[d] for d in others(rhs.ndim, rhs_batch, rhs_contract)),
        )
        dtype = self._out_dtype(lhs.dtype, rhs.dtype)
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    def terms(self, *avals: ShapedArray) -> int:
        (contracted, _), _ = self.dimension_numbers
        return math.prod(avals[0].shape[d] for d in contracted)

    def _check(self, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = self.dimension_numbers
        for side, shape, batch, contract in (
            ("lhs", lhs, lhs_batch, lhs_contract),
            ("rhs", rhs, rhs_batch, rhs_contract),
        ):
            _check_side(side, shape, batch, contract)
        if len(lhs_batch) != len(rhs_batch):
            raise TypeError(
                "dot_general requires equal numbers of lhs_batch and rhs_batch"
                f" dimensions, got lhs_batch {lhs_batch} and rhs_batch {rhs_batch}."
            )
        sizes = _sizes(lhs, lhs_batch), _sizes(rhs, rhs_batch)
        if sizes[0] != sizes[1]:
            raise TypeError(
                "dot_general requires lhs batch dimensions and rhs batch dimensions to"
                f" have the same shape, got {sizes[0]} and {sizes[1]}."
            )
        sizes = _sizes(lhs, lhs_contract), _sizes(rhs, rhs_contract)
        if sizes[0] != sizes[1]:
            raise TypeError(
                "dot_general requires contracting dimensions to have the same shape,"
                f" got {sizes[0]} and {sizes[1]}. The operands have the shapes"
                f" {lhs} and {rhs}."
            )

    def _out_dtype(self, lhs: Any, rhs: Any) -> Any:
        result = lhs
        if lhs != rhs:
            result = max(lhs, rhs, key=_precedence)
            if _precedence(lhs) == _precedence(rhs):
                raise TypeError(
                    f"lax.dot_general argument type error: {lhs.name}, {rhs.name}"
                )
        wanted = self.preferred_element_type
        if wanted is None or wanted == result:
            return result
        chosen = isinstance(self.precision, (DotAlgorithm, DotAlgorithmPreset))
        exact = not dtypes.issubdtype(result, np.floating) and not chosen
        if exact and _bits(wanted) < _bits(result):
            raise TypeError(
                "`preferred_element_type` must not be narrower than the original type,"
                f" got preferred_element_type of {np.dtype(wanted).name} for result"
                f" type of {result.name}."
            )
        return wanted

    def eval(self, *args: Any) -> Any:
        lhs, rhs = args
        dtype = self._out_dtype(lhs.dtype, rhs.dtype)
        plan = _matmul_plan(self.dimension_numbers, lhs.shape, rhs.shape)
        is_vector = min(plan.lhs_shape[-2], plan.rhs_shape[-1]) == 1
        # Long sums; products of matrices are left to the tiles of BLAS.
        working = (dtypes.summing_dtype if is_vector else dtypes.working_dtype)(dtype)
        lhs = lhs.astype(working, copy=False).transpose(plan.lhs_order)
        rhs = rhs.astype(working, copy=False).transpose(plan.rhs_order)
        # A sum of one product is that product, even if it is -0.0.
        multiply = np.multiply if plan.lhs_shape[-1] == 1 else np.matmul
        product = multiply(lhs.reshape(plan.lhs_shape), rhs.reshape(plan.rhs_shape))
        return product.reshape(plan.shape).astype(dtype, copy=False)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        lhs, rhs = args
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = self.dimension_numbers
        if is_linear(lhs):
            dims = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
            return [self._cotangent(cotangent, lhs, rhs, dims, False), None]
        dims = ((rhs_contract, lhs_contract), (rhs_batch, lhs_batch))
        return [None, self._cotangent(cotangent, rhs, lhs, dims, True)]

    def _cotangent(
        self, ct: Any, x: Any, other: Any, dims: DotDims, swapped: bool
    ) -> Any:
        """The cotangent of `x`; `swapped` if x's free dims are last in `ct`."""
        (x_contract, y_contract), (x_batch, y_batch) = dims
        x_free = others(x.aval.ndim, x_batch, x_contract)
        y_free = others(typeof(other).ndim, y_batch, y_contract)
        first = len(x_batch) + (0 if swapped else len(x_free))
        ct_contract = tuple(range(first, first + len(y_free)))
        ct_batch = tuple(range(len(x_batch)))
        op = DotGeneral(
            ((ct_contract, y_free), (ct_batch, y_batch)),
            self.precision,
            self.preferred_element_type,
        )
        # The product has x's batch dims, its free dims, and its contracting dims in
        # the order in which they come in the other operand.
        by_dim = sorted(range(len(y_contract)), key=y_contract.__getitem__)
        order = (*x_batch, *x_free, *(x_contract[i] for i in by_dim))
        permutation = tuple(sorted(range(len(order)), key=order.__getitem__))
        out = op(ct, other)
        if permutation != tuple(range(len(order))):
            out = Transpose(permutation)(out)
        if typeof(out).dtype == x.aval.dtype:
            return out
        return convert_element_type(out, x.aval.dtype, x.aval.weak_type)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        ranks = [typeof(x).ndim for x in args]
        numbers, out_dim = batched_dims(self.dimension_numbers, ranks, dims)
        return dataclasses.replace(self, dimension_numbers=numbers)(*args), out_dim

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        contract, batch = self.dimension_numbers
        shown = {
            "dimension_numbers": (tuple(map(list, contract)), tuple(map(list, batch))),
            "precision": self.precision,
            "preferred_element_type": self.preferred_element_type,
        }
        return {k: v for k, v in shown.items() if v is not None}

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((((1,), (0,)), ((), ()))), [((2, 3), "number"), ((3, 4), "number")]
        yield cls((((0,), (0,)), ((), ()))), [((3,), "number"), ((3,), "number")]
        yield (
            cls((((2,), (1,)), ((0,), (0,)))),
            [((2, 3, 4), "number"), ((2, 4, 2), "number")],
        )
        yield (
            cls((((3, 1), (0, 2)), ((0,), (1,)))),
            [((2, 3, 2, 4), "number"), ((4, 2, 3), "number")],
        )
        yield cls((((), ()), ((), ()))), [((2,), "number"), ((), "number")]
        yield cls((((1,), (0,)), ((), ()))), [((2, 0), "number"), ((0, 3), "number")]


class _MatmulPlan(NamedTuple):
    """How `dot_general` is done with matmul: orders of dims, then shapes."""

    lhs_order: Dims
    lhs_shape: Dims
    rhs_order: Dims
    rhs_shape: Dims
    shape: Dims


@functools.lru_cache(maxsize=1024)
def _matmul_plan(numbers: DotDims, lhs: Dims, rhs: Dims) -> _MatmulPlan:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    lhs_free = others(len(lhs), lhs_batch, lhs_contract)
    rhs_free = others(len(rhs), rhs_batch, rhs_contract)
    batch, depth = _sizes(lhs, lhs_batch), math.prod(_sizes(lhs, lhs_contract))
    rows, columns = _sizes(lhs, lhs_free), _sizes(rhs, rhs_free)
    return _MatmulPlan(
        (*lhs_batch, *lhs_free, *lhs_contract),
        (*batch, math.prod(rows), depth),
        (*rhs_batch, *rhs_contract, *rhs_free),
        (*batch, depth, math.prod(columns)),
        (*batch, *rows, *columns),
    )


def others(rank: int, *taken: Sequence[int]) -> Dims:
    """The dims of an array of `rank` that are in none of `taken`."""
    gone = set(itertools.chain(*taken))
    return tuple(d for d in range(rank) if d not in gone)


def factor_indices(
    numbers: DotDims, ranks: Sequence[int], kept: Sequence[Any], summed: Sequence[Any]
) -> tuple[tuple[Any, ...], ...]:
    """Where the factors of a term lie in the operands, for an index of the result."""
    (left_sum, right_sum), (left_batch, right_batch) = numbers
    left_free = others(ranks[0], left_batch, left_sum)
    right_free = others(ranks[1], right_batch, right_sum)
    count, first = len(left_batch), len(left_batch) + len(left_free)
    places = (
        ((*left_batch, *left_free, *left_sum), (*kept[:first], *summed)),
        (
            (*right_batch, *right_free, *right_sum),
            (*kept[:count], *kept[first:], *summed),
        ),
    )
    return tuple(
        tuple(index[dims.index(d)] for d in range(len(dims))) for dims, index in places
    )


def _sizes(shape: tuple[int, ...], dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[d] for d in dims)


def _check_side(side: str, shape: tuple[int, ...], batch: Dims, contract: Dims) -> None:
    rank = len(shape)
    if not all(0 <= d < rank for d in (*contract, *batch)):
        raise TypeError(
            f"dot_general requires {side} dimension numbers to be nonnegative and less"
            f" than the number of axes of the {side} value, got {side}_batch of {batch}"
            f" and {side}_contracting of {contract} for {side} of rank {rank}"
        )
    for kind, dims in (("batch", batch), ("contracting", contract)):
        if len(set(dims)) != len(dims):
            raise TypeError(
                f"dot_general requires {side} {kind} dimensions to be distinct, got"
                f" {side}_{kind} {dims}."
            )
    if set(batch) & set(contract):
        raise TypeError(
            f"dot_general requires {side} batch dimensions to be disjoint from"
            f" contracting dimensions, got {side}_batch {batch} and"
            f" {side}_contracting {contract}."
        )


@functools.cache
def _precedence(dtype: Any) -> tuple[Any, ...]:
    """Of two dtypes the one with the greater precedence is the result's."""
    is_complex = dtypes.issubdtype(dtype, np.complexfloating)
    part = np.empty(0, dtype).real.dtype if is_complex else dtype
    is_float = dtypes.issubdtype(part, np.floating)
    return (
        is_complex,
        dtypes.finfo(part).maxexp if is_float else -1,
        dtypes.finfo(part).nmant if is_float else -1,
        _bits(part),
        not dtypes.issubdtype(part, np.unsignedinteger),
    )


def _bits(dtype: Any) -> int:
    dtype = np.dtype(dtype)
    return 1 if dtype == np.bool_ else dtypes.itemsize_bits(dtype)


def batched_dims(
    numbers: DotDims, ranks: Sequence[int], dims: Sequence[int | None]
) -> tuple[DotDims, int]:
    """The dimension numbers of batched operands, and the output's batch dim."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    lhs_dim, rhs_dim = dims
    lhs_contract, lhs_batch = (_shifted(d, lhs_dim) for d in (lhs_contract, lhs_batch))
    rhs_contract, rhs_batch = (_shifted(d, rhs_dim) for d in (rhs_contract, rhs_batch))
    if lhs_dim is not None and rhs_dim is not None:
        lhs_batch, rhs_batch = (lhs_dim, *lhs_batch), (rhs_dim, *rhs_batch)
        out_dim = 0
    elif lhs_dim is not None:
        free = others(ranks[0], lhs_batch, lhs_contract)
        out_dim = len(lhs_batch) + free.index(lhs_dim)
    else:
        assert rhs_dim is not None
        free = others(ranks[1], rhs_batch, rhs_contract)
        out_dim = ranks[0] - len(lhs_contract) + free.index(rhs_dim)
    return ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), out_dim


def _shifted(dims: Dims, inserted: int | None) -> Dims:
    """`dims` after a dim was inserted at position `inserted`."""
    if inserted is None:
        return dims
    return tuple(d + (d >= inserted) for d in dims)
