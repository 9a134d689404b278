"""Loops over small values as code in registers: jaxprs to the register IR.

A loop (or a branch) qualifies if every value that its jaxprs compute has few elements
and every op can be written as scalar expressions. Then the whole of it, loops and
branches inside included, is one piece of straight, structured code: what it carries
are registers, rows are read and written in place, and what does not change in a loop is
computed before it. Other loops call programs (graph/control.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any

import numpy as np

from curta.compiler.graph.in_place import with_late_updates
from curta.compiler.graph.in_place_carries import InPlaceCarries, may_be_in_place
from curta.compiler.graph.inline import inline_calls
from curta.compiler.graph.simplify import simplify
from curta.compiler.graph.small_matrices import expanded
from curta.compiler.graph.unrolled import unroll
from curta.compiler.graph.values import is_virtual, op_cost
from curta.compiler.loops.build import (
    CannotLower,
    ScalarBuilder,
    component,
    is_native,
)
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.index import LoopVar, as_index, unravel
from curta.compiler.loops.lower import Elements
from curta.compiler.loops.nodes import Buffer, Expr, Instr, Load, walk
from curta.compiler.loops.registers import (
    CannotUseRegisters,
    Carry,
    Choice,
    Compute,
    CountedLoop,
    RegisterCode,
    Rows,
    Step,
    Table,
    WhileLoop,
    Write,
    phis_of,
)
from curta.config import config
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy, const_as_numpy, evaluate_op
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var
from curta.dtypes import physical_dtype
from curta.errors import MissingRule
from curta.primitives.indexing.windows import WindowUpdate
from curta.transforms.dce import dce_jaxpr

NDArray = np.ndarray[Any, Any]


def register_code(
    eqn: Eqn, operands: Sequence[Buffer], results: Sequence[Buffer]
) -> RegisterCode | None:
    """The code of a control-flow eqn; None if it does not qualify."""
    avals = [v.aval for v in eqn.outvars]
    if not _is_small(eqn):
        return None
    try:
        lowering = RegisterLowering()
        args = lowering.arguments([a.aval for a in eqn.invars], operands)
        outs = lowering.control(eqn.op, args, avals, tuple(results))
        for out, array in zip(outs, results, strict=True):
            if out is not None:
                lowering.add(Write(lowering.register(out), array))
    except (CannotLower, MissingRule):
        return None
    return RegisterCode(
        tuple(dict.fromkeys(operands)), tuple(results), tuple(lowering.blocks[0])
    )


def _is_small(eqn: Eqn) -> bool:
    """Whether the values of a loop, or of a branch, may all be small: a first look.

    All but what a loop carries and updates in memory.
    """
    op, avals = eqn.op, tuple(v.aval for v in eqn.outvars)
    body, carried = None, len(avals)
    if isinstance(op, Scan):
        body, avals, carried = op.jaxpr, op.jaxpr.out_avals, op.num_carry
    elif isinstance(op, While):
        body = op.body_jaxpr
    large = [i for i, a in enumerate(avals) if a.size > config.tuning.register_elements]
    return not large or (
        body is not None and large[-1] < carried and may_be_in_place(body)
    )


class RegisterElements(Elements):
    """Elements of values in registers; those of known ones are constants."""

    def __init__(self, lowering: RegisterLowering) -> None:
        super().__init__(lowering.builder, lowering.buffers, lowering.definitions)
        self._lowering = lowering

    def at(self, atom: Atom, index: tuple[Any, ...]) -> Any:
        known = self._lowering.known.get(atom) if isinstance(atom, Var) else None
        if known is not None:
            place = [as_index(i) for i in index]
            if all(i.is_constant for i in place):
                at = tuple(
                    min(max(i.const, 0), d - 1)
                    for i, d in zip(place, known.shape, strict=True)
                )
                return self.builder.const(known[at].item(), known.dtype)
            self._lowering.register(atom)
        return super().at(atom, index)


class RegisterLowering:
    """Writes the blocks of one piece of code.

    `blocks` are those that are open, outermost first. A variable has the `level` of
    the block from which on its value is there: an eqn goes to the block of the last of
    its operands, or to that of the innermost branch, which may not be taken.

    `most_rows` of a reduction are combined in one expression, and a product of matrices
    of `most_products` is written out.
    """

    def __init__(self) -> None:
        self.most_rows: int = config.tuning.unrolled_rows
        self.most_products: int = config.tuning.unrolled_products
        self.builder: ScalarBuilder = ScalarBuilder()
        self.blocks: list[list[Step]] = [[]]
        self.buffers: dict[Var, Buffer] = {}
        self.definitions: dict[Var, Eqn] = {}
        self.known: dict[Var, NDArray] = {}
        self.elements: RegisterElements = RegisterElements(self)
        self._level: dict[Var, int] = {}
        self._depth: dict[Atom, int] = {}  # of ops that only move elements
        self._branch = 0
        self._steps = 0
        self.in_place_carries: InPlaceCarries = InPlaceCarries(self)

    # ------------------------------------------------------------------ values

    def elements_of(self, aval: ShapedArray) -> int:
        """How many elements of such a value there are in registers."""
        return aval.size

    def indices(self, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """The indices of the elements of such a value, in order."""
        return [unravel(as_index(i), shape) for i in range(math.prod(shape))]

    def dtype(self, aval: ShapedArray) -> np.dtype[Any]:
        """The dtype of an element."""
        return physical_dtype(aval.dtype)

    def may_be_in_place(self, aval: ShapedArray) -> bool:
        """Whether a value is so large that it is to stay in memory."""
        return aval.size > config.tuning.register_elements

    def require_own(
        self, index: Sequence[Any], update: Sequence[Any], place: Sequence[Any]
    ) -> None:
        """Raise `CannotUseRegisters` if an update may concern more than one example."""

    def arguments(
        self, avals: Sequence[ShapedArray], arrays: Sequence[Buffer]
    ) -> list[Var]:
        """Variables for arrays in memory: one for each array of a shape."""
        pairs = list(zip(arrays, avals, strict=True))
        result = {
            pair: self.argument(pair[1], pair[0]) for pair in dict.fromkeys(pairs)
        }
        return [result[pair] for pair in pairs]

    def argument(self, aval: ShapedArray, array: Buffer) -> Var:
        """A variable for an array in memory."""
        require_native(aval)
        var = Var(aval)
        self.buffers[var] = array
        self._level[var] = 0
        return var

    def buffer(self, aval: ShapedArray) -> Buffer:
        """A new buffer for a value."""
        require_native(aval)
        dtype, size = physical_dtype(aval.dtype), aval.size
        if dtype.kind == "c":
            dtype, size = component(dtype), 2 * size
        return Buffer(f"r{self.builder.fresh()}", dtype, size)

    def place(self, aval: ShapedArray, level: int) -> Var:
        """A variable that a loop or a choice defines, in registers."""
        self.require(aval)
        return self.row(aval, level)

    def row(self, aval: ShapedArray, level: int) -> Var:
        """A variable for a row of an array; a long one is left in memory."""
        var = Var(aval)
        self.buffers[var] = self.buffer(aval)
        self._level[var] = level
        return var

    def level(self, *atoms: Atom) -> int:
        """The block in which all of these are there."""
        levels = [self._level[a] for a in atoms if isinstance(a, Var)]
        return max(self._branch, *levels) if levels else self._branch

    def register(self, atom: Atom) -> Buffer:
        """Where a value lies; it is computed now if that has been put off."""
        found = self.buffers.get(atom) if isinstance(atom, Var) else None
        if found is not None:
            return found
        level = self._level[atom] if isinstance(atom, Var) else 0
        known = constant_of(atom) if isinstance(atom, Literal) else self.known.get(atom)
        if known is None:
            assert isinstance(atom, Var)
            result = self.compute(
                atom.aval, level, lambda index: self.elements.computed(atom, index)
            )
        else:
            result = self.buffer(atom.aval)
            flat = known.reshape(-1)
            if flat.dtype.kind == "c":
                flat = flat.view(component(flat.dtype))
            self.add(Table(result, tuple(flat.tolist())), 0)
        if isinstance(atom, Var):
            self.buffers[atom] = result
        return result

    def small(self, atom: Atom) -> Buffer:
        """The registers of a value, which must not be a large array."""
        self.require(atom.aval)
        return self.register(atom)

    def require(self, aval: ShapedArray) -> None:
        """Raise `CannotUseRegisters` unless a value can lie in registers."""
        require_small(aval)

    def compute(self, aval: ShapedArray, level: int, element: Any) -> Buffer:
        """A step for a value whose element at an index is given.

        Few elements are computed one by one, unless they come from long vectors or
        cost much; others as the lanes of a vector.
        """
        # Of halves of rows, twice as many.
        if aval.size > 2 * config.tuning.register_elements:
            raise CannotUseRegisters(f"{aval.size} elements")
        shape, result = aval.shape, self.buffer(aval)
        lane = LoopVar(f"lane{aval.size}", aval.size)
        if aval.size > 1:
            values = parts(element(unravel(as_index(lane), shape)))
        if aval.size > 1 and (
            aval.size > config.tuning.register_scalars or not _is_light(values)
        ):
            self.add(Compute(result, lane, values), level)
            return result
        scalars = tuple(p for at in self.indices(shape) for p in parts(element(at)))
        self.add(Compute(result, None, scalars), level)
        return result

    def computed(self, aval: ShapedArray, atoms: Sequence[Atom], element: Any) -> Var:
        """A variable in registers, computed from others."""
        var = Var(aval)
        self._level[var] = level = self.level(*atoms)
        self.buffers[var] = self.compute(aval, level, element)
        return var

    def add(self, step: Step, level: int | None = None) -> None:
        """Append a step to the block of a level, or to the innermost one."""
        self._steps += 1
        if self._steps > config.tuning.register_steps:
            raise CannotUseRegisters("too many steps")
        self.blocks[-1 if level is None else level].append(step)

    @contextmanager
    def block(self, level: int) -> Iterator[list[Step]]:
        """Open a block inside that of a level."""
        before, self.blocks = self.blocks, [*self.blocks[: level + 1], []]
        yield self.blocks[-1]
        self.blocks = before

    # -------------------------------------------------------------------- eqns

    def run(self, closed: ClosedJaxpr, args: Sequence[Atom]) -> list[Atom]:
        """The steps of a jaxpr; what its results are."""
        flat = inline_calls(closed, expanded)
        jaxpr = with_late_updates(dce_jaxpr(simplify(flat.jaxpr)))
        env: dict[Var, Atom] = dict(zip(jaxpr.invars, args, strict=True))
        for var, value in zip(jaxpr.constvars, flat.consts, strict=True):
            env[var] = self._known(var.aval, const_as_numpy(value, var.aval))
        for eqn in jaxpr.eqns:
            invars = tuple(_read(a, env) for a in eqn.invars)
            outs = self.eqn(eqn.op, invars, [v.aval for v in eqn.outvars])
            env.update(zip(eqn.outvars, outs, strict=True))
        return [_read(a, env) for a in jaxpr.outvars]

    def eqn(
        self, op: Any, args: tuple[Atom, ...], avals: Sequence[ShapedArray]
    ) -> Sequence[Atom]:
        """What an op gives for operands that are there."""
        if op.effects or op.runs_python:
            raise CannotUseRegisters(f"{op.name} has effects")
        self.in_place_carries.require_newest(args)
        if isinstance(op, (Scan, While, Cond)):
            results = self.control(op, args, avals)
            return [result for result in results if result is not None]
        if isinstance(op, WindowUpdate) and args[0] in self.in_place_carries:
            return [self.in_place_carries.update(op, args)]
        for aval in avals:
            self.require(aval)
        constants = [self._constant(a) for a in args]
        few = all(a.size <= config.tuning.register_elements for a in avals)
        if few and all(c is not None for c in constants):
            with np.errstate(all="ignore"):
                found = evaluate_op(op, constants)
            return [self._known(a, x) for a, x in zip(avals, found, strict=True)]
        unrolled = unroll(self, op, args, avals)
        if unrolled is not None:
            return unrolled
        if not is_virtual(op):
            raise CannotUseRegisters(f"{op.name} has no scalar code")
        outs = tuple(Var(a) for a in avals)
        eqn = Eqn(op, args, outs)
        for out in outs:
            self.definitions[out] = eqn
            self._level[out] = self.level(*args)
        depth = 1 + max((self._depth.get(a, 0) for a in args), default=0)
        moves = op_cost(op) == 0 and not any(a in self.in_place_carries for a in args)
        if moves and depth < config.tuning.expression_depth:
            self._depth.update((out, depth) for out in outs)
            return outs
        for out in outs:
            self.register(out)
        return outs

    def _constant(self, atom: Atom) -> NDArray | None:
        return constant_of(atom) if isinstance(atom, Literal) else self.known.get(atom)

    def _known(self, aval: ShapedArray, value: NDArray) -> Var:
        require_small(aval)
        var = Var(aval)
        self.known[var] = np.asarray(value, physical_dtype(aval.dtype), order="C")
        self._level[var] = 0
        return var

    # ----------------------------------------------------------- control flow

    def control(
        self,
        op: Any,
        args: Sequence[Atom],
        avals: Sequence[ShapedArray],
        arrays: Sequence[Buffer] = (),
    ) -> list[Atom | None]:
        """A loop or a branch; None for results that it writes to `arrays` itself."""
        if isinstance(op, Scan):
            return self._scan(op, args, avals, arrays)
        if isinstance(op, While):
            return self._while(op, args, arrays)
        return list(self._cond(op, args, avals))

    def _scan(
        self,
        op: Scan,
        args: Sequence[Atom],
        avals: Sequence[ShapedArray],
        arrays: Sequence[Buffer],
    ) -> list[Atom | None]:
        consts, initial, xs = op.parts(args)
        level = self.level(*args)
        jaxpr = op.jaxpr.jaxpr
        kept = unchanged(jaxpr.invars[len(consts) :], jaxpr.outvars, len(initial))
        rows = [
            self.row(v.aval, level + 1) for v in jaxpr.invars[len(args) - len(xs) :]
        ]
        now = self._carried(initial, kept, level, arrays)
        sources = [self.register(x) for x in xs]
        with self.block(level) as body:
            outs = self.run(op.jaxpr, [*consts, *now, *rows])
            n = len(initial)
            then = self._then(now, outs[:n], kept)
            written = [self.small(x) for x in outs[n:]]
        carries, results = self._carries(initial, now, then, kept, level, arrays)
        writes = []
        for i, row in enumerate(written, n):
            out = None if arrays else self.place(avals[i], level)
            array = arrays[i] if out is None else self.buffers[out]
            writes.append(Rows(array, row))
            results.append(out)
        reads = tuple(map(Rows, sources, (self.buffers[r] for r in rows)))
        self.add(
            CountedLoop(
                op.length, op.reverse, carries, reads, tuple(writes), tuple(body)
            ),
            level,
        )
        return results

    def _while(
        self, op: While, args: Sequence[Atom], arrays: Sequence[Buffer]
    ) -> list[Atom | None]:
        condition_consts, body_consts, initial = op.parts(args)
        level = self.level(*args)
        jaxpr = op.body_jaxpr.jaxpr
        kept = unchanged(jaxpr.invars[len(body_consts) :], jaxpr.outvars, len(initial))
        now = self._carried(initial, kept, level, arrays)
        with self.block(level) as condition:
            (test,) = self.run(op.cond_jaxpr, [*condition_consts, *now])
            goes_on = self.register(test)
        with self.block(level) as body:
            outs = self.run(op.body_jaxpr, [*body_consts, *now])
            then = self._then(now, outs, kept)
        carries, last = self._carries(initial, now, then, kept, level, arrays)
        self.add(WhileLoop(carries, tuple(condition), goes_on, tuple(body)), level)
        return last

    def _carried(
        self,
        initial: Sequence[Atom],
        kept: Sequence[bool],
        level: int,
        arrays: Sequence[Buffer],
    ) -> list[Atom]:
        """The carry as an iteration sees it; what no iteration changes is no carry."""
        places: Sequence[Buffer | None] = arrays[: len(initial)]
        places = places or [None] * len(initial)
        now: list[Atom] = []
        phis = 0
        for x, keep, array in zip(initial, kept, places, strict=True):
            if keep:
                now.append(x)
            elif self.may_be_in_place(x.aval):
                now.append(self.in_place_carries.enter(x, level, array))
            else:
                now.append(inside := self.place(x.aval, level + 1))
                phis += phis_of(self.buffers[inside].size)
        if phis > config.tuning.register_carries:
            raise CannotUseRegisters("too much is carried")
        return now

    def _then(
        self, now: Sequence[Atom], outs: Sequence[Atom], kept: Sequence[bool]
    ) -> list[Buffer | None]:
        """Where an iteration leaves the carry; None for what stays where it is."""
        then: list[Buffer | None] = []
        for inside, out, keep in zip(now, outs, kept, strict=True):
            in_place = inside in self.in_place_carries
            if in_place and not keep:
                self.in_place_carries.require_same(inside, out)
            then.append(None if keep or in_place else self.small(out))
        return then

    def _carries(
        self,
        initial: Sequence[Atom],
        now: Sequence[Atom],
        then: Sequence[Buffer | None],
        kept: Sequence[bool],
        level: int,
        arrays: Sequence[Buffer],
    ) -> tuple[tuple[Carry, ...], list[Atom | None]]:
        carries = []
        last: list[Atom | None] = []
        for first, inside, after, keep in zip(initial, now, then, kept, strict=True):
            if keep:
                last.append(first)
            elif after is None:
                last.append(
                    None if arrays else self.in_place_carries.leave(inside, level)
                )
            else:
                out = self.place(first.aval, level)
                places = self.register(first), self.register(inside), after
                carries.append(Carry(*places, self.buffers[out]))
                last.append(out)
        return tuple(carries), last

    def _cond(
        self, op: Cond, args: Sequence[Atom], avals: Sequence[ShapedArray]
    ) -> list[Atom]:
        index, *operands = args
        level = self.level(*args)
        which = self.register(index)
        large = [self.may_be_in_place(a) for a in avals]
        small = [not kept for kept in large]
        aliases = self.in_place_carries.alias_for_branches(operands, level)
        blocks, result = [], []
        before, self._branch = self._branch, level + 1
        for branch in op.branches:
            with self.block(level) as block:
                outs = self.run(branch, aliases.names())
                aliases.leave(list(compress(outs, large)))
                result.append(tuple(self.small(x) for x in compress(outs, small)))
            blocks.append(tuple(block))
        self._branch = before
        kept = iter(aliases.results(list(compress(avals, large))))
        made = [self.place(a, level) for a in compress(avals, small)]
        places = tuple(self.buffers[r] for r in made)
        self.add(Choice(which, tuple(blocks), tuple(result), places), level)
        rest = iter(made)
        return [next(kept if in_place else rest) for in_place in large]


def require_native(aval: ShapedArray) -> None:
    """Raise `CannotUseRegisters` for dtypes that instructions do not know."""
    dtype = physical_dtype(aval.dtype)
    if dtype.kind != "c" and not is_native(dtype):
        raise CannotUseRegisters(f"values of {dtype}")


def require_small(aval: ShapedArray) -> None:
    """Raise `CannotUseRegisters` for what does not fit registers."""
    require_native(aval)
    if not 0 < aval.size <= config.tuning.register_elements:
        raise CannotUseRegisters(f"{aval.size} elements")


def _is_light(values: Sequence[Expr]) -> bool:
    """Whether expressions are quickly computed one by one."""
    for e in walk(values):
        if isinstance(e, Load) and e.buffer.size > 2 * config.tuning.register_scalars:
            return False
        if isinstance(e, Instr) and e.name.startswith("math."):
            return False
    return True


def constant_of(literal: Literal) -> NDArray:
    """The value of a literal."""
    return as_numpy(literal.val, literal.aval)


def _read(atom: Atom, env: dict[Var, Atom]) -> Atom:
    return env[atom] if isinstance(atom, Var) else atom


def unchanged(invars: Sequence[Var], outvars: Sequence[Atom], count: int) -> list[bool]:
    """Which parts of a carry a body hands on as they came."""
    return [invars[i] is outvars[i] for i in range(count)]
