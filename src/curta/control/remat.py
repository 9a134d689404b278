"""Rematerialisation: recompute in the backward pass what is not worth keeping."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from curta.config import config
from curta.control.call import Call, JaxprOp
from curta.control.saving import is_kept
from curta.control.shard_map import ShardMap, cut_as
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.core.key_use import NOTHING, KeyReuseSignature
from curta.core.source_info import NamedScope
from curta.core.stage import stage
from curta.core.tangents import is_linear
from curta.lazy_dataclass import dataclass
from curta.transforms.dce import dce_jaxpr
from curta.transforms.jaxprs import run_closed
from curta.transforms.partial_eval import Split, prune, split_jaxpr

_log = logging.getLogger("curta.control.remat")

Policy = Callable[..., Any]


@dataclass(frozen=True)
class Remat(JaxprOp):
    """A jaxpr whose intermediate values are recomputed when it is transposed.

    `policy(primitive, *avals, **params)` says which results to keep; None keeps none.
    """

    name: ClassVar[str] = "remat2"
    jaxpr: ClosedJaxpr
    prevent_cse: bool = True
    differentiated: bool = False
    policy: Policy | None = None

    def __post_init__(self) -> None:
        # `params` shows the jaxpr without its (absent) constants, as JAX does.
        if isinstance(self.jaxpr, Jaxpr):
            object.__setattr__(self, "jaxpr", ClosedJaxpr(self.jaxpr))

    @property
    def scope(self) -> str:
        return "checkpoint"

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        once = {e for e in self.effects if isinstance(e, str)}
        if once:
            raise NotImplementedError(
                "Effects not supported in partial-eval of `checkpoint`/`remat`:"
                f" {sorted(once)}. What is computed again would happen again: move it"
                " out of the function."
            )
        unknown = tuple(map(partial.is_unknown, args))
        plan = plan_residuals(self.jaxpr, unknown, self.policy)
        level = (
            logging.WARNING if config.jax_log_checkpoint_residuals else logging.DEBUG
        )
        if _log.isEnabledFor(level):
            _log.log(level, "%s", _described(plan, unknown))
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        results = run_closed(plan.known, known_args)
        outs = results[: plan.known_out_count]
        residuals = results[plan.known_out_count :]
        later: Sequence[Any] = ()
        if any(plan.out_unknown):
            op = Remat(plan.unknown, self.prevent_cse, True, self.policy)
            passed = [args[i] for i in plan.passed]
            later = partial.defer(op, [*residuals, *passed])
        known_outs, unknown_outs = iter(outs), iter(later)
        return [next(unknown_outs if u else known_outs) for u in plan.out_unknown]

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        # What is computed again uses no keys that were not used the first time.
        return NOTHING if self.differentiated else super().key_use(avals)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        # What is recomputed and what is linear may be in one eqn, a cond for example.
        op = self.with_jaxpr(separated(self.jaxpr, tuple(map(is_linear, args))))
        return JaxprOp.transpose(op, cotangent, *args)

    def params(self) -> dict[str, Any]:
        return {
            "jaxpr": self.jaxpr.jaxpr,
            "prevent_cse": self.prevent_cse,
            "differentiated": self.differentiated,
            "policy": self.policy,
        }


def _described(plan: ResidualPlan, unknown: Sequence[bool]) -> str:
    """What is kept for the backward pass: inputs, and results of which ops."""
    avals = plan.unknown.in_avals[len(plan.unknown.in_avals) - len(plan.passed) :]
    inputs = [
        f"  {aval.str_short()}"
        for i, aval in zip(plan.passed, avals, strict=True)
        if not unknown[i]
    ]
    jaxpr = plan.known.jaxpr
    makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    kept = [
        f"  {v.aval.str_short()} output of {eqn.op.name} from {eqn.source_info}"
        for v in jaxpr.outvars[plan.known_out_count :]
        if (eqn := makers.get(v)) is not None  # type: ignore[arg-type]
    ]
    parts = []
    if inputs:
        parts.append("\n".join(["saving inputs with shapes:", *inputs]))
    if kept:
        parts.append("\n".join(["saving these intermediates:", *kept]))
    return "remat-decorated function " + "\nand ".join(parts or ["saving nothing"])


@functools.lru_cache(maxsize=1024)
def separated(closed: ClosedJaxpr, linear: tuple[bool, ...]) -> ClosedJaxpr:
    """The jaxpr with no eqn that mixes what depends on linear inputs with the rest."""
    split = split_jaxpr(closed, linear)

    def run(*args: Any) -> list[Any]:
        known = [x for x, f in zip(args, linear, strict=True) if not f]
        with NamedScope("rematted_computation"):
            outs = run_closed(split.known, known)
        tangents = [x for x, f in zip(args, linear, strict=True) if f]
        later = run_closed(split.unknown, [*split.residuals(known, outs), *tangents])
        known_outs, linear_outs = iter(outs), iter(later)
        return [next(linear_outs if u else known_outs) for u in split.out_unknown]

    return stage(run, closed.in_avals, closed.jaxpr.debug_info)


@dataclass(frozen=True)
class ResidualPlan:
    """How a rematerialised jaxpr is cut.

    `known` maps the known inputs to the known outputs and the kept values;
    `unknown` maps the kept values and the inputs at `passed` to the unknown outputs.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    known_out_count: int
    passed: tuple[int, ...]
    out_unknown: tuple[bool, ...]


