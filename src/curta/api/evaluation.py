"""Functions of the library on concrete arrays, by the plans that `jit` keeps of them.

A function such as `where` promotes, broadcasts and chooses ops by the avals of its
arguments alone. It is therefore traced once per signature, like a jitted function, into
the same table. Later calls run the jaxpr: as NumPy calls if the arrays are small and on
this host, and as one program on the devices of a plugin, where native code makes the
call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.user_warnings import held_back, warn
from curta.api.jit import PjitFunction
from curta.api.jit_cache import Staged
from curta.api.jit_options import plan_key
from curta.config import config
from curta.core.sharding import Sharding, SingleDeviceSharding
from curta.core.trace import thread_state, typeof
from curta.primitives.elementwise import copy
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.devices import default_is_host, may_be_remote
from curta.runtime.dispatch import CompiledCall, device_call
from curta.runtime.eager import BASE, quietly
from curta.runtime.executables import Executable
from curta.runtime.native_call import MISS, entry_of_call, entry_of_function
from curta.runtime.straight_line import several_results
from curta.runtime.transfer import to_storage

_SCALARS = frozenset((bool, int, float, complex))
_PLAIN = _SCALARS | {ArrayImpl, np.ndarray}


def evaluated(
    jitted: PjitFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call by its plan, or MISS: then the function is to be called.

    That is where an argument is not an array, is not at hand, or is large: then it is
    for the compiler, which has ways of its own to wait for arrays.
    """
    try:
        leaves, key = plan_key(jitted._options, (), args, kwargs)
    except Exception:  # no trees: the function says what it takes
        return MISS
    plan = jitted._plans.get(key)
    if plan is None or plan.run is None:
        return _first(jitted, leaves, key, args, kwargs)
    data: list[Any] = []
    where = None
    for x in leaves:
        if type(x) is ArrayImpl:
            stored = x._data
            if stored is None:
                return _first(jitted, leaves, key, args, kwargs)
            if x._sharding is not where:
                if data or not _is_plain(x._sharding):
                    return MISS
                where = x._sharding
            data.append(stored)
        elif type(x) in _SCALARS:
            data.append(to_storage(x, typeof(x)))
        else:
            return MISS
    outs = quietly(plan.run, *data)
    results = [wrap(x, a, where) for x, a in zip(outs, plan.out)]
    if not plan.repeated:
        _make_native(jitted, plan, leaves, args, kwargs)
    return results[0] if plan.build is None else plan.build(results)


def _make_native(
    jitted: PjitFunction[..., Any],
    plan: Staged,
    leaves: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Let native code make the next calls of this signature."""
    plan.repeated = True
    given = jitted._options.given(args, kwargs)
    if isinstance(plan.run, Executable):
        call = plan.compiled(jitted._name)
        entry = None
        if isinstance(call, CompiledCall):
            entry = entry_of_call(given, leaves, call, plan.build)
    else:
        entry = entry_of_function(given, _computing(plan, leaves))
    if entry is not None:
        jitted._plans.call_natively(plan, entry)


def _computing(plan: Staged, leaves: Sequence[Any]) -> Callable[..., Any]:
    """The results of a plan as a function of NumPy arrays and numbers of Python."""
    run: Any = plan.run
    avals, build = plan.out, plan.build
    numbers = [
        (i, dtypes.physical_dtype(typeof(x).dtype))
        for i, x in enumerate(leaves)
        if type(x) is not ArrayImpl
    ]

    def compute(*given: Any) -> Any:
        data: Any = given
        if numbers:
            data = [*given]
            for i, dtype in numbers:
                data[i] = np.array(data[i], dtype)
        outs = quietly(run, *data)
        if build is None:
            return wrap(outs[0], avals[0])
        return build([wrap(x, a) for x, a in zip(outs, avals)])

    return compute


def of_its_own(out: Any, *args: Any) -> Any:
    """A result of arrays that are not arguments: each may be deleted or donated alone.

    Memory is shared until then.
    """
    if type(out) is list or type(out) is tuple:
        return type(out)([of_its_own(x, *args) for x in out])
    if type(out) is not ArrayImpl or not _is_among(out, args):
        return out
    if thread_state.trace is not BASE:
        return out
    if out._data is None:  # not at hand
        return copy(out)
    return ArrayImpl(out._data[...], out.aval, out._sharding)


def _is_among(array: ArrayImpl, args: Any) -> bool:
    return any(
        x is array or (isinstance(x, (list, tuple)) and _is_among(array, x))
        for x in args
    )


def _first(
    jitted: PjitFunction[..., Any],
    leaves: Sequence[Any],
    key: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A call whose plan does not say how to make it."""
    if key is None or config.context.debugging:
        return MISS
    if may_be_remote() and _are_on_plugin(leaves):
        if not _PLAIN.issuperset(map(type, leaves)):
            return MISS
        if not jitted._options.has_static:
            args = _with_arrays(args)
        return jitted(*args, **kwargs)
    most = config.tuning.compiled_elements
    for x in leaves:
        if type(x) is ArrayImpl:
            if x._data is None or x._data.size > most:
                return MISS
            if x._sharding is not None and not _is_plain(x._sharding):
                return MISS
        elif type(x) not in _SCALARS:
            return MISS
    prepared = _is_prepared(jitted, key, args, kwargs)
    return evaluated(jitted, args, kwargs) if prepared else MISS


def _with_arrays(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with numbers as arrays where one is, so that native code calls."""
    array = next((x for x in args if type(x) is ArrayImpl), None)
    if array is None:
        return tuple(args)
    return tuple(x if x is array else device_call.beside(x, array) for x in args)


def _is_plain(sharding: Sharding | None) -> bool:
    """Return True if results are where an argument is, whatever their shapes."""
    return type(sharding) is SingleDeviceSharding and sharding.memory_kind == "device"


def _are_on_plugin(leaves: Sequence[Any]) -> bool:
    """Whether a plugin's device is where the arrays are, or by default."""
    for x in leaves:
        if type(x) is ArrayImpl and x._sharding is not None:
            return x._sharding.devices[0].hardware is not None
    return not default_is_host()


def _is_prepared(
    jitted: PjitFunction[..., Any],
    key: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> bool:
    """Return True if the plan of such a call says now how NumPy makes it.

    Not at the first call of a function of few ops: many are made only once, and to
    trace takes longer. Not if it cannot be traced: the function itself will raise the
    error where the user sees it. What it warns of is told once: by itself or by its
    trace, whichever runs first.
    """
    plans, inline = jitted._plans, jitted._options.inline
    if key in plans.refused or (inline and not plans.is_second(key)):
        return False
    try:
        with held_back() as warnings:
            plan, _ = jitted._plan(args, kwargs)
    except Exception:
        plans.refuse(key)
        return False
    if plan.captured:
        return False
    if not {*plan.closed.jaxpr.invars}.isdisjoint(plan.closed.jaxpr.outvars):
        plans.refuse(key)  # a result that is an argument is to be a copy
        return False
    if warnings and not inline:
        plans.pop(key, None)  # the filter may raise: then trace again next time
        for warning in warnings:
            warn(*warning)
        plan = plans.keep_first(key, plan, None)
    plan.out = plan.closed.out_avals
    plan.run = several_results(plan.closed)
    return plans.get(key) is plan
