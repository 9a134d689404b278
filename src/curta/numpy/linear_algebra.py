"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.trace import typeof
from curta.numpy.arguments import (
    canonical_axis,
    ensure_arraylikes,
    ensure_operands,
    is_complex,
    user_dtype,
)
from curta.numpy.arithmetic import multiply
from curta.numpy.promotion import cast
from curta.numpy.shapes import expand_dims, moveaxis, ravel, squeeze
from curta.numpy.vectorize import vectorize


def _result_dtype(name: str, wanted: Any, *operands: Any) -> tuple[Any, bool]:
    """The dtype of a product, and whether it is weak."""
    if wanted is not None:
        return user_dtype(wanted, name), False
    dtype, weak = dtypes.result_type(*operands, return_weak_type_flag=True)
    return dtype, weak


@takes_out_sharding(sums=True)
@inlined_jit(static_argnames=("precision", "preferred_element_type", "out_sharding"))
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The product over the last dim of `a` and the last but one of `b`.

    Vectors give their inner product, matrices their matrix product; a scalar
    multiplies.

    Args:
      a: an array (..., k), or a scalar.
      b: an array (..., k, n), a vector (k,), or a scalar.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from the operands.

    Returns:
      The products: the dims of `a` but its last, then those of `b` but its last but
      one.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; the sizes to sum over differ;
        `preferred_element_type` is unknown; `out_sharding` is not a sharding.
      ValueError: `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.dot(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    a, b = ensure_operands("dot", a, b)
    dtype, weak_type = _result_dtype("dot", preferred_element_type, a, b)
    if a.ndim == 0 or b.ndim == 0:
        contract: Any = ((), ())
    else:
        contract = ((a.ndim - 1,), (max(b.ndim - 2, 0),))
    numbers = (contract, ((), ()))
    out = lax.dot_general(a, b, numbers, precision, dtype, out_sharding=out_sharding)
    return cast(out, dtype, weak_type)


@takes_out_sharding(sums=True)
@inlined_jit(static_argnames=("precision", "preferred_element_type", "out_sharding"))
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The matrix product; leading dims are batches and broadcast.

    Args:
      a: matrices (..., m, k), or a vector (k,).
      b: matrices (..., k, n), or a vector (k,).
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from the operands.

    Returns:
      The products (..., m, n), without the dims of vectors.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; the sizes to sum over differ;
        `preferred_element_type` is unknown; `out_sharding` is not a sharding.
      ValueError: `a` or `b` is a scalar, or batches do not broadcast; `precision` is
        unknown.

    >>> from curta import numpy as jnp
    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    a, b = ensure_operands("matmul", a, b)
    for i, x in enumerate((a, b)):
        if x.ndim < 1:
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim"
                f" {x.ndim}"
            )
    dtype, weak_type = _result_dtype("matmul", preferred_element_type, a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        numbers = (((a.ndim - 1,), (max(b.ndim - 2, 0),)), ((), ()))
        out = lax.dot_general(
            a, b, numbers, precision, dtype, out_sharding=out_sharding
        )
    else:
        out = _batched_matmul(a, b, precision, dtype, out_sharding)
    return cast(out, dtype, weak_type)


def _batched_matmul(
    a: Any, b: Any, precision: Any, dtype: Any, out_sharding: Any
) -> Any:
    """The product with batch dims: equal ones are batches of the dot, others free."""
    count = max(a.ndim, b.ndim) - 2
    a_sizes = _batch_sizes(a, count)
    b_sizes = _batch_sizes(b, count)
    a_dims: list[int] = []  # kept dims of a, by the number of their batch dim
    b_dims: list[int] = []
    shared: list[int] = []
    ones: list[int] = []
    for i, (p, q) in enumerate(zip(a_sizes, b_sizes)):
        if p == q and p is not None and p != 1:
            shared.append(i)
        elif p not in (None, 1) and q not in (None, 1):
            raise ValueError(
                "Incompatible types for matmul arguments:"
                f" {typeof(a).str_short()} and {typeof(b).str_short()}"
            )
        elif p == 1 and q == 1:
            ones.append(i)
            continue
        if p is not None and (p != 1 or q is None):
            a_dims.append(i)
        if q is not None and (q != 1 or p is None):
            b_dims.append(i)
    a_free = [i for i in a_dims if i not in shared]
    b_free = [i for i in b_dims if i not in shared]
    a = _without_batch_dims(a, a_sizes, a_dims)
    b = _without_batch_dims(b, b_sizes, b_dims)
    batch = [a_dims.index(i) for i in shared], [b_dims.index(i) for i in shared]
    a_matrix, b_matrix = a.ndim > len(a_dims) + 1, b.ndim > len(b_dims) + 1
    numbers = (((a.ndim - 1,), (b.ndim - 1 - b_matrix,)), batch)
    out = lax.dot_general(a, b, numbers, precision, dtype, out_sharding=out_sharding)
    order = [*shared, *a_free, *([count] * a_matrix)]
    order += [*b_free, *([count + a_matrix] * b_matrix)]
    out = lax.transpose(out, tuple(int(i) for i in np.argsort(order)))
    return lax.expand_dims(out, tuple(ones)) if ones else out


def _batch_sizes(x: Any, count: int) -> tuple[int | None, ...]:
    sizes = x.shape[:-2]
    return (None,) * (count - len(sizes)) + sizes


def _without_batch_dims(x: Any, sizes: tuple[int | None, ...], kept: list[int]) -> Any:
    absent = sizes.count(None)
    gone = [i - absent for i, d in enumerate(sizes) if d is not None and i not in kept]
    return lax.squeeze(x, tuple(gone)) if gone else x


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The inner product of the flattened arrays, `a` conjugated.

    Args:
      a, b: arrays of any shapes of one size, which are flattened.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      A scalar of the promoted dtype.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; the sizes differ;
        `preferred_element_type` is unknown.
      ValueError: `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.vdot(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    a, b = ensure_operands("vdot", a, b)
    if is_complex(a):
        a = lax.conj(a)
    return dot(
        ravel(a),
        ravel(b),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The inner products of vectors along an axis, `x1` conjugated; batches broadcast.

    Args:
      x1, x2: arrays that broadcast but along `axis`, where sizes are equal.
      axis: int, the axis of the vectors. Default -1, the last.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      The products, of the broadcast shape without `axis`.

    Raises:
      TypeError: `x1` or `x2` is a list, a string or None; `axis` is not an integer;
        `preferred_element_type` is unknown.
      ValueError: the sizes along `axis` differ, or batches do not broadcast;
        `precision` is unknown.
      IndexError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.arange(3))
    Array([3., 3.], dtype=float32)
    """
    x1, x2 = ensure_arraylikes("jnp.vecdot", x1, x2)
    return _vecdot(x1, x2, operator.index(axis), precision, preferred_element_type)


@inner_jit(static_argnames=("axis", "precision", "preferred_element_type"), inline=True)
def _vecdot(
    x1: Any, x2: Any, axis: int, precision: Any, preferred_element_type: Any
) -> Any:
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"axes must match; got shapes {x1.shape} and {x2.shape} with axis={axis}"
        )
    x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    x1 = lax.conj(x1) if is_complex(x1) else x1
    one = functools.partial(
        dot, precision=precision, preferred_element_type=preferred_element_type
    )
    return vectorize(one, signature="(n),(n)->()")(x1, x2)


@inner_jit
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors; batches broadcast.

    >>> from curta import numpy as jnp
    >>> jnp.matvec(jnp.ones((2, 3)), jnp.arange(3))
    Array([3., 3.], dtype=float32)
    """
    x1, x2 = ensure_arraylikes("matvec", x1, x2)
    _check_core_dims("matvec", "(n,m),(m)->(n)", x1, x2)
    return squeeze(matmul(x1, expand_dims(x2, -1)), -1)


@inner_jit
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Vectors, conjugated, times matrices; batches broadcast.

    >>> from curta import numpy as jnp
    >>> jnp.vecmat(jnp.arange(2), jnp.ones((2, 3)))
    Array([1., 1., 1.], dtype=float32)
    """
    x1, x2 = ensure_arraylikes("vecmat", x1, x2)
    _check_core_dims("vecmat", "(n),(n,m)->(m)", x1, x2)
    x1 = lax.conj(x1) if is_complex(x1) else x1
    return squeeze(matmul(expand_dims(x1, -2), x2), -2)


def _check_core_dims(name: str, signature: str, x1: Any, x2: Any) -> None:
    """Raise ValueError unless a matrix and a vector of its size are among the dims."""
    vector, matrix, last = (x2, x1, -1) if name == "matvec" else (x1, x2, -2)
    if vector.ndim < 1 or matrix.ndim < 2:
        result = matrix if matrix.ndim < 2 else vector
        raise ValueError(
            f"input with shape {result.shape} does not have enough dimensions for all"
            f" core dimensions of {name}, whose signature is {signature!r}"
        )
    if vector.shape[-1] != matrix.shape[last]:
        raise ValueError(
            "inconsistent size for core dimension"
            f" {'m' if name == 'matvec' else 'n'!r}: {vector.shape[-1]} vs"
            f" {matrix.shape[last]} in {name}, whose signature is {signature!r}"
        )


@takes_out_sharding(sums=True)
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | float | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The product summed over pairs of axes.

    Args:
      a, b: arrays or scalars.
      axes: a number (that many last axes of `a` with the first of `b`), a pair of axes,
        or a pair of sequences of axes. Default 2.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from the operands.

    Returns:
      The sums: the other dims of `a`, then those of `b`.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; `axes` is neither a number nor
        a pair, or more than there are; the sizes to sum over differ;
        `preferred_element_type` is unknown; `out_sharding` is not a sharding.
      ValueError: an axis is out of bounds; `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((3, 4, 5))).shape
    (2, 5)
    """
    a, b = ensure_arraylikes("tensordot", a, b)
    dtype, weak_type = _result_dtype("tensordot", preferred_element_type, a, b)
    numbers = (_contracted(a, b, axes), ((), ()))
    out = lax.dot_general(a, b, numbers, precision, dtype, out_sharding=out_sharding)
    return cast(out, dtype, weak_type)


def _contracted(a: Any, b: Any, axes: Any) -> tuple[Any, Any]:
    if type(axes) is int:
        if axes > min(a.ndim, b.ndim):
            raise TypeError(
                f"Number of tensordot axes (axes {axes}) exceeds input ranks"
                f" ({a.shape} and {b.shape})"
            )
        return tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise TypeError(
            "tensordot axes argument must be an int, a pair of ints, or a pair of"
            " lists/tuples of ints."
        )
    first, second = axes
    if isinstance(first, int) and isinstance(second, int):
        first, second = (first,), (second,)
    if not all(isinstance(x, (tuple, list)) for x in (first, second)):
        raise TypeError(
            "tensordot requires both axes lists to be either ints, tuples or lists, got"
            f" {first} and {second}"
        )
    if len(first) != len(second):
        raise TypeError(
            "tensordot requires axes lists to have equal length, got"
            f" {first} and {second}."
        )
    return (
        tuple(canonical_axis(i, a.ndim) for i in first),
        tuple(canonical_axis(i, b.ndim) for i in second),
    )


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The product summed over the last dims; scalars multiply.

    Args:
      a: an array (..., k), or a scalar.
      b: an array (..., k), or a scalar.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      The products: the dims of `a` but its last, then those of `b` but its last.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; the sizes of the last dims
        differ; `preferred_element_type` is unknown.
      ValueError: `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.inner(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    a, b = ensure_operands("inner", a, b)
    if a.ndim == 0 or b.ndim == 0:
        if preferred_element_type is not None:
            dtype = user_dtype(preferred_element_type, "inner")
            a, b = cast(a, dtype), cast(b, dtype)
        return multiply(a, b)
    return tensordot(
        a,
        b,
        (-1, -1),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
