"""`Cond`: one of several jaxprs, chosen by an integer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.control.carries import flagged, unflagged
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr
from curta.core.key_use import Forward, KeyReuseSignature, Sink, Source
from curta.core.memo import kept_with_jaxpr
from curta.core.op import BatchDims, Batched
from curta.core.refs import NOT_USED
from curta.core.stage import stage
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.effects import Empty
from curta.primitives.elementwise.comparison import eq
from curta.primitives.elementwise.convert import stop_gradient
from curta.primitives.elementwise.select import select_n
from curta.primitives.structure import BroadcastInDim, batch_dim_at, zeros
from curta.transforms.checkify import own_checks
from curta.transforms.dce import prune_outputs, with_inputs
from curta.transforms.discharge import Flags, TakesRefs, accesses, discharge_jaxpr
from curta.transforms.jaxprs import (
    Pushforward,
    batch_jaxpr,
    jvp_push,
    run_closed,
    transpose_jaxpr,
)
from curta.transforms.key_use import jaxpr_key_use
from curta.transforms.lowering import lower_jaxpr
from curta.transforms.partial_eval import PartialTrace, SplitJaxpr, split_jaxpr
from curta.transforms.vmap import refuse_meeting

Branches = tuple[ClosedJaxpr, ...]


@dataclass(frozen=True)
class Cond(TakesRefs):
    """`branches[index](*operands)`; arguments are the int32 index, then operands.

    All branches have the same input and output avals. An index out of range counts
    as the nearest in range.
    """

    name: ClassVar[str] = "cond"
    places_outputs: ClassVar[bool] = True
    holds_jaxprs: ClassVar[bool] = True
    multiple_results: ClassVar[bool] = True
    branches: Branches
    branches_platforms: Any = None
    """For `platform_dependent`: which platforms each branch is for."""

    @property
    def regions(self) -> Branches:
        return self.branches

    def with_branches(self, branches: Branches) -> Cond:
        """The same choice between other jaxprs."""
        return Cond(branches, self.branches_platforms)

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset().union(*(b.effects for b in self.branches))

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return self.branches[0].out_avals

    def eval(self, *args: Any) -> Any:
        index, *operands = args
        chosen = self.branches[int(np.clip(index, 0, len(self.branches) - 1))]
        return evaluate(chosen.jaxpr, chosen.consts, operands)

    def on_parts(self, counts: Sequence[int]) -> Cond:
        return self.with_branches(tuple(map(lower_jaxpr, self.branches)))

    def accesses(self) -> Sequence[int]:
        each = [accesses(b.jaxpr) for b in self.branches]
        return [NOT_USED, *map(max, zip(*each, strict=True))]

    def discharged(
        self, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        result = self.with_branches(
            tuple(discharge_jaxpr(b, given[1:], written[1:]) for b in self.branches)
        )(*args)
        count = len(self.branches[0].out_avals)
        return result[:count], result[count:]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self.pushforward(primals, tangents, jvp_push(*self.branches))

    def pushforward(
        self, primals: Sequence[Any], tangents: Sequence[Any], push: Pushforward
    ) -> tuple[Any, Any]:
        nonzero = tuple(type(t) is not Zero for t in tangents[1:])
        branches, out_nonzero = _pushed_branches(self.branches, push, nonzero)
        given = [t for t in tangents[1:] if type(t) is not Zero]
        results = self.with_branches(branches)(*primals, *given)
        avals = self.branches[0].out_avals
        result = iter(results[len(avals) :])
        return results[: len(avals)], [
            next(result) if n else zero_tangent(a)
            for a, n in zip(avals, out_nonzero, strict=True)
        ]

    def partial_eval(self, partial: PartialTrace, args: Sequence[Any]) -> Any:
        unknown = tuple(map(partial.is_unknown, args))
        if unknown[0]:
            return partial.defer(self, args)
        known, later, out_unknown, count = _split_branches(self.branches, unknown[1:])
        results = self.with_branches(known)(*unflagged(args, unknown))
        residuals = results[len(results) - count :]
        rest = [args[0], *residuals, *flagged(args, unknown)]
        return partial.joined(out_unknown, results, self.with_branches(later), rest)

    def pruned(self, used: Flags) -> tuple[Cond, Flags, Flags]:
        result = [prune_outputs(b, used) for b in self.branches]
        reads = tuple(map(any, zip(*(r for _, r in result), strict=True)))
        branches = tuple(with_inputs(b, reads) for b, _ in result)
        return self.with_branches(branches), (True, *reads), used

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        index, *operands = args
        linear = tuple(map(is_linear, operands))
        nonzero = tuple(type(ct) is not Zero for ct in cotangent)
        branches = _transpose_branches(self.branches, linear, nonzero)
        known = [x for x in operands if not is_linear(x)]
        given = [ct for ct in cotangent if type(ct) is not Zero]
        result = iter(self.with_branches(branches)(index, *known, *given))
        return [None, *(next(result) if f else None for f in linear)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        index, *operands = args
        index_dim, *operand_dims = dims
        if index_dim is not None:
            refuse_meeting(self, axis, "a cond whose predicate")
            return self._select(axis, args, dims)
        plain = [batch_jaxpr(b, axis, tuple(operand_dims)) for b in self.branches]
        forced = tuple(
            any(d is not None for d in flags)
            for flags in zip(*(flags for _, flags in plain), strict=True)
        )
        branches = tuple(
            batch_jaxpr(b, axis, tuple(operand_dims), forced)[0] for b in self.branches
        )
        outs = self.with_branches(branches)(index, *operands)
        return outs, [0 if f else None for f in forced]

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        each = [jaxpr_key_use(b.jaxpr) for b in self.branches]
        common: set[Any] = set.intersection(*[{*s.forwards, *s.sources} for s in each])
        return KeyReuseSignature(
            *_joined_sinks(each),
            *[x if isinstance(x, Source) else _after_index(x) for x in common],
        )

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        for branch in self.branches:
            checker.expect(checker.checked(branch).effects)
        result = [checker.checked(branch) for branch in self.branches]
        op = self.with_branches(tuple(c.closed for c in result))
        merged = result[0].with_metadata_of(result)
        index, *operands = args
        return checker.apply(merged, functools.partial(op, index), operands)

    def _select(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        """Run all branches and choose element by element.

        To differentiation, the operands of a branch are constants in the examples
        that do not take it, so that a NaN of its derivative there does no harm.
        """
        index, *operands = (
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        )
        outs = []
        for i, branch in enumerate(self.branches):
            checks = own_checks(branch)
            jaxpr, _ = batch_jaxpr(checks.closed, axis, (0,) * len(operands), True)
            taken = eq(index, np.int32(i))
            masked = [_chosen(taken, _constant(x), x) for x in operands]
            outs.append(checks.raise_where(taken, run_closed(jaxpr, masked)))
        chosen = [_chosen(index, *xs) for xs in zip(*outs, strict=True)]
        return chosen, [0] * len(chosen)

    def scopes(self, param: str, index: int) -> Sequence[str]:
        return self.scope, f"branch_{index}_fun"

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        shown = self.params()
        if self.branches_platforms is None:
            del shown["branches_platforms"]
        return shown


def _joined_sinks(signatures: Sequence[KeyReuseSignature]) -> list[Sink]:
    """What some branch uses up, by its index among the operands of the cond."""
    masks: dict[int, Any] = {}
    for sink in (s for each in signatures for s in each.sinks):
        masks[sink.idx] = np.logical_or(masks.get(sink.idx, False), sink.mask)
    return [Sink(i + 1, mask) for i, mask in masks.items()]


def _after_index(forward: Forward) -> Forward:
    return Forward(forward.in_idx + 1, forward.out_idx)


def _constant(x: Any) -> Any:
    is_number = isinstance(typeof(x).dtype, np.dtype)
    return stop_gradient(x) if is_number else x


def _chosen(which: Any, *xs: Any) -> Any:
    """Of each example, the case that `which` says."""
    if len(xs) == 1:
        return xs[0]
    shape = typeof(xs[0]).shape
    if len(shape) > 1:
        which = BroadcastInDim(shape, (0,))(which)
    return select_n(which, *xs)


@kept_with_jaxpr
def _pushed_branches(
    branches: Branches, push: Pushforward, nonzero: tuple[bool, ...]
) -> tuple[Branches, tuple[bool, ...]]:
    plain = [push(b, nonzero)[1] for b in branches]
    out_nonzero = tuple(map(any, zip(*plain, strict=True)))
    made = tuple(push(b, nonzero, out_nonzero)[0] for b in branches)
    return made, out_nonzero


@kept_with_jaxpr
def _split_branches(
    branches: Branches, unknown: tuple[bool, ...]
) -> tuple[Branches, Branches, tuple[bool, ...], int]:
    """The known and the unknown part of each branch, all with the same residuals.

    Also which outputs are unknown, and the number of residuals: branches share them.
    """
    plain = [split_jaxpr(b, unknown).out_unknown for b in branches]
    out_unknown = tuple(map(any, zip(*plain, strict=True)))
    splits = [split_jaxpr(b, unknown, out_unknown) for b in branches]
    shared, slots = share_residuals(
        [s.unknown.in_avals[: len(s.residual_sources)] for s in splits]
    )
    known = tuple(
        _known_branch(s, shared, p) for s, p in zip(splits, slots, strict=True)
    )
    later = tuple(
        _unknown_branch(s, shared, p) for s, p in zip(splits, slots, strict=True)
    )
    return known, later, out_unknown, len(shared)


def share_residuals(
    groups: Sequence[Sequence[ShapedArray]],
) -> tuple[list[ShapedArray], list[list[int]]]:
    """Avals for the residuals of any of the branches, and the slots of each one's.

    One branch runs, so that those of different branches need only one slot.
    """
    shared: list[ShapedArray] = []
    slots: list[list[int]] = []
    for group in groups:
        own: list[int] = []
        for aval in group:
            fits = (i for i, a in enumerate(shared) if a is aval and i not in own)
            slot = next(fits, len(shared))
            if slot == len(shared):
                shared.append(aval)
            own.append(slot)
        slots.append(own)
    return shared, slots


def shared_residuals(
    own: Sequence[Any], avals: Sequence[ShapedArray], slots: Sequence[int]
) -> list[Any]:
    """A branch's own residuals in their slots, and zeros at the others."""
    result = dict(zip(slots, own, strict=True))
    return [result[i] if i in result else _nothing(a) for i, a in enumerate(avals)]


def _nothing(aval: ShapedArray) -> Any:
    """Elements that nobody reads: zeros, or of dtypes without a zero, any."""
    extended = isinstance(aval.dtype, dtypes.ExtendedDType)
    return Empty(aval.shape, aval.dtype)() if extended else zeros(aval)


def _known_branch(
    split: SplitJaxpr, avals: Sequence[ShapedArray], slots: Sequence[int]
) -> ClosedJaxpr:
    def run(*args: Any) -> list[Any]:
        results = run_closed(split.known, args)
        outs = results[: split.out_unknown.count(False)]
        return outs + shared_residuals(split.residuals(args, results), avals, slots)

    return stage(run, split.known.in_avals)


def _unknown_branch(
    split: SplitJaxpr, avals: Sequence[ShapedArray], slots: Sequence[int]
) -> ClosedJaxpr:
    def run(*args: Any) -> list[Any]:
        own = [args[i] for i in slots]
        return run_closed(split.unknown, [*own, *args[len(avals) :]])

    return stage(run, [*avals, *split.unknown.in_avals[len(slots) :]])


@kept_with_jaxpr
def _transpose_branches(
    branches: Branches, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> Branches:
    return tuple(transpose_jaxpr(b, linear, nonzero, True)[0] for b in branches)
