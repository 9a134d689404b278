"""Eager mode: ops on concrete arrays run at once.

On small arrays an op runs its `eval` rule in NumPy, on large ones it runs as a
compiled kernel of its own; both answer alike. What to do for an op and the avals of
its operands is decided once and kept as a plan.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from curta._base.once import cached_property
from curta.config import config
from curta.control.call import JaxprOp, JitCall
from curta.control.shard_map import ShardMap
from curta.control.stacked_terms import axes_of
from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import DebugInfo, jaxprs_of
from curta.core.memo import kept_with_jaxpr
from curta.core.mesh import Mesh
from curta.core.mesh_scope import scope
from curta.core.op import Op
from curta.core.placement import placed_out_aval
from curta.core.sharding import MemorySpace, Sharding
from curta.core.stage import stage
from curta.core.trace import Trace, set_base_trace
from curta.core.user_op import UserOp
from curta.errors import as_out_of_memory
from curta.partition.named_devices import is_abstract
from curta.partition.propagation import over_axes
from curta.primitives.base import Elementwise, is_part_of_byte
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.placed_types import install_placement_rules
from curta.primitives.placing import DevicePut, ShardingConstraint
from curta.primitives.structure import BroadcastInDim
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.debug_checks import check_op, refuse_execution, special_value
from curta.runtime.devices import default_is_host
from curta.runtime.dispatch import (
    CompiledCall,
    device_call,
    hosts_call,
    is_here,
    own_part,
)
from curta.runtime.executables import Executable
from curta.runtime.host_runs import spans_hosts
from curta.runtime.key_use import check_keys, record_keys
from curta.runtime.laid_out import LaidOutData
from curta.runtime.plans import Plan, PlanTable
from curta.runtime.queue import Pending
from curta.runtime.remote_data import RemoteData
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
    """`fun(*args)` with NumPy's floating point warnings off.

    Raises OutOfMemoryError for want of memory.
    """
    try:
        return quiet.enter(fun, *args)
    except MemoryError as error:
        raise as_out_of_memory(error) from error
    except RuntimeError as error:
        # The quiet context is entered already: a callback of the program calls us.
        if not str(error).startswith("cannot enter context"):
            raise
    with np.errstate(all="ignore"):
        return fun(*args)


class EvalTrace(Trace):
    """The base trace: applies ops to concrete arrays."""

    expands = True

    def is_evaluating(self) -> bool:
        return True

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        data = []
        avals = []
        placed = op.places_outputs
        pending = False
        for x in args:
            if type(x) is not ArrayImpl:
                x = to_array(x)
            avals.append(x.aval)
            value = x._data
            if x._sharding is not None:
                placed = True
            elif value is None:
                value = x._buffer()
                placed = placed or isinstance(value, RemoteData)
                pending = True
            data.append(value)
        # Ops without parameters are looked up by their class, whose hash is cheap.
        kind = op if op.__dict__ else type(op)
        context = config.context
        plan = _plans.get((context, kind, *avals))
        if plan is None:
            plan = _find_plan((context, kind, *avals), op, avals)
        run = plan.run
        if placed or run is None:
            arrays = _by_program(op, plan, args)
        else:
            if pending:
                data = [x.wait() if type(x) is Pending else x for x in data]
            result = run(*data)
            if type(plan.out) is tuple:
                arrays = [wrap(x, a) for x, a in zip(result, plan.out, strict=True)]
            else:
                arrays = wrap(result, plan.out)
        if context.debugging:
            _look_at(op, args, arrays)
        return arrays

    def array(self, x: Any, aval: ShapedArray) -> Any:
        return wrap(x, aval)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        outs: Sequence[Any] = call.fun(*args)
        return outs

    custom_vjp = custom_jvp


def _by_program(op: Op, plan: OpPlan, args: Sequence[Any]) -> Any:
    """The results of an op as a program of its own, wherever its operands are."""
    if isinstance(op, DevicePut):
        target = op.sharding or op.target
        outs = [_put(target, to_array(args[0]))]
    else:
        if isinstance(op, ShardingConstraint) and op.of_call:
            args = [_beside(op.target, to_array(args[0]))]
        outs = plan.program()(args)
    return outs if op.multiple_results else outs[0]


def _beside(target: Sharding, x: ArrayImpl) -> ArrayImpl:
    """An array on the devices that a nested `jit` has it on."""
    if x._sharding is None or is_abstract(target):
        return x
    return x if x._sharding.devices == target.devices else _put(target, x)


def _put(target: Any, x: ArrayImpl) -> ArrayImpl:
    """An array moved between devices and the host."""
    if isinstance(target, MemorySpace):
        where = x.sharding
        target = (where.named or where).with_memory_kind(target.kind)
    return x if target is None else placed_on(x, target)


def placed_on(x: ArrayImpl, sharding: Sharding) -> ArrayImpl:
    """An array where a sharding says: on devices of a plugin, hosts, or this CPU."""
    if spans_hosts(sharding.devices):
        put: ArrayImpl = hosts_call.placed_on_hosts(x, sharding)
        return put
    aval = placed_aval(x.aval, sharding)
    if sharding.devices[0].hardware is None:
        buffer = getattr(x, "_pending", None)
        if type(buffer) is LaidOutData and type(buffer.stored) is np.ndarray:
            return wrap(buffer, aval, sharding)
        return ArrayImpl(x._storage(), aval, sharding)
    return wrap(device_call.on_devices(x, sharding), aval, sharding)


def _look_at(op: Op, args: Sequence[Any], arrays: Any) -> None:
    """Look at what an op has computed, as the settings ask."""
    outs = arrays if op.multiple_results else [arrays]
    known = [*map(to_array, args)]
    data = [x._storage() for x in known] if all(map(is_here, known)) else None
    if not data or not _is_of_constant(op, data, known[0].aval):
        check_op(op, data, [*map(own_part, outs)], [x.aval for x in outs])
    if config.jax_debug_key_reuse:
        signature = op.key_use([x.aval for x in known])
        check_keys(op.name, signature, args)
        record_keys(signature, args, outs)


def _is_of_constant(op: Op, data: Sequence[Any], aval: ShapedArray) -> bool:
    """Whether an op gives a scalar that is NaN already its dtype or shape.

    Library functions make such arrays to select from: only what they return may raise.
    """
    of_scalar = type(op) in (ConvertElementType, BroadcastInDim) and aval.shape == ()
    return of_scalar and special_value(data, [aval]) is not None


class OpPlan(Plan):
    """How an op runs on operands of certain avals.

    By NumPy, as `run`, where these are small and nobody placed them; else as a program.
    """

    __slots__ = ("_avals", "_op")

    def __init__(self, op: Op, avals: Sequence[ShapedArray]) -> None:
        super().__init__()
        refuse_execution(op.name)
        self._op, self._avals = op, tuple(avals)
        if not default_is_host():
            return
        if isinstance(op, UserOp):
            op.check_evaluated()
        if _holds_jaxpr(op):
            return
        out = placed_out_aval(op, avals)
        refuse_strings(avals, avals)
        outs = tuple(out) if op.multiple_results else (out,)
        large = worth_compiling(op, (*avals, *outs)) and not op.effects
        if large or any(map(axes_of, (*avals, *outs))):
            return
        self.out = outs if op.multiple_results else out
        rule = eval_rule(op, avals)
        # The user's functions keep the user's np.errstate.
        self.run = rule if op.holds_functions else partial(quietly, rule)

    def program(self) -> Callable[[Any], Any]:
        """The op as a program, which CPUs run as NumPy does where that is the rule."""
        if self.call is None:
            self.call = OpCall(self._op, self._avals, self.run)
        return self.call


class OpCall(CompiledCall):
    """The call of one op; `rule`, if any, is how this CPU runs it.

    The caller of the op checks its results.
    """

    def __init__(
        self, op: Op, avals: Sequence[ShapedArray], rule: Callable[..., Any] | None
    ) -> None:
        several, info = op.multiple_results, DebugInfo(name=op.name)
        closed = stage(op if several else lambda *args: [op(*args)], avals, info)
        if rule is not None:
            self.executable = Executable(
                rule if several else lambda *data: [rule(*data)]
            )
        where = _result_shardings(op) if isinstance(op, ShardMap) else ()
        donated = op.donated if type(op) is JitCall else ()
        program = op.jaxpr if type(op) is JitCall else closed
        super().__init__(program, op.name, donated, out_shardings=where)
        self.special = self.special or rule is not None

    @cached_property
    def run(self) -> Executable:
        return self.executable

    def look_at(self, outs: Sequence[Any], args: Sequence[Any]) -> None:
        pass


def _result_shardings(op: ShardMap) -> Sequence[Sharding]:
    """Where results of a `shard_map` over all axes are, as its specs are written."""
    mesh = op.mesh if isinstance(op.mesh, Mesh) else scope().concrete
    if mesh is None or mesh.abstract_mesh is not op.mesh.abstract_mesh:
        return ()  # arguments say which devices
    if op.axes != {*mesh.axis_names}:
        return ()
    return [over_axes(mesh, spec) for spec in op.out_specs]


# By (settings, op or the class of an op without parameters, *avals).
_plans = PlanTable()


def _find_plan(key: tuple[Any, ...], op: Op, avals: Sequence[ShapedArray]) -> OpPlan:
    """A plan that is not in the table: made, or kept with the jaxpr of the op."""
    if _holds_jaxpr(op):
        return _plan_with_jaxpr(op, *avals)
    if op.effects or op.holds_functions:
        return OpPlan(op, avals)  # not cached: no two such ops are equal
    plan: OpPlan = _plans.keep(key, OpPlan(op, avals))
    return plan


def _holds_jaxpr(op: Op) -> bool:
    return isinstance(op, JaxprOp) or any(jaxprs_of(op))


@kept_with_jaxpr
def _plan_with_jaxpr(op: Op, *avals: ShapedArray) -> OpPlan:
    return OpPlan(op, avals)


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


BASE = EvalTrace()
set_base_trace(BASE)
install_placement_rules()
