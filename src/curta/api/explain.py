"""Explain a compiled function: its kernels, their costs, and what to change."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import tree_util
from curta._base.on_demand import late
from curta.api.compiled import Compiled
from curta.api.jit import PjitFunction, jit
from curta.api.jit_options import split_arguments
from curta.compiler.executable import Executable as CompiledProgram
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.evaluate import const_as_numpy
from curta.core.mesh import Mesh
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import NamedSharding
from curta.dtypes import physical_dtype
from curta.errors import ConcretizationTypeError
from curta.partition.costs import traffic_of
from curta.partition.host_mesh import host_mesh
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.dispatch import CompiledCall
from curta.runtime.executables import Executable
from curta.runtime.host_runs import spans_hosts
from curta.runtime.native_executable import NativeExecutable

# Few programs ask for it.
costs: Any = late("curta.api.explain_costs")
hints: Any = late("curta.api.explain_hints")
texts: Any = late("curta.api.explain_text")
pages: Any = late("curta.api.explain_page")
kernel_traces: Any = late("curta.api.kernel_trace")
hosts_call: Any = late("curta.runtime.hosts_call")


class Explain:
    """A function whose calls are explained; see `explain`."""

    def __init__(self, fun: Callable[..., Any], seconds: float = 0.3):
        self._jitted = fun if isinstance(fun, PjitFunction) else jit(fun)
        self._seconds = seconds

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        """The explanation for these arguments."""
        if config.curta_backend != "llvm":
            raise NotImplementedError(
                f"explain is about the programs of Curta's own compiler for CPUs, and"
                f" the setting curta_backend is {config.curta_backend!r}."
            )
        traced = self._jitted.trace(*args, **kwargs)
        for x in traced._staged.captured:
            raise ConcretizationTypeError(
                x, "A function that closes over it cannot be explained by itself."
            )
        arguments = split_arguments(self._jitted._options, args, kwargs)
        leaves = tree_util.tree_leaves((arguments.dynamic, arguments.options))
        lowered = traced.lower()
        closed = lowered._live
        values = [*map(_storage, leaves, closed.in_avals)]
        compiled = lowered.compile()
        call_of = None
        once = compiled._run.consumed  # its arguments are given up
        if not once and kernel_traces.is_one_program(compiled._run, leaves):
            given = arguments.dynamic, arguments.options
            call_of = functools.partial(waited_call, compiled, *given)
        name = traced.fun_name
        cost = costs.program_cost(name, closed, values, self._seconds, call_of)
        advice = tuple(hints.hints(cost, closed, leaves))
        cost = dataclasses.replace(cost, hints=advice)
        return Explanation(_with_hosts(cost, closed, leaves, lowered))

    def diff(self, other: Callable[..., Any]) -> Callable[..., Difference]:
        """A function that compares this one with another on the same arguments."""
        second = Explain(other, self._seconds)

        def compare(*args: Any, **kwargs: Any) -> Difference:
            return Difference(self(*args, **kwargs), second(*args, **kwargs))

        return compare


class ReplacedCall(CompiledCall):
    """A call of a program by another executable, which computes the same."""

    def __init__(self, executable: Executable, made_of: tuple[Any, ...]):
        self.executable = executable
        super().__init__(*made_of)


def waited_call(
    compiled: Compiled, args: Any, kwargs: Any, program: CompiledProgram
) -> Callable[[], Any]:
    """A user's call of a compiled function, who waits for it, run by a `program`.

    It goes the way of any call: by native code, by the queue, with results in memory of
    the pool. Arrays of zeros stand for structs.
    """
    native = NativeExecutable(program, program.native)
    run = ReplacedCall(native, compiled._run.made_of)
    function = compiled.run_by(run)
    args, kwargs = tree_util.tree_map(_as_array, (args, kwargs))

    def call() -> Any:
        result = function(*args, **kwargs)
        for x in tree_util.tree_leaves(result):
            x.block_until_ready()
        return result

    return call


def explain(fun: Callable[..., Any], *, seconds: float = 0.3) -> Explain:
    """Report the kernels of a compiled function and their cost.

    The function is traced and compiled for the arguments, then run on them. A clock is
    read between its kernels, so the times add up. Steps that call Python run once.

    Args:
      fun: a function of arrays, under `jit` or not.
      seconds: for how long the program is run; the run that takes least counts.

    Returns:
      A function of the arguments of `fun`, arrays or `ShapeDtypeStruct`s (then of
      zeros), which gives an `Explanation`, for arguments on several hosts with the
      collectives between these: it prints, shows a page in notebooks and is saved as
      one by `save(path)`. `explain(f).diff(g)(*args)` compares two functions.

    Raises:
      NotImplementedError: another backend than Curta's own runs programs.
      ImportError: llvmlite is not installed.

    >>> import curta, curta.numpy as jnp
    >>> def normalise(x):
    ...     return x / jnp.sqrt(jnp.sum(x * x))
    >>> explained = curta.explain(normalise, seconds=0.0)(jnp.ones(1000))
    >>> for kernel in explained.kernels:
    ...     print(kernel.kind, kernel.ops)
    loops ('mul', 'reduce_sum', 'sqrt', 'div')
    """
    return Explain(fun, seconds)


class Explanation:
    """The explanation of a function for some arguments; `cost` has all figures."""

    def __init__(self, cost: Any):
        self.cost = cost

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The kernels in the order in which they run."""
        return tuple(self.cost.kernels)

    @property
    def hints(self) -> tuple[str, ...]:
        """What to change."""
        return tuple(self.cost.hints)

    def __str__(self) -> str:
        return str(texts.text(self.cost))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(pages.framed(self.cost))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file; it needs nothing else, nor a network."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(pages.page(self.cost))


class Difference:
    """Two explanations side by side."""

    def __init__(self, first: Explanation, second: Explanation):
        self.first: Explanation = first
        self.second: Explanation = second

    def __str__(self) -> str:
        return str(texts.difference(self.first.cost, self.second.cost))

    __repr__ = __str__


def _with_hosts(cost: Any, closed: Any, leaves: Any, lowered: Any) -> Any:
    """The costs, with what hosts send each other if the arguments are on several."""
    given = [x.sharding if isinstance(x, ArrayImpl) else None for x in leaves]
    shardings = [s if isinstance(s, NamedSharding) else None for s in given]
    several = (s for s in shardings if s and spans_hosts(list(s.mesh.devices.flat)))
    first = next(several, None)
    if first is None or not isinstance(first.mesh, Mesh):
        return cost
    outs = tree_util.tree_leaves(lowered.compile().output_shardings)
    hosts = host_mesh(first.mesh)
    local, _ = hosts_call.local_program(closed, first.mesh, shardings, outs, hosts)
    sent = str(traffic_of(local.closed)).splitlines()
    return dataclasses.replace(cost, collectives=(*cost.collectives, *sent))


def _as_array(x: Any) -> Any:
    if not isinstance(x, ShapeDtypeStruct):
        return x
    aval = ShapedArray(x.shape, x.dtype)
    return wrap(_storage(x, aval), aval)


def _storage(x: Any, aval: Any) -> np.ndarray[Any, Any]:
    """The elements of an argument as they lie in memory."""
    if isinstance(x, ShapeDtypeStruct):
        dtype = physical_dtype(aval.dtype)
        return np.zeros(aval.shape, dtype)
    return const_as_numpy(x, aval)