@functools.lru_cache(maxsize=1024)
def plan_residuals(
    closed: ClosedJaxpr, in_unknown: tuple[bool, ...], policy: Policy | None
) -> ResidualPlan:
    """Cut a jaxpr, keeping between the two parts only what `policy` allows."""
    split = split_jaxpr(closed, in_unknown)
    candidates: list[Var] = []
    if policy is not None:
        closed, left = cut_maps(inline_calls(closed), in_unknown, policy)
        found = _saveable_values(closed.jaxpr, in_unknown, policy)
        candidates = [*dict.fromkeys([*found, *left])]
    jaxpr = closed.jaxpr
    later = _recompute(jaxpr, candidates, split.out_unknown)
    read = {v for e in later.eqns for v in e.invars} | set(later.outvars)
    kept = [v for v in candidates if v in read]
    passed = tuple(i for i, v in enumerate(jaxpr.invars) if v in read)
    later = later.replace(invars=[*kept, *(jaxpr.invars[i] for i in passed)])
    known_inputs = [v for v, u in zip(jaxpr.invars, in_unknown, strict=True) if not u]
    values = dce_jaxpr(jaxpr.replace(invars=known_inputs, outvars=kept))
    count = split.out_unknown.count(False)

    def run_known(*args: Any) -> list[Any]:
        outs = run_closed(split.known, args)[:count]
        return outs + run_closed(ClosedJaxpr(values, closed.consts), args)

    return ResidualPlan(
        prune(stage(run_known, split.known.in_avals, jaxpr.debug_info)),
        ClosedJaxpr(later, closed.consts),
        count,
        passed,
        split.out_unknown,
    )


def cut_maps(
    closed: ClosedJaxpr, in_unknown: tuple[bool, ...], policy: Policy
) -> tuple[ClosedJaxpr, list[Var]]:
    """The jaxpr with each `shard_map` of known and unknown values cut in two.

    Also what the first parts leave to the second: what `policy` allows of the values
    within.
    """
    jaxpr = closed.jaxpr
    unknown: set[Atom] = {v for v, u in zip(jaxpr.invars, in_unknown, strict=True) if u}
    eqns: list[Eqn] = []
    left: list[Var] = []
    for eqn in jaxpr.eqns:
        flags = tuple(v in unknown for v in eqn.invars)
        if not isinstance(eqn.op, ShardMap) or any(flags) == all(flags):
            unknown.update(eqn.outvars if any(flags) else ())
            eqns.append(eqn)
            continue
        first, second = _cut_map(eqn, flags, policy)
        eqns += [first, second]
        left += [v for v in first.outvars if v not in eqn.outvars]
        unknown.update(second.outvars)
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts), left


def _cut_map(eqn: Eqn, flags: tuple[bool, ...], policy: Policy) -> tuple[Eqn, Eqn]:
    op: Any = eqn.op
    with op.inside():
        plan = plan_residuals(op.body, flags, policy)
        count = plan.known_out_count
        places = tuple((False, i) for i in range(count, len(plan.known.out_avals)))
        split = Split(plan.known, plan.unknown, plan.out_unknown, places)
        cut = cut_as(op, flags, split, [op.in_specs[i] for i in plan.passed])
    known = [v for v, u in zip(eqn.invars, flags, strict=True) if not u]
    kept = [Var(a) for a in cut.known.aval()[count:]]
    outs = [v for v, u in zip(eqn.outvars, plan.out_unknown, strict=True) if not u]
    late = [v for v, u in zip(eqn.outvars, plan.out_unknown, strict=True) if u]
    first = eqn.replace(op=cut.known, invars=tuple(known), outvars=(*outs, *kept))
    passed = [eqn.invars[i] for i in plan.passed]
    second = eqn.replace(op=cut.unknown, invars=(*kept, *passed), outvars=tuple(late))
    return first, second


def _saveable_values(
    jaxpr: Jaxpr, in_unknown: Sequence[bool], policy: Policy
) -> list[Var]:
    """The results of known eqns that the policy lets be kept."""
    unknown: set[Atom] = {v for v, u in zip(jaxpr.invars, in_unknown, strict=True) if u}
    found: list[Var] = []
    for eqn in jaxpr.eqns:
        if any(v in unknown for v in eqn.invars):
            unknown.update(eqn.outvars)
        elif is_kept(
            policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)
        ):
            found.extend(eqn.outvars)
    return found


def _recompute(jaxpr: Jaxpr, kept: Sequence[Var], out_unknown: Sequence[bool]) -> Jaxpr:
    available = set(kept)
    eqns = []
    for e in jaxpr.eqns:
        if not available.issuperset(e.outvars):
            # What is kept is not computed again for being a result beside others.
            outs = [Var(v.aval) if v in available else v for v in e.outvars]
            eqns.append(e.replace(outvars=tuple(outs)))
    return dce_jaxpr(jaxpr.replace(eqns=eqns), out_unknown)


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with every `jit` eqn replaced by its body."""
    if not any(isinstance(e.op, Call) for e in closed.eqns):
        return closed

    def run(*args: Any) -> list[Any]:
        return _eval_inlined(closed, args)

    return stage(run, closed.in_avals, closed.jaxpr.debug_info)


def _eval_inlined(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        operands = [env[v] if type(v) is Var else v.val for v in eqn.invars]  # type: ignore[union-attr]
        if isinstance(eqn.op, Call):
            out: Any = _eval_inlined(eqn.op.jaxpr, operands)
        else:
            out = eqn.op(*operands)
            out = out if eqn.op.multiple_results else [out]
        env.update(zip(eqn.outvars, out, strict=True))
    return [env[v] if type(v) is Var else v.val for v in jaxpr.outvars]  # type: ignore[union-attr]
