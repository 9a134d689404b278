"""From an exported function to bytes; docs/design/export.md describes the format."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import struct
from typing import Any, Final

import numpy as np

from curta import dtypes
from curta.control.call import JitCall
from curta.control.custom_call import CustomCall
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.op import Op
from curta.core.partition_spec import PartitionSpec
from curta.core.placement import Placement
from curta.core.sharding import NamedSharding
from curta.core.symbolic.dims import DimExpr
from curta.core.symbolic.scope import SymbolicScope
from curta.export.records import op_classes, parameter_classes
from curta.export.registration import checked_keys, stored_node
from curta.primitives.random_bits.implementations import KeyImplementation
from curta.primitives.random_bits.registry import implementation_of

MAGIC: Final = b"CURTAEXP"
VERSION: Final = 1
HEADER: Final = struct.Struct("<8sIQ")


class Encoder:
    """Values as JSON, with jaxprs, scopes and the bytes of arrays in tables."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.jaxprs: list[Any] = []
        self.scopes: list[Any] = []
        self._known: dict[int, tuple[int, Any]] = {}

    def value(self, x: Any) -> Any:
        """Any value that occurs in a program."""
        if x is None or isinstance(x, (bool, str)) or type(x) is int:
            return x
        for kind, encode in _ENCODERS:
            if isinstance(x, kind):
                return encode(self, x)
        if type(x) in _SEQUENCES:
            return {_SEQUENCES[type(x)]: [self.value(item) for item in x]}
        if isinstance(x, dict):
            return {"dict": [[self.value(k), self.value(v)] for k, v in x.items()]}
        return self._record(x)

    def _record(self, x: Any) -> Any:
        cls = type(x)
        if parameter_classes().get(cls.__name__) is not cls:
            what = "functions" if callable(x) else f"values of {cls}"
            raise NotImplementedError(
                f"serialization of {what} is not implemented: {x!r}. A program that"
                " calls back into Python cannot be stored."
            )
        if isinstance(x, enum.Enum):
            return {"enum": [cls.__name__, x.name]}
        if isinstance(x, tuple):
            fields = {name: getattr(x, name) for name in cls._fields}
        else:
            fields = _fields(x)
        return {"record": [cls.__name__, self._values(fields)]}

    def _values(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(v) for name, v in fields.items()}

    def buffer(self, data: bytes) -> int:
        self.buffers.append(data)
        return len(self.buffers) - 1

    # ---- numbers and arrays

    def float(self, x: float) -> Any:
        return {"float": x.hex()}

    def complex(self, x: complex) -> Any:
        return {"complex": [x.real.hex(), x.imag.hex()]}

    def integer(self, x: Any) -> Any:
        return {"scalar": self._elements(np.asarray(x))}

    def _elements(self, x: np.ndarray[Any, Any]) -> Any:
        if x.dtype == object:
            raise NotImplementedError(f"arrays of objects cannot be stored: {x!r}")
        dtype = "float0" if x.dtype == dtypes.float0 else x.dtype.name
        data = b"" if dtype == "float0" else np.ascontiguousarray(x).tobytes()
        return [dtype, [*x.shape], self.buffer(data)]

    def numpy(self, x: np.ndarray[Any, Any]) -> Any:
        return {"numpy": self._elements(x)}

    def array(self, x: Any) -> Any:
        data = np.asarray(x._storage())
        return {"array": [self.aval(x.aval), self._elements(data)]}

    def dtype(self, x: Any) -> Any:
        return {"dtype": "float0" if x == dtypes.float0 else x.name}

    def key_dtype(self, x: dtypes.KeyDType) -> Any:
        return {"key": [x.tag, x.words]}

    def generator(self, x: KeyImplementation) -> Any:
        return {"generator": [x.name, x is implementation_of(x.name)]}

    # ---- types

    def aval(self, x: ShapedArray) -> Any:
        fields = (x.shape, x.dtype, x.weak_type, x.placement)
        return {"aval": [self.value(f) for f in fields]}

    def dim(self, x: DimExpr) -> Any:
        return {"dim": [str(x), self._scope(x.scope)]}

    def _scope(self, scope: SymbolicScope) -> int:
        known = self._known.get(id(scope))
        if known is None:
            self.scopes.append([c.text for c in scope.constraints if c.given])
            known = self._known[id(scope)] = len(self.scopes) - 1, scope
        return known[0]

    def placement(self, x: Placement) -> Any:
        axes = x.varying, x.unreduced, x.reduced
        parts = (x.mesh, x.entries, *(tuple(sorted(a)) for a in axes), x.space)
        return {"placement": [self.value(p) for p in parts]}

    def mesh(self, x: Any) -> Any:
        fields = (tuple(x.axis_sizes), tuple(x.axis_names), tuple(x.axis_types))
        form = "mesh" if isinstance(x, Mesh) else "abstract_mesh"
        return {form: [self.value(f) for f in fields]}

    def spec(self, x: PartitionSpec) -> Any:
        sets = (tuple(sorted(x.unreduced)), tuple(sorted(x.reduced)))
        return {"spec": [self.value(v) for v in (tuple(x.partitions), *sets)]}

    def sharding(self, x: NamedSharding) -> Any:
        parts = (x.mesh, x.spec, x.memory_kind)
        return {"sharding": [self.value(p) for p in parts]}

    # ---- programs

    def closed(self, x: ClosedJaxpr) -> Any:
        return {"closed": [self.jaxpr(x.jaxpr)["jaxpr"], self.value([*x.consts])]}

    def jaxpr(self, x: Jaxpr) -> Any:
        known = self._known.get(id(x))
        if known is None:
            made = self._program(x)
            self.jaxprs.append(made)
            known = self._known[id(x)] = len(self.jaxprs) - 1, x
        return {"jaxpr": known[0]}

    def _program(self, jaxpr: Jaxpr) -> Any:
        numbers: dict[Var, int] = {}

        def bind(v: Var) -> Any:
            numbers[v] = len(numbers)
            return self.value(v.aval)

        def atom(x: Any) -> Any:
            if isinstance(x, Literal):
                return {"literal": [self.value(x.val), self.value(x.aval)]}
            return numbers[x]

        def eqn(e: Eqn) -> Any:
            invars = [atom(v) for v in e.invars]
            return [self.value(e.op), invars, [bind(v) for v in e.outvars]]

        return {
            "name": jaxpr.debug_info.name,
            "consts": [bind(v) for v in jaxpr.constvars],
            "inputs": [bind(v) for v in jaxpr.invars],
            "eqns": [eqn(e) for e in jaxpr.eqns],
            "outputs": [atom(v) for v in jaxpr.outvars],
        }

    def op(self, op: Op) -> Any:
        if isinstance(op, CustomCall):  # the rules are functions; the VJP has used them
            op = JitCall(op.jaxpr, op.name)
        name = type(op).__name__
        if op_classes().get(name) is not type(op):
            raise NotImplementedError(
                f"the op '{op.name}' cannot be stored: it is not one of the package's"
            )
        fields: dict[str, Any] = _fields(op) if dataclasses.is_dataclass(op) else {}
        return {"op": [name, self._values(fields)]}

    # ---- structures

    def tree(self, tree: Any) -> Any:
        """A pytree structure."""
        data = tree.node_data()
        if data is None:
            return "leaf"
        kind, meta = data
        children = [self.tree(c) for c in tree.children()]
        if kind in _TREES:
            return [_TREES[kind], None, children]
        if kind is dict:
            return ["dict", checked_keys(meta), children]
        name, stored = stored_node(kind, meta)
        return ["registered", [name, base64.b64encode(stored).decode()], children]


