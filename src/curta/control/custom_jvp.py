"""Functions that bring their own forward derivative, on flat arguments.

A `CustomJVP` is what traces are handed (`Trace.custom_jvp`): evaluation runs its
function, differentiation its rule. Staging turns it into the op `CustomJVPCall`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.control.custom_call import CustomCall
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.jaxpr import DebugInfo
from curta.core.op import Op
from curta.core.stage import recording_trace, stage
from curta.core.tangents import Zero
from curta.core.trace import base_trace, current_trace, operand_type, typeof
from curta.primitives.structure import batch_dim_at, instantiate
from curta.transforms.partial_eval import residuals_as_inputs
from curta.transforms.vmap import BatchAxis, BatchTrace, batch


class SymbolicZero:
    """A zero tangent shown to a user's rule that asked for `symbolic_zeros`.

    >>> from curta.core.avals import ShapedArray
    >>> import numpy as np
    >>> SymbolicZero(ShapedArray((3,), np.dtype("float32")))
    SymbolicZero(float32[3])
    """

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the zero."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The element type of the zero."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions of the zero."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements of the zero."""
        return self.aval.size

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicZero) and other.aval is self.aval

    def __hash__(self) -> int:
        return hash((SymbolicZero, self.aval))


def show_zero(x: Any, symbolic: bool) -> Any:
    """A tangent as a user's rule sees it."""
    if type(x) is not Zero:
        return x
    return SymbolicZero(x.aval) if symbolic else _zero_array(x)


def _zero_array(zero: Zero) -> Any:
    """The zeros as an array, of rank 0 too, where programs make do with numbers."""
    zeros = instantiate(zero)
    if isinstance(zeros, Array) or zero.aval.dtype == dtypes.float0:
        return zeros
    trace = recording_trace()
    if trace is not None:
        return trace.tracer(zeros)
    return base_trace().array(np.asarray(zeros, zero.aval.dtype), zero.aval)


def take_zero(x: Any) -> Any:
    """A tangent as the transformations see it."""
    if type(x) is SymbolicZero:
        return Zero(x.aval)
    still = getattr(x, "dtype", None) == dtypes.float0  # the tangent of integers
    return Zero(typeof(x)) if still else x


Flat = Callable[..., Sequence[Any]]
Rule = Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]


