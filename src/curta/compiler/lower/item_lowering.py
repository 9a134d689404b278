"""Lower a jaxpr to work items: an expression for each materialized value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee, host_call
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.folds import columns_of, fold_code, reduced_index
from curta.compiler.loops.index import (
    Affine,
    Quotient,
    Remainder,
    as_index,
    row_major,
)
from curta.compiler.loops.index_set_splitting import index_regions
from curta.compiler.loops.lower import (
    CannotLowerEqn,
    loop_dims,
    refusals,
    variables,
)
from curta.compiler.loops.nodes import Buffer, Load, Store, walk
from curta.compiler.lower.collectives import collective_items
from curta.compiler.lower.control import control_item, python_item
from curta.compiler.lower.convolutions import conv_items
from curta.compiler.lower.cumulative import cumulative_items
from curta.compiler.lower.dots import dot_items
from curta.compiler.lower.interiors import interiors_first
from curta.compiler.lower.item_builder import InPlace, ItemBuilder, LowerPart
from curta.compiler.lower.items import Item, LoopItem
from curta.compiler.lower.matrix_loops import matrix_loop_item
from curta.compiler.lower.routines import in_memory, routine_item
from curta.compiler.lower.ties import first_of
from curta.compiler.lower.updates import update_items
from curta.compiler.lower.windows import (
    choice_items,
    selected_scatter_items,
    window_items,
)
from curta.compiler.rewrite.by_class import by_class
from curta.compiler.rewrite.library_op import LibraryOp
from curta.compiler.rewrite.matrix_loops import MatrixLoops
from curta.compiler.rewrite.values import (
    Values,
    decide,
    is_joined,
    is_virtual,
)
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim, typical
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.cumulative import Cumulative
from curta.primitives.dot import DotGeneral
from curta.primitives.families import Reduction
from curta.primitives.host_collectives import HostCollective
from curta.primitives.indexing.windows import WindowUpdate
from curta.primitives.joining import Concatenate
from curta.primitives.reduction import ArgReduction
from curta.primitives.structure import BroadcastInDim, Transpose
from curta.primitives.windowed.reductions import WindowReduction
from curta.primitives.windowed.selection import SelectAndGatherAdd, SelectAndScatterAdd


@dataclass(frozen=True)
class LoweredItems:
    """The work items of a jaxpr, in an order in which they can run.

    Fields:
        items: maps, folds, library calls and regions.
        inputs, consts, outputs: buffers of arguments, constants and results.
        avals: the type of the value in each buffer.
        builder: the builder of the scalar expressions in the items.
        variables: the buffer of each materialised value of the jaxpr.
        ties: results that begin as an operand, each with that.
        tuning: the limits of the target.
    """

    items: tuple[Item, ...]
    inputs: tuple[Buffer, ...]
    consts: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    avals: dict[Buffer, ShapedArray]
    builder: ScalarBuilder
    variables: Mapping[Var, Buffer]
    ties: Mapping[Buffer, Buffer]
    tuning: Tuning


def _no_parts(_: ClosedJaxpr, __: InPlace, ___: bool) -> Callee:
    raise ValueError("loops and branches in the jaxpr need a compiler of callees")


def lower_to_items(
    jaxpr: Jaxpr,
    target: Target,
    lower_part: LowerPart = _no_parts,
    in_place: InPlace | None = None,
) -> LoweredItems:
    """The items of a jaxpr without calls.

    An op that turns out to have no compiled code for its dtypes becomes a step in
    Python, and everything is decided again.
    """
    host: frozenset[Eqn] = frozenset()
    free = {jaxpr.invars[i]: out for i, out in (in_place or {}).items()}
    while True:
        values = decide(jaxpr, target.tuning, host)
        lowering = ItemLowering(jaxpr, values, host, lower_part, free, target)
        refused = lowering.run()
        if refused is None:
            return lowering.lowered()
        host |= {refused}


class ItemLowering(ItemBuilder):
    """Makes the items of one jaxpr."""

    def __init__(
        self,
        jaxpr: Jaxpr,
        values: Values,
        host: frozenset[Eqn],
        lower_part: LowerPart,
        in_place: Mapping[Var, int],
        target: Target,
    ) -> None:
        super().__init__(jaxpr, values, host, lower_part, target)
        self.jaxpr = jaxpr
        self.in_place = in_place
        kept = (v for v in jaxpr.invars if v not in in_place)
        self.kept: set[Var] = {*kept, *jaxpr.constvars, *values.returned}
        self.order: dict[Eqn, int] = {eqn: i for i, eqn in enumerate(jaxpr.eqns)}
        self.outputs: list[Buffer] = []
        self.barriers = 0  # passed so far
        self.behind: dict[Atom, int] = {}  # value -> number of the barrier it is behind

    def run(self) -> Eqn | None:
        """Make all items; gives the eqn whose dtypes have no code, if there is one."""
        try:
            for eqn in self.jaxpr.eqns:
                before = len(self.items)
                self._eqn(eqn)
                self._stay_behind(eqn, before)
            self._return()
        except CannotLowerEqn as refusal:
            return refusal.eqn
        return None

    def lowered(self) -> LoweredItems:
        return LoweredItems(
            interiors_first(self.items, self.ties), self.inputs, self.consts,
            tuple(self.outputs), self.avals, self.builder, self.buffers, self.ties,
            self.tuning,
        )  # fmt: skip

    def _eqn(self, eqn: Eqn) -> None:
        wanted = [v for v in eqn.outvars if v in self.values.materialised]
        if not wanted and not eqn.effects:
            return
        rule = None if eqn in self.host else by_class(ITEMS, eqn.op)
        if rule is not None and rule(self, eqn) is not False:
            return
        if eqn in self.host or not is_virtual(eqn.op):
            results = self.results(eqn)
            if eqn.op.regions:
                control_item(self, eqn, results)
            else:
                self._host(eqn, results)
            return
        for var in wanted:
            self._map(var)

    def barrier(self, eqn: Eqn) -> None:
        """Rename values in memory, so that their readers come after the barrier."""
        self.barriers += 1
        for operand, out in zip(eqn.invars, eqn.outvars, strict=True):
            self.buffers[out] = in_memory(self, operand)
            self.behind[out] = self.barriers

    def _stay_behind(self, eqn: Eqn, first: int) -> None:
        """Mark the items of an eqn, and its virtual results, as behind a barrier."""
        if not self.barriers:
            return
        behind = max((self.behind.get(v, 0) for v in eqn.invars), default=0)
        if not behind:
            return
        for i in range(first, len(self.items)):
            item = self.items[i]
            if isinstance(item, LoopItem):
                self.items[i] = dataclasses.replace(item, behind=behind)
        stored = self.values.materialised
        later = (v for v in eqn.outvars if v not in stored or self._renamed(v))
        self.behind.update((v, behind) for v in later)

    def update(self, eqn: Eqn) -> None:
        """Add the items of an update, whose result is tied to an operand in memory."""
        (out,), operand = eqn.outvars, self.buffer_of(eqn.invars[0])
        shape = cast(WindowUpdate, eqn.op).update_shape(*[v.aval for v in eqn.invars])
        if operand is not None and (0 in shape or not out.aval.size):
            self.buffers[out] = operand
            return
        result = self._buffer(out, "v")
        if operand is not None:
            self.ties[result] = operand
        if operand is not None and self._may_be_in_place(eqn, shape):
            seen: dict[Atom, bool] = {}
            for var in dict.fromkeys(eqn.invars[1:]):
                reads = self._reads(var, operand, seen) and var not in self.buffers
                if reads and isinstance(var, Var):
                    self._map(var)
        update_items(self, eqn, shape, result, copy=operand is None)

    def _may_be_in_place(self, eqn: Eqn, shape: tuple[int, ...]) -> bool:
        """Whether several elements may be stored where others are still read."""
        operand = eqn.invars[0]
        assert isinstance(operand, Var)
        last = self.values.uses[operand][-1]
        later = operand in self.kept or self.order[last] > self.order[eqn]
        return math.prod(shape) != 1 and not later

    def _reads(self, atom: Atom, memory: Buffer, seen: dict[Atom, bool]) -> bool:
        """Whether the code of a value reads some memory."""
        if not isinstance(atom, Var):
            return False
        if atom in self.buffers:
            return self.buffers[atom] is memory
        if atom not in seen:
            made = self.values.definitions.get(atom)
            operands = made.invars if made else ()
            seen[atom] = any(self._reads(v, memory, seen) for v in operands)
        return seen[atom]

    def _host(self, eqn: Eqn, results: tuple[Buffer, ...]) -> None:
        """An eqn that runs in Python, unless its results have no elements."""
        sizes = [v.aval.size for v in eqn.outvars]
        if sizes and not any(sizes) and not eqn.op.effects:
            return
        operands = [self.buffers[v] for v in eqn.invars if isinstance(v, Var)]
        self.items.append(python_item(eqn, tuple(operands), results, host_call(eqn)))

    def _map(self, var: Var) -> None:
        eqn = self.values.definitions[var]
        if (there := self._renamed(var)) is not None:
            self.buffers[var] = there
            return
        if is_joined(eqn, self.tuning):
            return self._join(eqn, self._buffer(var, "v"))
        large = typical(
            var.aval.size
        ) >= self.tuning.large_join and not self._has_columns(var)
        if large and self._in_regions(var):
            return
        if not var.aval.size:
            self._buffer(var, "v")
        elif (moved := self._unmerged(eqn)) is not None:
            self._map_in_order_of(moved, var)
        elif self._has_columns(var):
            self._columns(var, var)
        else:
            index = loop_dims(var.aval.shape)
            value = self.elements.computed(var, index)
            self.emit_map(self._buffer(var, "v"), index, value, eqn.op.name)

    def _renamed(self, var: Var) -> Buffer | None:
        """Return the buffer that a variable only renames, or None."""
        eqn = self.values.definitions[var]
        if not eqn.op.renames_memory or eqn in self.host:
            return None
        return self.buffer_of(eqn.invars[eqn.outvars.index(var)])

    def _unmerged(self, eqn: Eqn) -> Var | None:
        """The operand of a reshape, if elements are computed in the operand's order.

        Each is found by sums there, and by divisions along dims that were merged: of a
        transpose, of what is repeated (`tile`, `kron`), of columns side by side.
        """
        (operand, *_) = eqn.invars or (None,)
        if not eqn.op.renames_memory or not isinstance(operand, Var):
            return None
        definition = self.values.definitions.get(operand)
        if definition is None or operand in self.buffers or not operand.aval.shape:
            return None
        if isinstance(definition.op, Transpose):
            return operand
        (out,) = eqn.outvars
        if operand.aval.shape[-1] in out.aval.shape[-1:]:
            return None
        return operand if self._has_columns(operand) or self._divides(out) else None

    def _divides(self, var: Var) -> bool:
        """Whether elements lie where divisions of a map's indices say."""
        value = self.elements.computed(var, loop_dims(var.aval.shape))
        offsets = (e.offset for e in walk(parts(value)) if isinstance(e, Load))
        atoms = (a for offset in offsets for a in offset.atoms())
        return any(isinstance(a, (Quotient, Remainder)) for a in atoms)

    def _map_in_order_of(self, operand: Var, var: Var) -> None:
        """The map of a reshape, by the dims of its operand."""
        if self._has_columns(operand):
            return self._columns(operand, var)
        index = loop_dims(operand.aval.shape)
        value = self.elements.at(operand, index)
        offset = row_major(index, operand.aval.shape)
        stores = self.stores(self._buffer(var, "v"), offset, value)
        self.items.append(LoopItem(variables(index), stores, (), label="reshape"))
        return None

    def _has_columns(self, var: Var) -> bool:
        """Whether a map's last dim is a few columns: parts, or the same repeated."""
        shape, definition = var.aval.shape, self.values.definitions.get(var)
        most = self.tuning.side_by_side
        if definition is None or not shape or is_symbolic_dim(shape[-1]):
            return False
        if not 1 < shape[-1] <= most:
            return False
        op, last = definition.op, len(shape) - 1
        if type(op) is BroadcastInDim:
            return var.aval.size > shape[-1] and last not in op.broadcast_dimensions
        if not isinstance(op, Concatenate) or op.dimension != last:
            return False
        return len(definition.invars) == shape[-1]

    def _columns(self, columns: Var, var: Var) -> None:
        """The map of columns, or of a reshape of them: a store for each."""
        *rows, count = columns.aval.shape
        index, buffer = loop_dims(tuple(rows)), self._buffer(var, "v")
        stores: list[Store] = []
        for k in range(count):
            position = (*index, k)
            value = self.elements.computed(columns, position)
            offset = row_major(position, columns.aval.shape)
            stores += self.stores(buffer, offset, value)
        dims = variables(index)
        item = LoopItem(dims, tuple(stores), (), label="columns", partial=True)
        self.items.append(item)

    def _in_regions(self, var: Var) -> bool:
        """Make an item for each region of a map with seams, if it has some."""
        regions = self._regions(var)
        if len(regions) == 1:
            return False
        shape, buffer = var.aval.shape, self._buffer(var, "v")
        for source in regions:
            value = self.elements.computed(var, source)
            self._part(buffer, source, row_major(source, shape), value)
        return True

    def _regions(self, var: Atom) -> list[tuple[Affine, ...]]:
        """The indices of a map's elements, for each region between seams."""
        if not isinstance(var, Var) or var in self.buffers:
            return [tuple(map(as_index, loop_dims(var.aval.shape)))]
        return index_regions(
            var.aval.shape, lambda index: parts(self.elements.computed(var, index))
        )

    def _part(
        self, buffer: Buffer, source: Sequence[Affine], offset: Affine, value: Any
    ) -> None:
        """An item that stores some elements of a buffer, in the order of `source`."""
        self.emit_part(source, self.stores(buffer, offset, value), "part")

    def _join(self, eqn: Eqn, buffer: Buffer) -> None:
        """A concatenation: items for each part, which store its rows."""
        axis, start, shape = eqn.op.params()["dimension"], 0, self.avals[buffer].shape
        for part in eqn.invars:
            extent = part.aval.shape[axis]
            if part.aval.size:
                for source in self._regions(part):
                    position = list(source)
                    position[axis] = position[axis] + start
                    value = self.elements.at(part, source)
                    self._part(buffer, source, row_major(position, shape), value)
            start += extent

    def fold(self, eqn: Eqn) -> None:
        """Add the items of a reduction."""
        (operand,), (var,) = eqn.invars, eqn.outvars
        shape, axes = operand.aval.shape, sorted(eqn.op.params()["axes"])
        kept = loop_dims(var.aval.shape)
        reduced = loop_dims(tuple(shape[a] for a in axes), len(variables(kept)))
        index = reduced_index(axes, reduced, kept)
        buffer = self._buffer(var, "v")
        with refusals(eqn):
            code = fold_code(eqn.op, self.builder, physical_dtype(operand.aval.dtype))
        inputs = code.initial
        if operand.aval.size:
            source = reduced[0] if axes else 0
            inputs = code.inputs(self.elements.at(operand, index), source)
        with refusals(eqn):
            columns = columns_of(shape, axes)
            self.emit_fold(
                buffer, kept, reduced, inputs, code, eqn.op.name, columns=columns
            )

    def _return(self) -> None:
        """The outputs; a value returned as it came in, or twice, is copied.

        An argument that is returned in its own place is tied to that, and so is what
        may overwrite an argument in whose place another result is returned.
        """
        taken: set[Buffer] = set(self.inputs) | set(self.consts)
        places = {self.buffers[var]: out for var, out in self.in_place.items()}
        first = first_of(self.ties)
        for position, atom in enumerate(self.jaxpr.outvars):
            buffer, name = self.buffer_of(atom), f"out{position}"
            place = None if buffer is None else places.get(first.get(buffer, buffer))
            if place is not None and (place == position) == (buffer in places):
                result = self.new_buffer(atom.aval, name)
                assert buffer is not None
                self.ties[result], buffer = buffer, result
            elif buffer is None or buffer in taken:
                element = partial(self.elements.at, atom)
                buffer = self.stored(atom.aval, name, element, "copy")
            taken.add(buffer)
            self.outputs.append(buffer)


