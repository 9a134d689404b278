"""Loops over small values as code in registers: jaxprs to regions of the loop IR.

A loop (or a branch) qualifies if every value that its jaxprs compute has few elements
and every op can be written as scalar expressions. Then the whole of it, loops and
branches inside included, is one piece of straight, structured code: what it carries
are registers, rows are read and written in place, and what does not change in a loop is
computed before it. Other loops call programs (lower/control.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from curta.compiler.loops import nodes
from curta.compiler.loops.build import CannotLower, CannotUseRegisters
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Buffer, Carry, For, If, Region
from curta.compiler.lower.in_place_carries import InPlaceCarries, may_be_in_place
from curta.compiler.lower.register_blocks import RegisterBlocks
from curta.compiler.lower.unrolled import unroll
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.in_place import with_late_updates
from curta.compiler.rewrite.inline import Expand, inline_calls
from curta.compiler.rewrite.simplify import simplify
from curta.compiler.rewrite.values import is_virtual, op_cost
from curta.compiler.targets import Target, Tuning
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.dim import may_exceed
from curta.core.evaluate import const_as_numpy, evaluate_op
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Var
from curta.errors import MissingRule
from curta.transforms.dce import dce_jaxpr


def register_code(
    eqn: Eqn, operands: Sequence[Buffer], results: Sequence[Buffer], target: Target
) -> Region | None:
    """The code of a control-flow eqn; None if it does not qualify."""
    avals = [v.aval for v in eqn.outvars]
    if not _is_small(eqn, target.tuning):
        return None
    try:
        lowering = RegisterLowering(target)
        args = lowering.arguments([a.aval for a in eqn.invars], operands)
        outs = lowering.control(eqn.op, args, avals, tuple(results))
        for out, array in zip(outs, results, strict=True):
            if out is not None:
                lowering.save(out, array)
    except (CannotLower, MissingRule):
        return None
    return Region(tuple(lowering.blocks[0]))


def _is_small(eqn: Eqn, tuning: Tuning) -> bool:
    """Whether the values of a loop, or of a branch, may all be small: a first look.

    All but what a loop carries and updates in memory.
    """
    loop, avals = eqn.op.loop, tuple(v.aval for v in eqn.outvars)
    if loop is not None:
        avals = loop.body.out_avals
    large = [
        i for i, a in enumerate(avals) if may_exceed(a.size, tuning.register_elements)
    ]
    return not large or (
        loop is not None
        and large[-1] < loop.carry
        and may_be_in_place(loop.body, tuning)
    )


class RegisterLowering(RegisterBlocks):
    """Writes the statements of jaxprs, their loops and branches included."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.expand: Expand = expansions(target)
        self._depth: dict[Atom, int] = {}  # of ops that only move elements
        self.in_place_carries: InPlaceCarries = InPlaceCarries(self)

    # -------------------------------------------------------------------- eqns

    def run(self, closed: ClosedJaxpr, args: Sequence[Atom]) -> list[Atom]:
        """The statements of a jaxpr; what its results are."""
        flat = inline_calls(closed, self.expand)
        jaxpr = with_late_updates(dce_jaxpr(simplify(flat.jaxpr, self.target)))
        env: dict[Var, Atom] = dict(zip(jaxpr.invars, args, strict=True))
        for var, value in zip(jaxpr.constvars, flat.consts, strict=True):
            env[var] = self.new_constant(var.aval, const_as_numpy(value, var.aval))
        for eqn in jaxpr.eqns:
            invars = tuple(_read(a, env) for a in eqn.invars)
            outs = self.eqn(eqn.op, invars, [v.aval for v in eqn.outvars])
            env.update(zip(eqn.outvars, outs, strict=True))
        return [_read(a, env) for a in jaxpr.outvars]

    def eqn(
        self, op: Any, args: tuple[Atom, ...], avals: Sequence[ShapedArray]
    ) -> Sequence[Atom]:
        """The registers of an op's results."""
        if op.effects or op.runs_python:
            raise CannotUseRegisters(f"{op.name} has effects")
        if op.meets_hosts:
            raise CannotUseRegisters(f"hosts meet in {op.name}")
        self.in_place_carries.require_newest(args)
        if op.regions:
            results = self.control(op, args, avals)
            return [result for result in results if result is not None]
        if op.is_barrier:
            return args  # a barrier against fusion has no code
        if op.updates_first and args[0] in self.in_place_carries:
            return [self.in_place_carries.update(op, args)]
        for aval in avals:
            self.require(aval)
        constants = [self.constant(a) for a in args]
        few = all(a.size <= self.tuning.register_elements for a in avals)
        if few and all(c is not None for c in constants):
            with np.errstate(all="ignore"):
                values = evaluate_op(op, constants)
            return [self.new_constant(a, x) for a, x in zip(avals, values, strict=True)]
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
        if moves and depth < self.tuning.expression_depth:
            self._depth.update((out, depth) for out in outs)
            return outs
        for out in outs:
            self.register(out)
        return outs

    # ----------------------------------------------------------- control flow

    def control(
        self,
        op: Any,
        args: Sequence[Atom],
        avals: Sequence[ShapedArray],
        arrays: Sequence[Buffer] = (),
    ) -> list[Atom | None]:
        """A loop or a branch; None for results that it writes to `arrays` itself."""
        if op.loop is None:
            return list(self._cond(op, args, avals))
        if op.loop.iterations is None:
            return self._while(op, args, arrays)
        return self._scan(op, args, avals, arrays)

    def _scan(
        self,
        op: Scan,
        args: Sequence[Atom],
        avals: Sequence[ShapedArray],
        arrays: Sequence[Buffer],
    ) -> list[Atom | None]:
        consts, initial, xs = op.parts(args)
        n, level = len(initial), self.level(*args)
        iteration = LoopVar(f"iteration{self.builder.fresh()}", op.length)
        jaxpr = op.jaxpr.jaxpr
        kept = unchanged(jaxpr.invars[len(consts) :], jaxpr.outvars, n)
        now = self._carried(initial, kept, level, arrays)
        self.in_place_carries.require_newest(xs)
        stacked = arrays[n:] or [self.stacked(a) for a in avals[n:]]
        with self.block(level) as body:
            rows = [self.row(x, iteration, level + 1) for x in xs]
            outs = self.run(op.jaxpr, [*consts, *now, *rows])
            then = self._then(now, outs[:n], kept)
            for out, array in zip(outs[n:], stacked, strict=True):
                self.save_row(out, array, iteration)
        carries, results = self._carries(initial, now, then, kept, level, arrays)
        self.add(For(iteration, carries, tuple(body), op.reverse), level)
        if arrays:
            return [*results, *(None for _ in stacked)]
        pairs = zip(avals[n:], stacked, strict=True)
        return [*results, *(self.loaded(a, array, level) for a, array in pairs)]

    def _while(
        self, op: While, args: Sequence[Atom], arrays: Sequence[Buffer]
    ) -> list[Atom | None]:
        condition_consts, body_consts, initial = op.parts(args)
        level = self.level(*args)
        jaxpr = op.body_jaxpr.jaxpr
        kept = unchanged(jaxpr.invars[len(body_consts) :], jaxpr.outvars, len(initial))
        now = self._carried(initial, kept, level, arrays)
        with self.block(level) as condition:
            (test,) = self.run(self.condition(op, args), [*condition_consts, *now])
            goes_on = self.small(test)
        with self.block(level) as body:
            outs = self.run(op.body_jaxpr, [*body_consts, *now])
            then = self._then(now, outs, kept)
        carries, last = self._carries(initial, now, then, kept, level, arrays)
        loop = nodes.While(carries, tuple(condition), goes_on, tuple(body))
        self.add(loop, level)
        return last

    def condition(self, op: While, args: Sequence[Atom]) -> ClosedJaxpr:
        """The condition of a while loop: it continues if some element is true."""
        return op.cond_jaxpr

    def _carried(
        self,
        initial: Sequence[Atom],
        kept: Sequence[bool],
        level: int,
        arrays: Sequence[Buffer],
    ) -> list[Atom]:
        """The carry as an iteration sees it; what no iteration changes is no carry."""
        memory: Sequence[Buffer | None] = arrays[: len(initial)]
        memory = memory or [None] * len(initial)
        now: list[Atom] = []
        phis = 0
        for x, keep, array in zip(initial, kept, memory, strict=True):
            if keep:
                now.append(x)
            elif self.may_be_in_place(x.aval):
                now.append(self.in_place_carries.enter(x, level, array))
            else:
                now.append(inside := self.define(x.aval, level + 1))
                phis += _phis_of(self.buffers[inside].size, self.tuning)
        if phis > self.tuning.register_carries:
            raise CannotUseRegisters("too much is carried")
        return now

    def _then(
        self, now: Sequence[Atom], outs: Sequence[Atom], kept: Sequence[bool]
    ) -> list[Buffer | None]:
        """The buffers of the carry after an iteration; None for those unchanged."""
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
                out = self.define(first.aval, level)
                buffers = self.register(first), self.register(inside), after
                carries.append(Carry(*buffers, self.buffers[out]))
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
        made = [self.define(a, level) for a in compress(avals, small)]
        buffers = tuple(self.buffers[r] for r in made)
        self.add(If(which, tuple(blocks), tuple(result), buffers), level)
        rest = iter(made)
        return [next(kept if in_place else rest) for in_place in large]


def _phis_of(size: int, tuning: Tuning) -> int:
    """The values that LLVM hands from iteration to iteration for so many numbers.

    Vectors of other numbers of lanes than powers of two it takes apart.
    """
    in_vector = size > tuning.register_scalars and not size & (size - 1)
    return 1 if in_vector else size


def _read(atom: Atom, env: dict[Var, Atom]) -> Atom:
    return env[atom] if isinstance(atom, Var) else atom


def unchanged(invars: Sequence[Var], outvars: Sequence[Atom], count: int) -> list[bool]:
    """Which parts of a carry a body hands on as they came."""
    return [invars[i] is outvars[i] for i in range(count)]
