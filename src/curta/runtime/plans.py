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

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from curta._base.once import snapshot
from curta.config import config
from curta.core.memo import make_room


class Plan:
    """How to run a function on arguments of certain avals.

    `run` takes the storage of arrays that are at hand. `call` takes arrays, wherever
    they are, and gives a list of arrays. What a plan does not have is None.

    `out` is the aval of the result; a tuple of avals if there are several, which
    `build` puts together.
    """

    __slots__ = ("__weakref__", "build", "call", "out", "run")

    build: Callable[..., Any] | None
    call: Callable[..., Any] | None
    out: Any
    run: Callable[..., Any] | None

    def __init__(
        self,
        run: Callable[..., Any] | None = None,
        out: Any = None,
        build: Callable[[Any], Any] | None = None,
        call: Callable[[Any], Any] | None = None,
    ):
        self.run, self.call = run, call
        self.out, self.build = out, build

    def forget_call(self) -> None:
        """Let the next call go the general way."""
        self.call = None


class PlanTable(dict[Any, Any]):
    """Plans of one function by key; the oldest go when there are too many.

    `table[settings, *avals]` makes what is missing by `make(settings, *avals)`. None
    says that there is no plan, so that the function goes the general way: `make` may
    give it, and it is what the table has while `make` runs.

    `entries` are those that native code looks for, the newest first; what each is of is
    in `entry_plans`.
    """

    def __init__(self, make: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._make = make
        self.entries: list[Any] = []
        self.entry_plans: list[Plan] = []
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
            self._forget_entries(old)
        self[key] = plan
        return plan

    def call_natively(self, plan: Plan, entry: Any) -> None:
        """Let native code find a plan, as the first of few."""
        most = config.tuning.native_entries
        self._set_entries([(entry, plan), *zip(self.entries, self.entry_plans)][:most])

    def _set_entries(self, pairs: Sequence[tuple[Any, Plan]]) -> None:
        self.entries[:] = [entry for entry, _ in pairs]
        self.entry_plans[:] = [plan for _, plan in pairs]

    def _forget_entries(self, gone: Plan | None) -> None:
        pairs = zip(self.entries, self.entry_plans)
        self._set_entries([(entry, plan) for entry, plan in pairs if plan is not gone])

    def forget_fast_calls(self) -> None:
        """Let the next calls go the general way."""
        self._set_entries(())
        for plan in list(self.values()):
            if plan is not None:
                plan.forget_call()

    def clear(self) -> None:
        """Forget all plans."""
        super().clear()
        self._set_entries(())


_tables: WeakSet[PlanTable] = WeakSet()


def plan_tables() -> list[PlanTable]:
    """All tables of plans."""
    return snapshot(_tables)


def forget_plans() -> None:
    """Empty all tables."""
    for table in plan_tables():
        table.clear()
