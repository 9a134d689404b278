"""Linearisation: the outputs now, and the tangent map as a jaxpr for later.

It is forward mode run under partial evaluation: primals are known and computed at
once, tangents are unknown and recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta.core.jaxpr import ClosedJaxpr, DebugInfo
from curta.core.leaks import leak_check
from curta.core.source_info import Transforming
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import current_trace, running, typeof
from curta.transforms.jvp import JVPTrace, is_differentiable
from curta.transforms.partial_eval import PartialTrace, prune


class Linearized(NamedTuple):
    """`primals_out`, and the linear `jaxpr` from input to output tangents.

    Its inputs are the tangents of the inputs marked in `in_nonzero`, its outputs
    those of the outputs marked in `out_nonzero`; the others are zero.
    """

    primals_out: list[Any]
    jaxpr: ClosedJaxpr
    in_nonzero: list[bool]
    out_nonzero: list[bool]


def linearize(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    debug_info: DebugInfo | None = None,
    wanted: Sequence[bool] | None = None,
    mode: str = "lin",
) -> Linearized:
    """Linearise a flat function at `primals`, in the inputs that are `wanted`.

    `mode` is "vjp" if the linear map is to be transposed, and nothing else.
    """
    in_nonzero = [is_differentiable(x) for x in primals]
    if wanted is not None:
        in_nonzero = [a and b for a, b in zip(in_nonzero, wanted, strict=True)]
    partial = PartialTrace(current_trace(), debug_info or DebugInfo("linearize"))
    partial.mode = mode
    trace = JVPTrace(partial)
    boxed = [
        trace.box(
            x,
            partial.unknown(typeof(x).to_tangent_aval())
            if nonzero
            else zero_tangent(typeof(x)),
        )
        for x, nonzero in zip(primals, in_nonzero, strict=True)
    ]
    with running(trace), Transforming("jvp"):
        pairs = [trace.pair(x) for x in fun(*boxed)]
    out_nonzero = [type(t) is not Zero for _, t in pairs]
    recorded = partial.recorder.jaxpr([t for _, t in pairs if type(t) is not Zero])
    primals_out = [p for p, _ in pairs]
    if check := leak_check(trace):
        del trace, boxed, pairs
        check.finish()
    return Linearized(primals_out, prune(recorded), in_nonzero, out_nonzero)
