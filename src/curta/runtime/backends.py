"""The backends: what compiles programs, and keeps the elements of arrays.

This module names them all; nothing above it knows which one runs. A backend is an
object with two methods (`Backend`): `compile` makes an `Executable` of a jaxpr, a
function of arrays' storage, and `put` brings elements of the host to where that wants
them.

| backend | compiles | storage | chosen by |
|---|---|---|---|
| `NativeBackend` | machine code, through LLVM | NumPy arrays | default |
| `NumpyBackend` | nothing: `eval`, op by op | NumPy arrays | `CURTA_BACKEND=numpy` |
| `PjrtBackend` | StableHLO, by a plugin | `DeviceData` | where arrays are |
| the same | the same | NumPy arrays, copied | `CURTA_BACKEND=pjrt:NAME` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes
from curta._base.on_demand import late
from curta._base.once import once
from curta._base.user_warnings import warn
from curta._settings.parsers import BACKENDS
from curta.compiler import llvm_binding as binding
from curta.compiler.collective_sequence import collectives_in, collectives_of
from curta.compiler.executable import Executable as CompiledJaxpr
from curta.compiler.fingerprint import program_name
from curta.compiler.fitting import advise_of_limit
from curta.compiler.host_target import host_with
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.programs import find_program, keep_program
from curta.compiler.support.threads import parallel_for_address
from curta.config import config
from curta.control.platform import PLATFORM
from curta.control.stacked_terms import has_terms, stacked
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_of
from curta.core.memo import kept_with_jaxpr
from curta.core.sharding import Sharding
from curta.hosts.engine import current
from curta.primitives.checks import Check
from curta.primitives.linalg.family import provide_lapack
from curta.runtime.devices import Client, client
from curta.runtime.executables import Executable
from curta.runtime.native_executable import NativeExecutable
from curta.runtime.transfer import to_array
from curta.transforms.checkify import count, has_checks, own_checks

lapack: Any = late("curta.runtime.lapack")
provide_lapack(lambda op, args: lapack.evaluated(op, args))
# Few programs are run by plugins.
pjrt: Any = late("curta.runtime.pjrt.backend")
plugins: Any = late("curta.runtime.pjrt.plugins")


class CompileOptions(NamedTuple):
    """Options of a compilation: devices, donated arguments.

    `devices` are those of a plugin, none for the CPU. Over several, `in_shardings` and
    `out_shardings` say how each argument and result is laid out. Arguments in `donated`
    give their memory to the result they are mapped to, where the backend can use it.
    """

    name: str = "f"
    devices: tuple[Any, ...] = ()
    in_shardings: Sequence[Sharding | None] = ()
    out_shardings: Sequence[Sharding | None] = ()
    donated: Mapping[int, int] = {}


class Backend:
    """What compiles programs, and keeps the elements of arrays."""

    def compile(self, closed: ClosedJaxpr, options: CompileOptions) -> Executable:
        """What runs `closed`, as a function of the storage of arguments."""
        raise NotImplementedError

    def put(self, data: np.ndarray[Any, Any], aval: ShapedArray, sharding: Any) -> Any:
        """The storage of an array with the elements of the host's `data`."""
        return data


class NumpyBackend(Backend):
    """Runs the `eval` rules of the ops, one after the other."""

    def compile(self, closed: ClosedJaxpr, options: CompileOptions) -> Executable:
        return NumpyExecutable(closed)


class NumpyExecutable(Executable):
    """Runs a jaxpr through the `eval` rules of its ops."""

    def __init__(self, closed: ClosedJaxpr):
        self.jaxpr: Jaxpr = closed.jaxpr
        self.collectives = [*collectives_in(closed.jaxpr)]
        self.consts: Any = [to_array(c)._storage() for c in closed.consts]

    def __call__(self, *args: np.ndarray[Any, Any]) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            outs = evaluate(self.jaxpr, self.consts, args)
        return [x if x.flags.c_contiguous else x.copy() for x in outs]


class NativeBackend(Backend):
    """Our own compiler, through LLVM; NumPy where that is missing or has no type."""

    def compile(self, closed: ClosedJaxpr, options: CompileOptions) -> Executable:
        """A `NativeExecutable`, but for a program that calls Python.

        Donated arguments that are overwritten it names as `overwrites`.
        """
        optimise = not config.jax_disable_most_optimizations
        compiled = _for_sizes(closed, options.donated) or backend_compile_and_load(
            client(PLATFORM), closed, options.donated, optimise
        )
        if compiled is None:
            return NumpyExecutable(closed)
        program, donated = compiled.native, options.donated
        if program.runs_python:
            if donated:
                return executable(closed)
            result = Executable(compiled, compiled.temporary_bytes)
            result.collectives = collectives_of(compiled)
            return result
        if not donated:
            return NativeExecutable(compiled, program)
        pairs = {out: i for i, out in donated.items() if out in program.in_place}
        return NativeExecutable(lambda *args: executable(closed)(*args), program, pairs)


