"""Vectorisation: every op on one example becomes an op on a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta.core.hi_types import HiTracer
from curta.core.jaxpr import Jaxpr, jaxprs_of
from curta.core.leaks import leak_check
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.source_info import settle, unsettle
from curta.core.stage import refuse_dead_tracer
from curta.core.trace import (
    Trace,
    TracedValue,
    Tracer,
    current_trace,
    running,
    swap_trace,
    typeof,
    use_trace,
)


class BatchAxis(NamedTuple):
    """The axis being mapped over; `name` is None unless collectives may use it.

    `devices`: the examples are the work of devices, which meet in collectives.
    `spmd`: the axes of a mesh over which the batch is split. `explicit`: those that are
    part of the types of what is mapped. `hosts`: what takes a collective on to other
    hosts (partition/shard_maps.py), if these are the examples of one host only.
    """

    size: int
    name: Any = None
    devices: bool = False
    spmd: tuple[Any, ...] | None = None
    explicit: tuple[Any, ...] = ()
    hosts: Any = None

    @property
    def spmd_name(self) -> tuple[Any, ...] | None:
        """`spmd`, by the name that rules of programs know."""
        return self.spmd

    @property
    def explicit_mesh_axis(self) -> tuple[Any, ...] | None:
        """`explicit`, by the name that rules of programs know; None for no axes."""
        return self.explicit or None


class BatchTracer(Tracer):
    """A batch of values, seen as one example."""

    __slots__ = ("batch_dim", "val")

    def __init__(self, trace: BatchTrace, val: Any, batch_dim: int, aval: Any):
        self._trace = trace
        self.val: Any = val
        self.batch_dim: int = batch_dim
        self.aval: Any = aval

    def __repr__(self) -> str:
        batched = typeof(self.val).str_short()
        return f"VmapTracer(aval={self.aval.str_short()}, batched={batched})"

    def _origin_msg(self) -> str:
        return self.val._origin_msg() if isinstance(self.val, Tracer) else ""


class HiBatchTracer(HiTracer):
    """A batch of values of a type of a program's own, seen as one example."""

    __slots__ = ("batch_dim", "val")
    __init__: Any = BatchTracer.__init__


class BatchTrace(Trace):
    """Applies each op's `batch` rule in the parent trace."""

    passes_refs = True
    writes_apart = True

    def __init__(self, parent: Trace, axis: BatchAxis, outer: BatchTrace | None = None):
        self.parent: Trace = parent
        self.locates: bool = parent.locates
        self.axis = axis
        # A custom rule that is batched may close over tracers of the trace that it
        # is batched by.
        self.outer = outer

    def axis_sizes(self) -> dict[Any, int]:
        sizes = self.parent.axis_sizes()
        axis = self.axis
        if axis.name is None:
            return sizes
        others = 1 if axis.hosts is None else axis.hosts.group.size
        return {**sizes, axis.name: axis.size * others}

    def unbox(self, x: Any) -> tuple[Any, int | None]:
        """The value of `x` and its batch dim, None if it has none."""
        if isinstance(x, TracedValue):
            own: Any = x
            trace: BatchTrace | None = self
            while trace is not None:
                if own._trace is trace:
                    return own.val, own.batch_dim
                trace = trace.outer
            refuse_dead_tracer(x)
        return x, None

    def box(self, val: Any, dim: int | None) -> Any:
        """A tracer, or the value alone if it is the same for all examples."""
        if dim is None:
            return val
        aval: Any = typeof(val)
        if aval.is_high:
            return HiBatchTracer(self, val, dim, aval.dec_rank(self.axis.size, dim))
        return BatchTracer(self, val, dim, aval.without_dim(dim))

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        pairs = [self.unbox(x) for x in args]
        vals = [v for v, _ in pairs]
        dims = [d for _, d in pairs]
        before = swap_trace(self.parent)
        line = settle(self.locates and not op.rules_run_python)
        try:
            if all(d is None for d in dims) and not uses_axis(op, self.axis):
                return op(*vals)
            out, out_dims = op.batch(self.axis, vals, dims)
        except (IndexError, TypeError, ValueError):
            with use_trace(self):  # with the axis name in scope
                _check_examples(op, vals, dims)
            raise
        finally:
            unsettle(line)
            swap_trace(before)
        if op.multiple_results:
            return [self.box(v, d) for v, d in zip(out, out_dims, strict=True)]
        return self.box(out, out_dims)

    def written(self, x: Any, ref: Any, what: str) -> Any:
        raise ValueError(
            f"performing {what} with vmapped value on an unbatched array"
            f" reference of type {ref.aval}. Move the array reference to be an"
            " argument to the vmapped function?"
        )

    # A custom function may close over tracers of this trace even if no argument is one.

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        return self._custom(call, args, self.parent.custom_jvp)

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        return self._custom(call, args, self.parent.custom_vjp)

    def _custom(self, call: Any, args: Sequence[Any], handle: Any) -> Sequence[Any]:
        pairs = [self.unbox(x) for x in args]
        with use_trace(self.parent):
            batched = call.batched(self.axis, [d for _, d in pairs], self)
            outs = handle(batched, [v for v, _ in pairs])
        return [self.box(v, d) for v, d in zip(outs, batched.out_dims, strict=True)]


def _check_examples(op: Op, vals: Sequence[Any], dims: Sequence[int | None]) -> None:
    """Let `op` raise what it has to say of the types of its operands' examples.

    A batching rule that was given others may have failed in another way.
    """
    pairs = zip(map(typeof, vals), dims, strict=True)
    if not op.is_high:
        op.aval(*[a if d is None else a.without_dim(d) for a, d in pairs])


def uses_axis(op: Op, axis: BatchAxis) -> bool:
    """Whether `op` is a collective over the named axis."""
    return axis.name is not None and axis.name in _axis_names(op)


def refuse_meeting(op: Op, axis: BatchAxis, what: str) -> None:
    """Raise ValueError if only some devices would come to a collective of `op`."""
    if axis.devices and axis.name in _axis_names(op, met=True):
        raise ValueError(
            f"{what} differs between devices along the axis {axis.name!r} contains a"
            " collective over that axis: some devices would wait forever for others"
            " that never come to it. Move the collective out, or make what decides the"
            " same on all devices, with psum or pmax, say."
        )


def _axis_names(op: Op, met: bool = False) -> frozenset[Any]:
    """The named axes of the collectives in an op and its jaxprs.

    With `met`, only those along which examples wait for each other.
    """
    inner = (_jaxpr_axis_names(j, met) for j in jaxprs_of(op))
    own = (
        () if met and not getattr(op, "meets", False) else getattr(op, "axis_names", ())
    )
    return frozenset(own).union(*inner)


@kept_with_jaxpr
def _jaxpr_axis_names(jaxpr: Jaxpr, met: bool) -> frozenset[Any]:
    return frozenset().union(*(_axis_names(eqn.op, met) for eqn in jaxpr.eqns))


def batch(
    fun: Callable[..., Sequence[Any]],
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[int | None],
    outer: BatchTrace | None = None,
) -> tuple[list[Any], list[int | None]]:
    """Map a flat function over the batch dims of `args`; outputs with their dims."""
    trace = BatchTrace(current_trace(), axis, outer)
    with running(trace):
        outs = fun(*map(trace.box, args, dims))
        pairs = [trace.unbox(x) for x in outs]
    if check := leak_check(trace):
        del trace, outs
        check.finish()
    return [v for v, _ in pairs], [d for _, d in pairs]
