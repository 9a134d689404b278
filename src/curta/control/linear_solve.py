"""`LinearSolve`: the solution of a linear system, differentiated as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.control.call import JaxprOp, JitCall
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Var
from curta.core.memo import kept_with_jaxpr
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.elementwise.arithmetic import neg
from curta.primitives.structure import add_tangents, batch_dim_at, instantiate, move_dim
from curta.transforms.jaxprs import batch_jaxpr, jvp_jaxpr, run_closed
from curta.transforms.lowering import lower_jaxpr
from curta.transforms.vmap import BatchAxis

Flags = tuple[bool, ...]


class SolveParts(NamedTuple):
    """Something for each of the four functions of a linear solve.

    The jaxprs of `vecmat` and `transpose_solve` are None if the transposed system
    cannot be solved.
    """

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> SolveParts:
        """The parts of the transposed system."""
        return SolveParts(self.vecmat, self.matvec, self.transpose_solve, self.solve)

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v}" for k, v in self._asdict().items())
        return f"_LinearSolveTuple({fields})"


@dataclass(frozen=True)
class LinearSolve(JaxprOp):
    """`solve(b)`, taken to be the x of `matvec(x) = b`.

    Arguments are the constants of the four jaxprs, as many as `const_lengths` says,
    then the parts of b. Results are those of x, then what else the solver returns.
    """

    name: ClassVar[str] = "custom_linear_solve"
    makes_nan: ClassVar[bool] = True
    inlined: ClassVar[Any] = Op.inlined  # by the derivative, not by the solver
    const_lengths: SolveParts
    jaxprs: SolveParts

    @cached_property
    def jaxpr(self) -> ClosedJaxpr:  # type: ignore[override]
        """The solver as a function of all arguments."""
        solver = self.jaxprs.solve
        count = self.const_lengths.solve
        parts = [
            [Var(a) for a in result.in_avals[:n]] if result is not None else []
            for result, n in zip(self.jaxprs, self.const_lengths, strict=True)
        ]
        parts[2] = list(solver.jaxpr.invars[:count])
        invars = [v for part in parts for v in part] + list(solver.jaxpr.invars[count:])
        return ClosedJaxpr(solver.jaxpr.replace(invars=invars), solver.consts)

    def on_parts(self, counts: Sequence[int]) -> JitCall:
        return JitCall(lower_jaxpr(self.jaxpr), self.name)

    @property
    def size(self) -> int:
        """The number of arrays that x and b consist of."""
        return len(self.jaxprs.matvec.out_avals)

    def parts(self, args: Sequence[Any]) -> tuple[SolveParts, list[Any]]:
        """What belongs to the constants of each function, and to b."""
        result, start = [], 0
        for n in self.const_lengths:
            result.append(list(args[start : start + n]))
            start += n
        return SolveParts(*result), list(args[start:])

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return self.jaxprs.solve.out_avals

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        return checker.whole(self, args)

    # A x = b, so that A dx = db - dA x.
    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        outs = self(*primals)
        consts, _ = self.parts(primals)
        const_dots, right = self.parts(tangents)
        nonzero = tuple(type(t) is not Zero for t in const_dots.matvec)
        if any(nonzero):
            changes = self._matvec_tangents(
                [*consts.matvec, *outs[: self.size]], const_dots.matvec, nonzero
            )
            right = [
                add_tangents(b, t if type(t) is Zero else neg(t))
                for b, t in zip(right, changes, strict=True)
            ]
        every = primals[: len(primals) - len(right)]
        dots = self(*every, *map(instantiate, right))[: self.size]
        return outs, [*dots, *(zero_tangent(typeof(x)) for x in outs[self.size :])]

    def _matvec_tangents(
        self, primals: Sequence[Any], dots: Sequence[Any], nonzero: Flags
    ) -> list[Any]:
        matvec = self.jaxprs.matvec
        flags = nonzero + (False,) * self.size
        jaxpr, out_nonzero = jvp_jaxpr(matvec, flags)
        given = [t for t in dots if type(t) is not Zero]
        result = iter(run_closed(jaxpr, [*primals, *given])[self.size :])
        return [
            next(result) if n else zero_tangent(a)
            for a, n in zip(matvec.out_avals, out_nonzero, strict=True)
        ]

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        return partial.defer(self, args)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        if self.jaxprs.transpose_solve is None:
            raise TypeError(
                "transpose_solve required for backwards mode automatic differentiation"
                " of custom_linear_solve: pass it, or symmetric=True if the matrix is"
                " its own transpose"
            )
        consts, b = self.parts(args)
        if any(is_linear(x) for part in consts for x in part):
            raise NotImplementedError(
                "custom_linear_solve is linear in b alone, and cannot be transposed in"
                " what matvec closes over"
            )
        if any(type(ct) is not Zero for ct in cotangent[self.size :]):
            raise NotImplementedError(
                "custom_linear_solve takes no cotangents of auxiliary outputs"
            )
        op = LinearSolve(self.const_lengths.transposed(), self.jaxprs.transposed())
        every = [x for part in consts.transposed() for x in part]
        result = op(*every, *map(instantiate, cotangent[: self.size]))
        return [None] * len(every) + list(result[: len(b)])

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        jaxprs, flags, out_flags = _batched_jaxprs(self, axis, tuple(dims))
        consts, b = self.parts(args)
        _, b_dims = self.parts(dims)
        every = [x for part in consts for x in part]
        every = [
            x if d is None else move_dim(x, d, 0)
            for x, d in zip(every, dims, strict=False)
        ]
        b = [
            batch_dim_at(x, d, axis.size, 0) if f else x
            for x, d, f in zip(b, b_dims, flags, strict=True)
        ]
        outs = LinearSolve(self.const_lengths, jaxprs)(*every, *b)
        return outs, [0 if f else None for f in out_flags]


@kept_with_jaxpr
def _batched_jaxprs(
    op: LinearSolve, axis: BatchAxis, dims: tuple[int | None, ...]
) -> tuple[SolveParts, Flags, Flags]:
    """The four jaxprs over a batch, and which parts of b and of the results are.

    x and b are one space: what is batched in one function's result is so in all.
    """
    const_dims, b_dims = op.parts(dims)
    aux = len(op.jaxprs.solve.out_avals) - op.size
    flags = tuple(d is not None for d in b_dims)
    while True:
        made: list[ClosedJaxpr | None] = []
        result = [flags]
        for jaxpr, part in zip(op.jaxprs, const_dims, strict=True):
            if jaxpr is None:
                made.append(None)
                continue
            inputs = tuple(None if d is None else 0 for d in part)
            inputs += tuple(0 if f else None for f in flags)
            more = (True,) * (len(jaxpr.out_avals) - op.size)
            batched, out = batch_jaxpr(jaxpr, axis, inputs, flags + more)
            made.append(batched)
            result.append(tuple(d is not None for d in out[: op.size]))
        joined = tuple(map(any, zip(*result, strict=True)))
        if joined == flags:
            return SolveParts(*made), flags, flags + (True,) * aux
        flags = joined
