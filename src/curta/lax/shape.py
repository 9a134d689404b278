"""Functions that rearrange, cut, join and create arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.arguments import aval_of
from curta.api.devices import device_put
from curta.api.out_sharding import takes_out_sharding
from curta.api.placing import reshard
from curta.core.array import Array
from curta.core.avals import is_python_scalar
from curta.core.mesh import AbstractMesh, get_abstract_mesh
from curta.core.placement import placed_as
from curta.core.shapes import (
    broadcast_shapes as broadcast_shapes,
    canonicalize_axes,
    canonicalize_axis,
    canonicalize_shape,
    check_nonnegative,
    dim_of,
    integer,
    integers,
    operand_shape,
    sequence,
    static_axes,
)
from curta.core.sharding import NamedSharding
from curta.core.trace import Tracer, concrete_or_error, typeof
from curta.lax.conversion import convert_element_type as converted
from curta.lax.scalars import refuse_complex, scalar_array
from curta.primitives.elementwise import convert_element_type
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.random_bits.ops import RandomWrap
from curta.primitives.random_bits.registry import implementation_of
from curta.primitives.shape import Iota, Rev, Squeeze, Tile, check_repetitions
from curta.primitives.slicing import Pad, Slice, padding_entries
from curta.primitives.structure import BroadcastInDim, Reshape, Transpose
from curta.runtime.transfer import to_array

_slice = slice  # Python's own; `slice` below is an array function


@takes_out_sharding
def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The elements of `operand`, in row-major order, in shape `new_sizes`.

    `dimensions` is the order in which the operand's dims are read. Raises TypeError
    if the number of elements differs.

    >>> import curta
    >>> curta.lax.reshape(curta.numpy.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    shape = canonicalize_shape(new_sizes)
    if dimensions is not None:
        dims, found = static_axes(dimensions), operand_shape("reshape", operand)
        if set(dims) != {*range(len(found))} or len(dims) != len(found):
            raise TypeError(
                "reshape dimensions must be a permutation of operand dimensions, got"
                f" dimensions {dims} for shape {found}."
            )
        operand = transpose(operand, dims)
    if shape and isinstance(operand, Array) and operand.shape == shape:
        return operand
    return Reshape(shape)(operand)


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """`operand` with output dim i being its dim `permutation[i]`.

    >>> import curta
    >>> curta.lax.transpose(curta.numpy.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    order = tuple(map(operator.index, permutation))
    if isinstance(operand, Array) and order == tuple(range(len(operand.shape))):
        return operand
    return Transpose(order)(operand)


@takes_out_sharding
def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """`operand` repeated along new leading dims of `sizes`.

    >>> import curta
    >>> curta.lax.broadcast(curta.numpy.ones(3), (2,)).shape
    (2, 3)
    """
    sizes, shape = (
        sequence("broadcast sizes", sizes),
        typeof(operand).shape,
    )
    if not sizes and isinstance(operand, Array):
        return operand
    if not sizes and not shape:
        return scalar_array(operand)
    kept = tuple(range(len(sizes), len(sizes) + len(shape)))
    return broadcast_in_dim(operand, (*sizes, *shape), kept)


@takes_out_sharding
def broadcast_in_dim(
    operand: Any,
    shape: Any,
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Any:
    """`operand` repeated to `shape`, its dim i becoming `broadcast_dimensions[i]`.

    >>> import curta
    >>> curta.lax.broadcast_in_dim(curta.numpy.arange(2), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    shape = integers("broadcast_in_dim shape", shape)
    dims = integers("broadcast_in_dim broadcast_dimensions", broadcast_dimensions)
    if isinstance(operand, Array) and operand.shape == shape:
        if dims == tuple(range(len(shape))):
            return operand
    if list(dims) != sorted(dims) and len(dims) == typeof(operand).ndim:
        order = sorted(range(len(dims)), key=dims.__getitem__)
        operand, dims = transpose(operand, order), tuple(dims[i] for i in order)
    return BroadcastInDim(shape, dims)(operand)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """`x` with dims of size 1 in front, up to `rank`.

    >>> import curta
    >>> curta.lax.broadcast_to_rank(curta.numpy.ones(3), 2).shape
    (1, 3)
    """
    missing = rank - typeof(x).ndim
    return broadcast(x, (1,) * missing) if missing else _as_array(x)


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """`arr` repeated to the shape of another array, as NumPy broadcasts.

    Raises ValueError for shapes that do not broadcast.

    >>> import curta
    >>> curta.lax.broadcast_like(curta.numpy.arange(2), curta.numpy.ones((2, 2)))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    like = _as_array(like_arr)
    own, shape = typeof(arr).shape, typeof(like).shape
    lead = len(shape) - len(own)
    if lead < 0:
        raise ValueError(
            "Cannot broadcast to shape with fewer dimensions: arr_shape="
            f"{own} shape={shape}"
        )
    if any(d not in (1, e) for d, e in zip(own, shape[lead:], strict=True)):
        raise ValueError(
            f"Incompatible types for broadcasting: input shape {own} and requested"
            f" shape {shape}"
        )
    arr = _as_array(arr)
    have, want = (typeof(x).sharding.spec.for_rank(typeof(x).ndim) for x in (arr, like))
    if any(e not in (None, to) for e, to in zip(have, want.partitions[lead:])):
        raise ValueError(
            f"Incompatible types for broadcasting: input type={typeof(arr).str_short()}"
            f" and requested type={typeof(like).str_short()}"
        )
    if own != shape:
        arr = broadcast_in_dim(arr, shape, tuple(range(lead, len(shape))))
    return reshard(arr, want) if have is not want and any(want.partitions) else arr


def shape_as_value(shape: Sequence[int]) -> Any:
    """A shape as an array of integers.

    >>> from curta import lax
    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    sizes = [integer("shape_as_value shape", d) for d in shape]
    dtype = np.int64 if max(sizes, default=0) >> 31 else np.int32
    return np.asarray(sizes, dtypes.canonicalize_dtype(dtype))


def _as_array(x: Any) -> Any:
    return x if isinstance(x, Array) else to_array(x)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """`array` without some of its dims of size 1.

    Raises ValueError for a dim that does not exist or has another size.

    >>> import curta
    >>> curta.lax.squeeze(curta.numpy.ones((1, 3)), (0,)).shape
    (3,)
    """
    rank = len(operand_shape("squeeze", array))
    dims = tuple(sorted(canonicalize_axes(dimensions, rank)))
    if not dims and isinstance(array, Array):
        return array
    return Squeeze(dims)(array)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """`array` with dims of size 1 at the places `dimensions` of the result.

    >>> import curta
    >>> curta.lax.expand_dims(curta.numpy.ones(3), (0, 2)).shape
    (1, 3, 1)
    """
    shape, places = (
        typeof(array).shape,
        sequence("expand_dims dimensions", dimensions),
    )
    rank = len(shape) + len(places)
    dims = set(canonicalize_axes(places, rank))
    if len(dims) != len(places):
        raise ValueError(f"repeated axis in lax.expand_dims: {places}")
    kept = tuple(i for i in range(rank) if i not in dims)
    sizes = iter(shape)
    new_shape = tuple(1 if i in dims else next(sizes) for i in range(rank))
    return broadcast_in_dim(array, new_shape, kept)


def collapse(
    operand: Any, start_dimension: int, stop_dimension: int | None = None
) -> Any:
    """`operand` with dims `start_dimension` to `stop_dimension` made into one.

    >>> import curta
    >>> curta.lax.collapse(curta.numpy.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = operand_shape("collapse", operand)
    given = start_dimension, stop_dimension
    ends = [d if d is None else integer("collapse dimension", d) for d in given]
    lo, hi, _ = _slice(*ends).indices(len(shape))
    if hi < lo:
        raise ValueError(
            f"Invalid dimension range passed to collapse: {shape}"
            f"[{start_dimension}:{stop_dimension}]"
        )
    return reshape(operand, (*shape[:lo], math.prod(shape[lo:hi]), *shape[hi:]))


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The part of `operand` from `start_indices` to before `limit_indices`.

    Raises TypeError for indices outside the operand; nothing is clamped.

    >>> import curta
    >>> curta.lax.slice(curta.numpy.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    starts = integers("slice start_indices", start_indices)
    limits = integers("slice limit_indices", limit_indices)
    steps = None if strides is None else integers("slice strides", strides)
    return Slice(starts, limits, steps)(operand)


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """`slice` along one axis; negative indices count from the end.

    >>> import curta
    >>> curta.lax.slice_in_dim(curta.numpy.arange(6), -3, None)
    Array([3, 4, 5], dtype=int32)
    """
    shape = operand_shape("slice_in_dim", operand)
    axis = dim_of("slice_in_dim axis", axis, shape)
    size = shape[axis]
    start = 0 if start_index is None else integer("slice_in_dim start", start_index)
    limit = size if limit_index is None else integer("slice_in_dim limit", limit_index)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = integer("slice_in_dim stride", stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The slice of size 1 at `index` along `axis`, without that dim if not `keepdims`.

    Raises IndexError for an index out of bounds.

    >>> import curta
    >>> curta.lax.index_in_dim(curta.numpy.arange(6), -1, keepdims=False)
    Array(5, dtype=int32)
    """
    axis = int(axis)
    shape = operand_shape("index_in_dim", operand)
    size = shape[dim_of("index_in_dim axis", axis, shape)]
    place = integer("index_in_dim index", index)
    place = place + size if place < 0 else place
    if not 0 <= place < size:
        raise IndexError(
            f"index {index} is out of bounds for axis {axis} with size {size}"
        )
    result = slice_in_dim(operand, place, place + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


def pad(
    operand: Any,
    padding_value: Any,
    padding_config: Sequence[tuple[int, int, int]],
) -> Any:
    """`operand` with padding before, after and between its elements.

    `padding_config` has (low, high, interior) for every dim; negative low and high
    cut elements off. `padding_value` is a scalar of the operand's dtype.

    >>> import curta
    >>> curta.lax.pad(curta.numpy.arange(3.), 9., ((1, 0, 1),))
    Array([9., 0., 9., 1., 9., 2.], dtype=float32)
    """
    config = padding_entries(padding_config, operand_shape("pad", operand))
    return Pad(config)(operand, padding_value)


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """`operand` with the order of elements along `dimensions` reversed.

    >>> import curta
    >>> curta.lax.rev(curta.numpy.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return Rev(integers("rev dimensions", dimensions))(operand)


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """`operand` laid side by side, `reps[i]` times along dim i.

    >>> import curta
    >>> curta.lax.tile(curta.numpy.arange(2), (2,))
    Array([0, 1, 0, 1], dtype=int32)
    """
    reps = sequence("tile reps", reps)
    check_repetitions(reps, len(operand_shape("tile", operand)))
    return Tile(canonicalize_shape(reps))(operand)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """The operands, of one dtype, one after another along `dimension`.

    Raises TypeError for shapes that differ elsewhere, ValueError for no operands.

    >>> import curta
    >>> x = curta.numpy.arange(2)
    >>> curta.lax.concatenate([x, x], 0)
    Array([0, 1, 0, 1], dtype=int32)
    """
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    operands = tuple(operands)
    if len(operands) == 1 and isinstance(operands[0], Array):
        return operands[0]
    return Concatenate(integer("concatenate dimension", dimension))(*operands)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> Sequence[Any]:
    """Consecutive parts of `operand` along `axis`, of the given sizes.

    >>> import curta
    >>> curta.lax.split(curta.numpy.arange(3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    axis = canonicalize_axis(axis, len(operand_shape("split", operand)))
    return list(Split(integers("split sizes", sizes, None), axis)(operand))


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """The operands, of one shape, along a new dim at place `axis`.

    >>> import curta
    >>> curta.lax.stack([curta.numpy.zeros(3)] * 2).shape
    (2, 3)
    """
    operands = tuple(operands)
    if not operands:
        raise ValueError("stack requires a non-empty sequence of arrays")
    return Stack(canonicalize_axis(axis, len(operand_shape("stack", operands[0])) + 1))(
        *operands
    )


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that dim.

    >>> import curta
    >>> curta.lax.unstack(curta.numpy.arange(2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    return tuple(Unstack(canonicalize_axis(axis, len(operand_shape("unstack", x))))(x))


def iota(dtype: Any, size: int) -> Any:
    """0, 1, 2 ... size - 1.

    >>> from curta import lax
    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@takes_out_sharding
def broadcasted_iota(
    dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None
) -> Any:
    """An array of `shape` that counts along `dimension`.

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
    shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None
) -> Any:
    """An array of `shape` with every element `fill_value`.

    The dtype is that of the value unless given. Raises TypeError if the value is not
    a scalar.

    >>> from curta import lax
    >>> lax.full((2,), 7.)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    shape = canonicalize_shape(shape)
    check_nonnegative("broadcast_in_dim shape", shape)
    if found := np.shape(fill_value):
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {found}."
        )
    if dtype is None:
        dtype, weak_type = dtypes.dtype_and_weak_type(fill_value)
    else:
        dtype, weak_type = dtypes.check_user_dtype(dtype, "full"), False
    if isinstance(dtype, dtypes.KeyDType):
        out = _full_of_keys(shape, fill_value, dtype)
    else:
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
        return converted(value, dtype)  # which takes what has no dtype of its own
    return convert_element_type(value, dtype, weak_type)


def full_like(
    x: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    sharding: Any = None,
) -> Any:
    """An array like `x` with every element `fill_value`.

    Shape and dtype are those of `x` unless given; so are the devices, if `x` was placed
    on some, and the split that its type has. `x` may be anything with `shape` and
    `dtype`.

    >>> import curta
    >>> curta.lax.full_like(curta.numpy.zeros(2), 1)
    Array([1., 1.], dtype=float32)
    """
    if hasattr(x, "__jax_array__"):  # which may forward what arrays are asked for
        x = x.__jax_array__()
    aval = aval_of(x)
    weak_type = dtype is None and aval.weak_type
    typed = isinstance(x, Tracer) or aval.vma
    alike = sharding is None and shape is None and typed
    shape = aval.shape if shape is None else canonicalize_shape(shape)
    dtype = aval.dtype if dtype is None else dtype
    if sharding is None and not isinstance(x, Tracer):
        found = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
        same = found is not None and (shape == aval.shape or found.is_fully_replicated)
        sharding = found if same and _is_known(found) else None
    if not weak_type:
        out = full(shape, fill_value, dtype, sharding=sharding)
    else:
        out = broadcast(convert_element_type(fill_value, dtype, True), shape)
        out = out if sharding is None else device_put(out, sharding)
    return placed_as(out, None, aval.placement) if alike else out


def _is_known(sharding: Any) -> bool:
    """Whether a sharding has devices, or is over explicit axes of the mesh in scope."""
    mesh = getattr(sharding, "mesh", None)
    if not isinstance(mesh, AbstractMesh):
        return True
    return mesh.are_all_axes_explicit and get_abstract_mesh() is mesh
