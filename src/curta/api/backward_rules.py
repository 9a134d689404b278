"""Backward rules of `custom_vjp` that log values or add to accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import dtypes, tree_util
from curta.control.accumulators import GradAccum, NullAccum, ValAccum
from curta.core.flat import function_name
from curta.core.tangents import Zero
from curta.core.wrapping import wraps
from curta.transforms.backward_logs import record


def logging_rule(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of cotangents, for one that returns a pair of these and a log.

    Raises TypeError, when it is called, for anything else.
    """
    name = function_name(bwd)

    @wraps(bwd)
    def rule(*args: Any) -> Any:
        pair = bwd(*args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP bwd rule {name} was registered with defvjp_with_logs, and"
                f" so must return a pair (in_cts, logs), but got {pair}."
            )
        cts, log = pair
        if log is not None and type(log) is not dict:
            raise TypeError(
                "Custom VJP bwd rule was registered with defvjp_with_logs, and so the"
                " second element of the pair it returns must be None or a dict of"
                f" backward-pass log entries, but got {type(log).__name__}."
            )
        record(log, f"the bwd rule {name}")
        return cts

    return rule


def accumulated(
    bwd: Callable[..., Any],
    args: Sequence[Any],
    in_tree: Any,
    avals: Sequence[Any],
    perturbed: Sequence[bool],
) -> list[Any]:
    """The cotangents of flat inputs that `bwd(*args, *accums)` adds up.

    Raises:
      TypeError: the rule returns anything but a log, or None.
    """
    wanted = [a.to_cotangent_aval() for a in avals]
    accums: list[GradAccum] = [
        ValAccum(a) if p and (a.is_high or a.dtype != dtypes.float0) else NullAccum(a)
        for a, p in zip(wanted, perturbed, strict=True)
    ]
    given, _ = tree_util.tree_unflatten(in_tree, accums)
    log = bwd(*args, *given)
    if log is not None and type(log) is not dict:
        raise TypeError(
            "Custom VJP bwd rule was registered with defvjp_with_accums, and so must"
            " return None or a dict of backward-pass log entries, but got"
            f" {type(log).__name__}."
        )
    record(log, f"the bwd rule {function_name(bwd)}")
    return [
        x.freeze() if isinstance(x, ValAccum) else Zero(a)
        for x, a in zip(accums, wanted, strict=True)
    ]


def after_rematerializing(
    fwd: Callable[..., Any], rem: Callable[..., Any]
) -> Callable[..., Any]:
    """The forward rule that runs `rem` on the residuals of `fwd`."""

    @wraps(fwd)
    def both(*args: Any) -> Any:
        _, residuals = fwd(*args)
        return rem(residuals, *args)

    return both
