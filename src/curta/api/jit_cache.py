"""The cache of a jitted function: plans, which hold its jaxprs and executables."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from curta._base.on_demand import late
from curta._base.once import Lock
from curta.api.jit_log import Signature, log_compiling, warn_of_constants
from curta.api.jit_shardings import constrained, flat_layouts
from curta.api.lowered import result_names
from curta.compiler.layout_assignment import constrains_layouts
from curta.config import config
from curta.control.call import JitCall
from curta.core.array_layout import Layout
from curta.core.avals import ShapedArray
from curta.core.buffers import trim
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import make_room
from curta.core.mesh import Mesh
from curta.core.refs import AbstractRef
from curta.core.trace import TracedValue
from curta.partition.destinations import Destinations
from curta.partition.named_devices import Shardings
from curta.runtime.dispatch import CompiledCall
from curta.runtime.native_call import native_caller
from curta.runtime.plans import Plan, PlanTable, forget_plans, plan_tables
from curta.transforms.dce import used_inputs
from curta.transforms.discharge import low_program
from curta.tree_util import tree_structure

# Few programs say how arrays are stored.
laid_out_call: Any = late("curta.runtime.laid_out_call")
_LEAF = tree_structure(0)


def refuse_shardings(closed: ClosedJaxpr, given: Shardings, wanted: Shardings) -> None:
    """Raise NotImplementedError for shardings of values that are not arrays."""
    for avals, shardings in ((closed.in_avals, given), (closed.out_avals, wanted)):
        for aval, sharding in zip(avals, shardings, strict=False):
            if aval.is_high and sharding is not None:
                raise NotImplementedError(
                    "jit takes no sharding for a value of a type of a program's own,"
                    f" {aval.str_short()}: lay out the arrays that it is made of"
                )


class CallOnValues:
    """A function that takes or closes over values other than arrays.

    These are references, and values of types that a program defines.
    """

    def __init__(self, staged: Staged, name: str, arg_shardings: Shardings = ()):
        self.op: JitCall = JitCall(staged.closed, name)
        self.captured: Sequence[Any] = staged.captured
        given = arg_shardings or staged.in_shardings
        closed, wanted = staged.closed, staged.out_shardings
        if closed.is_high:
            refuse_shardings(closed, given, wanted)
            closed, given, wanted = low_program(closed), (), ()
        self.destinations: Destinations = Destinations(closed, given, wanted)
        self.executable: None = None
        self.consumed: Mapping[int, int] = {}

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        return list(self.op(*self.captured, *args))

    def read_alone(self, placed: Shardings) -> Shardings:
        """The shardings of arguments whose sharding matters: none."""
        return [None] * len(placed)


class Staged(Plan):
    """The plan of a jitted function: its jaxpr, and once it was called what runs that.

    `captured` are the values of enclosing traces that the function closes over; the
    jaxpr takes them as its first inputs. `executed`: it was called at least once.
    `repeated`: its `call` is registered with native code, which happens at the second
    call. `moves`: arguments are moved to `in_shardings` whatever their split.
    `in_layouts` and `out_layouts` are the layouts of all arguments and results; [] if
    none is given.
    """

    in_layouts: Sequence[Any] = ()
    out_layouts: Sequence[Any] = ()

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
        moves: bool = False,
    ):
        super().__init__(build=None if out_tree == _LEAF else out_tree.unflatten)
        self.signature: Signature | None = None
        self.executed: bool = False
        self.repeated: bool = False
        self.variant: Any = None  # the code for many sizes that it is run by
        self.mesh = mesh
        self.keep_unused = keep_unused
        self.moves = moves
        self.closed = closed
        self.captured = captured
        self.out_tree = out_tree
        self.donated = donated
        self.has_refs: bool = any(isinstance(a, AbstractRef) for a in closed.in_avals)
        avals = (*closed.in_avals, *closed.out_avals)
        self.is_of_values: bool = self.has_refs or any(a.is_high for a in avals)
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings

    def forget_call(self) -> None:
        """Let the next call go the general way, and register it with native code."""
        super().forget_call()
        self.repeated = False

    def tell_again(self) -> None:
        """Have native code told of the next call, as of one that is repeated."""
        self.repeated = False

    @property
    def closes_over_tracers(self) -> bool:
        """Whether it is good only within the trace that it was made in."""
        return any(isinstance(c, TracedValue) for c in self.captured)

    def arguments(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Traced arguments, constrained to their shardings."""
        if not self.in_shardings:
            return leaves
        return [*map(constrained, leaves, self.in_shardings)]

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        """Traced results, constrained to their shardings."""
        if not self.out_shardings:
            return outs
        return [*map(constrained, outs, self.out_shardings)]

    def lay_out(
        self,
        options: Any,
        dynamic: Any,
        results: Any,
        avals: Sequence[ShapedArray],
        names: Sequence[str],
    ) -> None:
        """Take the layouts of arguments and results from the options of `jit`.

        Those of results are open where the program says some of its own. ValueError for
        layouts of other dims than the arrays have.
        """
        given, wanted = options.in_shardings, options.out_shardings
        self.in_layouts = flat_layouts("arguments", given, dynamic, avals, names)
        outs, paths = self.closed.out_avals, partial(result_names, self.out_tree)
        layouts = flat_layouts("outputs", wanted, results, outs, paths)
        if constrains_layouts(self.closed.jaxpr):
            layouts = layouts or [None] * len(outs)
            layouts = [Layout.AUTO if x is None else x for x in layouts]
        self.out_layouts = layouts

    def layouts_with(self, layouts: Sequence[Any]) -> Sequence[Any]:
        """The layouts of the arguments, where nothing is said those given."""
        if not self.in_layouts:
            return layouts
        pairs = zip(self.in_layouts, layouts, strict=True)
        return [own if x is None else x for x, own in pairs]

    def compiled(
        self, name: str, arg_shardings: Shardings = (), layouts: Sequence[Any] = ()
    ) -> CompiledCall | CallOnValues:
        """The executable of the jaxpr; compiled at first use.

        With `arg_shardings` it expects the arguments there, with `layouts` stored so.
        """
        elsewhere = any(arg_shardings) and [*arg_shardings] != [*self.in_shardings]
        if elsewhere or any(layouts):
            return self._call(name, arg_shardings, layouts)
        result: CompiledCall | CallOnValues | None = self.__dict__.get("_compiled")
        if result is None:
            result = self.__dict__.setdefault("_compiled", self._call(name))
        return result

    def _call(
        self, name: str, arg_shardings: Shardings = (), layouts: Sequence[Any] = ()
    ) -> CompiledCall | CallOnValues:
        if self.is_of_values:
            return CallOnValues(self, name, arg_shardings)
        log_compiling(name, self.closed.in_avals)
        warn_of_constants(name, self.closed.consts)
        layouts = layouts or self.in_layouts
        make: Any = CompiledCall
        if any(layouts) or any(self.out_layouts):
            make = partial(laid_out_call.LaidOutCall, layouts, self.out_layouts)
        result: CompiledCall = make(
            self.closed,
            f"jit({name})",
            self._consumed(),
            arg_shardings or self.in_shardings,
            self.out_shardings,
            self.mesh,
            self.moves,
        )
        return result

    def _consumed(self) -> tuple[bool, ...]:
        """The donated arguments, less those that the jaxpr does not read."""
        if self.keep_unused or not self.donated:
            return self.donated
        read = used_inputs(self.closed.jaxpr)
        return tuple(map(operator.and_, self.donated, read))


