"""`OptimizationBarrier`: values through which the compiler moves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from curta.core.avals import ShapedArray
from curta.core.key_use import Forward, KeyReuseSignature
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import is_linear
from curta.primitives.structure import instantiate


class OptimizationBarrier(Op):
    """The operands, all of them computed before any result is used.

    Compiled programs give what lies in memory another name: nothing is fused across
    it, and what comes out of it is not taken for what went in.
    """

    name: ClassVar[str] = "optimization_barrier"
    multiple_results: ClassVar[bool] = True
    renames_memory: ClassVar[bool] = True
    is_barrier: ClassVar[bool] = True

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return avals

    def eval(self, *args: Any) -> Any:
        return [x.copy() for x in args]

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        return KeyReuseSignature(*[Forward(i, i) for i in range(len(avals))])

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*map(instantiate, tangents))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        result = self(*map(instantiate, cotangent))
        return [
            ct if is_linear(x) else None for ct, x in zip(result, args, strict=True)
        ]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(*args), list(dims)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shapes in ((2, 3), (4,)), ((), (0, 2)):
            yield cls(), [(shape, "any", {}) for shape in shapes]


class RecomputationBarrier(OptimizationBarrier):
    """The barrier in front of what `checkpoint` computes again.

    Only the compiler makes it, and takes values off it that nothing read before.
    """
