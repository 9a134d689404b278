"""Shortcuts for operators on arrays and tracers.

An operator such as `x + y` promotes, broadcasts, chooses an op and binds it. What it
comes to depends on the avals of the operands alone, so it is found out once: the
operator is staged, and from then on the jaxpr runs at once on the arrays' storage.
On tracers, an operator that comes to a single op binds that op. Where a shortcut does
not apply, the general function does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes
from curta.config import TraceContext, config
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.buffers import empty
from curta.core.jaxpr import ClosedJaxpr, jaxprs_of
from curta.core.sharding import NamedSharding, Sharding
from curta.core.stage import stage
from curta.core.trace import Tracer, thread_state
from curta.dtypes import KeyDType
from curta.runtime.array import ArrayImpl, beside, wrap
from curta.runtime.devices import default_is_host
from curta.runtime.dispatch import CompiledCall, device_call
from curta.runtime.eager import BASE, quiet, quietly
from curta.runtime.plans import Plan, PlanTable
from curta.runtime.straight_line import single_result

_SCALARS = (bool, int, float, complex)
# Kinds of dtypes of an array that a Python scalar of a type takes on.
_KINDS: dict[type, str] = {int: "iufc", float: "fc", complex: "c"}


class OperatorPlan(Plan):
    """What an operator comes to on operands of certain avals.

    `op` is all there is to it, if that is a single op: what tracers bind, for
    reflected operators in the other order. How arrays are computed is found out when
    the first come.
    """

    __slots__ = ("_closed", "_name", "op")

    def __init__(self, closed: ClosedJaxpr, name: str):
        super().__init__(out=closed.out_avals[0])
        self._closed, self._name = closed, name
        self.op: Callable[..., Any] | None = _only_op(closed)

    def find_run(self) -> Any:
        """What computes arrays: `run`, in NumPy, or None if their `call` does."""
        if self.call is None:
            if default_is_host():
                self.run = single_result(self._closed)
            else:
                self.call = CompiledCall(self._closed, self._name)
        return self.run


def _plans_of(general: Callable[..., Any]) -> PlanTable:
    """A table of the plans of an operator; None for those that it has none for."""

    def make(context: TraceContext, *avals: ShapedArray) -> OperatorPlan | None:
        if context.debugging:
            return None
        try:
            closed = stage(lambda *args: [general(*args)], avals)
        except Exception:  # the general function will raise it where the user sees it
            return None
        return OperatorPlan(closed, general.__name__)

    return PlanTable(make)


def _only_op(closed: ClosedJaxpr) -> Callable[..., Any] | None:
    """The op that a program comes to, on its arguments; None if it is no op."""
    if len(closed.eqns) != 1:
        return None
    (eqn,) = closed.eqns
    op, invars = eqn.op, closed.jaxpr.invars
    if eqn.outvars != closed.jaxpr.outvars or any(jaxprs_of(op)):
        return None
    if eqn.invars == invars:
        return op
    return (lambda x, y: op(y, x)) if eqn.invars == invars[::-1] else None


def _is_spread(x: ArrayImpl) -> bool:
    """Whether results are where rules of their own say: on devices, in a memory."""
    where = x._sharding
    if where is None:
        return False
    if x.aval.placement is not None or where.num_devices > 1 or x._has_terms():
        return True
    return where.memory_kind != "device"


def _names_dims(where: Sharding | None) -> bool:
    """Return True if a sharding is one of dims, which an index may drop or add."""
    return isinstance(where, NamedSharding) and any(where.spec)


def unary(general: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`general` as a method of concrete arrays, taking the shortcut where it can."""
    plans = _plans_of(general)

    @functools.wraps(general)
    def method(self: ArrayImpl) -> Any:
        if thread_state.trace is not BASE or _is_spread(self):
            return general(self)
        plan = plans[config.context, self.aval]
        if plan is None:
            return general(self)
        run = plan.run or plan.find_run()
        if run is None:
            return plan.call((self,))[0]
        if self._data is None:
            return general(self)
        return wrap(quietly(run, self._data), plan.out, self._sharding)

    return method


def binary(
    general: Callable[[Any, Any], Any], plans: PlanTable
) -> Callable[[Any, Any], Any]:
    """As `unary`, for an operator with another array or a Python scalar."""

    @functools.wraps(general)
    def method(self: ArrayImpl, other: Any) -> Any:
        if thread_state.trace is not BASE:
            return general(self, other)
        data, sharding, context = self._data, self._sharding, config.context
        if sharding is not None and _is_spread(self):
            return general(self, other)
        if type(other) is ArrayImpl:
            value, aval = other._data, other.aval
            if other._sharding is not sharding:
                return general(self, other)
        else:
            scalar = _scalar_aval(type(other), self.aval, context)
            if scalar is None:
                return general(self, other)
            aval, value = scalar, _scalar_array(other, scalar)
        plan = plans[context, self.aval, aval]
        if plan is None or value is None and type(other) is not ArrayImpl:
            return general(self, other)
        run = plan.run or plan.find_run()
        if run is None:
            if type(other) is not ArrayImpl:
                other = device_call.beside(value, self, aval)
            return plan.call((self, other))[0]
        if data is None or value is None:
            return general(self, other)
        # Written out: this is the path of every small `x + y`.
        try:
            result = quiet.enter(run, data, value)
        except (MemoryError, RuntimeError):
            result = quietly(run, data, value)
        if type(result) is np.ndarray and result.flags.c_contiguous:
            if not context.places_arrays:
                return beside(result, plan.out, sharding)
            return ArrayImpl(result, plan.out, sharding)
        return wrap(result, plan.out, sharding)

    return method


