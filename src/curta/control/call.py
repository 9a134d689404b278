"""`JitCall`: a jaxpr applied to arguments, as `jit` records it inside other jaxprs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.carries import flagged, unflagged
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from curta.core.key_use import KeyReuseSignature
from curta.core.op import BatchDims, Batched
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.transforms.backward_logs import wants_logs
from curta.transforms.dce import prune_outputs, with_inputs
from curta.transforms.discharge import Flags, TakesRefs, accesses, discharge_jaxpr
from curta.transforms.jaxprs import batch_jaxpr, jvp_jaxpr, transpose_jaxpr
from curta.transforms.key_use import jaxpr_key_use
from curta.transforms.lowering import lower_jaxpr
from curta.transforms.partial_eval import split_jaxpr
from curta.transforms.transpose import backward_pass


class JaxprOp(TakesRefs):
    """An op that applies `jaxpr` to its arguments.

    A subclass says with `with_jaxpr` how the transformed jaxpr is wrapped again.
    """

    multiple_results: ClassVar[bool] = True
    places_outputs: ClassVar[bool] = True
    holds_jaxprs: ClassVar[bool] = True
    jaxpr: ClosedJaxpr

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> JaxprOp:
        """The same op on another jaxpr."""
        return dataclasses.replace(self, jaxpr=jaxpr)  # type: ignore[type-var]

    def for_operands(
        self, jaxpr: ClosedJaxpr, operands: Sequence[int | None]
    ) -> JaxprOp:
        """The same op on a jaxpr that was derived from its own.

        `operands` has for each input the number of the operand that it belongs to, or
        None for residuals and cotangents.
        """
        return self.with_jaxpr(jaxpr)

    @property
    def stands_for(self) -> ClosedJaxpr:
        """The jaxpr that is compiled in place of the op."""
        return self.jaxpr

    def on_parts(self, counts: Sequence[int]) -> JaxprOp:
        return self.with_jaxpr(lower_jaxpr(self.jaxpr))

    @property
    def effects(self) -> frozenset[Effect]:
        return self.jaxpr.effects

    @property
    def parts_run(self) -> tuple[ClosedJaxpr, ...]:
        return (self.jaxpr,)

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return self.jaxpr.out_avals

    def eval(self, *args: Any) -> Any:
        return evaluate(self.jaxpr.jaxpr, self.jaxpr.consts, args)

    def accesses(self) -> Sequence[int]:
        return accesses(self.jaxpr.jaxpr)

    def discharged(
        self, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        result = self.with_jaxpr(discharge_jaxpr(self.jaxpr, given, written))(*args)
        count = len(self.jaxpr.out_avals)
        return result[:count], result[count:]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        jaxpr, out_nonzero = jvp_jaxpr(self.jaxpr, nonzero)
        given = [t for t in tangents if type(t) is not Zero]
        numbers = [*range(len(primals)), *flagged(range(len(primals)), nonzero)]
        results = self.for_operands(jaxpr, numbers)(*primals, *given)
        count = len(self.jaxpr.out_avals)
        result = iter(results[count:])
        return results[:count], [
            next(result) if n else zero_tangent(a)
            for a, n in zip(self.jaxpr.out_avals, out_nonzero, strict=True)
        ]

    def inlined(self, *args: Any) -> Sequence[Any]:
        return jaxpr_as_fun(self.jaxpr)(*args)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        if wants_logs():  # which cannot leave a jaxpr
            return backward_pass(self.jaxpr.jaxpr, self.jaxpr.consts, args, cotangent)
        linear = tuple(map(is_linear, args))
        nonzero = tuple(type(ct) is not Zero for ct in cotangent)
        jaxpr, out_nonzero = transpose_jaxpr(self.jaxpr, linear, nonzero)
        known = unflagged(args, linear)
        given = [ct for ct in cotangent if type(ct) is not Zero]
        numbers = [*unflagged(range(len(args)), linear), *[None] * len(given)]
        result = iter(self.for_operands(jaxpr, numbers)(*known, *given))
        flags = iter(out_nonzero)
        return [next(result) if f and next(flags) else None for f in linear]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        jaxpr, out_dims = batch_jaxpr(self.jaxpr, axis, tuple(dims))
        return self.with_jaxpr(jaxpr)(*args), out_dims

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        return jaxpr_key_use(self.jaxpr.jaxpr)

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        checked = checker.checked(self.jaxpr)
        return checker.apply(checked, self.with_jaxpr(checked.closed), args)

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        unknown = tuple(map(partial.is_unknown, args))
        split = split_jaxpr(self.jaxpr, unknown)
        known_args = unflagged(args, unknown)
        numbers = range(len(args))
        now = self.for_operands(split.known, unflagged(numbers, unknown))
        results = now(*known_args)
        residuals = split.residuals(known_args, results)
        later = [*residuals, *flagged(args, unknown)]
        own = [*[None] * len(residuals), *flagged(numbers, unknown)]
        op = self.for_operands(split.unknown, own)
        return partial.joined(split.out_unknown, results, op, later)


@dataclass(frozen=True)
class JitCall(JaxprOp):
    """What `jit` records: the whole of `jaxpr` is compiled together."""

    name: ClassVar[str] = "jit"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "name": "fun_name",
        "donated_invars": "donated",
    }
    inlined_names: ClassVar[bool] = True
    calls_function: ClassVar[bool] = True
    jaxpr: ClosedJaxpr
    fun_name: str
    donated: tuple[bool, ...] = ()
    inline: bool = False
    keep_unused: bool = False

    @property
    def scope(self) -> str:
        return f"jit({self.fun_name})"

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> JitCall:
        return JitCall(jaxpr, self.fun_name, (), self.inline, self.keep_unused)

    def pruned(self, used: Flags) -> tuple[JitCall, Flags, Flags]:
        jaxpr, reads = prune_outputs(self.jaxpr, used)
        return self.with_jaxpr(with_inputs(jaxpr, reads)), reads, used

    def params(self) -> dict[str, Any]:
        donated = self.donated or (False,) * len(self.jaxpr.in_avals)
        return {**super().params(), "donated_invars": donated}

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.fun_name, "jaxpr": self.jaxpr}
        if any(self.donated):
            shown["donated_invars"] = self.donated
        if self.keep_unused:
            shown["keep_unused"] = self.keep_unused
        return shown
