"""Scalars as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.core.stage import JaxprTrace
from curta.core.trace import Trace, current_trace, typeof
from curta.runtime.array import wrap
from curta.runtime.transfer import guard_implicit_transfer


def scalar_array(x: Any) -> Any:
    """A Python or NumPy scalar as an array of rank 0.

    While a jaxpr is recorded it is a literal of the jaxpr.
    """
    trace: Trace | None = current_trace()
    while trace is not None:
        if isinstance(trace, JaxprTrace):
            return trace.tracer(x)
        trace = trace.parent
    aval = typeof(x)
    guard_implicit_transfer(aval)
    return wrap(np.asarray(x, aval.dtype), aval)
