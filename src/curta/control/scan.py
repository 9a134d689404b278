"""`Scan`: a jaxpr applied along the leading axis of arrays, with a carry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta._settings.api_version import MORE_PARAMETERS
from curta.control.carries import body_pushforward, flagged, spread, unflagged
from curta.control.loop_references import discharged_scan
from curta.control.scan_plan import PartialPlan, partial_plan
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr
from curta.core.key_use import KeyReuseSignature
from curta.core.memo import kept_with_jaxpr
from curta.core.op import BatchDims, Batched, LoopView
from curta.core.stage import stage
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.structure import (
    add_tangents,
    batch_dim_at,
    instantiate,
    move_dim,
    zeros,
)
from curta.transforms.checkify import moved_error
from curta.transforms.dce import prune_outputs, with_inputs
from curta.transforms.discharge import Flags, TakesRefs, accesses
from curta.transforms.jaxprs import (
    Pushforward,
    batch_jaxpr,
    jvp_push,
    run_closed,
    transpose_jaxpr,
)
from curta.transforms.key_use import jaxpr_key_use, used_in_each
from curta.transforms.lowering import lower_jaxpr
from curta.transforms.partial_eval import PartialTrace
from curta.transforms.vmap import BatchAxis


@dataclass(frozen=True)
class Scan(TakesRefs):
    """`carry, ys[i] = jaxpr(*consts, *carry, *xs[i])` for i in order.

    Arguments are `num_consts` constants, `num_carry` parts of the initial carry, and
    arrays with a leading axis of `length`; results are the final carry and the
    stacked `ys`.
    """

    name: ClassVar[str] = "scan"
    places_outputs: ClassVar[bool] = True
    holds_jaxprs: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {
        "_split_transpose": "split_transpose",
        "ft_in": None,
        "ft_out": None,
    }
    multiple_results: ClassVar[bool] = True
    jaxpr: ClosedJaxpr
    length: int
    reverse: bool
    num_consts: int
    num_carry: int
    unroll: int = 1
    split_transpose: bool = False

    def parts(self, xs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """What belongs to the constants, the carry, and the scanned arrays."""
        first, second = self.num_consts, self.num_consts + self.num_carry
        return list(xs[:first]), list(xs[first:second]), list(xs[second:])

    @property
    def regions(self) -> tuple[ClosedJaxpr, ...]:
        return (self.jaxpr,)

    @property
    def loop(self) -> LoopView:
        carry, first = self.num_carry, self.num_consts
        return LoopView(self.jaxpr, self.length, first, carry, first)

    def with_body(self, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int) -> Scan:
        """The same loop with another body."""
        return dataclasses.replace(
            self, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry
        )

    @property
    def effects(self) -> frozenset[Effect]:
        return self.jaxpr.effects

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        outs = self.jaxpr.out_avals
        return [
            *outs[: self.num_carry],
            *map(self.stacked, outs[self.num_carry :]),
        ]

    def stacked(self, aval: ShapedArray) -> ShapedArray:
        """The aval of what the body takes or gives in all iterations together."""
        return aval.with_dim(0, self.length)

    def eval(self, *args: Any) -> Any:
        consts, carry, xs = self.parts(args)
        body = self.jaxpr
        outs = body.out_avals[self.num_carry :]
        ys = [
            np.empty((self.length, *a.shape), dtypes.physical_dtype(a.dtype))
            for a in outs
        ]
        order = range(self.length)
        for i in reversed(order) if self.reverse else order:
            row = [x[i] for x in xs]
            result = evaluate(body.jaxpr, body.consts, [*consts, *carry, *row])
            carry = result[: self.num_carry]
            for y, value in zip(ys, result[self.num_carry :], strict=True):
                y[i] = value
        return [*carry, *ys]

    def on_parts(self, counts: Sequence[int]) -> Scan:
        consts, carry, _ = map(sum, self.parts(counts))
        return self.with_body(lower_jaxpr(self.jaxpr), consts, carry)

    # ---- references

    def accesses(self) -> Sequence[int]:
        return accesses(self.jaxpr.jaxpr)

    def discharged(
        self, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        return discharged_scan(self, args, given, written)

    # ---- forward mode

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self.pushforward(primals, tangents, jvp_push(self.jaxpr))

    def pushforward(
        self, primals: Sequence[Any], tangents: Sequence[Any], push: Pushforward
    ) -> tuple[Any, Any]:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        flags = (tuple(part) for part in self.parts(nonzero))
        body, carry_nonzero, out_nonzero = body_pushforward(self.jaxpr, push, *flags)
        consts, carry, xs = self.parts(primals)
        const_dots, carry_dots, x_dots = self.parts(tangents)
        const_given = [t for t in const_dots if type(t) is not Zero]
        x_given = [t for t in x_dots if type(t) is not Zero]
        moving = [*map(instantiate, flagged(carry_dots, carry_nonzero))]
        op = self.with_body(
            body, len(consts) + len(const_given), len(carry) + len(moving)
        )
        result = op(*consts, *const_given, *carry, *moving, *xs, *x_given)
        n, m = len(carry), len(moving)
        carry_out, carry_out_dots, ys = (
            result[:n],
            iter(result[n : n + m]),
            result[n + m :],
        )
        n_ys = len(self.jaxpr.out_avals) - n
        y_dots = iter(ys[n_ys:])
        outs = [*carry_out, *ys[:n_ys]]
        dots = [next(carry_out_dots) if f else None for f in carry_nonzero]
        dots += [next(y_dots) if f else None for f in out_nonzero]
        return outs, [
            zero_tangent(typeof(x)) if t is None else t
            for x, t in zip(outs, dots, strict=True)
        ]

    # ---- partial evaluation

    def partial_eval(self, partial: PartialTrace, args: Sequence[Any]) -> Any:
        unknown = tuple(map(partial.is_unknown, args))
        plan = partial_plan(self, unknown)
        outs, later_op, later_args = self._run_known(plan, unknown, args)
        known, unknown_outs = iter(outs), iter(partial.defer(later_op, later_args))
        flags = (*plan.carry_unknown, *plan.y_unknown)
        return [next(unknown_outs if u else known) for u in flags]

    def _run_known(
        self, plan: PartialPlan, unknown: Flags, args: Sequence[Any]
    ) -> tuple[Sequence[Any], Scan, list[Any]]:
        """The known outputs, and the loop over the rest with its arguments."""
        consts, carry, xs = self.parts(args)
        const_u, _, x_u = self.parts(unknown)
        known_consts = unflagged(consts, const_u)
        known_carry = unflagged(carry, plan.carry_unknown)
        known_xs = unflagged(xs, x_u)
        fixed = run_closed(plan.fixed, known_consts)
        op = self.with_body(plan.known, len(known_consts), len(known_carry))
        result = op(*known_consts, *known_carry, *known_xs)
        n_known = plan.known_out_count
        outs, stacked = result[:n_known], result[n_known:]
        available = {"fixed": fixed, "const": known_consts, "stacked": stacked}
        available["x"] = known_xs
        fixed_res = [available[kind][i] for kind, i in plan.constant_residuals]
        stacked_res = [available[kind][i] for kind, i in plan.stacked_residuals]
        later_consts = [*fixed_res, *flagged(consts, const_u)]
        later_carry = flagged(carry, plan.carry_unknown)
        later_xs = [*stacked_res, *flagged(xs, x_u)]
        later = self.with_body(plan.unknown, len(later_consts), len(later_carry))
        return outs, later, [*later_consts, *later_carry, *later_xs]

    def pruned(self, used: Flags) -> tuple[Scan, Flags, Flags]:
        n = self.num_carry
        gives, before = tuple(used), None
        while gives != before:
            before = gives
            body, reads = prune_outputs(self.jaxpr, gives)
            consts, carry, xs = self.parts(reads)
            # A carry is kept if it is read or wanted.
            carry = [g or r for g, r in zip(gives, carry)]
            gives = (*carry, *used[n:])
        reads = (*consts, *carry, *xs)
        body = with_inputs(body, reads)
        return self.with_body(body, consts.count(True), carry.count(True)), reads, gives

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        signature = jaxpr_key_use(self.jaxpr.jaxpr)
        used = {s.idx for s in signature.sinks}
        fresh = {s.idx + self.num_consts for s in signature.sources}
        rest = range(self.num_consts + self.num_carry, len(avals))
        if kept := used - fresh - set(rest):
            raise used_in_each("scan", "body", self.jaxpr.jaxpr, min(kept))
        return signature

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        checker.expect(checker.checked(self.jaxpr).effects)
        checked = checker.checked(self.jaxpr)
        n = len(checker.error.leaves())
        body = moved_error(checked.closed, n, self.num_consts)
        op = self.with_body(body, self.num_consts, n + self.num_carry)
        consts, rest = args[: self.num_consts], args[self.num_consts :]
        return checker.take(checked, op(*consts, *checker.error.leaves(), *rest))

    # ---- reverse mode

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        linear = tuple(map(is_linear, args))
        if _has_known_carry(self, linear):
            return self._transpose_rest(cotangent, linear, args)
        consts, carry, xs = self.parts(args)
        linear_consts = tuple(map(is_linear, consts))
        linear_xs = tuple(map(is_linear, xs))
        # A linear carry with a known initial value starts at zero, as tangents do.
        linear_carry = tuple(map(is_linear, carry))
        n = self.num_carry
        ct_carry = [instantiate(ct) for ct in cotangent[:n]]
        ct_ys = cotangent[n:]
        y_nonzero = tuple(type(ct) is not Zero for ct in ct_ys)
        body = _transposed_body(self, linear_consts, linear_xs, y_nonzero)
        known_consts = unflagged(consts, linear_consts)
        ct_consts = [
            zeros(c.aval.to_cotangent_aval()) for c in flagged(consts, linear_consts)
        ]
        op = dataclasses.replace(
            self.with_body(body, len(known_consts), len(ct_consts) + n),
            reverse=not self.reverse,
        )
        given = [ct for ct in ct_ys if type(ct) is not Zero]
        result = op(
            *known_consts, *ct_consts, *ct_carry, *unflagged(xs, linear_xs), *given
        )
        k = len(ct_consts)
        for_consts, for_carry = iter(result[:k]), result[k : k + n]
        for_xs = iter(result[k + n :])
        return [
            *(next(for_consts) if f else None for f in linear_consts),
            *(ct if f else None for ct, f in zip(for_carry, linear_carry, strict=True)),
            *(next(for_xs) if f else None for f in linear_xs),
        ]

    def _transpose_rest(
        self, cotangent: Any, linear: Flags, args: Sequence[Any]
    ) -> Sequence[Any]:
        """Run what is known of the carry, a counter say, and transpose the rest."""
        plan = partial_plan(self, linear)
        _, later, later_args = self._run_known(plan, linear, args)
        flags = (*plan.carry_unknown, *plan.y_unknown)
        cts = [ct for ct, f in zip(cotangent, flags, strict=True) if f]
        result = later.transpose(cts, *later_args)
        given = zip(result, map(is_linear, later_args), strict=True)
        wanted = (ct for ct, f in given if f)
        return [next(wanted) if f else None for f in linear]

    # ---- batching

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        consts, carry, xs = self.parts(args)
        const_dims, carry_dims, x_dims = self.parts(dims)
        flags = tuple(d is not None for d in carry_dims)
        x_flags = tuple(d is not None for d in x_dims)
        body, flags, y_flags = _batched_body(
            self, axis, tuple(const_dims), flags, x_flags
        )
        carry = [
            batch_dim_at(x, d, axis.size, 0) if f else x
            for x, d, f in zip(carry, carry_dims, flags, strict=True)
        ]
        xs = [
            x if d is None else move_dim(x, d, 1)
            for x, d in zip(xs, x_dims, strict=True)
        ]
        outs = self.with_body(body, len(consts), len(carry))(*consts, *carry, *xs)
        return outs, [
            *(0 if f else None for f in flags),
            *(1 if f else None for f in y_flags),
        ]

    # ---- description

    @property
    def scope(self) -> str:
        return "while"  # name stacks show loops as JAX lowers them

    def scopes(self, param: str, index: int) -> Sequence[str]:
        return self.scope, "body"

    def params(self) -> dict[str, Any]:
        """The fields, and what they say as JAX 0.12 does: a leaf for each operand."""
        rest = len(self.jaxpr.in_avals) - self.num_consts - self.num_carry
        ys = len(self.jaxpr.out_avals) - self.num_carry
        carry = (None,) * self.num_carry
        return {
            **super().params(),
            "ft_in": ((None,) * self.num_consts, carry, (None,) * rest),
            "ft_out": (carry, (_Stacked(),) * ys),
        }

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        shown = dict(sorted(self.params().items()))
        if not self.split_transpose:
            del shown["_split_transpose"]
        by_leaf, by_count = ("ft_in", "ft_out"), ("num_carry", "num_consts")
        for name in by_count if MORE_PARAMETERS.applies() else by_leaf:
            del shown[name]
        return shown


class _Stacked:
    """A leaf of the results that the loop stacks, as jaxprs show it."""

    def __repr__(self) -> str:
        return "RightsOnly(Right(None))"


def _cotangents(avals: Sequence[ShapedArray], flags: Flags) -> list[ShapedArray]:
    return [a.to_cotangent_aval() for a in flagged(avals, flags)]


@kept_with_jaxpr
def _has_known_carry(op: Scan, linear: Flags) -> bool:
    """Whether a part of the carry depends on no linear argument in any iteration."""
    consts, carry, xs = map(tuple, op.parts(linear))
    jaxpr = op.jaxpr.jaxpr

    def after(carry: Flags) -> list[bool]:
        reached = {*flagged(jaxpr.invars, consts + carry + xs)}
        for eqn in jaxpr.eqns:
            if not reached.isdisjoint(eqn.invars):
                reached.update(eqn.outvars)
        return [v in reached for v in jaxpr.outvars[: op.num_carry]]

    return not all(spread(carry, after))


@kept_with_jaxpr
def _transposed_body(
    op: Scan, linear_consts: Flags, linear_xs: Flags, y_nonzero: Flags
) -> ClosedJaxpr:
    """From known constants, sums of constant cotangents, carry cotangents, known xs
    and ys cotangents, to the new sums, carry cotangents and xs cotangents."""
    n = op.num_carry
    linear = linear_consts + (True,) * n + linear_xs
    body, _ = transpose_jaxpr(op.jaxpr, linear, (True,) * n + y_nonzero, True)
    n_known, n_sums = linear_consts.count(False), linear_consts.count(True)
    n_xs = linear_xs.count(False)

    def run(*args: Any) -> list[Any]:
        consts, rest = args[:n_known], args[n_known:]
        sums, rest = rest[:n_sums], rest[n_sums:]
        ct_carry, rest = rest[:n], rest[n:]
        xs, ct_ys = rest[:n_xs], rest[n_xs:]
        result = run_closed(body, [*consts, *xs, *ct_carry, *ct_ys])
        added = [add_tangents(a, b) for a, b in zip(sums, result[:n_sums], strict=True)]
        return [*added, *result[n_sums:]]

    consts, carry, xs = op.parts(op.jaxpr.in_avals)
    outs = op.jaxpr.out_avals
    avals = [
        *unflagged(consts, linear_consts),
        *_cotangents(consts, linear_consts),
        *(a.to_cotangent_aval() for a in outs[:n]),
        *unflagged(xs, linear_xs),
        *_cotangents(outs[n:], y_nonzero),
    ]
    return stage(run, avals)


@kept_with_jaxpr
def _batched_body(
    op: Scan,
    axis: BatchAxis,
    const_dims: tuple[int | None, ...],
    carry: Flags,
    xs: Flags,
) -> tuple[ClosedJaxpr, Flags, Flags]:
    n = op.num_carry

    def dims(carry: Flags) -> tuple[int | None, ...]:
        return const_dims + tuple(0 if f else None for f in carry + xs)

    def batched_outs(carry: Flags) -> list[bool]:
        return [d is not None for d in batch_jaxpr(op.jaxpr, axis, dims(carry))[1]]

    carry = spread(carry, lambda c: batched_outs(c)[:n])
    ys = tuple(batched_outs(carry)[n:])
    body, _ = batch_jaxpr(op.jaxpr, axis, dims(carry), carry + ys)
    return body, carry, ys
