"""Rematerialisation: recompute in the backward pass what is not worth keeping."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.control.call import JaxprOp
from curta.control.carries import unflagged
from curta.control.residual_plan import Policy, ResidualPlan, plan_residuals
from curta.control.saving import FitIn
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.key_use import NOTHING, KeyReuseSignature
from curta.core.memo import kept_with_jaxpr
from curta.core.source_info import NamedScope
from curta.core.stage import stage
from curta.core.tangents import is_linear
from curta.transforms.jaxprs import run_closed
from curta.transforms.partial_eval import split_jaxpr

_log = logging.getLogger("curta.control.remat")


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

    @property
    def recomputes(self) -> bool:
        return self.prevent_cse and self.differentiated

    @property
    def memory_limit(self) -> int | None:
        return self.policy.limit if isinstance(self.policy, FitIn) else None

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        if isinstance(self.policy, FitIn):
            return JaxprOp.partial_eval(self, partial, args)
        once = {e for e in self.effects if isinstance(e, str)}
        if once:
            raise NotImplementedError(
                "Effects not supported in partial-eval of `checkpoint`/`remat`:"
                f" {sorted(once)}. Recomputation would repeat the effects: move them"
                " out of the function."
            )
        unknown = tuple(map(partial.is_unknown, args))
        plan = plan_residuals(self.jaxpr, unknown, self.policy)
        level = (
            logging.WARNING if config.jax_log_checkpoint_residuals else logging.DEBUG
        )
        if _log.isEnabledFor(level):
            _log.log(level, "%s", _described(plan, unknown))
        results = run_closed(plan.known, unflagged(args, unknown))
        op = Remat(plan.unknown, self.prevent_cse, True, self.policy)
        later = [*results[plan.known_out_count :], *(args[i] for i in plan.passed)]
        return partial.joined(plan.out_unknown, results, op, later)

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        # Recomputation reuses keys on purpose.
        return NOTHING if self.differentiated else super().key_use(avals)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        # A single eqn, a cond for example, may hold both recomputed and linear parts.
        op = self.with_jaxpr(separated(self.jaxpr, tuple(map(is_linear, args))))
        return JaxprOp.transpose(op, cotangent, *args)

    def params(self) -> dict[str, Any]:
        return {**super().params(), "jaxpr": self.jaxpr.jaxpr}


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
        if (eqn := makers.get(v)) is not None
    ]
    parts = []
    if inputs:
        parts.append("\n".join(["saving inputs with shapes:", *inputs]))
    if kept:
        parts.append("\n".join(["saving these intermediates:", *kept]))
    return "remat-decorated function " + "\nand ".join(parts or ["saving nothing"])


@kept_with_jaxpr
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
