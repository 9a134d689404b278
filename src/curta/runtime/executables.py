"""Jaxprs as something that runs: compiled, or op by op in NumPy.

This is the seam between the runtime and what executes: no module above it knows
which backend runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.executable import Executable as CompiledJaxpr
from curta.compiler.fingerprint import program_name
from curta.compiler.graph.inline import inline_calls
from curta.compiler.llvm import binding
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.programs import find_program, keep_program
from curta.config import config
from curta.control.platform import PLATFORM
from curta.control.shard_map import ShardMap
from curta.control.stacked_terms import has_terms, stacked
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate, watching
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, jaxprs_in_params
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.source_info import UNKNOWN, SourceInfo, user_frame
from curta.on_demand import late
from curta.once import once
from curta.primitives.checks import Check
from curta.runtime.devices import Client, client
from curta.runtime.native_executable import NativeExecutable
from curta.runtime.threads import parallel_for_address
from curta.runtime.transfer import to_array
from curta.transforms.checkify import count, has_checks, own_checks

# Few programs are run by plugins.
pjrt: Any = late("curta.runtime.pjrt.backend")

# C-contiguous NumPy arrays of the physical dtypes of the jaxpr's avals, in and out.
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

    def single(self, *args: np.ndarray[Any, Any]) -> Any:
        """The first output alone."""
        return self(*args)[0]


def temporary_bytes(run: Executable) -> int:
    """The memory that a call takes besides arrays; 0 where NumPy finds it by itself."""
    if isinstance(run, NativeExecutable):
        return run.program.temporaries
    return run.temporary_bytes if isinstance(run, CompiledJaxpr) else 0


def executable(closed: ClosedJaxpr) -> Executable:
    """What runs `closed`; compiled the first time it is asked for."""
    return _make(closed, config.curta_backend)


def overwriting(closed: ClosedJaxpr, in_place: Mapping[int, int]) -> Executable:
    """As `executable`, where arguments give their memory to results.

    They do if it is a `NativeExecutable` whose `overwrites` says so.
    """
    if not in_place or has_checks(closed.effects) or has_terms(closed.jaxpr):
        return executable(closed)
    compiled = _compiled(closed, config.curta_backend, in_place)
    if compiled is None:
        return executable(closed)
    program = compiled.native
    if program.runs_python:
        return executable(closed)
    pairs = {out: i for i, out in in_place.items() if out in program.in_place}
    return NativeExecutable(lambda *args: executable(closed)(*args), program, pairs)


@kept_with_jaxpr
def _make(closed: ClosedJaxpr, backend: str) -> Executable:
    if has_terms(closed.jaxpr):
        closed = stacked(closed)
    if has_checks(closed.effects):
        return _raising(closed, backend)
    return _without_checks(closed, backend)


def _without_checks(closed: ClosedJaxpr, backend: str) -> Executable:
    """What runs a jaxpr; checks that are left in it run in Python."""
    plugin = backend.removeprefix("pjrt:")
    if plugin != backend and not _has_no_machine_type(closed):
        return pjrt.plugin_executable(closed, plugin)
    optimise = not config.jax_disable_most_optimizations
    compiled = _compiled(closed, backend, optimise=optimise)
    if compiled is None:
        return NumpyExecutable(closed)
    program = compiled.native
    return compiled if program.runs_python else NativeExecutable(compiled, program)


def _compiled(
    closed: ClosedJaxpr,
    backend: str,
    in_place: Mapping[int, int] | None = None,
    optimise: bool = True,
) -> CompiledJaxpr | None:
    return backend_compile_and_load(
        client(PLATFORM), closed, backend, in_place or {}, optimise
    )


def backend_compile_and_load(
    platform: Client,
    closed: ClosedJaxpr,
    backend: str,
    in_place: Mapping[int, int],
    optimise: bool,
) -> CompiledJaxpr | None:
    """The code of a jaxpr, from the kernel cache if it is there; None for NumPy's.

    All programs are made by it. It has JAX's name, and is looked up at each call, so
    that what refuses programs for a platform can take its place.
    """
    if backend != "llvm" or _has_no_machine_type(closed):
        return None
    name = program_name(closed, (optimise, tuple(sorted(in_place.items()))))
    found = None if name is None else find_program(name, parallel_for_address)
    if found is not None or not _has_llvm():
        return found
    compiled = compile_jaxpr(
        closed,
        parallel_for=parallel_for_address,
        optimise=optimise,
        in_place=in_place,
    )
    if name is not None:
        keep_program(name, compiled)
    return compiled


def _raising(closed: ClosedJaxpr, backend: str) -> Executable:
    """A program that raises what the checks in it find, when it has run."""
    _refuse_checks(closed.jaxpr)
    checked = own_checks(closed)
    run = _without_checks(checked.closed, backend)

    def run_and_raise(*args: np.ndarray[Any, Any]) -> Sequence[Any]:
        outs = run(*args)
        found = checked.error(outs).get_exception()
        if found is not None:
            raise found.to_raise()
        return outs[count(checked.effects) :]

    return run_and_raise


def refuse_checks(closed: ClosedJaxpr) -> None:
    """Raise NotImplementedError for checks that only programs of this CPU raise."""
    if has_checks(closed.effects):
        raise NotImplementedError(
            "checks that raise when a program has run are for the CPU: functionalise"
            " them by checkify.checkify for other devices."
        )


def _refuse_checks(jaxpr: Jaxpr) -> None:
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, Check):
            eqn.op.refuse_programs(eqn.source_info)
        for inner in jaxprs_in_params(eqn.op.params()):
            _refuse_checks(inner)


def _has_no_machine_type(closed: ClosedJaxpr) -> bool:
    """Whether there are elements of no bits, or of as many as no register holds."""
    jaxpr = closed.jaxpr
    variables = [v for eqn in closed.eqns for v in eqn.outvars]
    ends = (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)
    found = {v.aval.dtype for v in (*ends, *variables)}
    return any(dtypes.physical_dtype(d).type is np.void for d in found)


@once
def _has_llvm() -> bool:
    if binding.available():
        return True
    warnings.warn(
        "llvmlite is not installed: functions run through NumPy, slower and otherwise"
        " alike. To compile them, install llvmlite; CURTA_BACKEND=numpy says that this"
        " is wanted.",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def refuse_execution(name: str) -> None:
    """Raise RuntimeError if the setting jax_no_execution says so."""
    if config.jax_no_execution:
        raise RuntimeError(
            f"JAX tried to execute function {name}, but the no_execution config option"
            " is set. Trace it only: eval_shape and make_jaxpr run nothing."
        )


# ---- looking for special values


def checked(name: str, closed: ClosedJaxpr, run: Executable) -> Executable:
    """`run` with a look at its results; a bad one is traced to the op it comes from."""

    def run_checked(*args: np.ndarray[Any, Any]) -> Sequence[Any]:
        outs = run(*args)
        if bad := special_value(outs, closed.out_avals):
            sharded = _is_sharded(closed.jaxpr)
            _check_ops(closed, args, sharded)
            raise FloatingPointError(
                f"{_found(bad, name, UNKNOWN, sharded)}. Because jax_debug_nans or"
                " jax_debug_infs is set, the ops of the function were run one by one"
                " to find where it comes from, but the de-optimized function did not"
                " produce such a value: it is an input or a literal, or comes from the"
                " way the function was compiled."
            )
        return outs

    return run_checked


def check_results(name: str, outs: Sequence[Any], avals: Sequence[ShapedArray]) -> None:
    """Raise FloatingPointError for a bad value in what a device has computed.

    The ops are not run one by one, so that it is not said which it comes from.
    """
    if bad := special_value(outs, avals):
        raise FloatingPointError(_found(bad, name, UNKNOWN, False))


def _check_ops(closed: ClosedJaxpr, args: Sequence[Any], sharded: bool) -> None:
    """Run the ops one by one, in NumPy, until one gives a bad value."""
    flat = inline_calls(closed)
    consts = [to_array(c)._storage() for c in flat.consts]
    with np.errstate(all="ignore"), watching(partial(_look, sharded)):
        evaluate(flat.jaxpr, consts, args)


def _look(sharded: bool, eqn: Eqn, outs: Sequence[Any]) -> None:
    if bad := special_value(outs, [v.aval for v in eqn.outvars]):
        raise FloatingPointError(_found(bad, eqn.op.name, eqn.source_info, sharded))


def check_op(op: Op, args: Sequence[Any], outs: Any, avals: Sequence[Any]) -> None:
    """Raise FloatingPointError if the results of an op have a bad value.

    It names the op and the user's line; of a loop, the op in its body. `args` are the
    operands.
    """
    if bad := special_value(outs, avals):
        inner = list(jaxprs_in_params(op.params()))
        sharded = isinstance(op, ShardMap) or any(map(_is_sharded, inner))
        if inner:
            with np.errstate(all="ignore"), watching(partial(_look, sharded)):
                op.eval(*args)
        raise FloatingPointError(_found(bad, op.name, user_frame(), sharded))


def _is_sharded(jaxpr: Jaxpr) -> bool:
    """Whether devices compute parts of it, as JAX's words for errors tell."""
    return any(
        isinstance(eqn.op, ShardMap)
        or any(map(_is_sharded, jaxprs_in_params(eqn.op.params())))
        for eqn in jaxpr.eqns
    )


def _found(value: str, name: str, place: SourceInfo, sharded: bool) -> str:
    at = "" if place.code is None else f" at {place}"
    if sharded:
        return f"Invalid value ({value}) encountered in sharded computation: {name}{at}"
    return f"invalid value ({value}) encountered in {name}{at}"


def special_value(outs: Sequence[Any], avals: Sequence[ShapedArray]) -> str | None:
    """Whether there are NaNs or infinities, as the settings ask."""
    for x, aval in zip(outs, avals, strict=True):
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            continue
        if config.jax_debug_nans and np.isnan(x).any():
            return "nan"
        if config.jax_debug_infs and np.isinf(x).any():
            return "inf"
    return None
