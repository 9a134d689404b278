"""`While`: a jaxpr applied as long as another says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.control.carries import body_pushforward, flagged, spread, unflagged
from curta.control.checkpointing import count_steps, undo_steps
from curta.control.loop_references import discharged_while
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr, Var
from curta.core.key_use import KeyReuseSignature
from curta.core.memo import kept_with_jaxpr
from curta.core.op import BatchDims, Batched, LoopView
from curta.core.source_info import NamedScope
from curta.core.stage import stage
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.elementwise.select import select_n
from curta.primitives.reduction import ReduceOr
from curta.primitives.structure import (
    BroadcastInDim,
    add_tangents,
    batch_dim_at,
    instantiate,
    zeros,
)
from curta.transforms.checkify import (
    Checked,
    count,
    moved_error,
    own_checks,
    without_checks,
)
from curta.transforms.dce import dce_jaxpr, without_effects
from curta.transforms.discharge import Flags, TakesRefs, accesses
from curta.transforms.jaxprs import (
    Pushforward,
    batch_jaxpr,
    jvp_push,
    run_closed,
    transpose_jaxpr,
)
from curta.transforms.key_use import while_key_use
from curta.transforms.lowering import lower_jaxpr
from curta.transforms.partial_eval import (
    PartialTrace,
    residuals_as_inputs,
    split_jaxpr,
)
from curta.transforms.vmap import BatchAxis, refuse_meeting


@dataclass(frozen=True)
class While(TakesRefs):
    """`while cond(*cond_consts, *carry): carry = body(*body_consts, *carry)`.

    Arguments are the constants of the condition, those of the body, and the initial
    carry; the results are the final carry.
    """

    name: ClassVar[str] = "while"
    hidden_fields: ClassVar[tuple[str, ...]] = ("masked",)
    places_outputs: ClassVar[bool] = True
    holds_jaxprs: ClassVar[bool] = True
    multiple_results: ClassVar[bool] = True
    may_alias: ClassVar[bool] = True
    cond_jaxpr: ClosedJaxpr
    body_jaxpr: ClosedJaxpr
    cond_nconsts: int
    body_nconsts: int
    masked: bool = False  # whether examples of a batch wait for others to finish

    def parts(self, xs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """What belongs to the condition's constants, the body's, and the carry."""
        first, second = self.cond_nconsts, self.cond_nconsts + self.body_nconsts
        return list(xs[:first]), list(xs[first:second]), list(xs[second:])

    @property
    def regions(self) -> tuple[ClosedJaxpr, ...]:
        return (self.cond_jaxpr, self.body_jaxpr)

    @property
    def loop(self) -> LoopView:
        body, consts = self.body_jaxpr, self.body_nconsts
        carry, start = len(body.jaxpr.outvars), self.cond_nconsts + consts
        return LoopView(body, None, consts, carry, start)

    def scopes(self, param: str, index: int) -> Sequence[str]:
        return self.scope, param.removesuffix("_jaxpr")

    @property
    def effects(self) -> frozenset[Effect]:
        return self.cond_jaxpr.effects | self.body_jaxpr.effects

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return self.body_jaxpr.out_avals

    def eval(self, *args: Any) -> Any:
        cond_consts, body_consts, carry = self.parts(args)
        cond, body = self.cond_jaxpr, self.body_jaxpr
        while evaluate(cond.jaxpr, cond.consts, [*cond_consts, *carry])[0]:
            carry = evaluate(body.jaxpr, body.consts, [*body_consts, *carry])
        return carry

    def on_parts(self, counts: Sequence[int]) -> While:
        cond_consts, body_consts, _ = map(sum, self.parts(counts))
        parts = lower_jaxpr(self.cond_jaxpr), lower_jaxpr(self.body_jaxpr)
        return While(*parts, cond_consts, body_consts, self.masked)

    def accesses(self) -> Sequence[int]:
        n = self.cond_nconsts
        return [
            *accesses(self.cond_jaxpr.jaxpr)[:n],
            *accesses(self.body_jaxpr.jaxpr)[: self.body_nconsts],
        ]

    def discharged(
        self, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        return discharged_while(self, args, given, written, refs)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self.pushforward(primals, tangents, jvp_push(self.body_jaxpr))

    def pushforward(
        self, primals: Sequence[Any], tangents: Sequence[Any], push: Pushforward
    ) -> tuple[Any, Any]:
        cond_consts, body_consts, carry = self.parts(primals)
        _, const_dots, carry_dots = self.parts(tangents)
        const_nonzero = tuple(type(t) is not Zero for t in const_dots)
        carry_nonzero = tuple(type(t) is not Zero for t in carry_dots)
        body, carry_nonzero, _ = body_pushforward(
            self.body_jaxpr, push, const_nonzero, carry_nonzero
        )
        given = [t for t in const_dots if type(t) is not Zero]
        moving = [*map(instantiate, flagged(carry_dots, carry_nonzero))]
        cond = _ignore_extra(self.cond_jaxpr, tuple(typeof(t) for t in moving))
        n_body = len(body_consts) + len(given)
        op = While(cond, body, self.cond_nconsts, n_body, self.masked)
        results = op(*cond_consts, *body_consts, *given, *carry, *moving)
        outs, dots = results[: len(carry)], iter(results[len(carry) :])
        return outs, [
            next(dots) if n else zero_tangent(typeof(x))
            for x, n in zip(outs, carry_nonzero, strict=True)
        ]

    def partial_eval(self, partial: PartialTrace, args: Sequence[Any]) -> Any:
        cond_consts, body_consts, carry = self.parts(args)
        const_unknown = tuple(map(partial.is_unknown, body_consts))
        carry_unknown = _unknown_carry(
            self.body_jaxpr, const_unknown, tuple(map(partial.is_unknown, carry))
        )
        cond_unknown = (
            *map(partial.is_unknown, cond_consts),
            *carry_unknown,
        )
        if split_jaxpr(self.cond_jaxpr, cond_unknown).out_unknown[0]:
            return partial.defer(self, args)
        outs = self._known_loop(args, const_unknown, carry_unknown)
        later = partial.defer(self._silent(), args)
        known = iter(outs)
        return [
            x if u else next(known) for x, u in zip(later, carry_unknown, strict=True)
        ]

    def _silent(self) -> While:
        """The loop as it runs for a derivative, when it has run before."""
        if not self.effects:
            return self
        why = "the derivative of a while loop, which runs its steps again"
        cond, body = (
            without_effects(c, why) for c in (self.cond_jaxpr, self.body_jaxpr)
        )
        return dataclasses.replace(self, cond_jaxpr=cond, body_jaxpr=body)

    def _known_loop(
        self,
        args: Sequence[Any],
        const_unknown: Flags,
        carry_unknown: Flags,
    ) -> Sequence[Any]:
        """The loop over the known part of the carry alone."""
        cond_consts, body_consts, carry = self.parts(args)
        cond = split_jaxpr(
            self.cond_jaxpr, ((False,) * len(cond_consts)) + carry_unknown
        ).known
        known_body = split_jaxpr(
            self.body_jaxpr, const_unknown + carry_unknown, carry_unknown
        ).known
        count = carry_unknown.count(False)
        jaxpr = known_body.jaxpr
        body = ClosedJaxpr(
            jaxpr.replace(outvars=jaxpr.outvars[:count]), known_body.consts
        )
        consts = unflagged(body_consts, const_unknown)
        kept = unflagged(carry, carry_unknown)
        op = While(cond, body, len(cond_consts), len(consts), self.masked)
        return list(op(*cond_consts, *consts, *kept))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        # The known part of the carry is recomputed: see `control.checkpointing`.
        linear = tuple(map(is_linear, args))
        plan = _reverse_plan(self, linear)
        cond_consts, body_consts, carry = self.parts(args)
        consts = [x for x in body_consts if not is_linear(x)]
        known = unflagged(carry, plan.linear_carry)
        ct_carry = [*map(instantiate, flagged(cotangent, plan.linear_carry))]
        ct_consts = [
            zeros(x.aval.to_cotangent_aval()) for x in body_consts if is_linear(x)
        ]

        def step(state: Sequence[Any]) -> Sequence[Any]:
            return run_closed(plan.step, [*consts, *state])

        def undo(state: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            result = run_closed(plan.undo, [*consts, *state, *cts[len(ct_consts) :]])
            sums = map(add_tangents, cts[: len(ct_consts)], result)
            return [*sums, *result[len(ct_consts) :]]

        def goes_on(state: Sequence[Any]) -> Any:
            return run_closed(plan.condition, [*cond_consts, *state])[0]

        rows = config.curta_while_checkpoints
        count = count_steps(run_loop, goes_on, step, known)
        cts = [*ct_consts, *ct_carry]
        cts = list(undo_steps(run_loop, step, undo, count, known, cts, rows))
        for_consts, for_carry = iter(cts), iter(cts[len(ct_consts) :])
        moved = [next(for_carry) if f else None for f in plan.linear_carry]
        return [
            *(None for _ in cond_consts),
            *(next(for_consts) if is_linear(x) else None for x in body_consts),
            *(ct if is_linear(x) else None for x, ct in zip(carry, moved, strict=True)),
        ]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        cond_dims, body_dims, carry_dims = self.parts(dims)
        batched = _batched_carry(
            self,
            axis,
            tuple(cond_dims),
            tuple(body_dims),
            tuple(d is not None for d in carry_dims),
        )
        carry_flags, pred_batched = batched
        if pred_batched:
            refuse_meeting(self, axis, "a while loop whose condition")
        cond_consts, body_consts, carry = self.parts(args)
        moved = [
            batch_dim_at(x, d, axis.size, 0) if f else x
            for x, d, f in zip(carry, carry_dims, carry_flags, strict=True)
        ]
        new_dims = tuple(0 if f else None for f in carry_flags)
        cond, _ = batch_jaxpr(self.cond_jaxpr, axis, (*cond_dims, *new_dims))
        step = own_checks(self.body_jaxpr, pred_batched)
        flags = (True,) * count(step.effects) + carry_flags
        body, _ = batch_jaxpr(step.closed, axis, (*body_dims, *new_dims), flags)
        if pred_batched:
            n_consts = len(cond_consts), len(body_consts)
            body = _masked_body(cond, body, *n_consts, carry_flags, step)
            cond = _any_of(cond)
            body_consts = [*cond_consts, *body_consts]
        masked = self.masked or pred_batched
        op = While(cond, body, len(cond_consts), len(body_consts), masked)
        return op(*cond_consts, *body_consts, *moved), list(new_dims)

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        cond, body = self.cond_jaxpr.jaxpr, self.body_jaxpr.jaxpr
        return while_key_use(cond, body, self.cond_nconsts, self.body_nconsts)

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        if self.masked and checker.is_automatic:
            raise ValueError(
                "Checkify does not support batched while-loops"
                " (checkify-of-vmap-of-while) with automatic checks: the examples that"
                " are finished go on computing. \nHint: if possible, move the vmap to"
                " the outer level to get vmap-of-checkify-of-while."
            )
        cond_consts, body_consts, carry = self.parts(args)
        checker.run(
            self.cond_jaxpr.jaxpr, self.cond_jaxpr.consts, [*cond_consts, *carry]
        )
        body = _body_then_condition(self)
        checker.expect(checker.checked(body).effects)
        checked = checker.checked(body)
        leaves = checker.error.leaves()
        n, n_consts = len(leaves), len(cond_consts) + len(body_consts)
        op = While(
            _without_checks(self.cond_jaxpr, len(cond_consts), checked.effects),
            moved_error(checked.closed, n, n_consts),
            len(cond_consts),
            n_consts,
        )
        consts = [*cond_consts, *cond_consts, *body_consts]
        return checker.take(checked, op(*consts, *leaves, *carry))


def run_loop(
    cond: Callable[..., Any], body: Callable[..., Sequence[Any]], carry: Sequence[Any]
) -> list[Any]:
    """The final carry of `while cond(*carry): carry = body(*carry)`."""
    avals = [typeof(x) for x in carry]
    goes_on, cond_consts = residuals_as_inputs(stage(lambda *xs: [cond(*xs)], avals))
    step, body_consts = residuals_as_inputs(stage(body, avals))
    op = While(goes_on, step, len(cond_consts), len(body_consts))
    return list(op(*cond_consts, *body_consts, *carry))


class ReversePlan(NamedTuple):
    """The parts of a loop to run it backwards.

    `condition` and `step` see the part of the carry that depends on no linear input;
    `undo` takes the known constants, that part of the carry before a step, and the
    cotangents of the others after it, to the cotangents of the linear constants and
    of the others before it.
    """

    condition: ClosedJaxpr
    step: ClosedJaxpr
    undo: ClosedJaxpr
    linear_carry: Flags


@kept_with_jaxpr
def _reverse_plan(op: While, linear: Flags) -> ReversePlan:
    cond_linear, const_linear, carry = map(tuple, op.parts(linear))
    carry = _unknown_carry(op.body_jaxpr, const_linear, carry)
    condition = split_jaxpr(op.cond_jaxpr, cond_linear + carry).known
    split = split_jaxpr(op.body_jaxpr, const_linear + carry, carry)
    count = carry.count(False)
    known = split.known.jaxpr
    step = dce_jaxpr(known.replace(outvars=known.outvars[:count]))
    n_res = len(split.residual_sources)
    n_linear = len(split.unknown.in_avals) - n_res
    flags = (False,) * n_res + (True,) * n_linear
    transposed, _ = transpose_jaxpr(
        split.unknown, flags, (True,) * carry.count(True), True
    )
    n_known = len(split.known.in_avals)

    def undo(*args: Any) -> list[Any]:
        state, cts = args[:n_known], args[n_known:]
        residuals = split.residuals(state, run_closed(split.known, state))
        return run_closed(transposed, [*residuals, *cts])

    avals = [*split.known.in_avals, *transposed.in_avals[n_res:]]
    step_closed = ClosedJaxpr(step, split.known.consts)
    return ReversePlan(condition, step_closed, stage(undo, avals), carry)


@kept_with_jaxpr
def _ignore_extra(closed: ClosedJaxpr, extra: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """The jaxpr with further inputs that it does not read."""
    count = len(closed.in_avals)

    def run(*args: Any) -> list[Any]:
        return run_closed(closed, args[:count])

    return stage(run, [*closed.in_avals, *extra], closed.jaxpr.debug_info)


def _unknown_carry(body: ClosedJaxpr, consts: Flags, carry: Flags) -> Flags:
    """Which parts of the carry are unknown once the loop has run a while."""
    return spread(carry, lambda c: split_jaxpr(body, consts + c, c).out_unknown)


def _batched_carry(
    op: While,
    axis: BatchAxis,
    cond_dims: tuple[int | None, ...],
    body_dims: tuple[int | None, ...],
    carry: Flags,
) -> tuple[Flags, bool]:
    """Which parts of the carry are batched in the end, and whether the condition is.

    What the body hands on unchanged stays as it is even if the condition is.
    """
    body = op.body_jaxpr.jaxpr
    pairs = zip(body.outvars, body.invars[op.body_nconsts :], strict=True)
    changed = [after is not before for after, before in pairs]

    def is_batched(closed: ClosedJaxpr, consts: Any, carry: Flags) -> list[bool]:
        dims = consts + tuple(0 if f else None for f in carry)
        return [d is not None for d in batch_jaxpr(closed, axis, dims)[1]]

    def after(carry: Flags) -> list[bool]:
        result = is_batched(op.body_jaxpr, body_dims, carry)
        waits = is_batched(op.cond_jaxpr, cond_dims, carry)[0]
        return [f or (waits and c) for f, c in zip(result, changed, strict=True)]

    carry = spread(carry, after)
    return carry, is_batched(op.cond_jaxpr, cond_dims, carry)[0]


@kept_with_jaxpr
def _masked_body(
    cond: ClosedJaxpr,
    body: ClosedJaxpr,
    n_cond: int,
    n_body: int,
    batched: Flags,
    step: Checked,
) -> ClosedJaxpr:
    """The body that leaves alone the examples whose condition is false.

    `body` is the batched `step`.
    """

    def run(*args: Any) -> list[Any]:
        carry = args[n_cond + n_body :]
        outs = run_closed(body, args[n_cond:])
        with NamedScope("../body_pred"):  # beside the body, as JAX has it
            (going,) = run_closed(cond, [*args[:n_cond], *carry])
        after = step.raise_where(going, outs)
        return [
            select_n(_over_dims(going, typeof(x).shape), x, y) if b else y
            for x, y, b in zip(carry, after, batched, strict=True)
        ]

    avals = [*cond.in_avals[:n_cond], *body.in_avals]
    return stage(run, avals, body.jaxpr.debug_info)


def _over_dims(flags: Any, shape: tuple[int, ...]) -> Any:
    return flags if len(shape) == 1 else BroadcastInDim(shape, (0,))(flags)


@kept_with_jaxpr
def _body_then_condition(op: While) -> ClosedJaxpr:
    """The body, with what may go wrong when the condition looks at its results.

    Its inputs are the constants of the condition, those of the body, and the carry.
    """
    cond, body = op.cond_jaxpr, op.body_jaxpr
    n = op.cond_nconsts

    def run(*args: Any) -> list[Any]:
        carry = run_closed(body, args[n:])
        run_closed(cond, [*args[:n], *carry])
        return carry

    return stage(run, [*cond.in_avals[:n], *body.in_avals], body.jaxpr.debug_info)


@kept_with_jaxpr
def _without_checks(
    cond: ClosedJaxpr, n_consts: int, effects: Sequence[Any]
) -> ClosedJaxpr:
    """The condition, with an error of these kinds in the carry, which it ignores."""
    jaxpr = without_checks(cond).jaxpr
    extra = [Var(a) for e in effects for a in e.avals()]
    invars = [*jaxpr.invars[:n_consts], *extra, *jaxpr.invars[n_consts:]]
    return ClosedJaxpr(jaxpr.replace(invars=invars), cond.consts)


@kept_with_jaxpr
def _any_of(cond: ClosedJaxpr) -> ClosedJaxpr:
    """The condition that some example wants to go on."""

    def run(*args: Any) -> list[Any]:
        return [ReduceOr((0,))(run_closed(cond, args)[0])]

    return stage(run, cond.in_avals, cond.jaxpr.debug_info)
