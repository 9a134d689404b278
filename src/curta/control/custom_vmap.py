"""Functions that bring their own batching rule, on flat arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import BatchDims, Batched
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.primitives.structure import batch_dim_at, instantiate
from curta.transforms.jaxprs import jvp_jaxpr
from curta.transforms.jvp import is_differentiable, jvp
from curta.transforms.vmap import BatchAxis, batch

# rule(axis size, batched args, whether each is) -> outputs, whether each is batched;
# batch dims are the leading ones
BatchRule = Callable[
    [int, Sequence[Any], Sequence[bool]], tuple[Sequence[Any], Sequence[bool]]
]


@dataclass(frozen=True)
class CustomVmapCall(JaxprOp):
    """`jaxpr` when evaluated, `rule` when batched."""

    name: ClassVar[str] = "custom_vmap_call"
    rules_run_python: ClassVar[bool] = True
    jaxpr: ClosedJaxpr
    rule: BatchRule
    const_count: int
    rule_name: str
    in_tree: Any
    out_tree: Any

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        n = self.const_count
        if any(d is not None for d in dims[:n]):
            return JaxprOp.batch(self, axis, args, dims)
        leading = [
            x if d is None else batch_dim_at(x, d, axis.size, 0)
            for x, d in zip(args[n:], dims[n:], strict=True)
        ]
        outs, batched = self.rule(axis.size, leading, [d is not None for d in dims[n:]])
        return outs, [0 if b else None for b in batched]

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        return checker.whole(self, args)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        n = self.const_count
        if any(type(t) is not Zero for t in tangents[:n]):
            return JaxprOp.jvp(self, primals, tangents)
        argnums = tuple(i for i, x in enumerate(primals[n:]) if is_differentiable(x))
        nonzero = tuple(i - n in argnums for i in range(len(primals)))
        wanted = tuple(a.to_tangent_aval() is a for a in self.jaxpr.out_avals)
        jaxpr, _ = jvp_jaxpr(self.jaxpr, nonzero, wanted)
        op = dataclasses.replace(
            self, jaxpr=jaxpr, rule=_JvpOfRule(self.rule, len(primals) - n, argnums)
        )
        results = op(*primals, *[instantiate(tangents[n + i]) for i in argnums])
        outs = results[: len(wanted)]
        result = iter(results[len(wanted) :])
        return outs, [
            next(result) if w else zero_tangent(a)
            for a, w in zip(self.jaxpr.out_avals, wanted, strict=True)
        ]

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        raise ValueError(_NO_REVERSE_MODE)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        raise NotImplementedError(_NO_REVERSE_MODE)

    def params(self) -> dict[str, Any]:
        return {
            "call": self.jaxpr,
            "rule": self.rule_name,
            "in_tree": self.in_tree,
            "out_tree": self.out_tree,
        }


_NO_REVERSE_MODE = (
    "Linearization failed to produce known values for all output primals: reverse-mode"
    " differentiation of a custom_vmap function is not defined, as its batching rule"
    " says nothing of the transpose. Wrap the custom_vmap function in custom_vjp."
)


@dataclass(frozen=True)
class _JvpOfRule:
    """The batching rule of the derivative: the derivative of the batching rule.

    The arguments are `count` primals and the tangents of those at `argnums`. The rule
    is called with what is batched in both primal and tangent; what only one of them
    is batched in is mapped over around it.
    """

    rule: BatchRule
    count: int
    argnums: tuple[int, ...]

    def __call__(
        self, size: int, args: Sequence[Any], batched: Sequence[bool]
    ) -> tuple[Sequence[Any], Sequence[bool]]:
        n = self.count
        inside = list(batched[:n])
        for i, flag in zip(self.argnums, batched[n:], strict=True):
            inside[i] = inside[i] and flag
        around = [
            0 if b and not m else None
            for b, m in zip(batched, [*inside, *[inside[i] for i in self.argnums]])
        ]
        out_inside: list[bool] = []

        def run(*primals: Any) -> Sequence[Any]:
            outs, flags = self.rule(size, primals, inside)
            out_inside[:] = flags
            return outs

        def derivative(*values: Any) -> list[Any]:
            tangents: list[Any] = [zero_tangent(typeof(x)) for x in values[:n]]
            for i, t in zip(self.argnums, values[n:], strict=True):
                tangents[i] = t
            outs, out_tangents = jvp(run, values[:n], tangents)
            wanted = [
                (t, f)
                for x, t, f in zip(outs, out_tangents, out_inside)
                if is_differentiable(x)
            ]
            out_inside.extend(f for _, f in wanted)
            return [*outs, *[instantiate(t) for t, _ in wanted]]

        outs, dims = batch(derivative, BatchAxis(size), args, around)
        moved = [
            x if d is None else batch_dim_at(x, d, size, 0)
            for x, d in zip(outs, dims, strict=True)
        ]
        return moved, [d is not None or m for d, m in zip(dims, out_inside)]
