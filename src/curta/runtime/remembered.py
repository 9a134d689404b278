"""Functions of the library, remembered as what they come to.

The first call of `where(x > 0, x, y)` on arrays of certain avals stages it; the next
ones run its jaxpr at once, without its Python code. It is what `jit` does, for small
arrays and without compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from curta import tree_util
from curta.config import config
from curta.core.avals import is_python_scalar
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.devices import default_is_host
from curta.runtime.eager import quietly
from curta.runtime.plans import Plan, PlanTable
from curta.runtime.straight_line import several_results
from curta.runtime.transfer import to_storage

NOT_REMEMBERED: Any = object()


class Remembered:
    """What a function comes to, by the avals of its arguments.

    `static_argnums` and `static_names` are the arguments that are no arrays.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: Collection[int],
        static_names: Collection[str],
    ):
        self._fun = fun
        self._static_argnums = frozenset(static_argnums)
        self._static_names = frozenset(static_names)
        self._plans = PlanTable()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, or NOT_REMEMBERED if the call is not of the simple kind."""
        key: list[Any] = [config.context, len(args)]
        arrays: list[Any] = []
        for i, x in enumerate(args):
            if i in self._static_argnums or x is None:
                key += (type(x), x)
            elif not _take(x, key, arrays):
                return NOT_REMEMBERED
        for name, x in kwargs.items():
            key.append(name)
            if name in self._static_names or x is None:
                key += (type(x), x)
            elif not _take(x, key, arrays):
                return NOT_REMEMBERED
        try:
            plan = self._plans.get(tuple(key), NOT_REMEMBERED)
        except TypeError:  # a static argument that cannot be hashed
            return NOT_REMEMBERED
        if plan is NOT_REMEMBERED:
            plan = self._make(tuple(key), args, kwargs)
        if plan is None:
            return NOT_REMEMBERED
        return self._run(plan, arrays)

    def _run(self, plan: Plan, arrays: list[Any]) -> Any:
        data = []
        for x in arrays:
            if type(x) is ArrayImpl:
                data.append(x._storage())
            else:
                data.append(to_storage(x, typeof(x)))
        outs = quietly(plan.run, *data)
        results = [wrap(x, a) for x, a in zip(outs, plan.out)]
        return plan.build(results)

    def _make(
        self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Plan | None:
        plan = None
        if not config.context.debugging and default_is_host():
            plan = self._stage(args, kwargs)
        self._plans.keep(key, plan)
        return plan

    def _stage(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | None:
        dynamic: list[tuple[Any, Any]] = [
            (i, x)
            for i, x in enumerate(args)
            if i not in self._static_argnums and x is not None
        ]
        dynamic += [
            (name, x)
            for name, x in kwargs.items()
            if name not in self._static_names and x is not None
        ]
        trees: list[Any] = []

        def run(*leaves: Any) -> list[Any]:
            positional, named = list(args), dict(kwargs)
            for (argument, _), leaf in zip(dynamic, leaves, strict=True):
                if isinstance(argument, int):
                    positional[argument] = leaf
                else:
                    named[argument] = leaf
            outs, tree = tree_util.tree_flatten(self._fun(*positional, **named))
            trees.append(tree)
            return outs

        try:
            closed = stage(run, [typeof(x) for _, x in dynamic])
        except Exception:  # the function itself will raise it where the user sees it
            return None
        run = several_results(closed)
        return Plan(run, None, tuple(closed.out_avals), trees[-1].unflatten)


def _take(x: Any, key: list[Any], arrays: list[Any]) -> bool:
    """Add an array or scalar to the key and the arrays; False for anything else.

    The general function says where results of placed arrays are.
    """
    if type(x) is ArrayImpl:
        if x._sharding is not None:
            return False
        key.append(x.aval)
    elif is_python_scalar(x):
        key.append(typeof(x))
    else:
        return False
    arrays.append(x)
    return True
