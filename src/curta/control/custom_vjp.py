"""Functions that bring their own reverse-mode derivative, on flat arguments."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp, JitCall
from curta.control.custom_call import CustomCall
from curta.control.custom_jvp import (
    Flat,
    SymbolicZero,
    aligned,
    batch_outputs,
    show_zero,
)
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, DebugInfo
from curta.core.op import BatchDims, Batched
from curta.core.stage import stage
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import current_trace, typeof
from curta.errors import CustomVJPException
from curta.primitives.slicing import Slice, pad
from curta.primitives.structure import batch_dim_at, move_dim, reduce_sum, reshape
from curta.transforms.backward_logs import collecting, record, wants_logs
from curta.transforms.discharge import Flags, TakesRefs
from curta.transforms.jaxprs import batch_jaxpr, run_closed
from curta.transforms.jvp import is_differentiable
from curta.transforms.partial_eval import residuals_as_inputs
from curta.transforms.vmap import BatchAxis, BatchTrace, batch

# bwd(residuals, cotangents) -> a cotangent or Zero per primal
Backward = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
# fwd(primals, perturbed) -> outputs, residuals, and the bwd for these residuals
Forward = Callable[
    [Sequence[Any], Sequence[bool]], tuple[Sequence[Any], Sequence[Any], Backward]
]


@dataclass(frozen=True, eq=False)
class CustomVJP:
    """A flat function with the rule of its forward pass, which gives the backward one.

    What the residuals are may depend on which arguments are perturbed.
    """

    fun: Flat
    fwd: Forward
    debug_info: DebugInfo
    fwd_name: str
    bwd_name: str
    symbolic_zeros: bool = False
    optimize_remat: bool = False
    generic_batching: bool = False
    out_dims: list[int | None] = dataclasses.field(default_factory=list)

    def __call__(self, *args: Any) -> Sequence[Any]:
        return current_trace().custom_vjp(self, args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Outputs by `fwd`, and tangents that only transposition can evaluate."""
        nonzero = tuple(type(t) is not Zero for t in tangents)
        forward = self._optimized if self.optimize_remat else self.fwd
        outs, residuals, bwd = forward(primals, nonzero)
        differentiable = [is_differentiable(x) for x in outs]
        op = CustomLinear(
            bwd,
            tuple(typeof(x).to_tangent_aval() for x in outs),
            tuple(differentiable),
            nonzero,
            len(residuals),
            self.symbolic_zeros,
        )
        given = [t for t in tangents if type(t) is not Zero]
        result = iter(op(*residuals, *given))
        return outs, [
            next(result) if d else zero_tangent(typeof(x))
            for x, d in zip(outs, differentiable, strict=True)
        ]

    def _optimized(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[Sequence[Any], Sequence[Any], Backward]:
        """As `fwd`, by an op that is `fun` where none of the residuals is read."""
        made: list[Any] = []

        def fwd(*args: Any) -> list[Any]:
            outs, residuals, bwd = self.fwd(args, perturbed)
            made[:] = len(outs), bwd
            return [*outs, *residuals]

        avals = [typeof(x) for x in primals]
        info = dataclasses.replace(self.debug_info, name=self.fwd_name)
        both, consts = residuals_as_inputs(stage(fwd, avals, info))
        alone, more = residuals_as_inputs(stage(self.fun, avals, self.debug_info))
        n, m = len(consts), len(more)
        avals = [*map(typeof, (*consts, *more)), *avals]
        both = stage(lambda *args: run_closed(both, args[:n] + args[n + m :]), avals)
        alone = stage(lambda *args: run_closed(alone, args[n:]), avals)
        args = [*consts, *more, *primals]
        results = ForwardPass(both, alone)(*args)
        count, bwd = made
        # Arguments among the residuals are not read from the op.
        given = dict(zip(both.jaxpr.invars, args, strict=True))
        result = zip(both.jaxpr.outvars[count:], results[count:], strict=True)
        return results[:count], [given.get(v, x) for v, x in result], bwd

    def stage(self, avals: Sequence[ShapedArray]) -> Flat:
        """The function, staged: a jaxpr that remembers the rules."""
        closed, consts = residuals_as_inputs(stage(self.fun, avals, self.debug_info))
        op = CustomVJPCall(closed, self, len(consts))
        return lambda *args: op(*consts, *args)

    def with_error(self, fun: Flat, n: int, passed_on: Flat) -> CustomVJP:
        """`fun` has `n` further inputs and outputs in front, not differentiated.

        Where the rules are used, `passed_on` makes these outputs of the inputs.
        """

        def fwd(
            primals: Sequence[Any], perturbed: Sequence[bool]
        ) -> tuple[Sequence[Any], Sequence[Any], Backward]:
            outs, residuals, bwd = self.fwd(primals[n:], perturbed[n:])
            errors = passed_on(*primals[:n])
            added = len(errors)
            ignored = [Zero(typeof(x).to_tangent_aval()) for x in primals[:n]]

            def after(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
                return [*ignored, *bwd(residuals, cts[added:])]

            return [*errors, *outs], residuals, after

        return dataclasses.replace(self, fun=fun, fwd=fwd)

    def batched(
        self,
        axis: BatchAxis,
        dims: Sequence[int | None],
        outer: BatchTrace | None = None,
    ) -> CustomVJP:
        """The function over a batch; outputs are batched along dim 0, all or none.

        With `generic_batching` those are that differ between examples.
        """
        out_dims: list[int | None] = []

        def fun(*args: Any) -> Sequence[Any]:
            if self.generic_batching:
                outs, own = batch(self.fun, axis, args, dims, outer)
                out_dims[:] = [None if d is None else 0 for d in own]
                return [*map(_first_dim, outs, own)]
            outs, out_dims[:] = batch_outputs(self.fun, axis, args, dims, outer)
            return outs

        def fwd(
            primals: Sequence[Any], perturbed: Sequence[bool]
        ) -> tuple[Sequence[Any], Sequence[Any], Backward]:
            made: list[Any] = []

            def run(*args: Any) -> list[Any]:
                outs, residuals, bwd = self.fwd(args, perturbed)
                made[:] = len(outs), bwd
                return [*outs, *residuals]

            results, own_dims = batch(run, axis, primals, dims, outer)
            n, bwd = made
            if self.generic_batching:
                stage(fun, [typeof(x) for x in primals])  # which outputs have batches
                pairs = zip(results[:n], own_dims[:n], out_dims, strict=True)
                outs = [_with_batch(x, d, w, axis.size) for x, d, w in pairs]
                given_dims = [*own_dims[n:], *[0] * n]
                over_batch = _batched_bwd(bwd, axis, dims, given_dims)
                shared = [d is None for d in out_dims]
                return outs, results[n:], _to_first_example(over_batch, axis, shared)
            outs, out_dims[:] = aligned(results[:n], own_dims[:n], axis, dims)
            given_dims = [*own_dims[n:], *out_dims]
            return outs, results[n:], _batched_bwd(bwd, axis, dims, given_dims)

        return dataclasses.replace(self, fun=fun, fwd=fwd, out_dims=out_dims)


def _first_dim(x: Any, dim: int | None) -> Any:
    return x if dim is None else move_dim(x, dim, 0)


def _with_batch(x: Any, dim: int | None, wanted: int | None, size: int) -> Any:
    """A value with its batch dim in front, or that of the first example."""
    if wanted is not None:
        return batch_dim_at(x, dim, size, 0)
    if dim is None:
        return x
    _, *shape = typeof(x := move_dim(x, dim, 0)).shape
    first = Slice((0,) * (len(shape) + 1), (1, *shape))(x)
    return reshape(first, tuple(shape))


def _to_first_example(
    bwd: Backward, axis: BatchAxis, shared: Sequence[bool]
) -> Backward:
    """The rule over a batch that gives cotangents of shared outputs to one example."""

    def padded(ct: Any) -> Any:
        shape = typeof(ct).shape if type(ct) is not SymbolicZero else ct.shape
        if type(ct) is SymbolicZero:
            return SymbolicZero(ct.aval.update(shape=(axis.size, *shape)))
        others = (0, axis.size - 1, 0)
        return pad(batch_dim_at(ct, None, 1, 0), (others, *[(0, 0, 0)] * len(shape)))

    def of_all(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
        pairs = zip(cts, shared, strict=True)
        return bwd(residuals, [padded(ct) if s else ct for ct, s in pairs])

    return of_all


def _batched_bwd(
    bwd: Backward,
    axis: BatchAxis,
    dims: Sequence[int | None],
    given_dims: Sequence[int | None],
) -> Backward:
    """The rule over a batch; `given_dims` are those of residuals and cotangents."""
    if all(d is None for d in given_dims):
        return bwd

    def batched(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
        given = [i for i, ct in enumerate(cts) if type(ct) is not SymbolicZero]
        n = len(residuals)
        ct_dims = given_dims[n:]
        zero: list[Any] = []
        trees: list[Any] = []  # the structure of what is logged
        wanted = wants_logs()

        def run(*args: Any) -> list[Any]:
            shown = [
                _example(ct, d) if type(ct) is SymbolicZero else ct
                for ct, d in zip(cts, ct_dims, strict=True)
            ]
            for i, ct in zip(given, args[n:], strict=True):
                shown[i] = ct
            with collecting(wanted) as log:
                result = bwd(args[:n], shown)
            leaves, tree = tree_util.tree_flatten(log if wanted else {})
            trees[:] = [tree]
            zero[:] = [type(ct) is Zero for ct in result]
            return [*leaves, *(ct for ct in result if type(ct) is not Zero)]

        args = [*residuals, *(cts[i] for i in given)]
        arg_dims = [*given_dims[:n], *(ct_dims[i] for i in given)]
        results = iter(zip(*batch(run, axis, args, arg_dims), strict=True))
        (tree,) = trees
        logged = [
            batch_dim_at(x, d, axis.size, 0)
            for x, d in itertools.islice(results, tree.num_leaves)
        ]
        record(tree_util.tree_unflatten(tree, logged), "a mapped bwd rule")
        return [
            Zero(None) if z else _to_input_dim(*next(results), dim, axis.size)  # type: ignore[arg-type]
            for z, dim in zip(zero, dims, strict=True)
        ]

    return batched


def _example(zero: SymbolicZero, dim: int | None) -> SymbolicZero:
    """The zero of one example of a batch."""
    if dim is None:
        return zero
    shape = (*zero.shape[:dim], *zero.shape[dim + 1 :])
    return SymbolicZero(zero.aval.update(shape=shape))


def _to_input_dim(ct: Any, ct_dim: int | None, dim: int | None, size: int) -> Any:
    """The cotangent of an input with batch dim `dim`, summed if that is None."""
    if dim is not None:
        return batch_dim_at(ct, ct_dim, size, dim)
    return reduce_sum(batch_dim_at(ct, ct_dim, size, 0), (0,))


@dataclass(frozen=True)
class CustomVJPCall(CustomCall):
    """The staged form of a `CustomVJP`."""

    name: ClassVar[str] = "custom_vjp_call"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "call_jaxpr": "jaxpr",
        "num_consts": "const_count",
        "fwd": None,
        "bwd": None,
        "symbolic_zeros": None,
    }

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        if any(type(t) is not Zero for t in tangents[: self.const_count]):
            raise CustomVJPException
        return super().jvp(primals, tangents)

    def rule_names(self) -> dict[str, str]:
        return {"fwd": self.call.fwd_name, "bwd": self.call.bwd_name}


@dataclass(frozen=True)
class ForwardPass(JaxprOp):
    """The forward pass of a function that asked for `optimize_remat`.

    `jaxpr` gives outputs and residuals; `primal`, the function itself, the outputs
    alone, and stands for it where no residual is read.
    """

    name: ClassVar[str] = "remat_opt"
    always_pruned: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {
        "fwd_jaxpr": "jaxpr",
        "fun_jaxpr": "primal",
    }
    jaxpr: ClosedJaxpr
    primal: ClosedJaxpr

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> JitCall:
        return JitCall(jaxpr, self.name)

    def pruned(self, used: Flags) -> tuple[JitCall, Flags, Flags] | None:
        count = len(self.primal.out_avals)
        if any(used[count:]):
            return None
        op, reads, gives = JitCall(self.primal, self.name).pruned(used[:count])
        return op, reads, (*gives, *used[count:])

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        # Which outputs are batched may not depend on which function gives them.
        both, out_dims = batch_jaxpr(self.jaxpr, axis, tuple(dims), True)
        alone, _ = batch_jaxpr(self.primal, axis, tuple(dims), True)
        return ForwardPass(both, alone)(*args), out_dims

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        return partial.defer(self, args)


@dataclass(frozen=True)
class CustomLinear(TakesRefs):
    """The tangent map of a custom_vjp function, known only by its transpose `bwd`.

    Arguments are the residuals, then the tangents of the inputs in `nonzero`.
    """

    name: ClassVar[str] = "custom_lin"
    places_outputs: ClassVar[bool] = True
    multiple_results: ClassVar[bool] = True
    bwd: Backward
    out_avals: tuple[ShapedArray, ...]
    out_differentiable: tuple[bool, ...]
    nonzero: tuple[bool, ...]
    residual_count: int
    symbolic_zeros: bool

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return [
            a for a, d in zip(self.out_avals, self.out_differentiable, strict=True) if d
        ]

    def eval(self, *args: Any) -> Any:
        self._refuse()

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        self._refuse()

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        given = iter(cotangent)
        cts = [
            next(given) if d else Zero(a)
            for a, d in zip(self.out_avals, self.out_differentiable, strict=True)
        ]
        shown = [show_zero(ct, self.symbolic_zeros) for ct in cts]
        result = self.bwd(args[: self.residual_count], shown)
        wanted = [ct for ct, n in zip(result, self.nonzero, strict=True) if n]
        assert all(map(is_linear, args[self.residual_count :]))
        return [None] * self.residual_count + [
            None if type(ct) is Zero else ct for ct in wanted
        ]

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(
            "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
            " Use reverse mode (grad, vjp, jacrev), or define the derivative with"
            " custom_jvp, which serves both."
        )