# ------------------------------------------------------------------ items by op class


def in_one_buffer(
    items: Callable[[ItemLowering, Eqn, Buffer], None],
) -> Callable[[ItemLowering, Eqn], None]:
    """A rule that makes the buffer of the one result; dtypes may be refused."""

    def rule(lowering: ItemLowering, eqn: Eqn) -> None:
        with refusals(eqn):
            (result,) = lowering.results(eqn)
            items(lowering, eqn, result)

    return rule


def _update(lowering: ItemLowering, eqn: Eqn) -> None:
    with refusals(eqn):
        lowering.update(eqn)


def _routine(lowering: ItemLowering, eqn: Eqn) -> None:
    routine_item(lowering, eqn, lowering.results(eqn))


ITEMS: dict[type[Op], Callable[[ItemLowering, Eqn], bool | None]] = {
    Reduction: ItemLowering.fold,
    ArgReduction: ItemLowering.fold,
    DotGeneral: in_one_buffer(dot_items),
    ConvGeneralDilated: in_one_buffer(conv_items),
    Cumulative: in_one_buffer(cumulative_items),
    WindowReduction: in_one_buffer(window_items),
    SelectAndGatherAdd: in_one_buffer(choice_items),
    SelectAndScatterAdd: in_one_buffer(selected_scatter_items),
    WindowUpdate: _update,
    LibraryOp: _routine,
    MatrixLoops: matrix_loop_item,
    OptimizationBarrier: ItemLowering.barrier,
    HostCollective: collective_items,
}
"""What adds the items of ops that are loops; False if an op has no code after all.

Other ops are elements of maps, by their `lower` rule, or run by their `eval` rule."""
