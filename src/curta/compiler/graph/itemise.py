"""A jaxpr to work items: an expression for each materialised value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from curta.compiler.graph.items import EqnItem, Item, loop_item
from curta.compiler.graph.values import Values, decide, is_fold, is_virtual
from curta.compiler.loops.build import FLOAT32, ScalarBuilder, component, is_half
from curta.compiler.loops.complexes import ComplexExpr
from curta.compiler.loops.index import Affine, row_major
from curta.compiler.loops.lower import (
    Elements,
    Refused,
    loop_dims,
    refusals,
    variables,
)
from curta.compiler.loops.nodes import Buffer, Fold, Store
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.dtypes import physical_dtype
from curta.ops.families import Reduction
from curta.ops.structure import Reshape


@dataclass(frozen=True)
class Program:
    """Items in an order in which they can run, and where arguments and results lie."""

    items: tuple[Item, ...]
    inputs: tuple[Buffer, ...]
    consts: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    avals: dict[Buffer, ShapedArray]
    builder: ScalarBuilder


def itemise(jaxpr: Jaxpr) -> Program:
    """The items of a jaxpr without calls.

    An op that turns out to have no compiled code for its dtypes becomes a step in
    Python, and everything is decided again.
    """
    host: frozenset[Eqn] = frozenset()
    while True:
        maker = _Maker(jaxpr, decide(jaxpr, host), host)
        refused = maker.run()
        if refused is None:
            return maker.program()
        host |= {refused}


class _Maker:
    def __init__(self, jaxpr: Jaxpr, values: Values, host: frozenset[Eqn]) -> None:
        self.jaxpr = jaxpr
        self.values = values
        self.host = host
        self.builder = ScalarBuilder()
        self.buffers: dict[Var, Buffer] = {}
        self.avals: dict[Buffer, ShapedArray] = {}
        self.elements = Elements(self.builder, self.buffers, values.definitions)
        self.items: list[Item] = []
        self.inputs = tuple(self._buffer(v, "in") for v in jaxpr.invars)
        self.consts = tuple(self._buffer(v, "const") for v in jaxpr.constvars)
        self.outputs: list[Buffer] = []

    def run(self) -> Eqn | None:
        """Make all items; the eqn that refused its dtypes, if there was one."""
        try:
            for eqn in self.jaxpr.eqns:
                self._eqn(eqn)
            self._return()
        except Refused as refusal:
            return refusal.eqn
        return None

    def program(self) -> Program:
        return Program(
            tuple(self.items), self.inputs, self.consts, tuple(self.outputs),
            self.avals, self.builder,
        )  # fmt: skip

    def _buffer(self, var: Var, prefix: str) -> Buffer:
        buffer = self._new_buffer(var.aval, f"{prefix}{len(self.avals)}")
        self.buffers[var] = buffer
        return buffer

    def _new_buffer(self, aval: ShapedArray, name: str) -> Buffer:
        dtype, size = physical_dtype(aval.dtype), aval.size
        if dtype.kind == "c":
            dtype, size = component(dtype), 2 * size
        buffer = Buffer(name, dtype, size)
        self.avals[buffer] = aval
        return buffer

    def _eqn(self, eqn: Eqn) -> None:
        wanted = [v for v in eqn.outvars if v in self.values.materialised]
        if not wanted:
            return
        if eqn not in self.host and is_fold(eqn.op):
            self._fold(eqn)
        elif eqn in self.host or not is_virtual(eqn.op):
            operands = tuple(self._operand(a) for a in eqn.invars)
            results = tuple(self._buffer(v, "v") for v in eqn.outvars)
            self.items.append(EqnItem(eqn, operands, results))
        else:
            for var in wanted:
                self._map(var)

    def _operand(self, atom: Atom) -> Buffer | Atom:
        return atom if isinstance(atom, Literal) else self.buffers[atom]

    def _map(self, var: Var) -> None:
        eqn = self.values.definitions[var]
        source = eqn.invars[0] if eqn.invars else None
        if isinstance(eqn.op, Reshape) and self._is_temporary(source):
            self.buffers[var] = self.buffers[source]  # type: ignore[index]
            return
        index = loop_dims(var.aval.shape)
        value = self.elements.computed(var, index)
        self._emit_map(self._buffer(var, "v"), index, value, eqn.op.name)

    def _is_temporary(self, atom: Atom | None) -> bool:
        return (
            isinstance(atom, Var)
            and atom in self.buffers
            and atom in self.values.materialised
        )

    def _emit_map(
        self, buffer: Buffer, index: tuple[Any, ...], value: Any, label: str
    ) -> None:
        shape = self.avals[buffer].shape
        if math.prod(shape) == 0:
            return
        stores = self._stores(buffer, row_major(index, shape), value)
        self.items.append(loop_item(label, variables(index), (), stores, ()))

    def _stores(self, buffer: Buffer, offset: Affine, value: Any) -> tuple[Store, ...]:
        if isinstance(value, ComplexExpr):
            return (
                Store(buffer, offset * 2, value.re),
                Store(buffer, offset * 2 + 1, value.im),
            )
        return (Store(buffer, offset, value),)

    def _fold(self, eqn: Eqn) -> None:
        assert isinstance(eqn.op, Reduction)
        (operand,), (var,) = eqn.invars, eqn.outvars
        shape, axes = operand.aval.shape, sorted(eqn.op.axes)
        kept = loop_dims(var.aval.shape)
        first = len(variables(kept))
        reduced = loop_dims(tuple(shape[a] for a in axes), first)
        of_axis, rest = dict(zip(axes, reduced, strict=True)), iter(kept)
        index = tuple(
            of_axis[k] if k in of_axis else next(rest) for k in range(len(shape))
        )
        buffer = self._buffer(var, "v")
        if var.aval.size == 0:
            return
        with refusals(eqn):
            fold, value = self._folded(eqn, index, buffer, row_major(kept, var.aval.shape))
        inner = variables(reduced)
        if inner and math.prod(shape):
            item = loop_item(eqn.op.name, variables(kept), inner, (), (fold,))
            self.items.append(item)
        else:
            self._emit_map(buffer, kept, value, eqn.op.name)

    def _folded(
        self, eqn: Eqn, index: tuple[Any, ...], buffer: Buffer, offset: Affine
    ) -> tuple[Fold, Any]:
        """The fold, and its result should there be one element or none to fold."""
        b, op = self.builder, eqn.op
        assert isinstance(op, Reduction)
        aval = eqn.invars[0].aval
        dtype = physical_dtype(aval.dtype)
        accumulator = FLOAT32 if is_half(dtype) else dtype
        identity = b.const(op.identity(dtype), accumulator)
        if aval.size:
            x = b.convert(self.elements.at(eqn.invars[0], index), accumulator)
        else:
            x = identity
        left, right = (b.placeholder(n, accumulator) for n in ("left", "right"))
        combined = op.combine(b, left, right)
        stores = self._stores(buffer, offset, b.convert(left, dtype))
        fold = Fold(*map(parts, (x, identity, left, right, combined)), stores)
        return fold, b.convert(x, dtype)

    def _return(self) -> None:
        """The outputs; a value returned as it came in, or twice, is copied."""
        taken: set[Buffer] = set(self.inputs) | set(self.consts)
        for atom in self.jaxpr.outvars:
            buffer = self.buffers.get(atom) if isinstance(atom, Var) else None
            if buffer is None or buffer in taken:
                buffer = self._new_buffer(atom.aval, f"out{len(self.outputs)}")
                index = loop_dims(atom.aval.shape)
                self._emit_map(buffer, index, self.elements.at(atom, index), "copy")
            taken.add(buffer)
            self.outputs.append(buffer)


def parts(x: Any) -> tuple[Any, ...]:
    """The real expressions that a value consists of."""
    return (x.re, x.im) if isinstance(x, ComplexExpr) else (x,)