def backend_compile_and_load(
    platform: Client, closed: ClosedJaxpr, in_place: Mapping[int, int], optimise: bool
) -> CompiledJaxpr | None:
    """The code of a jaxpr, from the kernel cache if it is there; None for NumPy's.

    All programs of this CPU are made by it. It has JAX's name, and is looked up at each
    call, so that what refuses programs for a platform can take its place.
    """
    if has_no_machine_type(closed):
        return None
    target = host_with(current().transport)
    options = (optimise, tuple(sorted(in_place.items())))
    name = program_name(closed, target, options, config.context)
    compiled = None if name is None else find_program(name, parallel_for_address)
    if compiled is None and _has_llvm():
        compiled = compile_jaxpr(
            closed,
            target,
            parallel_for=parallel_for_address,
            optimise=optimise,
            in_place=in_place,
        )
        if name is not None:
            keep_program(name, compiled)
    if compiled is not None:
        advise_of_limit(closed, compiled.temporary_bytes, in_place)
    return compiled


_FOR_SIZES = "for sizes"


def compile_for_sizes(
    closed: ClosedJaxpr, in_place: Mapping[int, int]
) -> CompiledJaxpr:
    """The code of a jaxpr with open sizes (core/symbolic/sizes.py).

    Raises NotImplementedError for programs that are not our own machine code.
    """
    if config.curta_backend != "llvm" or not _has_llvm():
        raise NotImplementedError("another backend compiles")
    if closed.effects or has_terms(closed.jaxpr) or has_no_machine_type(closed):
        raise NotImplementedError("it has effects, or elements without a machine type")
    return compile_jaxpr(
        closed,
        parallel_for=parallel_for_address,
        optimise=not config.jax_disable_most_optimizations,
        in_place=in_place,
    )


def keep_for_sizes(
    closed: ClosedJaxpr, compiled: CompiledJaxpr, in_place: Mapping[int, int]
) -> None:
    """Have a jaxpr be run by code that was made for many sizes, as it is at its own."""
    closed.memo[_FOR_SIZES] = compiled, in_place


def _for_sizes(closed: ClosedJaxpr, donated: Mapping[int, int]) -> CompiledJaxpr | None:
    """That code, if it overwrites the arguments that are donated and no others."""
    compiled, in_place = closed.memo.get(_FOR_SIZES, (None, None))
    return compiled if in_place == donated else None


def has_no_machine_type(closed: ClosedJaxpr) -> bool:
    """Whether there are elements of no bits, or of as many as no register holds."""
    jaxpr = closed.jaxpr
    variables = [v for eqn in closed.eqns for v in eqn.outvars]
    ends = (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)
    result = {v.aval.dtype for v in (*ends, *variables)}
    return any(dtypes.physical_dtype(d).type is np.void for d in result)


@once
def _has_llvm() -> bool:
    if binding.available():
        return True
    warn(
        f"{binding.trouble()}: functions run through NumPy, slower and otherwise"
        f" alike. To compile them, {binding.REMEDY}; CURTA_BACKEND=numpy says that"
        " this is wanted.",
        RuntimeWarning,
    )
    return False


# ---- which one


_NAMED: dict[str, Backend] = {"llvm": NativeBackend(), "numpy": NumpyBackend()}


def register_backend(name: str, backend: Backend) -> None:
    """Let `curta_backend` choose a backend by a name.

    Programs on arrays of the host run by it then; CONTRIBUTING has an example.
    """
    BACKENDS.add(name)
    _NAMED[name] = backend


def backend_of(devices: Sequence[Any] = ()) -> Backend:
    """The backend of programs on these devices, or on this CPU.

    Raises RuntimeError if there is no plugin of the name that `curta_backend` says.
    """
    if devices:
        plugin = devices[0].hardware.client
    else:
        name = config.curta_backend
        if name in _NAMED:
            return _NAMED[name]
        plugin = plugins.client(name.removeprefix("pjrt:"))
    result: Backend = pjrt.PjrtBackend(plugin)
    return result


# ---- programs of this CPU


@kept_with_jaxpr
def executable(closed: ClosedJaxpr) -> Executable:
    """What runs `closed` on NumPy arrays; compiled the first time it is asked for."""
    if has_terms(closed.jaxpr):
        closed = stacked(closed)
    if has_checks(closed.effects):
        return _raising(closed)
    return backend_of().compile(closed, CompileOptions())


def overwriting(closed: ClosedJaxpr, donated: Mapping[int, int]) -> Executable:
    """As `executable`, where arguments give their memory to results.

    They do if its `overwrites` says so.
    """
    if not donated or has_checks(closed.effects) or has_terms(closed.jaxpr):
        return executable(closed)
    return backend_of().compile(closed, CompileOptions(donated=donated))


def _raising(closed: ClosedJaxpr) -> Executable:
    """A program that raises the errors of its checks after it has run."""
    _refuse_checks(closed.jaxpr)
    checked = own_checks(closed)
    run = backend_of().compile(checked.closed, CompileOptions())

    def run_and_raise(*args: np.ndarray[Any, Any]) -> Sequence[Any]:
        outs = run(*args)
        result = checked.error(outs).get_exception()
        if result is not None:
            raise result.to_raise()
        return outs[count(checked.effects) :]

    result = Executable(run_and_raise, run.temporary_bytes)
    result.collectives = run.collectives
    return result


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
        for inner in jaxprs_of(eqn.op):
            _refuse_checks(inner)