class CacheStatistics(NamedTuple):
    """Counts of the entries in the cache of a jitted function.

    `traces`: how often it was traced since the cache was cleared; `signatures`: how
    many of these jaxprs are there; `executables`: how many of them were called.
    """

    traces: int
    signatures: int
    executables: int


class JitPlans(PlanTable):
    """The plans of one function under one set of options.

    Filled by several threads at once: the first to store wins, so that one
    signature has one jaxpr.
    """

    traces: int

    def __init__(self) -> None:
        super().__init__()
        self.native: Callable[..., Any] = native_caller(self.entries)
        self.traces = 0
        self.variants: dict[Any, Any] = {}  # of code for open sizes
        self._called: set[Any] = set()
        self.refused: set[Any] = set()

    def refuse(self, key: Any) -> None:
        """Record that calls with this key cannot be traced."""
        if len(self.refused) >= config.tuning.plans:
            self.refused.clear()
        self.refused.add(key)

    def is_second(self, key: Any) -> bool:
        """Whether this key was passed before; a key may have no plan."""
        if key in self._called:
            return True
        if len(self._called) >= config.tuning.plans:
            self._called.clear()
        self._called.add(key)
        return False

    def forget_first_calls(self) -> None:
        """Treat the next calls without a plan as first calls."""
        self._called.clear()

    def lookup(self, key: Any, memo: dict[Any, Any]) -> Staged | None:
        """The plan of a signature, if there is one.

        `memo` is what is kept with the current trace: plans that are good for it alone.
        """
        result: Staged | None = self.get(key)
        return result if result is not None or not memo else memo.get((self, key))

    def keep_first(self, key: Any, plan: Staged, memo: dict[Any, Any] | None) -> Staged:
        """Store a plan unless another thread has, and return the stored one.

        One that closes over tracers is kept in `memo`, where there is one.
        """
        result: Staged
        if not plan.closes_over_tracers:
            result = self.get(key) or self.keep(key, plan)
        elif memo is None:
            result = plan
        else:
            make_room(memo, config.tuning.plans)
            result = memo.setdefault((self, key), plan)
        return result

    def signatures(self) -> list[Signature]:
        """The signatures that the function was traced for."""
        return [p.signature for p in list(self.values())]

    def of_signature(self, signature: Signature) -> Staged | None:
        """A plan, which may be there under another key."""
        result = list(self.values())
        return next((p for p in result if p.signature == signature), None)

    def clear(self) -> None:
        super().clear()
        self.traces = 0
        self.variants.clear()
        self._called.clear()
        self.refused.clear()

    def statistics(self) -> CacheStatistics:
        plans = {id(p): p for p in list(self.values())}.values()
        executed = {id(p.variant or p) for p in plans if p.executed}
        return CacheStatistics(self.traces, len(plans), len(executed))


