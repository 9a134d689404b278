"""Scalars as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.stage import recording_trace
from curta.core.trace import typeof
from curta.runtime.array import wrap
from curta.runtime.transfer import fresh_copy, guard_implicit_transfer


def scalar_array(x: Any) -> Any:
    """A Python or NumPy scalar as an array of rank 0, a NumPy array as a copy of it.

    While a jaxpr is recorded it is a literal or constant of the jaxpr.
    """
    recording = recording_trace()
    if recording is not None:
        return recording.tracer(x)
    aval = typeof(x)
    guard_implicit_transfer(aval)
    return wrap(fresh_copy(x, aval.dtype), aval)


def refuse_complex(x: Any, dtype: Any) -> None:
    """Raise TypeError for a Python complex number that is to become a real dtype."""
    if type(x) is complex and not dtypes.issubdtype(dtype, np.complexfloating):
        if not isinstance(dtype, dtypes.ExtendedDType):
            dtypes.scalar_type_of(dtype)(x)
