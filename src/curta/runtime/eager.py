"""Eager mode: ops on concrete arrays run at once.

On small arrays an op runs its `eval` rule in NumPy, on large ones it runs as a
compiled kernel of its own; both answer alike. What to do for an op and the avals of
its operands is decided once and kept as a plan.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from curta.config import config
from curta.control.call import Call, JaxprOp
from curta.control.stacked_terms import axes_of
from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import ClosedJaxpr, jaxprs_of
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.placement import placed_out_aval
from curta.core.sharding import Sharding
from curta.core.stage import stage
from curta.core.trace import Trace, set_base_trace, typeof
from curta.core.user_op import UserOp
from curta.errors import as_out_of_memory
from curta.partition.destinations import op_shardings
from curta.partition.named_devices import (
    check_devices,
    devices_of_op,
    mesh_of_op,
    needed_devices,
)
from curta.primitives.base import Elementwise, is_part_of_byte
from curta.primitives.placed_types import install_placement_rules
from curta.primitives.placing import DevicePut, ShardingConstraint
from curta.runtime.array import ArrayImpl, held, wrap
from curta.runtime.backends import executable
from curta.runtime.debug_checks import check_op, refuse_execution
from curta.runtime.devices import default_is_host, may_be_remote
from curta.runtime.dispatch import (
    CompiledCall,
    device_call,
    host_buffer,
    hosts_call,
    shardings_of,
)
from curta.runtime.host_runs import spans_hosts
from curta.runtime.key_use import check_keys, record_keys
from curta.runtime.laid_out import LaidOutData
from curta.runtime.plans import Plan, PlanTable
from curta.runtime.queue import Pending
from curta.runtime.transfer import refuse_strings, to_array


class Quiet(threading.local):
    """Runs functions with NumPy's floating point warnings off.

    `np.errstate` costs more than a small op; entering a context in which it was
    set costs nearly nothing. A context belongs to one thread.
    """

    enter: Any

    def __init__(self) -> None:
        with np.errstate(all="ignore"):
            self.enter = contextvars.copy_context().run


quiet: Quiet = Quiet()


def quietly(fun: Callable[..., Any], *args: Any) -> Any:
    """`fun(*args)` with NumPy's floating point warnings off."""
    try:
        return quiet.enter(fun, *args)
    except RuntimeError as error:
        # `fun` is called while another runs quietly: a callback into the program.
        if not str(error).startswith("cannot enter context"):
            raise
    with np.errstate(all="ignore"):
        return fun(*args)


class EvalTrace(Trace):
    """The base trace: applies ops to concrete arrays."""

    def is_evaluating(self) -> bool:
        return True

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        data = []
        avals = []
        placed = pending = False
        for x in args:
            if type(x) is not ArrayImpl:
                x = to_array(x)
            avals.append(x.aval)
            value = x._data
            if value is None or x._sharding is not None:
                value = x._buffer()
                placed = placed or x._sharding is not None
                pending = pending or type(value) is not np.ndarray
            data.append(value)
        if (placed or pending) and may_be_remote():
            if _is_remote(args):
                return self._on_devices(op, args, avals)
            data = [host_buffer(to_array(x)) for x in args]
        # An op without parameters is its class, whose hash costs nothing.
        kind = op if op.__dict__ else type(op)
        context = config.context
        plan = _plans.get((context, kind, *avals))
        if plan is None:
            plan = _find_plan((context, kind, *avals), op, avals, _host_plan)
        run = plan.run
        if run is None:
            return self._on_devices(op, args, avals)
        if pending:
            run = plan.start or _waiting(run)
        try:
            # Compiled ops, and functions of the user, have a `start`: they need no
            # quiet context.
            result = quietly(run, *data) if plan.start is None else run(*data)
        except MemoryError as error:
            raise as_out_of_memory(error) from error
        if placed or op.places_outputs:
            arrays = _placed_results(op, avals, args, plan, result)
        elif type(plan.out) is tuple:
            arrays = [wrap(x, a) for x, a in zip(result, plan.out, strict=True)]
        else:
            arrays = wrap(result, plan.out)
        if context.debugging:
            refuse_execution(op.name)
            several = type(plan.out) is tuple
            outs = (result, plan.out) if several else ([result], [plan.out])
            check_op(op, data, *outs)
            if config.jax_debug_key_reuse:
                _check_keys(op, args, arrays)
        return arrays

    def _on_devices(
        self, op: Op, args: Sequence[Any], avals: Sequence[ShapedArray]
    ) -> Any:
        """The op as a program of its own on devices of a plugin."""
        refuse_execution(op.name)
        if isinstance(op, DevicePut):
            return _put(op, args)
        kind = op if op.__dict__ else type(op)
        key = config.context, kind, "devices", *avals
        plan = _plans.get(key) or _find_plan(key, op, avals, _device_plan)
        program: Any = plan.call
        outs = program(args)
        return outs if op.multiple_results else outs[0]

    def array(self, x: Any, aval: ShapedArray) -> Any:
        return wrap(x, aval)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        outs: Sequence[Any] = call.fun(*args)
        return outs

    custom_vjp = custom_jvp


def _placed_results(
    op: Op, avals: Sequence[ShapedArray], args: Sequence[Any], plan: Plan, result: Any
) -> Any:
    """The results as arrays that are where the operands, or the op, have them."""
    several = type(plan.out) is tuple
    outs = plan.out if several else (plan.out,)
    where = shardings_of(args)
    moves = isinstance(op, ShardingConstraint) and op.of_call
    if not (moves or isinstance(op, DevicePut)):
        needed = needed_devices(mesh_of_op(op), devices_of_op(op), where)
        check_devices(op.name, avals, where, needed, "xyz")
    where = op_shardings(op, avals, where, outs)
    if several:
        return [wrap(x, a, s) for x, a, s in zip(result, outs, where, strict=True)]
    return wrap(result, plan.out, where[0])