_plans: weakref.WeakKeyDictionary[Any, dict[Hashable, JitPlans]] = (
    weakref.WeakKeyDictionary()
)
_traced: weakref.WeakKeyDictionary[Any, dict[Hashable, Any]] = (
    weakref.WeakKeyDictionary()
)
_lock = Lock()


def shared_plans(fun: Any, options: Hashable) -> JitPlans:
    """The plans of `fun` under these options, for as long as it lives."""
    try:
        with _lock:
            return _plans.setdefault(fun, {}).setdefault(options, JitPlans())
    except TypeError:  # cannot be hashed or weakly referenced
        return JitPlans()


def traced_functions(fun: Any) -> dict[Hashable, Any]:
    """Traces of `fun` as a part of programs, cached while `fun` is alive."""
    try:
        with _lock:
            return _traced.setdefault(fun, {})
    except TypeError:  # cannot be hashed or weakly referenced
        return {}


def forget_fast_calls() -> None:
    """Let the next calls of all functions go the way on which they can be recorded."""
    for table in plan_tables():
        if isinstance(table, JitPlans):
            table.forget_fast_calls()


_caches_of_programs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def clear_with_the_others(cache: Any, for_what: str) -> None:
    """Have `clear_caches` clear `cache` as well; `for_what` describes it."""
    _caches_of_programs[cache] = for_what


def clear_caches() -> None:
    """Free all traced and compiled functions, and unused memory.

    >>> import curta
    >>> curta.clear_caches()
    """
    with _lock:
        _traced.clear()
    for cache in [*_caches_of_programs]:
        cache.cache_clear()
    forget_plans()
    trim()
