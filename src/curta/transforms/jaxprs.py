"""Transformations of closed jaxprs, for the ops that hold one.

Each runs the interpreter of its transformation over the jaxpr and stages what comes
out. Results are cached on the identity of the jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr, jaxpr_as_fun
from curta.core.memo import kept_with_jaxpr
from curta.core.partition_spec import entry_of
from curta.core.stage import JaxprTrace, stage
from curta.core.tangents import LinearArg, Zero, zero_tangent
from curta.core.trace import Trace, current_trace, typeof
from curta.primitives.structure import batch_dim_at, instantiate
from curta.transforms.jvp import jvp
from curta.transforms.partial_eval import PartialTrace
from curta.transforms.transpose import backward_pass
from curta.transforms.vmap import BatchAxis, batch

# How the jaxpr of an op is transformed where tangents, or the terms of series, go
# through it: as `jvp_jaxpr`.
Pushforward = Callable[..., tuple[ClosedJaxpr, tuple[bool, ...]]]


def differentiation_mode(trace: Trace | None) -> str:
    """By which rules ops are differentiated whose tangents `trace` computes.

    "jvp" in forward mode, "lin" where a function is linearized, and "vjp" where its
    linear map is then transposed.
    """
    while type(trace) is JaxprTrace:  # that of a jaxpr within the function
        trace = trace.parent
    return trace.mode if isinstance(trace, PartialTrace) else "jvp"


def jvp_jaxpr(
    closed: ClosedJaxpr,
    nonzero: tuple[bool, ...],
    instantiate_outputs: bool | tuple[bool, ...] = False,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The jaxpr of primals and nonzero tangents, to outputs and nonzero tangents.

    Returns it with which outputs have a tangent; `instantiate_outputs` makes
    tangents of zeros explicit.
    """
    return jvp_push(closed)(closed, nonzero, instantiate_outputs)


def jvp_push(*closed: ClosedJaxpr) -> Pushforward:
    """Return `jvp_jaxpr` by the rules that the current trace differentiates by.

    Only primitives of a program's own have several: for other jaxprs it is one
    function, so that their transformed jaxprs are shared.
    """
    high = any(c.is_high for c in closed)
    return _pushes[differentiation_mode(current_trace()) if high else "jvp"]


