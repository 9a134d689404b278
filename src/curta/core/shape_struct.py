"""`ShapeDtypeStruct`: the type of an array, for functions that need no values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta.core.array_layout import Format, Layout, concrete_layout
from curta.core.avals import ShapedArray
from curta.core.manual_axes import ManualAxisType
from curta.core.mesh_scope import get_concrete_mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.placement import mesh_of
from curta.core.sharding import MemorySpace, NamedSharding, Sharding
from curta.core.trace import Tracer, typeof
from curta.dtypes import ExtendedDType


class ShapeDtypeStruct:
    """Shape, dtype and sharding of an array, without data.

    Args:
      shape, dtype: of the array.
      sharding: a `Sharding`, a `Format` that holds one, or a `PartitionSpec` over the
        mesh that is in scope when it is asked for.
      weak_type: whether the dtype gives way to others.
      manual_axis_type: a `ManualAxisType`: over which axes of a `shard_map` it varies.
      is_ref: whether it is a reference to such an array.
      _memory_space: the memory that it is in, a `memory.Space`, where the sharding does
        not say it. None (default) is that of devices.

    Raises:
      TypeError: for a `manual_axis_type` of another type.
      ValueError: for other shardings, and those of arrays of more dims.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = (
        "_layout",
        "_memory_space",
        "_sharding",
        "dtype",
        "is_ref",
        "manual_axis_type",
        "shape",
        "weak_type",
    )

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
        is_ref: bool = False,
        _memory_space: MemorySpace | None = None,
    ):
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape: tuple[Any, ...] = tuple(shape)
        self.dtype: Any = dtype if isinstance(dtype, ExtendedDType) else np.dtype(dtype)
        self._layout: Layout | None = None
        if isinstance(sharding, Format):
            given = concrete_layout(sharding, "in a `ShapeDtypeStruct`")
            sharding, self._layout = given.sharding, given.layout
            if self._layout is not None:
                self._layout.check_compatible_aval(self.shape)
        _check_sharding(sharding, self.shape)
        if not isinstance(manual_axis_type, (ManualAxisType, type(None))):
            raise TypeError(
                "`manual_axis_type` argument passed to ShapeDtypeStruct should be of"
                " type `jax.sharding.ManualAxisType`. Got type"
                f" {type(manual_axis_type)}"
            )
        self._sharding = sharding
        self.weak_type: bool = weak_type
        self.manual_axis_type: ManualAxisType | None = manual_axis_type
        self.is_ref: bool = is_ref
        self._memory_space: MemorySpace | None = _memory_space

    @classmethod
    def of_aval(cls, aval: ShapedArray) -> Any:
        """The struct of an aval; a type of a program's own is its own description."""
        if aval.is_high:
            return aval
        explicit = mesh_of(aval.placement).explicit_axes
        sharding = aval.sharding if explicit or aval.mat.vur else None
        return cls(
            aval.shape,
            aval.dtype,
            sharding=sharding,
            weak_type=aval.weak_type,
            manual_axis_type=None if aval.mat.empty else aval.mat,
            _memory_space=aval.memory_space,
        )

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array, a Python number or anything of a shape and dtype."""
        sharding = getattr(x, "sharding", None)
        uncommitted = not isinstance(x, (ShapeDtypeStruct, Tracer))
        if uncommitted and not getattr(x, "committed", True):
            sharding = None
        aval = typeof(x)
        return cls.of_aval(aval).update(sharding=sharding)

    @property
    def sharding(self) -> Any:
        """How the array is laid out, None if that is open.

        Raises TypeError for a `PartitionSpec` where no mesh is in scope.
        """
        if not isinstance(self._sharding, PartitionSpec):
            return self._sharding
        mesh = get_concrete_mesh()
        if mesh.empty:
            raise TypeError(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh"
                " cannot be empty. Please use `jax.set_mesh` to set the mesh context."
            )
        return NamedSharding(mesh, self._sharding)

    @property
    def format(self) -> Format:
        """How the array is stored: its layout and its sharding, None for what is open.

        >>> ShapeDtypeStruct((2, 3), "float32").format
        Format(layout=None, sharding=None)
        """
        return Format(self._layout, self.sharding)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """This struct with some fields replaced."""
        names = [name for name in self.__slots__ if not name.startswith("_")]
        fields = {name: getattr(self, name) for name in names}
        known = self._layout is not None
        fields["sharding"] = self.format if known else self._sharding
        fields["_memory_space"] = self._memory_space
        return ShapeDtypeStruct(**{**fields, **changes})

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def _key(self) -> tuple[Any, ...]:
        kinds = self.weak_type, self.manual_axis_type, self.is_ref
        return self.shape, self.dtype, self.sharding, self._layout, *kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        placed = f", sharding={self.sharding}" if self.sharding is not None else ""
        placed += f", format={self._layout}" if self._layout is not None else ""
        rest = "".join(
            f", {name}={getattr(self, name)}"
            for name in ("weak_type", "manual_axis_type", "is_ref")
            if getattr(self, name)
        )
        return (
            f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}"
            f"{placed}{rest})"
        )

    __str__ = __repr__


def _check_sharding(sharding: Any, shape: tuple[int, ...]) -> None:
    if isinstance(sharding, Sharding):
        sharding.check_compatible_aval(shape)
    elif isinstance(sharding, PartitionSpec):
        if len(shape) < len(sharding):
            raise ValueError(
                f"PartitionSpec {sharding} is only valid for values of rank at least"
                f" {len(sharding)}, but was applied to a value of rank {len(shape)}."
            )
    elif sharding is not None:
        raise ValueError(
            "sharding should be an instance of `jax.sharding.Sharding`,"
            " `jax.sharding.PartitionSpec` or `jax.experimental.layout.Format`. Got"
            f" {sharding} of type {type(sharding)}."
        )


def is_like_array(x: Any) -> bool:
    """Whether it has a shape and a dtype, but is no array."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.ndarray)


def no_value_message(x: Any, name: str) -> str:
    """What is said of scalars of foreign dtypes, structs and the like as arguments."""
    if not isinstance(x, ShapeDtypeStruct):
        return (
            f"Argument '{x}' of type {type(x)} is not a valid JAX type. It was passed"
            f" as {name}."
        )
    return (
        f"Argument '{name}' of shape {x.dtype.name}[{','.join(map(str, x.shape))}] of"
        f" type {type(x)} is not a valid JAX type. It has no elements: use"
        " .lower(...) or eval_shape, which need none."
    )
