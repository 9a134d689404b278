"""Abstract values: what is known of an array while a function is traced.

Avals are interned: two equal avals are one object, so that comparing signatures
on the dispatch path is comparing pointers.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar, Final

import numpy as np

from curta import dtypes
from curta.config import config
from curta.core.dim import SymbolicDim
from curta.core.manual_axes import NOT_VARYING, ManualAxisType
from curta.core.mesh import EMPTY_ABSTRACT_MESH
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.partition_spec import PartitionSpec, entry_axes, entry_of
from curta.core.placement import (
    Placement,
    in_space,
    mesh_of,
    placement,
    shape_text,
    space_of,
)
from curta.core.sharding import MemorySpace, NamedSharding, Sharding


class AbstractValue:
    """The type of a value of a traced function."""

    __slots__ = ()
    is_high: ClassVar[bool] = False
    """Whether it is a type of a program's own; see core/hi_types.py."""

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that a value is made of: itself."""
        return [self]

    def lower_val(self, value: Any, /) -> list[Any]:
        """The arrays that a value is made of: itself."""
        return [value]

    def raise_val(self, value: Any, /) -> Any:
        """The value that is made of these arrays."""
        return value


class ShapedArray(AbstractValue):
    """The type of an array: `shape`, `dtype` and `weak_type`.

    A weakly typed value comes from Python scalars alone and gives way to the
    dtype of whatever it meets. `placement` says where the elements are, if that is
    part of the type; a `sharding`, a `manual_axis_type` and a `memory_space` say it in
    words of the user.

    >>> ShapedArray((3, 4), np.dtype("float32"))
    ShapedArray(float32[3,4])
    """

    __slots__ = ("dtype", "placement", "shape", "size", "weak_type")

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    placement: Placement | None
    size: int  # the number of elements

    def __new__(
        cls,
        shape: tuple[int, ...],
        dtype: Any,
        weak_type: bool = False,
        placement: Placement | None = None,
        *,
        sharding: NamedSharding | None = None,
        manual_axis_type: ManualAxisType | None = None,
        memory_space: MemorySpace | None = None,
    ) -> ShapedArray:
        space = memory_space
        if not (sharding is None and manual_axis_type is None and space is None):
            plain = ShapedArray(shape, dtype, weak_type, placement)
            return _placed_so(plain, sharding, manual_axis_type, space)
        key = (shape, dtype, weak_type, placement)
        result = _interned.get(key)
        if result is not None:
            return result
        sizes = tuple(d if isinstance(d, SymbolicDim) else int(d) for d in shape)
        return _intern(sizes, dtype, bool(weak_type), placement)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __bool__(self) -> bool:
        return True  # whatever the length

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        size = self.shape[0]
        if isinstance(size, SymbolicDim):
            raise TypeError(
                f"len() gives an integer, and the first dimension is symbolic: {size}."
                f" Use x.shape[0], as in x.reshape(x.shape[0], -1)."
            )
        return size

    def update(self, **changes: Any) -> ShapedArray:
        """This aval with some fields replaced; another shape is not split."""
        where = self.placement
        if where is not None and changes.get("shape", self.shape) != self.shape:
            where = where.only_varying()
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "placement": where,
        }
        return ShapedArray(**{**fields, **changes})

    def strip_weak_type(self) -> ShapedArray:
        """This aval, strongly typed."""
        return self.update(weak_type=False) if self.weak_type else self

    def unplaced(self) -> ShapedArray:
        """This aval without its placement."""
        return self if self.placement is None else self.update(placement=None)

    def without_dim(self, dim: int) -> ShapedArray:
        """The aval of one slice along a dim."""
        return self._other_dims(lambda entries: (*entries[:dim], *entries[dim + 1 :]))

    def with_dim(self, dim: int, size: int, entry: Any = None) -> ShapedArray:
        """The aval of such values stacked along a new dim, split as `entry` says."""
        stacked = self._other_dims(lambda xs: (*xs[:dim], None, *xs[dim:]), size)
        if entry is None or stacked.sharding.mesh.empty:
            return stacked
        spec = stacked.sharding.spec
        entries = [entry if d == dim else e for d, e in enumerate(spec)]
        return placed_aval(stacked, stacked.sharding.update(spec=spec.update(entries)))

    def _other_dims(self, change: Any, size: int | None = None) -> ShapedArray:
        shape = tuple(size if n is None else n for n in change(self.shape))
        where = self.placement
        if where is not None and where.entries:
            where = where.update(entries=change(where.entries))
        return self.update(shape=shape, placement=where)

    @property
    def sharding(self) -> NamedSharding:
        """The mesh that the array is on, and how explicit axes split it."""
        where = self.placement
        if where is None:
            spec = PartitionSpec(*[None] * self.ndim)
            return NamedSharding(EMPTY_ABSTRACT_MESH, spec)
        return NamedSharding(where.mesh, where.spec(self.ndim))

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """How the value relates to the axes of an enclosing `shard_map`."""
        where = self.placement
        if where is None:
            return NOT_VARYING
        if not (where.unreduced or where.reduced):
            return ManualAxisType(varying=where.varying)
        manual = {*where.mesh.manual_axes}
        return ManualAxisType(
            varying=where.varying,
            unreduced=where.unreduced & manual,
            reduced=where.reduced & manual,
        )

    mat = manual_axis_type

    @property
    def memory_space(self) -> MemorySpace:
        """The memory that the value is in: that of devices, or of their host.

        >>> import curta
        >>> x = curta.device_put(1.0, curta.memory.Space.Host)
        >>> curta.typeof(x), curta.typeof(x).memory_space
        (ShapedArray(float32<host>[], weak_type=True), MemorySpace.Host)
        """
        return space_of(self.placement)

    @property
    def vma(self) -> frozenset[Any]:
        """The manual axes over which the value varies."""
        return frozenset() if self.placement is None else self.placement.varying

    def to_tangent_aval(self) -> ShapedArray:
        """The aval of a tangent: the same for inexact dtypes, float0 otherwise."""
        dtype = tangent_dtype(self.dtype)
        return self if dtype is self.dtype else self.update(dtype=dtype)

    at_least_vspace = to_tangent_aval  # its name in older programs

    def to_cotangent_aval(self) -> ShapedArray:
        """The aval of a cotangent: as that of a tangent, reduced if it is unreduced."""
        result = self.to_tangent_aval()
        where = self.placement
        return result if where is None else result.update(placement=where.dual())

    to_ct_aval = to_cotangent_aval

    def dec_rank(self, size: int | None, spec: int | None) -> ShapedArray:
        """The aval of one of the slices along dim `spec`; itself for None."""
        return self if spec is None else self.without_dim(spec)

    def inc_rank(self, size: int, spec: int | None) -> ShapedArray:
        """The aval of `size` such values along a new dim `spec`; itself for None."""
        return self if spec is None else self.with_dim(spec, size)

    def leading_axis_spec(self) -> int:
        """The dim along which a scan takes rows."""
        return 0

    def normalize(self) -> ShapedArray:
        """The aval itself: there is one object for each type."""
        return self

    def str_short(self, short_dtypes: bool = False) -> str:
        """`float32[3,4]`, or `f32[3,4]` with `short_dtypes`."""
        name = dtypes.short_name(self.dtype) if short_dtypes else dtype_name(self.dtype)
        return name + shape_text(self.shape, self.placement)

    def __str__(self) -> str:
        return ("~" if self.weak_type else "") + self.str_short()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.placement)

    def __copy__(self) -> ShapedArray:
        return self

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self


_interned: Final[dict[tuple[Any, ...], ShapedArray]] = {}


def _intern(
    shape: tuple[int, ...], dtype: Any, weak_type: bool, where: Placement | None
) -> ShapedArray:
    if not isinstance(dtype, (np.dtype, dtypes.ExtendedDType)):
        dtype = np.dtype(dtype)
    if is_string(dtype):
        dtype = STRING
    elif isinstance(dtype, np.dtype) and dtype.fields is None:
        # The one dtype object of its kind, in the byte order of the machine.
        dtype = np.dtype(dtype.type)
    fresh = object.__new__(ShapedArray)
    fresh.shape, fresh.dtype, fresh.weak_type = shape, dtype, weak_type
    fresh.placement = where
    fresh.size = math.prod(shape)
    return _interned.setdefault((shape, dtype, weak_type, where), fresh)


def placed_aval(aval: ShapedArray, sharding: Sharding) -> ShapedArray:
    """The type of an array once it is laid out by `sharding`."""
    return _placed_aval(aval, sharding, config.jax_remove_size_one_mesh_axis_from_type)


@functools.lru_cache(4096)
def _placed_aval(
    aval: ShapedArray, sharding: Sharding, _large_axes_alone: bool
) -> ShapedArray:
    kind = sharding.memory_kind  # None where there are no devices
    space = aval.memory_space if kind is None else MemorySpace.of_kind(kind)
    if not isinstance(sharding, NamedSharding):
        return aval.update(placement=in_space(None, space))
    mesh = sharding.mesh.abstract_mesh
    entries = [
        entry_of(n for n in axes if n in mesh.explicit_axes)
        for axes in sharding.spec.for_rank(aval.ndim).axes_of_dims()
    ]
    explicit = {*mesh.explicit_axes}
    sums = sharding.spec.unreduced & explicit, sharding.spec.reduced & explicit
    return aval.update(placement=placement(mesh, entries, aval.vma, *sums, space))


def aval_on(aval: ShapedArray, sharding: Sharding) -> ShapedArray:
    """The type of an array that a sharding lays out: it is on the mesh of that."""
    mesh = EMPTY_ABSTRACT_MESH
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh.abstract_mesh
    before = mesh_of(aval.placement)
    return aval if before is mesh or before.manual_axes else placed_aval(aval, sharding)


def _placed_so(
    aval: ShapedArray,
    sharding: NamedSharding | None,
    mat: ManualAxisType | None,
    space: MemorySpace | None,
) -> ShapedArray:
    """The type with the split of a sharding, what is said of manual axes, a memory."""
    if sharding is not None:
        aval = placed_aval(aval, sharding)
        _check_divided(aval, sharding)
    space = aval.memory_space if space is None else space
    if mat is None:
        return aval.update(placement=in_space(aval.placement, space))
    mat.refuse_extrema()
    mesh = get_abstract_mesh() if sharding is None else sharding.mesh.abstract_mesh
    where = aval.placement
    entries = () if where is None else where.entries
    sums = (mat.unreduced, mat.reduced)
    if where is not None:
        sums = (sums[0] | where.unreduced, sums[1] | where.reduced)
    return aval.update(placement=placement(mesh, entries, mat.varying, *sums, space))


def _check_divided(aval: ShapedArray, sharding: NamedSharding) -> None:
    """Raise ValueError for a type whose dims explicit axes do not cut evenly."""
    entries = () if aval.placement is None else aval.placement.entries
    for d, (size, entry) in enumerate(zip(aval.shape, entries)):
        count = sharding.mesh.size_of(entry_axes(entry))
        if not isinstance(size, SymbolicDim) and size % count:
            raise ValueError(
                f"Sharding spec {entry} implies that array axis {d} is partitioned"
                f" {count} times, but does not evenly divide the dimension size {size}."
                f" Got shape: {aval.shape} and sharding {sharding}"
            )


# Arrays of strings can be held, and laid out over devices; no op takes them.
STRING: Final = np.dtypes.StringDType()


def is_string(dtype: Any) -> bool:
    """Whether a dtype is that of arrays of strings."""
    return isinstance(dtype, np.dtype) and dtype.kind == "T"


def dtype_name(dtype: Any) -> str:
    """The dtype's own name: `float32`, `key<fry>`; `float0` for the tangent of ints."""
    return "float0" if dtype == dtypes.float0 else dtype.name


def tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents of `dtype`: itself if inexact, else `float0`.

    Dtypes of which tangents have another say so themselves.

    >>> import numpy as np
    >>> from curta.extend.core import primal_dtype_to_tangent_dtype
    >>> primal_dtype_to_tangent_dtype(np.dtype("float32"))
    dtype('float32')
    >>> primal_dtype_to_tangent_dtype(np.dtype("int32"))
    dtype([('float0', 'V')])
    """
    if isinstance(dtype, dtypes.PrimalTangentDType):
        return dtype.tangent
    return dtype if dtypes.issubdtype(dtype, np.inexact) else dtypes.float0


def scalar_aval(x: Any) -> ShapedArray:
    """The aval of a Python scalar: rank 0 and weakly typed."""
    return _PYTHON_SCALARS[type(x)](x)


def _python_scalar(kind: type) -> Any:
    def aval(x: Any) -> ShapedArray:
        return ShapedArray((), dtypes.python_scalar_dtype(x, kind), kind is not bool)

    return aval


class _Typed:
    """What Python numbers lack to be used as arrays are; they keep their dtype."""

    __slots__ = ()
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1
    weak_type: ClassVar[bool] = True
    kind: ClassVar[Any]
    dtype: np.dtype[Any]
    aval: ShapedArray

    def __new__(cls, value: Any, dtype: np.dtype[Any] | None = None) -> Any:
        number: Any = super().__new__(cls, value)  # type: ignore[call-arg]
        number.dtype = dtype or dtypes.python_scalar_dtype(value, cls.kind)
        number.aval = ShapedArray((), number.dtype, True)
        return number

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.kind(self), self.dtype


def _typed_aval(x: _Typed) -> ShapedArray:
    return x.aval


class TypedInt(_Typed, int):
    """A Python int with the attributes of an array."""

    kind = int


class TypedFloat(_Typed, float):
    """A Python float with the attributes of an array."""

    kind = float


class TypedComplex(_Typed, complex):
    """A Python complex number with the attributes of an array."""

    kind = complex


_NUMBERS: Final = (bool, int, float, complex)
_TYPED: Final[dict[type, Any]] = {
    int: TypedInt, float: TypedFloat, complex: TypedComplex,
}  # fmt: skip
_PYTHON_SCALARS: Final[dict[type, Any]] = {
    kind: _python_scalar(kind) for kind in _NUMBERS
}
_PYTHON_SCALARS.update(dict.fromkeys(_TYPED.values(), _typed_aval))


def untyped(x: Any) -> Any:
    """`x`, as Python's own int, float or complex if it is one with attributes."""
    return x.kind(x) if isinstance(x, _Typed) else x


def typed(x: Any) -> Any:
    """`x`, with the attributes of an array if it is an int, float or complex."""
    kind = _TYPED.get(type(x))
    return x if kind is None else kind(x)


def is_python_scalar(x: Any) -> bool:
    """Whether x is a Python bool, int, float or complex, and of no other subclass."""
    return type(x) in _PYTHON_SCALARS


def plain_scalar(x: Any) -> Any:
    """`x`, as a bool, int, float or complex if its class derives from one of these.

    Members of an `IntEnum` do. NumPy's own do too, but have a dtype.
    """
    if type(x) in _PYTHON_SCALARS or not isinstance(x, _NUMBERS):
        return x
    if isinstance(x, np.generic):
        return x
    kind: Any = next(kind for kind in _NUMBERS if isinstance(x, kind))
    return kind(x)
