"""Where in the user's program an array is made that does not fit into memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from curta.core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from curta.core.source_info import SourceInfo
from curta.dtypes import physical_dtype
from curta.errors import OutOfMemoryError


def note_line(error: OutOfMemoryError, jaxpr: Jaxpr, name: str) -> None:
    """Add the user's line to the error of a compiled program.

    That is the line of the result that did not fit, or for a program's temporaries the
    line of the largest one.
    """
    if error.shape is None:
        sizes = [(_bytes(v.aval), v.aval, e) for e in _eqns(jaxpr) for v in e.outvars]
        _, aval, eqn = max(sizes, key=lambda x: x[0], default=(0, None, None))
        what = f"temporaries of {name}; the largest is {aval and aval.str_short()}"
    else:
        eqn = _maker(jaxpr, error)
        what = f"a result of {name}"
    if eqn is not None and eqn.source_info.code is not None:
        error.add_note(f"The memory is for {what}, computed at {_place(eqn)}.")


def _place(eqn: Eqn) -> str:
    source: SourceInfo = eqn.source_info
    assert source.code is not None
    return f"{source.code.co_filename}:{source.line}"


def _maker(jaxpr: Jaxpr, error: OutOfMemoryError) -> Eqn | None:
    """The eqn of the result with the shape and dtype of an array."""
    for v in jaxpr.outvars:
        if (v.aval.shape, physical_dtype(v.aval.dtype)) == (error.shape, error.dtype):
            return next((e for e in jaxpr.eqns if v in e.outvars), None)
    return None


def _eqns(jaxpr: Jaxpr) -> Iterator[Eqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from _eqns(inner)


def _bytes(aval: object) -> int:
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None or not all(isinstance(n, int) for n in shape):
        return 0
    return math.prod(shape) * int(physical_dtype(dtype).itemsize)
