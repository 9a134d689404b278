"""What `jit` keeps of a function: its jaxprs, its executables, by signature."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from curta.api.jit_log import Signature, log_compiling, timed, warn_of_constants
from curta.api.jit_shardings import constrained
from curta.control.call import Call
from curta.core.buffers import trim
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import Mesh
from curta.core.refs import AbstractRef
from curta.once import Lock
from curta.runtime.dispatch import CompiledCall
from curta.runtime.native_call import NativeCalls
from curta.runtime.plans import PlanTable, forget_plans
from curta.runtime.propagation import Destinations, Shardings


class CallOnRefs:
    """A function of references, or that closes over some, to be called on them."""

    def __init__(self, staged: Staged, name: str, places: Shardings = ()):
        self.op = Call(staged.closed, name)
        self.captured = staged.captured
        self.destinations = Destinations(
            staged.closed, places or staged.in_shardings, staged.out_shardings
        )
        self.executable = None
        self.consumed: Sequence[int] = ()

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        return list(self.op(*self.captured, *args))

    def read_alone(self, placed: Shardings) -> Shardings:
        """The shardings of arguments whose place matters: none."""
        return [None] * len(placed)


class Staged:
    """A function traced for one signature.

    `captured` are the values of enclosing traces that the function closes over; the
    jaxpr takes them as its first inputs.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        captured: Sequence[Any],
        out_tree: Any,
        donated: tuple[bool, ...],
        in_shardings: Shardings,
        out_shardings: Shardings,
        mesh: Mesh | None = None,
        keep_unused: bool = False,
    ):
        self.mesh = mesh
        self.keep_unused = keep_unused
        self.closed = closed
        self.captured = captured
        self.out_tree = out_tree
        self.donated = donated
        self.has_refs = any(type(a) is AbstractRef for a in closed.in_avals)
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings

    def arguments(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Traced arguments, where they are to be."""
        if not self.in_shardings:
            return leaves
        return [*map(constrained, leaves, self.in_shardings)]

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        """Traced results, where they are to be."""
        if not self.out_shardings:
            return outs
        return [*map(constrained, outs, self.out_shardings)]

    def compiled(self, name: str, places: Shardings = ()) -> CompiledCall | CallOnRefs:
        """What runs the jaxpr; compiled the first time it is asked for.

        With `places` it expects the arguments there.
        """
        if any(places) and not self.in_shardings:
            return self._call(name, places)
        found: CompiledCall | CallOnRefs | None = self.__dict__.get("_compiled")
        if found is None:
            found = self.__dict__.setdefault("_compiled", self._call(name))
        return found

    def _call(self, name: str, places: Shardings = ()) -> CompiledCall | CallOnRefs:
        if self.has_refs:
            return CallOnRefs(self, name, places)
        log_compiling(name, self.closed.in_avals)
        warn_of_constants(name, self.closed.consts)
        with timed(f"compilation of jit({name})"):
            return CompiledCall(
                self.closed,
                f"jit({name})",
                self.donated,
                places or self.in_shardings,
                self.out_shardings,
                self.mesh,
            )


class CacheStatistics(NamedTuple):
    """What is kept of a jitted function.

    `traces`: how often it was traced since the cache was cleared; `signatures`: how
    many of these jaxprs are there; `executables`: how many of them were called.
    """

    traces: int
    signatures: int
    executables: int


class Cache:
    """What is known of one function under one set of options, by signature.

    Filled by several threads at once: whoever stores first wins, so that one
    signature has one jaxpr.
    """

    def __init__(self) -> None:
        self.staged: dict[Any, Any] = {}
        self.executed: set[Signature] = set()
        self.ready = PlanTable()
        self.native = NativeCalls()
        self.traces = 0

    def clear(self) -> None:
        self.staged.clear()
        self.executed.clear()
        self.ready.clear()
        self.native.clear()
        self.traces = 0

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(self.traces, len(self.staged), len(self.executed))


_caches: weakref.WeakKeyDictionary[Any, dict[Hashable, Cache]] = (
    weakref.WeakKeyDictionary()
)
_traced: weakref.WeakKeyDictionary[Any, dict[Hashable, Any]] = (
    weakref.WeakKeyDictionary()
)
_lock = Lock()


def shared_cache(fun: Any, options: Hashable) -> Cache:
    """What is kept of `fun` under these options, for as long as it lives."""
    try:
        with _lock:
            return _caches.setdefault(fun, {}).setdefault(options, Cache())
    except TypeError:  # cannot be hashed or weakly referenced
        return Cache()


def traced_functions(fun: Any) -> dict[Hashable, Any]:
    """What `fun` was traced to as a part of programs, for as long as it lives."""
    try:
        with _lock:
            return _traced.setdefault(fun, {})
    except TypeError:  # cannot be hashed or weakly referenced
        return {}


def forget_fast_calls() -> None:
    """Let the next calls of all functions go the way on which they can be recorded."""
    with _lock:
        for by_options in list(_caches.values()):
            for cache in by_options.values():
                cache.ready.clear()
                cache.native.clear()


def clear_caches() -> None:
    """Forget all traced and compiled functions; memory that nobody uses goes as well.

    >>> import curta
    >>> curta.clear_caches()
    """
    with _lock:
        _traced.clear()
        for by_options in list(_caches.values()):
            for cache in by_options.values():
                cache.clear()
    forget_plans()
    trim()
