"""Plans: what runs a function on arguments of certain types, found out once.

This is the one answer to that question, for eager ops, operators, functions of the
library and jitted functions, at the top and within other functions. Each has a table
of plans, by a key of this form, of which it leaves out what it does not have:

    (settings, statics, tree, *avals)

The settings are `config.context`, so that nothing is remembered beyond a change of
these; statics are parameters of an op, an exponent, static arguments. A plan lives as
long as what it was made of: with the function, with the jaxpr that an op holds, or,
where a function closes over values of a trace, with that trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from curta.config import config
from curta.core.memo import make_room


class Plan:
    """How to run a function on arguments of certain avals.

    `run` takes the storage of arrays that are at hand. `start` takes operands of which
    some may still be computed, too; None where they have to be waited for. `call` takes
    arrays, wherever they are, and gives a list of arrays. What a plan does not have is
    None.

    `out` is the aval of the result; a tuple of avals if there are several, which
    `build` puts together. `entries` are by what native code knows the plan.
    """

    __slots__ = ("__weakref__", "build", "call", "entries", "out", "run", "start")

    build: Callable[..., Any] | None
    call: Callable[..., Any] | None
    out: Any
    run: Callable[..., Any] | None

    def __init__(
        self,
        run: Callable[..., Any] | None = None,
        start: Callable[..., Any] | None = None,
        out: Any = None,
        build: Callable[[Any], Any] | None = None,
        call: Callable[[Any], Any] | None = None,
    ):
        self.run, self.start, self.call = run, start, call
        self.out, self.build = out, build
        self.entries: tuple[Any, ...] = ()

    def forget_call(self) -> None:
        """Let the next call go the general way."""
        self.call = None


class PlanTable(dict[Any, Any]):
    """Plans of one function by key; the oldest go when there are too many.

    `table[settings, *avals]` makes what is missing by `make(settings, *avals)`. None
    says that there is no plan, so that the function goes the general way: `make` may
    give it, and it is what the table has while `make` runs.

    `entries` are those of the plans that native code looks for, the newest first.
    """

    def __init__(self, make: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._make = make
        self.entries: list[Any] = []
        _tables.add(self)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        if self._make is None:
            raise KeyError(key)
        self[key] = None
        return self.keep(key, self._make(*key))

    def keep(self, key: Any, plan: Any) -> Any:
        """Remember a plan, which is returned."""
        for old in make_room(self, config.tuning.plans):
            self._forget_entry(old)
        self[key] = plan
        return plan

    def call_natively(self, plan: Plan, entry: Any) -> None:
        """Let native code find a plan, as the first of few."""
        plan.entries = (entry, *plan.entries)
        self.entries.insert(0, entry)
        del self.entries[config.tuning.native_entries :]

    def _forget_entry(self, plan: Any) -> None:
        gone = set() if plan is None else {*map(id, plan.entries)}
        self.entries[:] = [e for e in self.entries if id(e) not in gone]

    def forget_fast_calls(self) -> None:
        """Let the next calls go the general way."""
        self.entries.clear()
        for plan in list(self.values()):
            if plan is not None:
                plan.forget_call()

    def clear(self) -> None:
        """Forget all plans."""
        super().clear()
        self.entries.clear()


_tables: WeakSet[PlanTable] = WeakSet()


def plan_tables() -> list[PlanTable]:
    """All tables there are."""
    return list(_tables)


def forget_plans() -> None:
    """Empty all tables."""
    for table in plan_tables():
        table.clear()