def _find_scalar_aval(kind: Any, aval: ShapedArray, context: Any) -> ShapedArray | None:
    """The aval as which a Python scalar meets an array of `aval`.

    None for other types, and where promotion would change the array: one of 64 bits
    too, in a context without these.
    """
    dtype = aval.dtype
    if not isinstance(dtype, np.dtype) or dtype.itemsize < 4:
        return None
    if dtypes.canonicalize_dtype(dtype) != dtype:
        return None
    if kind not in _KINDS or dtype.kind not in _KINDS[kind]:
        return None
    return ShapedArray((), dtype, aval.weak_type)


_scalar_aval: Callable[..., Any] = functools.lru_cache(1024)(_find_scalar_aval)


def _scalar_array(x: Any, aval: ShapedArray) -> np.ndarray[Any, Any] | None:
    try:
        return np.array(x, aval.dtype)
    except OverflowError:  # the general function raises, or wraps around
        return None


def power(general: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """As `binary`, for an operator that looks at the value of a scalar.

    Of a Python scalar, and of an array of one integer.
    """
    between_arrays = binary(general, _plans_of(general))

    def make(kind: type, exponent: Any) -> Callable[[Any], Any]:
        def power_of(x: Any) -> Any:
            return general(x, exponent)

        return unary(power_of)

    of_exponents = PlanTable(make)

    @functools.wraps(general)
    def method(self: ArrayImpl, other: Any) -> Any:
        if type(other) in _SCALARS:
            return of_exponents[type(other), other](self)
        if type(other) is ArrayImpl and not other.aval.shape:
            return general(self, other)
        return between_arrays(self, other)

    return method


# ---- tracers


def traced(
    general: Callable[[Any, Any], Any], plans: PlanTable
) -> Callable[[Any, Any], Any]:
    """`general` as a method of tracers: where it comes to one op, that op."""

    @functools.wraps(general)
    def method(self: Tracer, other: Any) -> Any:
        if isinstance(other, Array):
            plan = plans[config.context, self.aval, other.aval]
            op = None if plan is None else plan.op
            return general(self, other) if op is None else op(self, other)
        aval = None
        if not self.aval.weak_type:
            aval = _scalar_aval(type(other), self.aval, config.context)
        value = None if aval is None else _scalar_array(other, aval)
        if value is None:
            return general(self, other)
        plan = plans[config.context, self.aval, aval]
        op = None if plan is None else plan.op
        return general(self, other) if op is None else op(self, value[()])

    return method


# ---- indexing


def getitem(general: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """As `binary`, for indexing: basic indices within bounds are NumPy's."""

    @functools.wraps(general)
    def method(self: ArrayImpl, index: Any) -> Any:
        data = self._data
        where = self._sharding
        simple = data is not None and not (_is_spread(self) or _names_dims(where))
        if thread_state.trace is BASE and simple and is_basic(index):
            try:
                part = data[index]
            except IndexError:
                return general(self, index)
            context = config.context
            if context.debugging or type(part) is str:
                return general(self, index)
            aval = self.aval
            out = ShapedArray(part.shape, aval.dtype, aval.weak_type)
            large = data.nbytes > context.tuning.alive_bytes
            if large and 2 * part.nbytes < data.nbytes:
                part = part.copy()
            return wrap(part, out, where)
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


def updated_copy(
    x: Any, index: Any, values: Any, combine: Callable[..., Any] | None
) -> ArrayImpl | None:
    """A copy of `x` with `values` at a basic index, None where that is not simple.

    `combine` is a ufunc of the old elements and the values; None replaces them. The
    values are a scalar or have the shape of what they go to, and the dtype of `x`.
    """
    if thread_state.trace is not BASE or type(x) is not ArrayImpl or x._data is None:
        return None
    if not is_basic(index) or config.context.debugging or x._has_terms():
        return None
    if type(values) is ArrayImpl:
        same = values.aval.dtype == x.aval.dtype and not values._has_terms()
        numbers = combine is None or type(x.aval.dtype) is not KeyDType
        new = values._data if same and numbers else None
    else:
        aval = _scalar_aval(type(values), x.aval, config.context)
        new = None if aval is None else _scalar_array(values, aval)
    if new is None:
        return None
    data = empty(x._data.shape, x._data.dtype)
    data[...] = x._data
    try:
        target = data[(*index, ...) if type(index) is tuple else (index, ...)]
    except IndexError:
        return None
    if new.shape and new.shape != target.shape:
        return None
    if combine is None:
        target[...] = new
    else:
        quietly(combine, target, new, target)
    return ArrayImpl(data, x.aval, x._sharding)


# ---- attaching

_UNARY = ("__neg__", "__abs__", "__invert__")
_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


def attach() -> None:
    """Give arrays and tracers shortcuts to the operators that all arrays have."""
    for name in _UNARY:
        setattr(ArrayImpl, name, unary(getattr(Array, name)))
    operators = [f"__{x}{name}__" for name in _BINARY for x in ("", "r")]
    for name in (*operators, *_COMPARISONS):
        general = getattr(Array, name)
        plans = _plans_of(general)
        setattr(ArrayImpl, name, binary(general, plans))
        setattr(Tracer, name, traced(general, plans))
    for name, shortcut in (("__pow__", power), ("__getitem__", getitem)):
        setattr(ArrayImpl, name, shortcut(getattr(Array, name)))