def _is_remote(args: Sequence[Any]) -> bool:
    """Whether operands are on devices of a plugin or several hosts, or by default."""
    for x in args:
        if type(x) is ArrayImpl and x._sharding is not None:
            devices = x._sharding.devices
            return devices[0].hardware is not None or spans_hosts(devices)
    return not default_is_host()


def _put(op: DevicePut, args: Sequence[Any]) -> list[Any] | Any:
    """Arrays moved between devices and the host."""
    x = to_array(args[0])
    (where,) = op_shardings(op, [x.aval], shardings_of([x]), [x.aval])
    moved = x if where is None else placed_on(x, where)
    return [moved] if op.multiple_results else moved


def placed_on(x: ArrayImpl, sharding: Sharding) -> ArrayImpl:
    """An array where a sharding says: on devices of a plugin, hosts, or this CPU."""
    if spans_hosts(sharding.devices):
        put: ArrayImpl = hosts_call.placed_on_hosts(x, sharding)
        return put
    aval = placed_aval(x.aval, sharding)
    if sharding.devices[0].hardware is None:
        buffer = getattr(x, "_pending", None)
        if type(buffer) is LaidOutData and type(buffer.stored) is np.ndarray:
            return held(buffer, aval, sharding)
        return ArrayImpl(x._storage(), aval, sharding)
    return held(device_call.on_devices(x, sharding), aval, sharding)


def _check_keys(op: Op, args: Sequence[Any], arrays: Any) -> None:
    signature = op.key_use([typeof(x) for x in args])
    check_keys(op.name, signature, args)
    record_keys(signature, args, arrays if op.multiple_results else [arrays])


# By (settings, op or the class of an op without parameters, *avals), with "devices"
# in front of the avals for those of a plugin.
_plans = PlanTable()
_Make = Callable[[Op, Sequence[ShapedArray]], Plan]


def _find_plan(
    key: tuple[Any, ...], op: Op, avals: Sequence[ShapedArray], make: _Make
) -> Plan:
    """A plan that is not in the table: made, or kept with the jaxpr of the op."""
    if _holds_jaxpr(op):
        return _plan_with_jaxpr(op, make, *avals)
    if op.effects or op.holds_functions:
        return make(op, avals)  # not kept: each is an op of its own
    plan: Plan = _plans.keep(key, make(op, avals))
    return plan


def _holds_jaxpr(op: Op) -> bool:
    return isinstance(op, JaxprOp) or any(jaxprs_of(op))


@kept_with_jaxpr
def _plan_with_jaxpr(op: Op, make: _Make, *avals: ShapedArray) -> Plan:
    return make(op, avals)


_ON_DEVICES = Plan()
"""Of ops on arrays on no particular device, if the default device is a plugin's."""


def _device_plan(op: Op, avals: Sequence[ShapedArray]) -> Plan:
    """The plan that runs an op as a program where arrays are."""
    several = op.multiple_results
    closed = stage(op if several else lambda *args: [op(*args)], avals)
    return Plan(call=CompiledCall(closed, op.name))


def _host_plan(op: Op, avals: Sequence[ShapedArray]) -> Plan:
    """The plan of an op on this CPU."""
    if not default_is_host():
        return _ON_DEVICES
    if isinstance(op, UserOp):
        op.check_evaluated()
    if _holds_jaxpr(op):
        return _compiled_plan(op, avals, op.jaxpr if type(op) is Call else None)
    out = placed_out_aval(op, avals)
    refuse_strings(avals, avals)
    outs = tuple(out) if op.multiple_results else (out,)
    large = worth_compiling(op, (*avals, *outs)) and not op.effects
    if large or any(map(axes_of, (*avals, *outs))):
        return _compiled_plan(op, avals)
    outs = outs if op.multiple_results else out
    rule = eval_rule(op, avals)
    # Functions of the user run in the user's context, not in a quiet one.
    start = _waiting(rule) if op.holds_functions else None
    return Plan(rule, start, outs)


def worth_compiling(op: Op, avals: Iterable[ShapedArray]) -> bool:
    """Whether an op on, or with results of, these avals runs as a program."""
    if op.compiled_above is None:
        return True
    most: int = getattr(config.tuning, op.compiled_above)
    return any(a.size > most for a in avals)


def eval_rule(op: Op, avals: Sequence[ShapedArray]) -> Callable[..., Any]:
    """The op on NumPy arrays; the bare ufunc if that is all there is to it."""
    plain = isinstance(op, Elementwise) and type(op).eval is Elementwise.eval
    if plain and not any(is_part_of_byte(a.dtype) for a in avals):
        ufunc: Callable[..., Any] = op.ufunc  # type: ignore[attr-defined]
        return ufunc
    return op.eval


def _compiled_plan(
    op: Op, avals: Sequence[ShapedArray], closed: ClosedJaxpr | None = None
) -> Plan:
    """The plan that runs an op as a program, which is `closed` or the op alone."""
    out = placed_out_aval(op, avals)
    if op.multiple_results:
        run = executable(closed or stage(op, avals))
        return Plan(run.on_ready(), lambda *args: run.start(args), tuple(out))
    run = executable(stage(lambda *args: [op(*args)], avals))
    first = run.on_ready()
    return Plan(lambda *args: first(*args)[0], lambda *args: run.start(args)[0], out)


def _waiting(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *data: run(*[x.wait() if type(x) is Pending else x for x in data])


BASE = EvalTrace()
set_base_trace(BASE)
install_placement_rules()
