"""Loops over many examples as code in registers, a block of examples at a time.

Where every large value of a loop has a dim of the same extent, and what an example
computes depends on no other, the loop can run to its end for one block of examples
after the other: `vmap` of a loop, or a loop over arrays that are only combined element
by element. An example is then a lane of a vector, a value is a vector for each of its
few other elements, and only rows are read from memory and written to it. Blocks are
shared out among threads.

A while loop runs while the loop of any example runs, and does not change finished
examples (control/while_loop.py). If that holds, each block may end with its own
examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.loops.build import CannotLower, CannotUseRegisters
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.index import (
    ZERO,
    Affine,
    LoopVar,
    as_index,
    row_major,
    unravel,
)
from curta.compiler.loops.nodes import Buffer, LoopNest, Region, Storage, Store
from curta.compiler.lower.register_blocks import (
    RegisterElements,
    constant_of,
    numbers,
    require_native,
    stores,
)
from curta.compiler.lower.registers import RegisterLowering
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.rewrite.simplify import simplify
from curta.compiler.targets import Target, Tuning
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.dim import may_exceed, typical
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.core.memo import has_hash
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.errors import MissingRule
from curta.primitives.elementwise.select import SelectN
from curta.primitives.reduction import ReduceOr
from curta.primitives.structure import BroadcastInDim
from curta.transforms.dce import dce_jaxpr


class Crossing(CannotUseRegisters):
    """An example would read what belongs to another."""


def lane_code(
    eqn: Eqn, operands: Sequence[Buffer], results: Sequence[Buffer], target: Target
) -> Region | None:
    """The code of a loop over many examples; None if it does not qualify."""
    extent = _examples(eqn, target.tuning)
    if extent is None:
        return None
    avals = [v.aval for v in eqn.outvars]
    lowering = BatchLowering(extent, target)
    try:
        args = lowering.arguments([a.aval for a in eqn.invars], operands)
        outs = lowering.control(eqn.op, args, avals, tuple(results))
        for out, array in zip(outs, results, strict=True):
            if out is not None:
                lowering.save(out, array)
    except (CannotLower, MissingRule):
        return None
    return Region(tuple(lowering.blocks[0]), lowering.lane)


def _examples(eqn: Eqn, tuning: Tuning) -> int | None:
    """How many examples a loop may be over: the first dim of its largest carry."""
    if eqn.op.loop is None:
        return None
    carried = [
        v.aval
        for v in eqn.outvars[: eqn.op.loop.carry]
        if may_exceed(v.aval.size, tuning.register_elements)
    ]
    if not carried:
        return None
    shape = max(carried, key=lambda a: typical(a.size)).shape
    return shape[0] if typical(shape[0]) >= tuning.fewest_lanes else None


class LaneElements(RegisterElements):
    """Elements of values; each lane has the elements of one example."""

    _lowering: BatchLowering

    def at(self, atom: Atom, index: tuple[Any, ...]) -> Any:
        lowering = self._lowering
        if isinstance(atom, Literal):
            return super().at(atom, index)
        known = lowering.known.get(atom)
        if known is not None:
            return self._pick(index, known.shape, lambda at: super_at(self, atom, at))
        row = lowering.rows.get(atom)
        if atom in lowering.buffers:
            buffer = lowering.buffers[atom]
            kept, shape = lowering.own(index, atom.aval.shape, lowering.dims[buffer])
            if kept is not None:
                dtype = physical_dtype(atom.aval.dtype)
                return self._pick(
                    kept,
                    shape,
                    lambda at: self.builder.load(buffer, row_major(at, shape), dtype),
                )
            if row is None:
                raise Crossing(f"index {index[lowering.dims[buffer] or 0]}")
        if row is not None:
            source, number = row
            if isinstance(source, Buffer):
                offset = number + row_major(index, atom.aval.shape)
                dtype = physical_dtype(atom.aval.dtype)
                return self.builder.load(source, offset, dtype)
            return self.at(source, (number, *index))
        return self.computed(atom, index)

    def _pick(
        self, index: Sequence[Any], shape: tuple[int, ...], element: Callable[..., Any]
    ) -> Any:
        """The element at an index, which may be read from data: a choice among all."""
        offset, size = row_major(index, shape), 1
        for d in shape:
            size *= d
        if offset.is_constant:
            at = min(max(offset.const, 0), size - 1)
            return element(unravel(as_index(at), shape))
        value = element(unravel(as_index(0), shape))
        for i in range(1, size):
            here = self.builder.compare("eq", offset, i)
            value = self.builder.select(
                here, element(unravel(as_index(i), shape)), value
            )
        return value


def super_at(elements: RegisterElements, atom: Atom, index: tuple[Any, ...]) -> Any:
    """The element of a known value at a known index."""
    return RegisterElements.at(elements, atom, index)


class BatchLowering(RegisterLowering):
    """Writes the code of a block of examples.

    `dims` says which dim of a value in registers is that of the examples, None if all
    examples share it. `rows` says of a value where it lies in an array in memory, or
    which row of another value it is.
    """

    def __init__(self, extent: int, target: Target) -> None:
        super().__init__(target)
        self.most_rows: int = self.tuning.lane_vectors
        self.most_products: int = 8 * self.most_rows
        self._values = 0
        self.lane: LoopVar = LoopVar("example", extent)
        self.examples = (self.lane,)
        self.dims: dict[Buffer, int | None] = {}
        self.rows: dict[Var, tuple[Any, Any]] = {}
        self.elements: LaneElements = LaneElements(self)

    # ------------------------------------------------------------------ values

    def argument(self, aval: ShapedArray, array: Buffer) -> Var:
        require_native(aval)
        var = Var(aval)
        self.rows[var] = array, as_index(0)
        self._level[var] = 0
        if self._fits(aval):
            self.register(var)
        return var

    def candidates(self, shape: tuple[int, ...]) -> list[int | None]:
        """The dims that may be that of the examples."""
        result = [k for k, d in enumerate(shape) if d == self.lane.extent]
        return [*result] if result else [None]

    def own(
        self, index: Sequence[Any], shape: tuple[int, ...], dim: int | None
    ) -> tuple[list[Any] | None, tuple[int, ...]]:
        """An index among the elements of one example; None if it is of another's."""
        if dim is None:
            return list(index), shape
        if as_index(index[dim]) != as_index(self.lane):
            return None, shape
        return [*index[:dim], *index[dim + 1 :]], shape[:dim] + shape[dim + 1 :]

    def elements_of(self, aval: ShapedArray) -> int:
        (dim, *_) = self.candidates(aval.shape)
        return aval.size if dim is None else aval.size // self.lane.extent

    def _fits(self, aval: ShapedArray) -> bool:
        size = self.elements_of(aval)
        return 0 < size <= self.tuning.lane_vectors

    def may_be_in_place(self, aval: ShapedArray) -> bool:
        return False

    def require(self, aval: ShapedArray) -> None:
        require_native(aval)
        if not self._fits(aval):
            raise CannotUseRegisters(f"{aval.size} elements")

    def buffer(self, aval: ShapedArray, storage: Storage = "register") -> Buffer:
        (dim, *_) = self.candidates(aval.shape)
        return self._buffer(aval, dim, storage)

    def _nest(self, dim: int | None, stores: tuple[Store, ...]) -> LoopNest:
        """Stores of what each example has, or of what all share."""
        return LoopNest(() if dim is None else (self.lane,), stores, ())

    def _buffer(self, aval: ShapedArray, dim: int | None, storage: Storage) -> Buffer:
        self.require(aval)
        dtype, size = numbers(aval)
        size = size if dim is None else size // self.lane.extent
        result = Buffer(f"r{self.builder.fresh()}", dtype, size, storage)
        self.dims[result] = dim
        return result

    def compute(self, aval: ShapedArray, level: int, element: Any) -> Buffer:
        for dim in self.candidates(aval.shape):
            try:
                values = tuple(
                    p
                    for at in self.own_indices(aval.shape, dim)
                    for p in parts(element(at))
                )
            except Crossing:
                continue
            self._values += len(values)
            if self._values > self.tuning.lane_values:
                raise CannotUseRegisters("too many values")
            result = self._buffer(aval, dim, "register")
            self.add(self._nest(dim, stores(result, ZERO, values)), level)
            return result
        raise Crossing("no dim belongs to the examples")

    def indices(self, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
        return self.own_indices(shape, self.candidates(shape)[0])

    def own_indices(
        self, shape: tuple[int, ...], dim: int | None
    ) -> list[tuple[Any, ...]]:
        """The indices of the elements of an example, or of what all share."""
        if dim is None:
            return super().indices(shape)
        kept = super().indices(shape[:dim] + shape[dim + 1 :])
        return [(*i[:dim], as_index(self.lane), *i[dim:]) for i in kept]

    def require_own(
        self, index: Sequence[Any], update: Sequence[Any], element: Sequence[Any]
    ) -> None:
        lane = as_index(self.lane)
        own = [p for i, p in zip(index, element, strict=True) if as_index(i) == lane]
        shared = not own and all(as_index(i) != lane for i in update)
        if not shared and (not own or any(as_index(p) != lane for p in own)):
            raise Crossing("an update of another example")

    def small(self, atom: Atom) -> Buffer:
        """Registers with a vector for each element if there is a dim of examples."""
        self.require(atom.aval)
        (dim, *_) = self.candidates(atom.aval.shape)
        result = self.register(atom)
        if self.dims.get(result) == dim:
            return result
        return self.compute(
            atom.aval, self.level(atom), lambda index: self.elements.at(atom, index)
        )

    def register(self, atom: Atom) -> Buffer:
        known = constant_of(atom) if isinstance(atom, Literal) else None
        if isinstance(atom, Var) and atom in self.rows and atom not in self.buffers:
            row = lambda index: self.elements.at(atom, index)  # noqa: E731
            self.buffers[atom] = result = self.compute(
                atom.aval, self._level[atom], row
            )
            return result
        result = super().register(atom)
        if known is not None or atom in self.known:
            self.dims[result] = None
        return result

    def save(self, atom: Atom, array: Buffer, first: Affine = ZERO) -> None:
        value, b = self.small(atom), self.builder
        shape, dim = atom.aval.shape, self.dims[value]
        offsets = [first + row_major(at, shape) for at in self.own_indices(shape, dim)]
        if physical_dtype(atom.aval.dtype).kind == "c":
            offsets = [o * 2 + part for o in offsets for part in (0, 1)]
        elements = [
            b.load_where(value, as_index(i), None, value.dtype)
            for i in range(value.size)
        ]
        pairs = zip(offsets, elements, strict=True)
        self.add(self._nest(dim, tuple(Store(array, o, x) for o, x in pairs)))

    # ----------------------------------------------------------- control flow

    def stacked(self, aval: ShapedArray) -> Buffer:
        raise CannotUseRegisters("rows that an inner loop writes")

    def save_row(self, atom: Atom, array: Buffer, iteration: LoopVar) -> None:
        self.save(atom, array, as_index(iteration) * atom.aval.size)

    def condition(self, op: While, args: Sequence[Atom]) -> ClosedJaxpr:
        return _examples_that_go_on(op, args, self.target) or op.cond_jaxpr

    def row(self, x: Atom, iteration: LoopVar, level: int) -> Var:
        aval = x.aval.update(shape=x.aval.shape[1:])
        row = Var(aval)
        self._level[row] = level
        self.rows[row] = x, as_index(iteration)
        if (
            isinstance(x, Var)
            and x in self.rows
            and isinstance(self.rows[x][0], Buffer)
        ):
            array, first = self.rows[x]
            self.rows[row] = array, first + as_index(iteration) * aval.size
        return row


# --------------------------------------------- while loops over many examples


def _examples_that_go_on(
    op: While, args: Sequence[Atom], target: Target
) -> ClosedJaxpr | None:
    """Which examples go on, if the loop leaves alone the others; None if it does not.

    The condition is that any of them does, and the body selects by the same flags
    between what it has computed and the carry as it was.
    """
    cond, body = (_flat(x, target) for x in (op.cond_jaxpr, op.body_jaxpr))
    made = {v: e for e in cond.jaxpr.eqns for v in e.outvars}
    (out,) = cond.jaxpr.outvars
    test = _made_by(ReduceOr, out, made)
    if test is None:
        return None
    (flags,) = test.invars
    if flags.aval.ndim == 0 or len(test.op.params()["axes"]) < flags.aval.ndim:
        return None
    number = _numbered(op, args, cond.jaxpr, body.jaxpr)
    made.update((v, e) for e in body.jaxpr.eqns for v in e.outvars)
    carry = body.jaxpr.invars[op.body_nconsts :]
    for before, after in zip(carry, body.jaxpr.outvars, strict=True):
        if after is before:
            continue
        which = _mask(after, before, made)
        if which is None or number(which) != number(flags):
            return None
    jaxpr = cond.jaxpr.replace(outvars=(flags,))
    return ClosedJaxpr(dce_jaxpr(jaxpr), cond.consts)


def _flat(closed: ClosedJaxpr, target: Target) -> ClosedJaxpr:
    flat = inline_calls(closed, expansions(target))
    return ClosedJaxpr(dce_jaxpr(simplify(flat.jaxpr, target)), flat.consts)


def _made_by(cls: type[Op], atom: Atom, made: dict[Var, Eqn]) -> Eqn | None:
    """The eqn of a value, if its op is of a class."""
    eqn = made.get(atom) if isinstance(atom, Var) else None
    return eqn if eqn is not None and isinstance(eqn.op, cls) else None


def _mask(new: Atom, old: Var, made: dict[Var, Eqn]) -> Atom | None:
    """The flags by which something new is selected over `old`, if it is."""
    eqn = _made_by(SelectN, new, made)
    if eqn is None or len(eqn.invars) != 3:
        return None
    which, kept, _ = eqn.invars
    if kept is not old:
        return None
    spread = _made_by(BroadcastInDim, which, made)
    if spread is None:
        return which
    (flags,) = spread.invars
    dims = tuple(spread.op.params()["broadcast_dimensions"])
    return flags if dims == tuple(range(flags.aval.ndim)) else which


def _numbered(
    op: While, args: Sequence[Atom], cond: Jaxpr, body: Jaxpr
) -> Callable[[Atom], Any]:
    """A number for each value of a condition and a body, equal for equal values."""
    numbers: dict[Atom, Any] = {}
    known: dict[Any, Any] = {}
    first, second, initial = op.parts(args)
    for jaxpr, consts in ((cond, first), (body, second)):
        outside = [*consts, *(("carry", i) for i in range(len(initial)))]
        for var, value in zip(jaxpr.invars, outside, strict=True):
            numbers[var] = var if isinstance(value, Literal) else value

    def number(atom: Atom) -> Any:
        if isinstance(atom, Literal):
            return constant_of(atom).tobytes(), atom.aval
        return numbers[atom]

    for jaxpr in (cond, body):
        numbers.update((v, v) for v in jaxpr.constvars)
        for eqn in jaxpr.eqns:
            key: Any = (eqn.op, *map(number, eqn.invars))
            if eqn.effects or not has_hash(key):
                key = (eqn,)
            for i, out in enumerate(eqn.outvars):
                numbers[out] = known.setdefault((i, *key), out)
    return number
