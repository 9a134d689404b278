"""The functions that are `ufunc` objects, with `reduce`, `accumulate`, `at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.numpy import arithmetic, bitwise, extrema, log_sums, logic
from curta.numpy.arguments import ensure_arraylike, is_complex, static_axes
from curta.numpy.cumulative import cumprod, cumsum
from curta.numpy.folds import ReductionSpec, fold_axes, reduction_axes
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.promotion import cast, promote_dtypes_inexact
from curta.numpy.reductions import MAX, MIN, max, prod, sum
from curta.numpy.ufunc import ufunc


def _folding(
    fold: ReductionSpec, prepare: Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    """`ufunc.reduce` by one of the reduction ops."""

    def reduce(a: Any, axis: Any = None, **settings: Any) -> Any:
        a = ensure_arraylike(fold.name, a)
        a = a if prepare is None else prepare(a)
        return fold_axes(fold, a, axis=static_axes(axis), **settings)

    return reduce


def _integers(x: Any) -> Any:
    if x.dtype != np.bool_ and not dtypes.issubdtype(x.dtype, np.integer):
        raise ValueError(f"integer argument required; got dtype={x.dtype}")
    return x


def _truths(x: Any) -> Any:
    return cast(lax.real(x) if is_complex(x) else x, np.dtype(np.bool_))


def _log_sum_of_exps(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The logarithm of the sum of exponentials, shifted by the largest element."""
    (a,) = promote_dtypes_inexact(ensure_arraylike("logsumexp", a))
    re = lax.real(a) if is_complex(a) else a
    settings = {"axis": axis, "keepdims": True, "where": where}
    largest = max(re, initial=-np.inf, **settings)
    zero = lax.full_like(largest, 0)
    largest = lax.stop_gradient(lax.select(lax.is_finite(largest), largest, zero))
    shift = cast(largest, a.dtype)
    total = sum(lax.exp(lax.sub(a, shift)), **settings)
    out = lax.add(lax.log(total), cast(shift, total.dtype))
    if not keepdims:
        out = lax.squeeze(out, reduction_axes(axis, a.ndim))
    return out if initial is None else log_sums.logaddexp(initial, out)


def _log2_sum_of_exps(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    base = float(np.log(2))
    initial = None if initial is None else initial * base
    a = arithmetic.multiply(a, base)
    out = _log_sum_of_exps(a, axis, dtype, keepdims, initial, where)
    return arithmetic.true_divide(out, base)


def _add_at(a: Any, index: Any, b: Any) -> Any:
    return _in_integers(a, lambda a: IndexedUpdate(a, index).add(cast(b, a.dtype)))


def _multiply_at(a: Any, index: Any, b: Any) -> Any:
    return _in_integers(a, lambda a: IndexedUpdate(a, index).multiply(cast(b, a.dtype)))


def _in_integers(a: Any, update: Callable[[Any], Any]) -> Any:
    """Booleans add and multiply as integers do, and are booleans again."""
    if a.dtype != np.bool_:
        return update(a)
    return cast(update(cast(a, np.dtype(np.int32))), np.dtype(np.bool_))


def _subtract_at(a: Any, index: Any, b: Any) -> Any:
    return IndexedUpdate(a, index).subtract(b)


def _binary(function: Callable[..., Any], identity: Any, **own: Any) -> ufunc:
    return ufunc(function, 2, 1, identity=identity, call=function, **own)


_AND = ReductionSpec("reduce_and", lax.reduce_and, lax.bitwise_and, -1)
_OR = ReductionSpec("reduce_or", lax.reduce_or, lax.bitwise_or, 0)
_XOR = ReductionSpec("reduce_xor", lax.reduce_xor, lax.bitwise_xor, 0)
_ALL = _AND._replace(start=1)

negative: ufunc = ufunc(arithmetic.negative, 1, 1, call=arithmetic.negative)
add: ufunc = _binary(arithmetic.add, 0, reduce=sum, accumulate=cumsum, at=_add_at)
subtract: ufunc = _binary(arithmetic.subtract, None, at=_subtract_at)
multiply: ufunc = _binary(
    arithmetic.multiply, 1, reduce=prod, accumulate=cumprod, at=_multiply_at
)
maximum: ufunc = _binary(extrema.maximum, None, reduce=_folding(MAX))
minimum: ufunc = _binary(extrema.minimum, None, reduce=_folding(MIN))
bitwise_and: ufunc = _binary(bitwise.bitwise_and, -1, reduce=_folding(_AND, _integers))
bitwise_or: ufunc = _binary(bitwise.bitwise_or, 0, reduce=_folding(_OR, _integers))
bitwise_xor: ufunc = _binary(bitwise.bitwise_xor, 0, reduce=_folding(_XOR, _integers))
logical_and: ufunc = _binary(logic.logical_and, True, reduce=_folding(_ALL, _truths))
logical_or: ufunc = _binary(logic.logical_or, False, reduce=_folding(_OR, _truths))
logical_xor: ufunc = _binary(logic.logical_xor, False, reduce=_folding(_XOR, _truths))
logaddexp: ufunc = _binary(log_sums.logaddexp, -np.inf, reduce=_log_sum_of_exps)
logaddexp2: ufunc = _binary(log_sums.logaddexp2, -np.inf, reduce=_log2_sum_of_exps)