@dataclass(frozen=True, eq=False)
class CustomJVP:
    """A flat function with the rule that gives its outputs and their tangents."""

    fun: Flat
    rule: Rule
    debug_info: DebugInfo
    rule_name: str
    symbolic_zeros: bool = False
    out_dims: list[int | None] = dataclasses.field(default_factory=list)

    def __call__(self, *args: Any) -> Sequence[Any]:
        for i, x in enumerate(args):
            operand_type("custom_jvp_call", i, x)
        return current_trace().custom_jvp(self, args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Outputs and tangents by the user's rule."""
        shown = [show_zero(t, self.symbolic_zeros) for t in tangents]
        outs, out_tangents = self.rule(primals, shown)
        return outs, [take_zero(t) for t in out_tangents]

    def stage(self, avals: Sequence[ShapedArray]) -> Flat:
        """The function, staged: a jaxpr that remembers the rule."""
        closed, consts = residuals_as_inputs(stage(self.fun, avals, self.debug_info))
        op = CustomJVPCall(closed, self, len(consts))
        return lambda *args: op(*consts, *args)

    def with_error(self, fun: Flat, n: int, passed_on: Flat) -> CustomJVP:
        """`fun` has `n` further inputs and outputs in front, not differentiated.

        Where the rule is used, `passed_on` makes these outputs of the inputs.
        """

        def rule(
            primals: Sequence[Any], tangents: Sequence[Any]
        ) -> tuple[Sequence[Any], Sequence[Any]]:
            outs, out_tangents = self.rule(primals[n:], tangents[n:])
            errors = passed_on(*primals[:n])
            zeros = [SymbolicZero(typeof(x).to_tangent_aval()) for x in errors]
            return [*errors, *outs], [*zeros, *out_tangents]

        return dataclasses.replace(self, fun=fun, rule=rule)

    def batched(
        self,
        axis: BatchAxis,
        dims: Sequence[int | None],
        outer: BatchTrace | None = None,
    ) -> CustomJVP:
        """The function over a batch; its outputs are batched along dim 0."""
        out_dims: list[int | None] = []

        def fun(*args: Any) -> Sequence[Any]:
            outs, out_dims[:] = batch_outputs(self.fun, axis, args, dims, outer)
            return outs

        def rule(
            primals: Sequence[Any], tangents: Sequence[Any]
        ) -> tuple[Sequence[Any], Sequence[Any]]:
            given = [i for i, t in enumerate(tangents) if type(t) is not SymbolicZero]
            zero: list[bool] = []  # of each output's tangent

            def run(*args: Any) -> list[Any]:
                shown = [
                    SymbolicZero(typeof(p).to_tangent_aval())
                    for p in args[: len(primals)]
                ]
                for i, t in zip(given, args[len(primals) :], strict=True):
                    shown[i] = t
                outs, out_tangents = self.rule(args[: len(primals)], shown)
                taken = [take_zero(t) for t in out_tangents]
                zero[:] = [type(t) is Zero for t in taken]
                return [*outs, *(t for t in taken if type(t) is not Zero)]

            tangent_dims = [dims[i] for i in given]
            results, own_dims = batch_outputs(
                run,
                axis,
                [*primals, *(tangents[i] for i in given)],
                [*dims, *tangent_dims],
                outer,
            )
            n = len(zero)
            out_dims[:] = own_dims[:n]
            outs, nonzero = results[:n], iter(results[n:])
            return outs, [
                SymbolicZero(typeof(x).to_tangent_aval()) if z else next(nonzero)
                for x, z in zip(outs, zero, strict=True)
            ]

        return dataclasses.replace(self, fun=fun, rule=rule, out_dims=out_dims)


def batch_outputs(
    fun: Flat,
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[int | None],
    outer: BatchTrace | None = None,
) -> tuple[list[Any], list[int | None]]:
    """Map `fun` over a batch; its outputs and their dims, see `aligned`."""
    outs, out_dims = batch(fun, axis, args, dims, outer)
    return aligned(outs, out_dims, axis, dims)


def aligned(
    outs: Sequence[Any],
    out_dims: Sequence[int | None],
    axis: BatchAxis,
    dims: Sequence[int | None],
) -> tuple[list[Any], list[int | None]]:
    """Outputs batched along dim 0, all or none, and their dims.

    None of them is if no argument is batched and the function closes over no batch.
    """
    if all(d is None for d in [*dims, *out_dims]):
        return list(outs), list(out_dims)
    moved = [
        batch_dim_at(x, d, axis.size, 0) for x, d in zip(outs, out_dims, strict=True)
    ]
    return moved, [0] * len(moved)


@dataclass(frozen=True)
class CustomJVPCall(CustomCall):
    """The staged form of a `CustomJVP`."""

    name: ClassVar[str] = "custom_jvp_call"
    inlined: ClassVar[Any] = Op.inlined  # by the rule, not by the function
    param_names: ClassVar[Mapping[str, str | None]] = {
        "call_jaxpr": "jaxpr",
        "num_consts": "const_count",
        "jvp": None,
        "symbolic_zeros": None,
    }

    def rule_names(self) -> dict[str, str]:
        return {"jvp": self.call.rule_name}

    def subfuns(self) -> Sequence[Callable[..., Any]]:
        return *super().subfuns(), self._values_and_tangents

    def _values_and_tangents(self, *args: Any) -> list[Any]:
        """Outputs and their tangents; those of inputs follow the inputs."""
        n, half = self.const_count, len(args) // 2
        tangents = [take_zero(t) for t in args[half + n :]]
        outs, dots = self.call.jvp(args[n:half], tangents)
        return [*outs, *(show_zero(t, symbolic=True) for t in dots)]
