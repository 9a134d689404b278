"""Plans: what runs a function on arguments of certain types, found out once.

An eager op, an operator, a function of the library and a jitted function each have a
table of them. A key begins with the settings (`config.context`), so that nothing is
remembered beyond a change of these; then come the avals, and what else the plan
depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakSet

from curta.config import config


class Plan(NamedTuple):
    """How to run a function on the storage of arrays of certain avals.

    `start` takes operands of which some may still be computed, too; None where they
    have to be waited for. `out` is the aval of the result; a tuple of avals if there
    are several, which `out_tree` puts together. `run` is None where the default device
    is that of a plugin.
    """

    run: Callable[..., Any] | None
    start: Callable[..., Any] | None
    out: Any
    out_tree: Any = None


ON_DEVICES = Plan(None, None, None)
"""That of ops whose arrays lie on devices of a plugin, where nothing else says so."""


class PlanTable(dict[Any, Any]):
    """Plans of one function by key; the oldest goes when there are too many.

    `table[settings, *avals]` makes what is missing by `make(settings, *avals)`. None
    says that there is no plan, so that the function goes the general way: `make` may
    give it, and it is what the table has while `make` runs.
    """

    def __init__(self, make: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._make = make
        _tables.add(self)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        if self._make is None:
            raise KeyError(key)
        self[key] = None
        return self.keep(key, self._make(*key))

    def keep(self, key: Any, plan: Any) -> Any:
        """Remember a plan, which is returned."""
        while len(self) >= config.tuning.plans:
            self.pop(next(iter(self)), None)
        self[key] = plan
        return plan


_tables: WeakSet[PlanTable] = WeakSet()


def forget_plans() -> None:
    """Empty all tables."""
    for table in list(_tables):
        table.clear()
