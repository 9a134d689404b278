"""Joining arrays and taking them apart: concatenate, stack, append, split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.dim import is_symbolic_dim
from curta.numpy.arguments import (
    axis_of_shape,
    canonical_axis,
    check_arraylike,
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    ensure_operand,
    refuse_out,
    static_axis,
)
from curta.numpy.constructors import asarray
from curta.numpy.promotion import promote_dtypes
from curta.numpy.shapes import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    ravel,
    transpose,
)


def concatenate(
    arrays: Any, axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """Arrays joined along an axis that exists; flattened first if it is None.

    Args:
      arrays: a sequence of arrays of one dim or more, or one array, split along its
        first dim. Shapes are equal but along `axis`.
      axis: int, along which to join. Default 0.
      dtype: dtype of the result. None (default) is the promoted dtype.

    Returns:
      The joined array.

    Raises:
      TypeError: `arrays` is not a sequence, or holds lists; shapes differ but along
        `axis`; `axis` is not an integer; `dtype` is unknown.
      ValueError: there are no arrays, or scalars among them; `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.concatenate([jnp.arange(2), jnp.arange(3)])
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    if isinstance(arrays, (np.ndarray, Array)):
        arrays = _rows("concatenate", arrays)
    else:
        arrays = ensure_arraylikes("concatenate", *arrays)
    if not arrays:
        raise ValueError("Need at least one array to concatenate.")
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    if arrays[0].ndim == 0:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonical_axis(axis, arrays[0].ndim)
    return lax.concatenate(_of_one_dtype(arrays, dtype), axis)


def _rows(name: str, arrays: Any) -> Sequence[Any]:
    arrays = ensure_arraylike(name, arrays)
    if arrays.ndim == 0:
        raise ValueError(f"Need at least one array to {name}.")
    return lax.unstack(arrays) if arrays.shape[0] else ()


def _of_one_dtype(arrays: Sequence[Any], dtype: Any) -> list[Any]:
    if dtype is None:
        return promote_dtypes(*arrays)
    return [asarray(a, dtype=dtype) for a in arrays]


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """The array API's name of `concatenate`.

    >>> from curta import numpy as jnp
    >>> jnp.concat([jnp.arange(2), jnp.arange(2)])
    Array([0, 1, 0, 1], dtype=int32)
    """
    return concatenate(ensure_arraylikes("concat", *arrays), axis=axis)


def stack(
    arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike | None = None
) -> Array:
    """Arrays of one shape along a new axis.

    Args:
      arrays: a sequence of arrays of one shape, or one array, split along its first
        dim.
      axis: int, where the new axis is in the result. Default 0.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      dtype: dtype of the result. None (default) is the promoted dtype.

    Returns:
      An array with one more dim, of size len(arrays).

    Raises:
      TypeError: `arrays` is not a sequence, or holds lists; `axis` is not an integer;
        `dtype` is unknown.
      ValueError: there are no arrays, their shapes differ, or `axis` is out of bounds.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.stack([jnp.arange(2), jnp.arange(2)], axis=1)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    if not len(arrays):
        raise ValueError("Need at least one array to stack.")
    refuse_out("stack", out)
    if isinstance(arrays, (np.ndarray, Array)):
        axis = canonical_axis(axis, arrays.ndim)
        return concatenate(expand_dims(arrays, axis + 1), axis=axis, dtype=dtype)
    arrays = ensure_arraylikes("stack", *arrays)
    return lax.stack(_of_one_dtype(arrays, dtype), axis=axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of an array along an axis.

    >>> from curta import numpy as jnp
    >>> jnp.unstack(jnp.arange(2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    x = ensure_operand("unstack", x)
    return tuple(lax.unstack(x, canonical_axis(static_axis(axis), x.ndim)))


def vstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Arrays on top of each other; vectors count as rows.

    >>> from curta import numpy as jnp
    >>> jnp.vstack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _parts("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Arrays side by side: along the second axis, vectors along the first.

    >>> from curta import numpy as jnp
    >>> jnp.hstack([jnp.arange(2), jnp.arange(2)])
    Array([0, 1, 0, 1], dtype=int32)
    """
    arrays = [atleast_1d(x) for x in _parts("hstack", tup)]
    return concatenate(arrays, 1 if arrays and arrays[0].ndim > 1 else 0, dtype)


def dstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Arrays behind each other, along the third axis.

    >>> from curta import numpy as jnp
    >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in _parts("dstack", tup)], 2, dtype)


def column_stack(tup: Any) -> Array:
    """Vectors as the columns of a matrix.

    >>> from curta import numpy as jnp
    >>> jnp.column_stack([jnp.arange(2), jnp.ones(2, int)])
    Array([[0, 1],
           [1, 1]], dtype=int32)
    """
    arrays = [asarray(x) for x in _parts("column_stack", tup)]
    columns = [transpose(atleast_2d(x)) if x.ndim < 2 else x for x in arrays]
    return concatenate(columns, axis=1)


def _parts(name: str, tup: Any) -> Sequence[Any]:
    if isinstance(tup, (np.ndarray, Array)):
        return _rows("concatenate", tup)
    check_arraylike(name, *tup)
    return list(tup)


@inner_jit
def block(
    arrays: ArrayLike | Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]],
) -> Array:
    """An array put together from nested lists of blocks, the innermost side by side.

    >>> from curta import numpy as jnp
    >>> one = jnp.ones((1, 1))
    >>> jnp.block([[one, 2 * one], [3 * one, 4 * one]])
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return _block(arrays)[0]


def _block(arrays: Any) -> tuple[Any, int]:
    """The block, and how deep its lists are nested, plus one."""
    if isinstance(arrays, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {arrays}")
    if not isinstance(arrays, list):
        return asarray(arrays), 1
    if not arrays:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    blocks, depths = zip(*map(_block, arrays))
    if len(set(depths)) > 1:
        raise ValueError("Mismatched list depths in jax.numpy.block")
    rank = max(depths[0], *(x.ndim for x in blocks))
    parts = [lax.broadcast(x, (1,) * (rank - x.ndim)) for x in blocks]
    return concatenate(parts, axis=-depths[0]), depths[0] + 1


@inner_jit(static_argnames=("axis",))
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` joined to the end of `arr`; both are flattened without an axis.

    Args:
      arr: an array.
      values: an array of the rank of `arr` and its shape but along `axis`.
      axis: int, along which to join. None (default) flattens both first.

    Returns:
      The joined array, of the promoted dtype.

    Raises:
      TypeError: `arr` or `values` is a list, a string or None; shapes differ but along
        `axis`; `axis` is not an integer.
      ValueError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.append(jnp.arange(2), 7)
    Array([0, 1, 7], dtype=int32)
    """
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis=axis)


# ---- splitting


def split(
    ary: ArrayLike,
    indices_or_sections: int | float | Sequence[int] | ArrayLike,
    axis: int = 0,
) -> list[Any]:
    """An array in equal parts, or cut at given indices.

    Args:
      ary: an array of one dim or more.
      indices_or_sections: the number of parts, or the indices to cut at, known.
      axis: int, along which to cut. Default 0.

    Returns:
      A list of arrays of the dtype of `ary`.

    Raises:
      TypeError: `ary` is a list, a string or None; `axis` is not an integer.
      ValueError: the size cannot be divided by the number of parts; indices descend or
        lie outside; the number of parts is negative; `axis` is out of bounds (an
        IndexError too).
      ZeroDivisionError: the number of parts is 0.
      ConcretizationTypeError: `indices_or_sections` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.split(jnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(
    ary: ArrayLike,
    indices_or_sections: int | float | Sequence[int] | ArrayLike,
    axis: int = 0,
) -> list[Any]:
    """Like `split`, but the first parts may be longer by one.

    Args:
      ary: an array of one dim or more.
      indices_or_sections: the number of parts, or the indices to cut at, known.
      axis: int, along which to cut. Default 0.

    Returns:
      A list of arrays of the dtype of `ary`.

    Raises:
      TypeError: `ary` is a list, a string or None; `axis` is not an integer.
      ValueError: indices descend or lie outside; the number of parts is negative;
        `axis` is out of bounds (an IndexError too).
      ZeroDivisionError: the number of parts is 0.
      ConcretizationTypeError: `indices_or_sections` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.array_split(jnp.arange(3), 2)
    [Array([0, 1], dtype=int32), Array([2], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def vsplit(ary: ArrayLike, indices_or_sections: int | float | ArrayLike) -> list[Any]:
    """`split` along the first axis.

    >>> from curta import numpy as jnp
    >>> [x.shape for x in jnp.vsplit(jnp.zeros((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: int | float | ArrayLike) -> list[Any]:
    """`split` along the second axis, of vectors along the first.

    >>> from curta import numpy as jnp
    >>> [x.shape for x in jnp.hsplit(jnp.zeros((4, 2)), 2)]
    [(4, 1), (4, 1)]
    """
    ary = ensure_arraylike("hsplit", ary)
    return _split("hsplit", ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: int | float | ArrayLike) -> list[Any]:
    """`split` along the third axis.

    >>> from curta import numpy as jnp
    >>> [x.shape for x in jnp.dsplit(jnp.zeros((1, 1, 2)), 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def _split(name: str, ary: Any, parts: Any, axis: Any) -> list[Any]:
    ary = ensure_arraylike(name, ary)
    axis = concrete_index(axis, f"in jax.numpy.{name} argument `axis`")
    axis = axis_of_shape(axis, ary.ndim)
    size, context = ary.shape[axis], f"in jax.numpy.{name} argument 1"
    if isinstance(parts, (tuple, list)) or np.ndim(parts) > 0:
        cuts = [0, *(concrete_index(i, context) for i in parts), size]
        sizes = [b - a for a, b in zip(cuts, cuts[1:])]
    elif is_symbolic_dim(parts):
        raise ValueError(
            f"jax.numpy.{name} with a symbolic number of sections is not supported:"
            f" {parts}"
        )
    else:
        count = concrete(parts, context, int)
        length, rest = divmod(size, count)
        if rest and name != "array_split":
            raise ValueError(
                "array split does not result in an equal division:"
                f" {size} elements in {count} parts leave {rest}. array_split makes"
                " parts of different sizes."
            )
        sizes = [length + 1] * rest + [length] * (count - rest)
    return list(lax.split(ary, sizes, axis=axis))
