"""What the staged forms of functions with derivatives of their own share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp, JitCall
from curta.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from curta.core.op import BatchDims, Batched
from curta.core.refs import Ref, invalidate, read
from curta.core.stage import with_dtype
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.transforms.discharge import Flags, discharge_jaxpr
from curta.transforms.jaxprs import batch_jaxpr, run_closed
from curta.transforms.lowering import lower_jaxpr


@dataclass(frozen=True, eq=False)
class ArraysForRefs:
    """A function with rules of its own, given the arrays in its references `given`.

    Its outputs are followed by those that the references `written` hold in the end.
    """

    call: Any
    avals: Sequence[Any]
    given: Flags
    written: Flags

    @property
    def debug_info(self) -> Any:
        """What errors say of the function."""
        return self.call.debug_info

    @property
    def symbolic_zeros(self) -> Any:
        """Whether the rules are shown zeros that are not made."""
        return self.call.symbolic_zeros

    @property
    def rule_name(self) -> Any:
        """The name of the rule of a custom_jvp function."""
        return self.call.rule_name

    @property
    def fwd_name(self) -> Any:
        """The name of the forward rule of a custom_vjp function."""
        return self.call.fwd_name

    @property
    def bwd_name(self) -> Any:
        """The name of the backward rule of a custom_vjp function."""
        return self.call.bwd_name

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Outputs and tangents by the rule, which gets references."""
        for t, g in zip(tangents, self.given, strict=True):
            if g and type(t) is not Zero:
                raise NotImplementedError(
                    f"{self.debug_info.function()} has a derivative of its own and"
                    " reads a reference to what is differentiated: pass it the array"
                    " `ref[...]` instead"
                )
        inputs = [
            Ref(a, x) if g else x
            for a, x, g in zip(self.avals, primals, self.given, strict=True)
        ]
        outs, dots = self.call.jvp(inputs, tangents)
        count = len(self.written) - len(inputs)
        changed = [x for x, w in zip(inputs, self.written[count:], strict=True) if w]
        finals = [read(ref) for ref in changed]
        for x, g in zip(inputs, self.given, strict=True):
            if g:
                invalidate(x)  # the backward rule cannot have it
        return [*outs, *finals], [*dots, *(zero_tangent(typeof(x)) for x in finals)]

    def batched(self, axis: Any, dims: Sequence[int | None]) -> ArraysForRefs:
        """The function over a batch: not written."""
        raise NotImplementedError(
            f"{self.debug_info.function()} has a derivative of its own and uses"
            " references: it cannot be batched inside a jitted function"
        )


@dataclass(frozen=True)
class CustomCall(JaxprOp):
    """The staged form: `jaxpr` when evaluated, the rules of `call` when differentiated.

    The first `const_count` arguments are values the function closed over.
    """

    jaxpr: ClosedJaxpr
    call: Any
    const_count: int

    def discharged(
        self, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        n = self.const_count
        call = ArraysForRefs(self.call, self.jaxpr.in_avals[n:], given[n:], written)
        jaxpr = discharge_jaxpr(self.jaxpr, given, written)
        result = dataclasses.replace(self, jaxpr=jaxpr, call=call)(*args)
        count = len(self.jaxpr.out_avals)
        return result[:count], result[count:]

    def on_parts(self, counts: Sequence[int]) -> JitCall:
        return JitCall(lower_jaxpr(self.jaxpr), self.call.debug_info.name)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        n = self.const_count
        return self.call.jvp([*map(with_dtype, primals[n:])], tangents[n:])

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        # All outputs are batched or none is, see `aligned` in custom_jvp.py.
        jaxpr, out_dims = batch_jaxpr(self.jaxpr, axis, tuple(dims))
        if any(d is not None for d in (*dims, *out_dims)):
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

    def subfuns(self) -> Sequence[Callable[..., Any]]:
        return (jaxpr_as_fun(self.jaxpr),)

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
