"""Exported functions as the files that JAX reads (`jax.export.deserialize`).

The schema is JAX's `export/serialization.fbs`, version 10 of April 2026. The numbers of
its fields and enums are listed here. JAX runs the module in StableHLO.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from curta import dtypes
from curta.api.lowered import canonical_platforms
from curta.core.avals import ShapedArray
from curta.core.mesh import AbstractMesh, AxisType
from curta.core.partition_spec import PartitionSpec, entry_axes
from curta.core.sharding import NamedSharding
from curta.export.flatbuffer import FlatTable, Scalar, Vector, flatbuffer
from curta.export.registration import checked_keys, stored_node

# JAX's readers before 2026 refuse other versions; fields of later ones are optional.
_VERSION = 3

_DTYPES = {
    "bool": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4,
    "uint8": 5, "uint16": 6, "uint32": 7, "uint64": 8,
    "float16": 9, "float32": 10, "float64": 11, "complex64": 12, "complex128": 13,
    "bfloat16": 14, "int4": 15, "uint4": 16, "float8_e4m3b11fnuz": 17,
    "float8_e4m3fn": 18, "float8_e4m3fnuz": 19, "float8_e5m2": 20,
    "float8_e5m2fnuz": 21, "float8_e4m3": 23, "float8_e3m4": 24, "float8_e8m0fnu": 25,
    "float4_e2m1fn": 26, "key<fry>": 27, "key<rbg>": 28, "key<urbg>": 29,
}  # fmt: skip
_FLOAT0 = 22
_AXIS_TYPES = {AxisType.Auto: 1, AxisType.Explicit: 2, AxisType.Manual: 3}
_DEVICE, _HOST = 1, 2
_TREES: dict[Any, int] = {type(None): 1, tuple: 2, list: 3, dict: 4}
_CUSTOM = 5
_NAMES = {"OrderedDict": "collections.OrderedDict"}


def serialize_for_jax(exported: Any, vjp_order: int) -> bytearray:
    """The bytes of an `Exported`.

    Raises:
      ValueError: for pytree types that are not registered, and for more derivatives
        than the function has.
      TypeError: for dicts with keys that are not strings.
      NotImplementedError: for effects, which are functions of this process, and for
        dtypes that JAX has no number for.
    """
    return flatbuffer(_exported(exported, vjp_order))


def _exported(x: Any, vjp_order: int) -> FlatTable:
    effects = [*x.ordered_effects, *x.unordered_effects]
    if effects:
        raise NotImplementedError(
            f"a function with effects, {effects[0]}, cannot be stored for JAX, which"
            " would have to call functions of this process."
        )
    uniques = _Uniques()
    pairs = (
        (x.in_avals, x._in_named_shardings),
        (x.out_avals, x._out_named_shardings),
    )
    (ins, in_shardings), (outs, out_shardings) = (
        ([*map(uniques.aval, a, s)], [*map(uniques.sharding, s)]) for a, s in pairs
    )
    shardings = [uniques.described(s) for s in uniques.shardings]
    fields: dict[int, Any] = {
        0: Scalar("H", _VERSION),
        1: x.fun_name,
        2: _tree(x.in_tree),
        4: _tree(x.out_tree),
        9: [*canonical_platforms(x.platforms)],
        12: [*map(_check, x.disabled_safety_checks)],
        13: x.mlir_module_serialized,
        14: Scalar("H", x.calling_convention_version),
        15: Vector("H", x.module_kept_var_idx),
        16: Scalar("?", x.uses_global_constants),
        18: Scalar("I", x.nr_devices),
        19: [*uniques.avals],
        20: [*map(_mesh, uniques.meshes)],
        21: shardings,
        22: Vector("I", ins),
        23: Vector("I", outs),
        24: Vector("I", in_shardings),
        25: Vector("I", out_shardings),
    }
    if vjp_order:
        fields[17] = _exported(x.vjp(), vjp_order - 1)
    return FlatTable(fields)


class _Uniques:
    """Types, meshes and shardings, each once, by their numbers."""

    def __init__(self) -> None:
        self._avals: dict[Any, int] = {}
        self.avals: list[FlatTable] = []
        self.meshes: list[AbstractMesh] = []
        self.shardings: list[NamedSharding] = []

    def aval(self, aval: ShapedArray, sharding: NamedSharding | None) -> int:
        """The number of a type; where it is on devices its sharding says."""
        space = _HOST if _is_on_host(sharding) else _DEVICE
        key = aval.shape, aval.dtype, space
        if key not in self._avals:
            self._avals[key] = len(self.avals)
            shape = [str(n) for n in aval.shape]
            dtype = Scalar("b", _dtype(aval))
            fields = {1: shape, 2: dtype, 3: Scalar("b", space)}
            self.avals.append(FlatTable(fields))
        return self._avals[key]

    def sharding(self, sharding: NamedSharding | None) -> int:
        """The number of a sharding, from 1 on; 0 if it is open."""
        if sharding is None:
            return 0
        if sharding not in self.shardings:
            self.shardings.append(sharding)
        return 1 + self.shardings.index(sharding)

    def described(self, sharding: NamedSharding) -> FlatTable:
        """A sharding, with its mesh by number."""
        mesh = sharding.mesh.abstract_mesh
        if mesh not in self.meshes:
            self.meshes.append(mesh)
        fields: dict[int, Any] = {
            0: _mesh(mesh),
            1: _spec(sharding.spec),
            3: Scalar("I", self.meshes.index(mesh)),
        }
        if _is_on_host(sharding):
            fields[2] = sharding.memory_kind
        return FlatTable(fields)


def _is_on_host(sharding: NamedSharding | None) -> bool:
    return sharding is not None and sharding.memory_kind not in (None, "device")


def _dtype(aval: ShapedArray) -> int:
    if aval.dtype == dtypes.float0:
        return _FLOAT0
    number = _DTYPES.get(aval.dtype.name)
    if number is None:
        raise NotImplementedError(f"JAX's files have no number for {aval.dtype.name}")
    return number


def _mesh(mesh: AbstractMesh) -> FlatTable:
    types = [_AXIS_TYPES[t] for t in mesh.axis_types]
    sizes = Vector("I", mesh.axis_sizes)
    return FlatTable({0: sizes, 1: [*map(str, mesh.axis_names)], 2: Vector("b", types)})


def _spec(spec: PartitionSpec) -> FlatTable:
    partitions = [FlatTable({0: [*entry_axes(e)]}) for e in spec.partitions]
    sums: Iterable[frozenset[Any]] = (spec.reduced, spec.unreduced)
    reduced, unreduced = (sorted(names) for names in sums)
    return FlatTable({0: partitions, 1: reduced, 2: unreduced})


def _check(check: Any) -> FlatTable:
    target = check.is_custom_call()
    if target is None:
        return FlatTable({0: Scalar("b", 0)})
    return FlatTable({0: Scalar("b", 1), 1: target})


def _tree(tree: Any) -> FlatTable:
    data = tree.node_data()
    if data is None:
        return FlatTable({0: Scalar("b", 0)})
    kind, meta = data
    children: Sequence[FlatTable] = [*map(_tree, tree.children())]
    fields: dict[int, Any] = {0: Scalar("b", _TREES.get(kind, _CUSTOM))}
    if children:
        fields[1] = children
    if kind is dict:
        fields[2] = checked_keys(meta)
    elif kind not in _TREES:
        name, fields[4] = stored_node(kind, meta)
        fields[3] = _NAMES.get(name, name)
    return FlatTable(fields)
