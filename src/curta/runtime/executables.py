"""Jaxprs as something that runs: compiled, or op by op in NumPy.

This is the seam between the runtime and what executes: no module above it knows
which backend runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.config import config
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr
from curta.runtime.transfer import to_array

# NumPy arrays of the physical dtypes of the jaxpr's avals, in and out.
Executable = Callable[..., Sequence[np.ndarray[Any, Any]]]


class NumpyExecutable:
    """Runs a jaxpr through the `eval` rules of its ops."""

    def __init__(self, closed: ClosedJaxpr):
        self.jaxpr = closed.jaxpr
        self.consts = [to_array(c)._storage() for c in closed.consts]

    def __call__(self, *args: np.ndarray[Any, Any]) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            outs = evaluate(self.jaxpr, self.consts, args)
        return [x if x.flags.c_contiguous else x.copy() for x in outs]


_executables: weakref.WeakKeyDictionary[ClosedJaxpr, Executable] = (
    weakref.WeakKeyDictionary()
)


def executable(closed: ClosedJaxpr) -> Executable:
    """What runs `closed`; compiled the first time it is asked for."""
    found = _executables.get(closed)
    if found is None:
        found = _executables[closed] = NumpyExecutable(closed)
    return found


def check_special(name: str, outs: Sequence[np.ndarray[Any, Any]]) -> None:
    """Raise FloatingPointError for NaN or infinity, as the settings ask."""
    for x in outs:
        if x.dtype.kind not in "fcV" or x.dtype.fields is not None:
            continue
        if config.jax_debug_nans and np.isnan(x).any():
            raise FloatingPointError(f"invalid value (nan) encountered in {name}")
        if config.jax_debug_infs and np.isinf(x).any():
            raise FloatingPointError(f"invalid value (inf) encountered in {name}")


def checked(name: str, run: Executable) -> Executable:
    """`run` with a look at its results."""

    def run_checked(*args: np.ndarray[Any, Any]) -> Sequence[Any]:
        outs = run(*args)
        check_special(name, outs)
        return outs

    return run_checked
