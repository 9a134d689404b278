"""What the ops on batches of matrices share: checks, batching, failures, precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched, Op
from curta.dtypes import working_dtype
from curta.primitives.base import check_dtype, check_same_dtypes
from curta.primitives.structure import batch_dim_at

Shape = tuple[int, ...]


class MatrixOp(Op):
    """An op on the last dims of its operands; the dims before them are a batch.

    Subclasses say what happens to the shapes and dtypes of one element of the batch.
    """

    makes_nan: ClassVar[bool] = True
    compiled_above: ClassVar[None] = None  # NumPy has other signs and last bits
    ranks: ClassVar[tuple[int, ...]] = (2,)
    accepts: ClassVar[tuple[Any, ...]] = (np.floating, np.complexfloating)

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        """The shapes of the outputs for one element of the batch."""
        return [shapes[0]]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        """The dtypes of the outputs."""
        return [dtype]

    def aval(self, *avals: ShapedArray) -> Any:
        self._check_shapes([a.shape for a in avals])
        batch = avals[0].shape[: avals[0].ndim - self.ranks[0]]
        ends = [a.shape[a.ndim - r :] for a, r in zip(avals, self.ranks, strict=True)]
        shapes = self.out_shapes(*ends)
        self._check_batches([a.shape[: a.ndim - r] for a, r in zip(avals, self.ranks)])
        self._check_dtypes(avals)
        kinds = self.out_dtypes(avals[0].dtype)
        weak = all(a.weak_type for a in avals)
        outs = [
            ShapedArray((*batch, *shape), kind, weak)
            for shape, kind in zip(shapes, kinds, strict=True)
        ]
        return outs if self.multiple_results else outs[0]

    def _check_shapes(self, shapes: Sequence[Shape]) -> None:
        for i, (shape, rank) in enumerate(zip(shapes, self.ranks, strict=True)):
            if len(shape) < rank:
                raise TypeError(
                    f"Input {i} to {self.name} must have rank at least {rank}, but got"
                    f" shape={shape}"
                )
        batches = [s[: len(s) - r] for s, r in zip(shapes, self.ranks, strict=True)]
        if len({len(batch) for batch in batches}) > 1:
            raise TypeError(
                f"All inputs to {self.name} must have the same number of batch"
                f" dimensions, but got {[len(b) for b in batches]} batch dimensions for"
                " the inputs."
            )

    def _check_batches(self, batches: Sequence[Shape]) -> None:
        if any(batch != batches[0] for batch in batches):
            raise TypeError(
                f"All inputs to {self.name} must have the same batch dimensions, but"
                f" got {batches}. Broadcast the inputs first."
            )

    def _check_dtypes(self, avals: Sequence[ShapedArray]) -> None:
        for i, x in enumerate(avals):
            check_dtype(self.name, x.dtype, self.accepts, f" at position {i}")
        check_same_dtypes(self.name, [x.dtype for x in avals])

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        front = [
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        ]
        out = self(*front)
        return out, [0] * len(out) if self.multiple_results else 0


def require_square(name: str, shape: Shape) -> None:
    """Raise ValueError unless the matrix is square."""
    if shape[0] != shape[1]:
        raise ValueError(
            f"The input to {name} must be a square matrix. Got shape {shape}."
        )


def checked_subset(name: str, subset: Any, size: int) -> tuple[int, int]:
    """`subset_by_index` as (start, end), a range within `size`; ValueError if not."""
    match subset:
        case (int(start), int(end)) if 0 <= start <= end <= size:
            return start, end
    raise ValueError(
        f"{name} expects subset_by_index to be (start, end), two integers with"
        f" 0 <= start <= end <= {size}. Got {subset}."
    )


def in_single(x: Any) -> Any:
    """`x` in a precision that LAPACK knows: halves become singles."""
    return x.astype(working_dtype(x.dtype), copy=False)


def not_a_number(dtype: Any) -> Any:
    """The scalar for what could not be computed: NaN, of complex numbers both parts."""
    value = complex(np.nan, np.nan) if np.dtype(dtype).kind == "c" else np.nan
    return np.array(value, dtype)[()]


Evaluation = Callable[[Op, Sequence[Any]], list[Any]]
_evaluations: list[Evaluation] = []


def provide_lapack(evaluation: Evaluation) -> None:
    """Let LAPACK be called by the compiler's floor, which loads the library."""
    _evaluations[:] = [evaluation]


def by_lapack(op: Op, args: Sequence[Any]) -> list[Any]:
    """The results of an op that NumPy does not have."""
    return _evaluations[0](op, args)


def nan_where_it_fails(
    function: Callable[[Any], Sequence[Any]], x: Any
) -> Sequence[Any]:
    """The outputs of `function` on a batch; NaN for the matrices on which it fails."""
    try:
        return function(x)
    except np.linalg.LinAlgError:
        pass
    if x.ndim == 2:
        # A matrix that does not fail has the same shapes and dtypes.
        like = function(np.eye(*x.shape, dtype=x.dtype))
        return [np.full_like(out, not_a_number(out.dtype)) for out in like]
    each = [nan_where_it_fails(function, matrix) for matrix in x]
    return [np.stack(outs) for outs in zip(*each, strict=True)]
