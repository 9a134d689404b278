"""Ops that programs define: their rules are functions given to a `Primitive`.

A compiled program has what their lowering rule does instead. Without one it runs
them by their evaluation rule, outside of the machine code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.core.avals import ShapedArray
from curta.core.effects import Effect, NamedEffect
from curta.core.op import PURPOSE, BatchDims, Batched, Op
from curta.core.trace import Tracer, base_trace, current_trace, use_trace

if TYPE_CHECKING:
    from curta.core.primitive import Primitive

Rules = dict["Primitive", Callable[..., Any]]

# The rules of primitives that programs define; curta.interpreters shows them.
impl_rules: Rules = {}
abstract_eval_rules: Rules = {}
jvp_rules: Rules = {}
transpose_rules: Rules = {}
batch_rules: Rules = {}
lowering_rules: Rules = {}  # return a sequence of results
axis_batch_rules: Rules = {}  # called with the mapped axis, too

_REMEDY = {
    "aval": "primitive.def_abstract_eval(rule)",
    "eval": "primitive.def_impl(rule)",
    "jvp": "interpreters.ad.primitive_jvps[primitive] = rule",
    "transpose": "interpreters.ad.primitive_transposes[primitive] = rule",
    "batch": "interpreters.batching.primitive_batchers[primitive] = rule",
    "lower": "interpreters.mlir.register_lowering(primitive, lower_fun(function))",
}


class NoMLIR(NotImplementedError, AttributeError):
    """A lowering rule asks for a part of MLIR, of which there is nothing."""


class EffectfulRule:
    """A rule that gives the aval (or avals) and the effects, for the avals alone."""

    def __init__(self, with_effects: Callable[..., Any]):
        self.with_effects = with_effects

    def __call__(self, *avals: Any, **params: Any) -> Any:
        return self.with_effects(*avals, **params)[0]


@dataclass(frozen=True)
class UserOp(Op):
    """An op of a program's own; `items` are its parameters."""

    primitive: ClassVar[Primitive]
    has_effects: ClassVar[bool] = False
    runs_python: ClassVar[bool] = True
    rules_run_python: ClassVar[bool] = True
    holds_jaxprs: ClassVar[bool] = True
    items: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        """Whether no rule can tell parameters apart: 0.0 is not -0.0, nor 1 True."""
        if type(self) is not type(other) or self.holds_functions:
            return self is other
        mine, others = self.items, other.items
        return bool(mine == others) and _are_alike(mine, others)

    def __hash__(self) -> int:
        return id(self) if self.holds_functions else hash(self.items)

    @classmethod
    def of_params(cls, params: dict[str, Any]) -> UserOp:
        """The op of these parameters, whichever they are."""
        return cls(tuple(sorted(params.items())))

    @property
    def holds_functions(self) -> bool:  # type: ignore[override]
        """Whether parameters have no hash: lists, say, which may change."""
        try:
            hash(self.items)
        except TypeError:
            return True
        return False

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset([NamedEffect(self.name)]) if self.has_effects else frozenset()

    @cached_property
    def bodies(self) -> dict[Any, Any]:
        """What the lowering rule made of it (user_lowering.py)."""
        return {}

    def params(self) -> dict[str, Any]:
        return dict(self.items)

    def __call__(self, *args: Any) -> Any:
        if self.primitive not in abstract_eval_rules and _are_values(args):
            return self._rule(impl_rules, "eval")(*args, **self.params())
        return super().__call__(*args)

    def _rule(self, rules: Rules, name: str) -> Callable[..., Any]:
        return rules[self.primitive] if self.primitive in rules else self._lacks(name)

    def _lacks(self, rule: str) -> NoReturn:
        raise NotImplementedError(
            f"{PURPOSE[rule]} for '{self.name}' not implemented. Give one to the"
            f" primitive: {_REMEDY[rule]}."
        )

    def aval(self, *avals: Any) -> Any:
        out = self._rule(abstract_eval_rules, "aval")(*avals, **self.params())
        if isinstance(out, (tuple, list)) != self.multiple_results:
            raise ValueError(
                f"{self.name}.abstract_eval() method should return a tuple or a list"
                f" iff {self.name}.multiple_results. It returned {out}."
            )
        return out

    def check_evaluated(self) -> None:
        """Raise NotImplementedError if it cannot be evaluated."""
        if self.primitive not in lowering_rules:
            self._rule(impl_rules, "eval")

    def lowered(self, *args: Any) -> Sequence[Any]:
        """The results by the lowering rule."""
        result: Sequence[Any] = self._rule(lowering_rules, "lower")(
            *args, **self.params()
        )
        return result

    def eval(self, *args: Any) -> Any:
        rule, base = self._rule(impl_rules, "eval"), base_trace()
        # Copies: rules may keep their arguments, whose memory programs reuse.
        given = [base.array(np.array(x), ShapedArray(x.shape, x.dtype)) for x in args]
        with use_trace(base):
            out = rule(*given, **self.params())
        return [*map(np.asarray, out)] if self.multiple_results else np.asarray(out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        rule = self._rule(jvp_rules, "jvp")
        out, tangent = rule((*primals,), (*tangents,), **self.params())
        return out, tangent

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        rule = self._rule(transpose_rules, "transpose")
        result: Sequence[Any] = rule(cotangent, *args, **self.params())
        return result

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        if self.primitive in axis_batch_rules:
            rule = axis_batch_rules[self.primitive]
            out, out_dim = rule(axis, (*args,), (*dims,), **self.params())
        else:
            rule = self._rule(batch_rules, "batch")
            out, out_dim = rule((*args,), (*dims,), **self.params())
        return out, out_dim

    @property
    def axis_names(self) -> tuple[Any, ...]:
        """The named axes along which it communicates, if its rule knows of axes."""
        if self.primitive not in axis_batch_rules:
            return ()
        params = self.params()
        result = params.get("axis_name", params.get("axes", ()))
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _are_alike(x: Any, y: Any) -> bool:
    """Whether equal values, or the items of equal tuples, are of one type and sign."""
    if type(x) is tuple and type(y) is tuple:
        return all(map(_are_alike, x, y))
    if isinstance(x, float) and isinstance(y, float):
        return type(x) is type(y) and math.copysign(1, x) == math.copysign(1, y)
    return type(x) is type(y)


def _are_values(args: Sequence[Any]) -> bool:
    """Whether an op on these operands is evaluated, and not recorded."""
    if any(isinstance(x, Tracer) for x in args):
        return False
    trace = current_trace()
    while trace.parent is not None and not trace.records:
        trace = trace.parent
    return trace.is_evaluating()


def new_op_class(name: str, primitive: Primitive) -> type[UserOp]:
    """The class of the ops of a new primitive."""
    body = {"name": name, "primitive": primitive, "__module__": "primitives"}
    return type(name, (UserOp,), body)