@kept_with_jaxpr
def _jvp_jaxpr(
    closed: ClosedJaxpr,
    nonzero: tuple[bool, ...],
    instantiate_outputs: bool | tuple[bool, ...],
    mode: str,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    out_nonzero: list[bool] = []
    count = len(closed.in_avals)
    make = instantiate_outputs
    if isinstance(make, bool):
        make = (make,) * len(closed.out_avals)

    def run(*args: Any) -> list[Any]:
        given = iter(args[count:])
        tangents = [
            next(given) if n else zero_tangent(a)
            for a, n in zip(closed.in_avals, nonzero, strict=True)
        ]
        outs, out_tangents = jvp(jaxpr_as_fun(closed), args[:count], tangents)
        out_tangents = [
            instantiate(t) if m else t for t, m in zip(out_tangents, make, strict=True)
        ]
        out_nonzero[:] = [type(t) is not Zero for t in out_tangents]
        return outs + [t for t in out_tangents if type(t) is not Zero]

    tangent_avals = [
        a.to_tangent_aval() for a, n in zip(closed.in_avals, nonzero, strict=True) if n
    ]
    staged = stage(run, [*closed.in_avals, *tangent_avals], closed.jaxpr.debug_info)
    return staged, tuple(out_nonzero)


def _push_by(mode: str) -> Pushforward:
    def push(
        closed: ClosedJaxpr,
        nonzero: tuple[bool, ...],
        instantiate_outputs: bool | tuple[bool, ...] = False,
    ) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
        return _jvp_jaxpr(closed, nonzero, instantiate_outputs, mode)

    return push


_pushes = {mode: _push_by(mode) for mode in ("jvp", "lin", "vjp")}


@kept_with_jaxpr
def batch_jaxpr(
    closed: ClosedJaxpr,
    axis: BatchAxis,
    dims: tuple[int | None, ...],
    force: bool | tuple[bool, ...] = False,
) -> tuple[ClosedJaxpr, tuple[int | None, ...]]:
    """The jaxpr over batches, with the batch dims of its outputs.

    Outputs with `force` are batched along dim 0 whether they need it or not.
    """
    out_dims: list[int | None] = []
    forced = (force,) * len(closed.out_avals) if isinstance(force, bool) else force

    def run(*args: Any) -> list[Any]:
        outs, result = batch(jaxpr_as_fun(closed), axis, args, dims)
        outs = [
            batch_dim_at(x, d, axis.size, 0) if f else x
            for x, d, f in zip(outs, result, forced, strict=True)
        ]
        out_dims[:] = [0 if f else d for d, f in zip(result, forced, strict=True)]
        return outs

    avals: list[Any] = [
        a if d is None else a.with_dim(d, axis.size, entry_of(axis.explicit))
        for a, d in zip(closed.in_avals, dims, strict=True)
    ]
    return stage(run, avals, closed.jaxpr.debug_info), tuple(out_dims)


@kept_with_jaxpr
def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear: tuple[bool, ...],
    nonzero: tuple[bool, ...],
    instantiate_outputs: bool = False,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The jaxpr from known inputs and nonzero cotangents to input cotangents.

    Returns it with which of the linear inputs have a nonzero cotangent;
    `instantiate_outputs` makes cotangents of zeros explicit.
    """
    out_nonzero: list[bool] = []
    known_count = linear.count(False)

    def run(*args: Any) -> list[Any]:
        known, given = iter(args[:known_count]), iter(args[known_count:])
        operands = [
            LinearArg(a) if is_linear else next(known)
            for a, is_linear in zip(closed.in_avals, linear, strict=True)
        ]
        cotangents = [
            next(given) if n else Zero(a.to_cotangent_aval())
            for a, n in zip(closed.out_avals, nonzero, strict=True)
        ]
        result = backward_pass(closed.jaxpr, closed.consts, operands, cotangents)
        wanted = [ct for ct, f in zip(result, linear, strict=True) if f]
        if instantiate_outputs:
            wanted = [instantiate(ct) for ct in wanted]
            _check_cotangents(wanted, mapped)
        out_nonzero[:] = [type(ct) is not Zero for ct in wanted]
        return [ct for ct in wanted if type(ct) is not Zero]

    avals = [a for a, f in zip(closed.in_avals, linear, strict=True) if not f]
    mapped = [a for a, f in zip(closed.in_avals, linear, strict=True) if f]
    # A linear map of integers has integers as cotangents; see `linear_transpose`.
    whole = all(_is_whole(a) for a in mapped)
    avals += [
        a.strip_weak_type() if whole else a.to_cotangent_aval()
        for a, n in zip(closed.out_avals, nonzero, strict=True)
        if n
    ]
    return stage(run, avals, closed.jaxpr.debug_info), tuple(out_nonzero)


def _is_whole(aval: Any) -> bool:
    return not aval.is_high and dtypes.issubdtype(aval.dtype, np.integer)


def _check_cotangents(cts: Sequence[Any], avals: Sequence[ShapedArray]) -> None:
    """Refuse cotangents of another dtype, which `custom_vjp` rules may give."""
    for ct, aval in zip(cts, avals, strict=True):
        result = typeof(ct)
        if aval.is_high and result == aval.to_cotangent_aval():
            continue
        wanted = aval.to_cotangent_aval().dtype, aval.dtype
        if result.shape != aval.shape or result.dtype not in wanted:
            raise TypeError(
                "a value of a loop or branch and its cotangent must have equal types,"
                f" but they differ: {aval.str_short()} has a cotangent of type"
                f" {result.str_short()}. Let the backward rule of custom_vjp that gives"
                " it convert it."
            )


def run_closed(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Apply the jaxpr's ops one by one under the current trace."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)
