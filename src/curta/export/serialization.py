"""From bytes to an exported function; docs/design/export.md describes the format.

Nothing in the bytes is executed: they name ops of the package and types that the
program has registered. The result is checked like any jaxpr.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from curta import dtypes, tree_util
from curta.core.avals import ShapedArray
from curta.core.check import check_jaxpr
from curta.core.jaxpr import Atom, ClosedJaxpr, DebugInfo, Eqn, Jaxpr, Literal, Var
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.placement import placement
from curta.core.sharding import NamedSharding
from curta.core.symbolic.dims import parse_shape
from curta.core.symbolic.scope import SymbolicScope
from curta.errors import JaxprTypeError
from curta.export.encoding import HEADER, MAGIC, VERSION
from curta.export.exported import DisabledSafetyCheck, Exported
from curta.export.field_types import check_fields
from curta.export.records import op_classes, parameter_classes
from curta.export.registration import stored_type_named
from curta.primitives.random_bits.registry import implementation_of
from curta.runtime.array import wrap
from curta.runtime.devices import devices
from curta.tree.treedef import LEAF, make_treedef

_AVAL_FIELDS = ("shape", "dtype", "weak_type", "placement")


class Decoder:
    """Reads the output of `Encoder`."""

    def __init__(self, tables: Any, data: memoryview):
        ends = np.cumsum([0, *tables["buffers"]]).tolist()
        if min(tables["buffers"], default=0) < 0 or ends[-1] != len(data):
            raise ValueError("the sizes of its arrays do not add up")
        self.buffers: list[memoryview[int]] = [
            data[a:b] for a, b in zip(ends, ends[1:])
        ]
        self.scopes: list[SymbolicScope] = [
            SymbolicScope(tuple(texts)) for texts in tables["scopes"]
        ]
        self.jaxprs: list[Jaxpr] = []
        for program in tables["jaxprs"]:  # those within it come before a jaxpr
            self.jaxprs.append(self._program(program))

    def value(self, x: Any) -> Any:
        """Any value that occurs in a program."""
        if not isinstance(x, dict):
            return x
        ((form, content),) = x.items()
        return _DECODERS[form](self, content)

    def values(self, xs: Sequence[Any]) -> list[Any]:
        return [self.value(x) for x in xs]

    # ---- numbers and arrays

    def elements(self, content: Any) -> np.ndarray[Any, Any]:
        name, shape, number = content
        dtype = numpy_dtype(name)
        if dtype == dtypes.float0:
            return np.zeros(shape, dtype)
        data = self.buffers[number]
        if len(data) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"an array of shape {shape} has {len(data)} bytes")
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def scalar(self, content: Any) -> Any:
        return self.elements(content)[()]

    def array(self, content: Any) -> Any:
        aval, elements = self.value(content[0]), self.elements(content[1])
        if aval.shape != elements.shape:
            raise ValueError(f"an array of type {aval} has shape {elements.shape}")
        if dtypes.physical_dtype(aval.dtype) != elements.dtype:
            raise ValueError(f"an array of type {aval} has dtype {elements.dtype}")
        return wrap(elements, aval)

    def generator(self, content: Any) -> Any:
        name, usual = content
        result = implementation_of(name)
        return result if usual else result.one_by_one()

    # ---- types

    def aval(self, content: Any) -> ShapedArray:
        fields = dict(zip(_AVAL_FIELDS, self.values(content), strict=True))
        check_fields(ShapedArray, fields)
        if not isinstance(fields["dtype"], (np.dtype, dtypes.ExtendedDType)):
            raise ValueError(f"{fields['dtype']!r} is not a dtype")
        if any(isinstance(n, int) and n < 0 for n in fields["shape"]):
            raise ValueError(f"no array has shape {fields['shape']}")
        return ShapedArray(**fields)

    def dim(self, content: Any) -> Any:
        text, number = content
        (dim,) = parse_shape(text, repr(text), self.scopes[number], None)
        return dim

    def mesh(self, content: Any) -> Any:
        sizes, names, types = self.values(content)
        count = math.prod(sizes)
        if count > len(devices()):
            raise ValueError(
                f"it is for a mesh of {count} devices, and there are {len(devices())}"
            )
        return Mesh(np.array(devices()[:count]).reshape(sizes), names, types)

    def spec(self, content: Any) -> PartitionSpec:
        partitions, unreduced, reduced = self.values(content)
        return PartitionSpec(
            *partitions, unreduced=frozenset(unreduced), reduced=frozenset(reduced)
        )

    def record(self, content: Any) -> Any:
        name, fields = content
        return self._made(parameter_classes()[name], fields)

    def op(self, content: Any) -> Any:
        name, fields = content
        return self._made(op_classes()[name], fields)

    def _made(self, cls: type, fields: Any) -> Any:
        values = {k: self.value(v) for k, v in fields.items()}
        check_fields(cls, values)
        return cls(**values)

    # ---- programs

    def closed(self, content: Any) -> ClosedJaxpr:
        number, consts = content
        return ClosedJaxpr(self.jaxprs[number], self.value(consts))

    def _program(self, program: Any) -> Jaxpr:
        vars: list[Var] = []

        def bind(aval: Any) -> Var:
            vars.append(Var(self.value(aval)))
            return vars[-1]

        def atom(x: Any) -> Atom:
            if isinstance(x, int):
                return vars[x]
            value, aval = self.values(x["literal"])
            return Literal(value, aval)

        constvars = [bind(a) for a in program["consts"]]
        invars = [bind(a) for a in program["inputs"]]
        eqns = []
        for op, args, outs in program["eqns"]:
            atoms = tuple(map(atom, args))
            eqns.append(Eqn(self.value(op), atoms, tuple(map(bind, outs))))
        outvars = [atom(x) for x in program["outputs"]]
        jaxpr = Jaxpr(
            constvars, invars, outvars, eqns, DebugInfo(name=str(program["name"]))
        )
        check_jaxpr(jaxpr)
        return jaxpr

    # ---- structures

    def tree(self, form: Any) -> Any:
        if form == "leaf":
            return LEAF.treedef
        kind, meta, below = form
        children = [self.tree(c) for c in below]
        if kind in _TREES:
            return make_treedef(_TREES[kind], None, [c._node for c in children])
        if kind == "dict":
            result = dict(
                zip(meta, ([0] * c.num_leaves for c in children), strict=True)
            )
            trees = {k: c.unflatten(result[k]) for k, c in zip(meta, children)}
            return tree_util.tree_structure(trees)
        name, data = meta
        stored = stored_type_named(name)
        if stored is None:
            raise ValueError(
                f"it has a pytree type `{name}` that is not registered here. Call"
                " `export.register_pytree_node_serialization` for it first"
            )
        return stored.treedef(base64.b64decode(data), children)


_TREES: dict[str, type] = {"tuple": tuple, "list": list, "none": type(None)}


def _sharding(mesh: Any, spec: Any, memory_kind: str | None = None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


_DECODERS: dict[str, Callable[[Decoder, Any], Any]] = {
    "float": lambda d, x: float.fromhex(x),
    "complex": lambda d, x: complex(*map(float.fromhex, x)),
    "scalar": Decoder.scalar,
    "numpy": Decoder.elements,
    "array": Decoder.array,
    "dtype": lambda d, x: numpy_dtype(x),
    "key": lambda d, x: dtypes.KeyDType(*x),
    "generator": Decoder.generator,
    "aval": Decoder.aval,
    "dim": Decoder.dim,
    "placement": lambda d, x: placement(*d.values(x)),
    "mesh": Decoder.mesh,
    "abstract_mesh": lambda d, x: AbstractMesh(*d.values(x)),
    "spec": Decoder.spec,
    "sharding": lambda d, x: _sharding(*d.values(x)),
    "tuple": lambda d, x: tuple(d.values(x)),
    "list": Decoder.values,
    "set": lambda d, x: frozenset(d.values(x)),
    "dict": lambda d, x: {d.value(k): d.value(v) for k, v in x},
    "enum": lambda d, x: parameter_classes()[x[0]][x[1]],  # type: ignore[index]
    "record": Decoder.record,
    "op": Decoder.op,
    "closed": Decoder.closed,
    "jaxpr": lambda d, x: d.jaxprs[x],
}


def numpy_dtype(name: str) -> Any:
    """The dtype of a name; ValueError for those that arrays do not have."""
    if name == "float0":
        return dtypes.float0
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if dtype.hasobject or dtype.kind not in "biufcV" or dtype.fields is not None:
        raise ValueError(f"unknown dtype {name!r}")
    return dtype


def _function(decoder: Decoder, form: Any) -> Exported:
    vjp = None if form["vjp"] is None else _function(decoder, form["vjp"])
    closed = decoder.value(form["jaxpr"])
    in_avals = decoder.value(form["in_avals"])
    in_tree, out_tree = decoder.tree(form["in_tree"]), decoder.tree(form["out_tree"])
    if tuple(a.strip_weak_type() for a in closed.in_avals) != in_avals:
        raise ValueError("its program has other arguments than it says")
    if closed.out_avals != decoder.value(form["out_avals"]):
        raise ValueError("its program has other results than it says")
    if (in_tree.num_leaves, out_tree.num_leaves) != (
        len(in_avals), len(closed.out_avals)
    ):  # fmt: skip
        raise ValueError("its trees have other leaves than its program")
    arguments = in_tree.node_data()
    if arguments is None or arguments[0] is not tuple or len(in_tree.children()) != 2:
        raise ValueError("the tree of its arguments is not a pair of args and kwargs")
    checks = tuple(map(DisabledSafetyCheck, form["disabled_safety_checks"]))
    return Exported(
        fun_name=str(form["fun_name"]),
        in_tree=in_tree,
        in_avals=in_avals,
        out_tree=out_tree,
        out_avals=closed.out_avals,
        _in_named_shardings=decoder.value(form["_in_named_shardings"]),
        _out_named_shardings=decoder.value(form["_out_named_shardings"]),
        nr_devices=int(form["nr_devices"]),
        platforms=decoder.value(form["platforms"]),
        disabled_safety_checks=checks,
        calling_convention_version=int(form["calling_convention_version"]),
        module_kept_var_idx=decoder.value(form["module_kept_var_idx"]),
        jaxpr=closed,
        _get_vjp=None if vjp is None else lambda _: vjp,
    )


def deserialize(blob: bytes | bytearray) -> Exported:
    """The function that `Exported.serialize` stored.

    Loading executes nothing of what is stored; bytes of unknown origin can be loaded.

    Raises ValueError for bytes that are not a function, or are damaged, or of a newer
    version of the format, and for pytree types that are not registered.

    >>> import curta
    >>> from curta import export
    >>> stored = export.export(curta.jit(lambda x: {"twice": 2 * x}))(1.0).serialize()
    >>> export.deserialize(stored).call(4.0)
    {'twice': Array(8., dtype=float32, weak_type=True)}
    """
    data = memoryview(bytes(blob))
    if len(data) < HEADER.size:
        raise ValueError("not an exported function: data is truncated")
    magic, version, length = HEADER.unpack(data[: HEADER.size])
    if magic != MAGIC:
        raise ValueError(
            "not an exported function of Curta: functions exported by other systems"
            " have another format and cannot be loaded."
        )
    if version != VERSION:
        raise ValueError(
            f"the exported function has version {version} of the format, and only"
            f" {VERSION} can be read. Export it again."
        )
    body = data[HEADER.size :]
    try:
        tables = json.loads(bytes(body[:length]))
        decoder = Decoder(tables, body[length:])
        return _function(decoder, tables["function"])
    except (
        KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError,
        JaxprTypeError, AssertionError,
    ) as error:  # fmt: skip
        raise ValueError(
            f"the exported function cannot be loaded: {error or type(error).__name__}"
        ) from error
