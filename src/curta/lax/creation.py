"""Functions that create arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.api.arguments import aval_of
from curta.api.devices import device_put
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike, Shape
from curta.core.avals import ShapedArray, is_python_scalar, plain_scalar
from curta.core.mesh import AbstractMesh
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.placement import in_space, mesh_of, placed_as
from curta.core.shapes import (
    canonicalize_shape,
    check_nonnegative,
)
from curta.core.sharding import MemorySpace, NamedSharding
from curta.core.trace import Tracer, concrete_or_error, typeof
from curta.lax.conversion import (
    convert_element_type as converted,
    is_complex_scalar,
    warn_of_imaginary,
)
from curta.lax.scalars import refuse_complex
from curta.lax.shape import broadcast
from curta.primitives.elementwise import convert_element_type
from curta.primitives.random_bits.ops import RandomWrap
from curta.primitives.random_bits.registry import implementation_of
from curta.primitives.shape import Iota
from curta.primitives.structure import BroadcastInDim


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, 2 ... size - 1.

    >>> from curta import lax
    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@takes_out_sharding
def broadcasted_iota(
    dtype: DTypeLike, shape: Shape, dimension: int, *, out_sharding: Any = None
) -> Array:
    """An array of `shape` that counts along `dimension`.

    Args:
      dtype: a dtype of numbers.
      shape: the shape.
      dimension: the dim, a known integer, not negative.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype, whose element at index i is i[dimension].

    Raises:
      ValueError: if a dim is out of range.
      TypeError: if an operand is boolean, a dtype is invalid, or sizes are negative,
          traced or not integers.
      ConcretizationTypeError: for a traced dim.

    >>> from curta import lax
    >>> lax.broadcasted_iota("int32", (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    dtype = dtypes.check_user_dtype(dtype, "iota")
    what = "dimension argument of lax.broadcasted_iota"
    axis = concrete_or_error(int, dimension, what)
    return Iota(dtype, canonicalize_shape(shape), axis)()


def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    sharding: Any = None,
) -> Array:
    """An array of `shape` with every element `fill_value`.

    Args:
      shape: the shape.
      fill_value: a scalar.
      dtype: the dtype; by default the dtype of the value.
      sharding: where the array is stored; by default on the default device.

    Returns:
      An array of this shape and dtype.

    Raises:
      TypeError: if the value is not a scalar, a size is not an integer or is negative,
        or `dtype` is not a dtype.
      ValueError: if the argument is not a sharding.

    >>> from curta import lax
    >>> lax.full((2,), 7.)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    shape = canonicalize_shape(shape)
    check_nonnegative("broadcast_in_dim shape", shape)
    if shape_of_value := np.shape(fill_value):
        raise TypeError(
            "full must be called with scalar fill_value, got fill_value.shape"
            f" {shape_of_value}."
        )
    fill_value = plain_scalar(fill_value)
    if dtype is None:
        dtype, weak_type = dtypes.dtype_and_weak_type(fill_value)
    else:
        dtype, weak_type = dtypes.check_user_dtype(dtype, "full"), False
    if isinstance(dtype, dtypes.KeyDType):
        out = _full_of_keys(shape, fill_value, dtype)
    else:
        warn_of_imaginary(fill_value, dtype)
        value = _scalar(fill_value, dtype, weak_type)
        out = BroadcastInDim(shape, ())(value) if shape else broadcast(value, ())
    return out if sharding is None else device_put(out, fitting(sharding, len(shape)))


def fitting(sharding: Any, rank: int) -> Any:
    """A sharding without what its spec says, as None, of dims beyond a rank."""
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) <= rank:
        return sharding
    entries = sharding.spec.partitions
    if any(e is not None for e in entries[rank:]):
        return sharding  # which will be refused
    return sharding.update(spec=sharding.spec.update(entries[:rank]))


def _full_of_keys(shape: tuple[int, ...], value: Any, dtype: dtypes.KeyDType) -> Any:
    """A key over and over, or keys of words that are all the same number."""
    if dtypes.issubdtype(typeof(value).dtype, dtypes.prng_key):
        return BroadcastInDim(shape, ())(value) if shape else broadcast(value, ())
    impl = implementation_of(dtype)
    return RandomWrap(impl)(full((*shape, *impl.key_shape), value, "uint32"))


def _scalar(value: Any, dtype: Any, weak_type: bool) -> Any:
    refuse_complex(value, dtype)
    if weak_type and is_python_scalar(value):
        return value
    if type(value) is int and value.bit_length() > 31:
        return converted(value, dtype)  # Python ints of any size
    if dtype == np.bool_ and is_complex_scalar(value):
        return value != 0
    return convert_element_type(value, dtype, weak_type)


def full_like(
    x: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    sharding: Any = None,
) -> Array:
    """An array like `x` with every element `fill_value`.

    Args:
      x: an array, or anything with `shape` and `dtype`.
      fill_value: a scalar.
      dtype, shape: those of `x` by default.
      sharding: where the array lies; by default where `x` was placed, split as its type
        says.

    Returns:
      An array of this shape and dtype.

    Raises:
      TypeError: if `x` is not an array, the value is not a scalar, a size is negative,
        or `dtype` is not a dtype.

    >>> import curta
    >>> curta.lax.full_like(curta.numpy.zeros(2), 1)
    Array([1., 1.], dtype=float32)
    """
    described = hasattr(x, "shape") and hasattr(x, "dtype")
    if hasattr(x, "__jax_array__") and not described:
        x = x.__jax_array__()
    aval = aval_of(x)
    if not isinstance(aval, ShapedArray):  # a reference, or a value of a program's own
        aval = ShapedArray(canonicalize_shape(x.shape), x.dtype)
    weak_type = dtype is None and aval.weak_type
    typed = isinstance(x, Tracer) or aval.vma
    alike = sharding is None and shape is None and typed
    shape = aval.shape if shape is None else canonicalize_shape(shape)
    dtype = aval.dtype if dtype is None else dtype
    if sharding is None and not isinstance(x, Tracer):
        result = getattr(x, "sharding", None)
        same = (
            result is not None
            and getattr(x, "committed", True)
            and (shape == aval.shape or result.is_fully_replicated)
        )
        sharding = result if same and _is_known(result) else None
    if not weak_type:
        out = full(shape, fill_value, dtype, sharding=sharding)
    else:
        out = broadcast(convert_element_type(fill_value, dtype, True), shape)
        out = out if sharding is None else device_put(out, sharding)
    if alike and not shape and mesh_of(aval.placement).explicit_axes:
        out = BroadcastInDim((), ())(out)  # placed as results of ops are
    where = in_space(aval.placement, MemorySpace.Device)
    return placed_as(out, None, where) if alike else out


def _is_known(sharding: Any) -> bool:
    """Whether a sharding has devices, or is over explicit axes of the mesh in scope."""
    mesh = getattr(sharding, "mesh", None)
    if not isinstance(mesh, AbstractMesh):
        return True
    return mesh.are_all_axes_explicit and get_abstract_mesh() is mesh