_TREES: dict[type, str] = {tuple: "tuple", list: "list", type(None): "none"}
_SEQUENCES: dict[type, str] = {tuple: "tuple", list: "list", frozenset: "set"}
_ENCODERS: Any = (
    (np.generic, Encoder.integer),
    (float, Encoder.float),
    (complex, Encoder.complex),
    (np.ndarray, Encoder.numpy),
    (Array, Encoder.array),
    (np.dtype, Encoder.dtype),
    (dtypes.KeyDType, Encoder.key_dtype),
    (KeyImplementation, Encoder.generator),
    (ShapedArray, Encoder.aval),
    (DimExpr, Encoder.dim),
    (Placement, Encoder.placement),
    ((Mesh, AbstractMesh), Encoder.mesh),
    (PartitionSpec, Encoder.spec),
    (NamedSharding, Encoder.sharding),
    (ClosedJaxpr, Encoder.closed),
    (Jaxpr, Encoder.jaxpr),
    (Op, Encoder.op),
)


def _fields(x: Any) -> dict[str, Any]:
    return {f.name: getattr(x, f.name) for f in dataclasses.fields(x) if f.init}


_PLAIN = (
    "fun_name", "nr_devices", "calling_convention_version",
)  # fmt: skip
_VALUES = (
    "in_avals", "out_avals", "_in_named_shardings", "_out_named_shardings", "platforms",
    "module_kept_var_idx", "jaxpr",
)  # fmt: skip


def _function(encoder: Encoder, exported: Any, vjp_order: int) -> Any:
    form = {name: getattr(exported, name) for name in _PLAIN}
    form |= {name: encoder.value(getattr(exported, name)) for name in _VALUES}
    form["in_tree"] = encoder.tree(exported.in_tree)
    form["out_tree"] = encoder.tree(exported.out_tree)
    form["disabled_safety_checks"] = [*map(str, exported.disabled_safety_checks)]
    form["vjp"] = None
    if vjp_order > 0:
        form["vjp"] = _function(encoder, exported.vjp(), vjp_order - 1)
    return form


def serialize(exported: Any, vjp_order: int) -> bytearray:
    """The bytes of an exported function, and of its derivatives up to an order."""
    encoder = Encoder()
    function = _function(encoder, exported, vjp_order)
    sizes = [len(b) for b in encoder.buffers]
    text = json.dumps(
        {
            "function": function,
            "jaxprs": encoder.jaxprs,
            "scopes": encoder.scopes,
            "buffers": sizes,
        },
        separators=(",", ":"),
    ).encode()
    out = bytearray(HEADER.pack(MAGIC, VERSION, len(text)))
    for part in (text, *encoder.buffers):
        out += part
    return out
