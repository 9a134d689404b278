"""Shortcuts for operators on concrete arrays.

An operator such as `x + y` promotes, broadcasts, chooses an op and binds it. What it
comes to depends on the avals of the operands alone, so it is found out once: the
operator is staged, and from then on the jaxpr runs at once on the arrays' storage.
Where a shortcut does not apply, the general function does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from curta.config import TraceContext, config
from curta.core.avals import ShapedArray, scalar_aval
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import thread_state
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.eager import BASE, COMPILE_ABOVE, quiet, quietly
from curta.runtime.executables import executable

_MOST_PLANS = 1 << 12
# A view of an array larger than this keeps it alive only if it is half of it.
_KEEP_ALIVE_BYTES = 1 << 16
_SCALARS = (bool, int, float, complex)


class _Plan(NamedTuple):
    run: Callable[..., Any]
    out: ShapedArray


class _Plans(dict[Any, Any]):
    """Plans of one operator by context and operand avals; None where it has none."""

    def __init__(self, general: Callable[..., Any]):
        super().__init__()
        self.general = general

    def __missing__(self, key: tuple[Any, ...]) -> _Plan | None:
        if len(self) >= _MOST_PLANS:
            self.clear()
        plan = self[key] = _make_plan(self.general, *key)
        return plan


def _make_plan(
    general: Callable[..., Any], context: TraceContext, *avals: ShapedArray
) -> _Plan | None:
    if config.jax_debug_nans or config.jax_debug_infs:
        return None
    try:
        closed = stage(lambda *args: [general(*args)], avals)
    except Exception:  # the general function will raise it where the user sees it
        return None
    (out,) = closed.out_avals
    large = any(a.size > COMPILE_ABOVE for a in (*avals, out))
    return _Plan(_compiled(closed) if large else _in_numpy(closed), out)


def _compiled(closed: ClosedJaxpr) -> Callable[..., Any]:
    run = executable(closed)
    return lambda *args: run(*args)[0]


def _in_numpy(closed: ClosedJaxpr) -> Callable[..., Any]:
    jaxpr, consts = closed.jaxpr, closed.consts
    if len(jaxpr.eqns) == 1:
        (eqn,) = jaxpr.eqns
        if eqn.invars == jaxpr.invars and eqn.outvars == jaxpr.outvars:
            return eqn.op.eval
    return lambda *args: evaluate(jaxpr, consts, args)[0]


def unary(general: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`general` as a method of concrete arrays, taking the shortcut where it can."""
    plans = _Plans(general)

    @functools.wraps(general)
    def method(self: ArrayImpl) -> Any:
        data = self._data
        if thread_state.trace is BASE and data is not None:
            plan = plans[config.context, self.aval]
            if plan is not None:
                return wrap(quietly(plan.run, data), plan.out, self._device)
        return general(self)

    return method


def binary(general: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """As `unary`, for an operator with another array or a Python scalar."""
    plans = _Plans(general)

    @functools.wraps(general)
    def method(self: ArrayImpl, other: Any) -> Any:
        if thread_state.trace is not BASE:
            return general(self, other)
        data, device = self._data, self._device
        if type(other) is ArrayImpl:
            value, aval = other._data, other.aval
            if other._device is not device:
                return general(self, other)
        elif type(other) in _SCALARS:
            aval = scalar_aval(other)
            value = np.array(other, aval.dtype)
        else:
            return general(self, other)
        plan = plans[config.context, self.aval, aval]
        if plan is None or data is None or value is None:
            return general(self, other)
        # Written out: this is the path of every small `x + y`.
        try:
            result = quiet.enter(plan.run, data, value)
        except RuntimeError:
            result = quietly(plan.run, data, value)
        if type(result) is np.ndarray and result.flags.c_contiguous:
            return ArrayImpl(result, plan.out, device)
        return wrap(result, plan.out, device)

    return method


# ---- indexing


def getitem(general: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """As `binary`, for indexing: basic indices within bounds are NumPy's."""

    @functools.wraps(general)
    def method(self: ArrayImpl, index: Any) -> Any:
        data = self._data
        if thread_state.trace is BASE and data is not None and is_basic(index):
            try:
                part = data[index]
            except IndexError:
                return general(self, index)
            aval = self.aval
            out = ShapedArray(part.shape, aval.dtype, aval.weak_type)
            if data.nbytes > _KEEP_ALIVE_BYTES and 2 * part.nbytes < data.nbytes:
                part = part.copy()
            return wrap(part, out, self._device)
        return general(self, index)

    return method


def is_basic(index: Any) -> bool:
    """Whether an index is made of Python ints, slices of them, `None` and `...`."""
    kind = type(index)
    if kind is int or index is None or index is Ellipsis:
        return True
    if kind is slice:
        return (
            _is_bound(index.start) and _is_bound(index.stop) and _is_bound(index.step)
        )
    return kind is tuple and all(type(i) is not tuple and is_basic(i) for i in index)


def _is_bound(x: Any) -> bool:
    return x is None or type(x) is int
