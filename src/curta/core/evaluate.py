"""Running jaxprs in NumPy through the ops' `eval` rules.

This is what a jaxpr means: the oracle for compiled results, and the whole of the
numpy backend.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.op import Op
from curta.errors import as_out_of_memory


def evaluate_op(op: Op, args: Sequence[Any]) -> list[Any]:
    """The outputs of `op` on NumPy arrays, as NumPy arrays."""
    try:
        out = op.eval(*args)
    except MemoryError as error:
        raise as_out_of_memory(error) from error
    return [np.asarray(x) for x in (out if op.multiple_results else (out,))]


Watch = Callable[[Eqn, list[Any]], None]


class _Watching(threading.local):
    watch: Watch | None = None


_watching = _Watching()


@contextlib.contextmanager
def watching(watch: Watch | None) -> Iterator[None]:
    """Show `watch` every eqn that is evaluated, in loops as well, with its outputs.

    None of them if it is None.
    """
    before = _watching.watch
    _watching.watch = watch
    try:
        yield
    finally:
        _watching.watch = before


def evaluate(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
) -> list[Any]:
    """The outputs of a jaxpr on NumPy arrays of its avals' physical dtypes.

    An element of an array of rank 1, which NumPy gives as a scalar, is taken, too.
    """
    names = (*jaxpr.constvars, *jaxpr.invars)
    env: dict[Var, Any] = {
        v: x if isinstance(x, np.ndarray) else as_numpy(x, v.aval)
        for v, x in zip(names, (*consts, *args), strict=True)
    }

    def read(atom: Atom) -> Any:
        if type(atom) is Literal:
            return as_numpy(atom.val, atom.aval)
        return env[atom]  # type: ignore[index]

    watch = _watching.watch
    for eqn in jaxpr.eqns:
        outs = evaluate_op(eqn.op, [read(v) for v in eqn.invars])
        if watch is not None:
            watch(eqn, outs)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def as_numpy(x: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """`x` as a NumPy array of the aval's physical dtype."""
    return np.asarray(x, dtypes.physical_dtype(aval.dtype))


def const_as_numpy(x: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """The same of what may be an array of Curta: the const of a jaxpr."""
    storage = getattr(x, "_storage", None)
    return as_numpy(x if storage is None else storage(), aval)
