"""What the staged forms of functions with derivatives of their own share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr
from curta.transforms.jaxprs import batch_jaxpr, run_closed


@dataclasses.dataclass(frozen=True)
class CustomCall(JaxprOp):
    """The staged form: `jaxpr` when evaluated, the rules of `call` when differentiated.

    The first `const_count` arguments are values the function closed over.
    """

    jaxpr: ClosedJaxpr
    call: Any
    const_count: int

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        n = self.const_count
        return self.call.jvp(primals[n:], tangents[n:])

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        jaxpr, out_dims = batch_jaxpr(self.jaxpr, axis, tuple(dims), True)
        call = self.call.batched(axis, dims[self.const_count :])
        return dataclasses.replace(self, jaxpr=jaxpr, call=call)(*args), out_dims

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        return run_closed(self.jaxpr, args)

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        # The function may never run: differentiation calls the rule, which is not
        # checked. `made` tells.
        n, known = self.const_count, checker.error
        leaves = known.leaves()
        k = len(leaves)
        made: list[Any] = []

        def fun(*values: Any) -> list[Any]:
            made[:] = [checker.checked(self.jaxpr, known.effects)]
            inputs = [*values[:k], *args[:n], *values[k:]]
            return run_closed(made[0].closed, inputs)

        def passed_on(*errors: Any) -> list[Any]:
            error = type(known).of(known.effects, errors)
            return error.with_effects(made[0].effects if made else ()).leaves()

        results = self.call.with_error(fun, k, passed_on)(*leaves, *args[n:])
        if made:
            return checker.take(made[0], results)
        checker.error = type(known).of(known.effects, results[:k], known._metadata)
        return results[k:]

    def rule_names(self) -> dict[str, str]:
        """The rules by the names under which a jaxpr prints them."""
        self._missing("params")

    def params(self) -> dict[str, Any]:
        return {
            "call_jaxpr": self.jaxpr,
            "call": self.call,
            **self.rule_names(),
            "num_consts": self.const_count,
            "symbolic_zeros": self.call.symbolic_zeros,
        }

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        rules = {"call_jaxpr": self.jaxpr, **self.rule_names()}
        if self.const_count:
            rules["num_consts"] = self.const_count
        zeros = {"symbolic_zeros": self.call.symbolic_zeros}
        return {
            "name": self.call.debug_info.name,
            **dict(sorted(rules.items())),
            **zeros,
        }
