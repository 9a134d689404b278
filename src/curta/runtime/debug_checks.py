"""A look at results: `jax_debug_nans`, `jax_debug_infs` and `jax_no_execution`.

Where a result is bad, the ops of the program are run one by one, to name the one that
it comes from and the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.rewrite.inline import inline_calls
from curta.config import config
from curta.control.shard_map import ShardMap
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate, watching
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, jaxprs_of
from curta.core.op import Op
from curta.core.source_info import UNKNOWN, SourceInfo, user_frame
from curta.runtime.executables import Executable
from curta.runtime.transfer import to_array


def refuse_execution(name: str) -> None:
    """Raise RuntimeError if the setting jax_no_execution says so."""
    if config.jax_no_execution:
        raise RuntimeError(
            f"Tried to execute function {name}, but the no_execution config option"
            " is set. Trace it only: eval_shape and make_jaxpr run nothing."
        )


def checked(name: str, closed: ClosedJaxpr, run: Executable) -> Executable:
    """`run` with a look at its results; a bad one is traced to the op it comes from."""

    def run_checked(*args: np.ndarray[Any, Any]) -> Sequence[Any]:
        outs = run(*args)
        check_results(name, closed, outs, lambda: args)
        return outs

    return Executable(run_checked, run.temporary_bytes)


def check_results(
    name: str,
    closed: ClosedJaxpr,
    outs: Sequence[Any],
    args: Callable[[], Sequence[Any] | None],
) -> None:
    """Raise FloatingPointError for a bad value in what a program has computed.

    It names the op that the value comes from, by running all of them on the `args`, if
    this process has them.
    """
    bad = special_value(outs, closed.out_avals)
    if bad is None:
        return
    sharded = _is_sharded(closed.jaxpr)
    given = args()
    if given is None:
        raise FloatingPointError(_message(bad, name, UNKNOWN, sharded))
    _check_ops(closed, given, sharded)
    raise FloatingPointError(
        f"{_message(bad, name, UNKNOWN, sharded)}. Because jax_debug_nans or"
        " jax_debug_infs is set, the ops of the function were run one by one"
        " to find where it comes from, but the de-optimized function did not"
        " produce such a value: it is an input or a literal, or comes from the"
        " way the function was compiled."
    )


def _check_ops(closed: ClosedJaxpr, args: Sequence[Any], sharded: bool) -> None:
    """Run the ops one by one, in NumPy, until one gives a bad value."""
    flat = inline_calls(closed)
    consts = [to_array(c)._storage() for c in flat.consts]
    with np.errstate(all="ignore"), watching(partial(_look, sharded)):
        evaluate(flat.jaxpr, consts, args)


_MOVING = {
    *("broadcast_in_dim", "convert_element_type", "copy", "copy_p", "reshape"),
    *("squeeze", "transpose"),
}


def _look(sharded: bool, eqn: Eqn, outs: Sequence[Any]) -> None:
    bad = special_value(outs, [v.aval for v in eqn.outvars])
    if bad == "nan" and eqn.op.name in _MOVING:
        return  # it has come with the operand, a literal perhaps
    if bad:
        raise FloatingPointError(_message(bad, eqn.op.name, eqn.source_info, sharded))


def check_op(
    op: Op, args: Sequence[Any] | None, outs: Any, avals: Sequence[Any]
) -> None:
    """Raise FloatingPointError if the results of an op have a bad value.

    It names the op and the user's line; of a loop, the op in its body. `args` are the
    operands, if this process has them.
    """
    if bad := special_value(outs, avals):
        inner = list(jaxprs_of(op))
        sharded = isinstance(op, ShardMap) or any(map(_is_sharded, inner))
        if inner and args is not None:
            with np.errstate(all="ignore"), watching(partial(_look, sharded)):
                op.eval(*args)
        raise FloatingPointError(_message(bad, op.name, user_frame(), sharded))


def _is_sharded(jaxpr: Jaxpr) -> bool:
    """Whether devices compute parts of it, as JAX's words for errors tell."""
    return any(
        isinstance(eqn.op, ShardMap) or any(map(_is_sharded, jaxprs_of(eqn.op)))
        for eqn in jaxpr.eqns
    )


def _message(value: str, name: str, location: SourceInfo, sharded: bool) -> str:
    at = "" if location.code is None else f" at {location}"
    if sharded:
        return f"Invalid value ({value}) encountered in sharded computation: {name}{at}"
    return f"invalid value ({value}) encountered in {name}{at}"


def special_value(outs: Sequence[Any], avals: Sequence[ShapedArray]) -> str | None:
    """Whether there are NaNs or infinities, as the settings ask."""
    for x, aval in zip(outs, avals, strict=True):
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            continue
        if config.jax_debug_nans and np.isnan(x).any():
            return "nan"
        if config.jax_debug_infs and np.isinf(x).any():
            return "inf"
    return None
