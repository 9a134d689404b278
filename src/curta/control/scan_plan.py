"""Cutting a scan in two: what the known arguments determine, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.control.carries import flagged, spread, unflagged
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_with_jaxpr
from curta.core.stage import stage
from curta.transforms.dce import dce_jaxpr
from curta.transforms.discharge import Flags
from curta.transforms.jaxprs import run_closed
from curta.transforms.partial_eval import SplitJaxpr, split_jaxpr


@dataclass(frozen=True)
class PartialPlan:
    """A scan cut in two: one over what is known, one over the rest.

    `fixed` computes once, from the known constants, the residuals that are the same
    in every iteration; `known` and `unknown` are the two bodies. The residuals of
    `unknown` are named by where they come from.
    """

    fixed: ClosedJaxpr
    known: ClosedJaxpr
    unknown: ClosedJaxpr
    carry_unknown: Flags
    y_unknown: Flags
    known_out_count: int
    constant_residuals: tuple[tuple[str, int], ...]
    stacked_residuals: tuple[tuple[str, int], ...]


@kept_with_jaxpr
def partial_plan(op: Any, unknown: Flags) -> PartialPlan:
    """How the loop is cut where these arguments are unknown."""
    const_u, carry_u, x_u = (tuple(p) for p in op.parts(unknown))
    n = op.num_carry

    def split(carry: Flags) -> SplitJaxpr:
        unknown = const_u + carry + x_u
        known_ys = (False,) * (len(op.jaxpr.out_avals) - n)
        return split_jaxpr(op.jaxpr, unknown, carry + known_ys)

    carry_u = spread(carry_u, lambda c: split(c).out_unknown[:n])
    return _plan_of(op, split(carry_u), const_u, carry_u)


def _plan_of(op: Any, split: SplitJaxpr, const_u: Flags, carry_u: Flags) -> PartialPlan:
    """Sort the residuals into those that change with the iteration and the others."""
    n_consts, n_carry = const_u.count(False), carry_u.count(False)
    known = split.known
    n_out = split.out_unknown.count(False)
    invariant = _depends_only_on(known, n_consts)
    constant: list[tuple[str, int]] = []
    stacked: list[tuple[str, int]] = []
    is_constant: list[bool] = []
    lifted: list[int] = []
    kept: list[int] = list(range(n_out))
    for given, i in split.residual_sources:
        if given and i < n_consts:
            constant.append(("const", i))
        elif given and i >= n_consts + n_carry:
            stacked.append(("x", i - n_consts - n_carry))
        elif not given and invariant[i]:
            if i not in lifted:
                lifted.append(i)
            constant.append(("fixed", lifted.index(i)))
        else:
            source = i if not given else len(known.out_avals) + i
            if source not in kept[n_out:]:
                kept.append(source)
            stacked.append(("stacked", kept.index(source, n_out) - n_out))
        is_constant.append(given and i < n_consts or (not given and invariant[i]))
    fixed = _outputs_from_consts(known, lifted, n_consts)
    return PartialPlan(
        fixed,
        _known_body(known, kept),
        _unknown_body(split.unknown, is_constant, const_u.count(True), carry_u),
        carry_u,
        split.out_unknown[op.num_carry :],
        n_out,
        tuple(constant),
        tuple(stacked),
    )


def _depends_only_on(closed: ClosedJaxpr, count: int) -> list[bool]:
    """Which outputs are determined by the first `count` inputs alone."""
    varying = set(closed.jaxpr.invars[count:])
    for eqn in closed.eqns:
        if eqn.effects or any(v in varying for v in eqn.invars):
            varying.update(eqn.outvars)
    return [v not in varying for v in closed.jaxpr.outvars]


def _outputs_from_consts(
    known: ClosedJaxpr, outputs: Sequence[int], n_consts: int
) -> ClosedJaxpr:
    """The jaxpr from the constants alone to some of the outputs."""
    jaxpr = known.jaxpr
    if not outputs:
        empty = jaxpr.replace(
            constvars=(), invars=jaxpr.invars[:n_consts], outvars=(), eqns=()
        )
        return ClosedJaxpr(empty, ())
    # What has effects stays in the loop, to happen in every iteration.
    chosen = jaxpr.replace(
        invars=jaxpr.invars[:n_consts],
        outvars=[jaxpr.outvars[i] for i in outputs],
        eqns=[e for e in jaxpr.eqns if not e.effects],
    )
    return ClosedJaxpr(dce_jaxpr(chosen), known.consts)


def _known_body(known: ClosedJaxpr, kept: Sequence[int]) -> ClosedJaxpr:
    """The known body with some of its outputs.

    An index beyond the outputs stands for an input, handed through.
    """
    atoms = [*known.jaxpr.outvars, *known.jaxpr.invars]
    jaxpr = known.jaxpr.replace(outvars=[atoms[i] for i in kept])
    return ClosedJaxpr(dce_jaxpr(jaxpr), known.consts)


def _unknown_body(
    unknown: ClosedJaxpr, is_constant: Sequence[bool], n_consts: int, carry_u: Flags
) -> ClosedJaxpr:
    """The unknown body, its inputs as constants, carry and scanned arrays."""
    n_res, n_carry = len(is_constant), carry_u.count(True)
    n_fixed = sum(is_constant)

    def run(*args: Any) -> list[Any]:
        fixed, rest = iter(args[:n_fixed]), args[n_fixed:]
        consts, rest = rest[:n_consts], rest[n_consts:]
        carry, rest = rest[:n_carry], rest[n_carry:]
        stacked, xs = iter(rest[: n_res - n_fixed]), rest[n_res - n_fixed :]
        residuals = [next(fixed) if c else next(stacked) for c in is_constant]
        return run_closed(unknown, [*residuals, *consts, *carry, *xs])

    avals = list(unknown.in_avals)
    res, rest = avals[:n_res], avals[n_res:]
    order = [
        *flagged(res, is_constant),
        *rest[: n_consts + n_carry],
        *unflagged(res, is_constant),
        *rest[n_consts + n_carry :],
    ]
    return stage(run, order)
