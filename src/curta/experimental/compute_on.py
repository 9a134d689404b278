"""Parts of programs that the host of an accelerator is to run, or a part of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curta import tree_util
from curta._base.on_demand import Listing, listed, retired
from curta.api.arguments import argument_avals, leaf_names
from curta.api.devices import device_put
from curta.control.compute_on import ComputeOn, computes_elsewhere
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import Tracer
from curta.core.wrapping import wraps
from curta.transforms.partial_eval import hoist_constants

__all__ = ["compute_on", "compute_on2"]
__dir__: Listing = listed(__all__)

_TYPES = ("device_host", "device", "tpu_sparsecore")


def compute_on(
    f: Callable[..., Any] | None = None, *, compute_type: str, out_memory_spaces: Any
) -> Any:
    """Let a part of the machine run a function.

    On a machine without accelerators nothing changes; the programs of `jit(...).lower`
    say where it is to run.

    Args:
      f: function of pytrees of arrays. Left out, the result is a decorator.
      compute_type: `"device_host"`, `"device"`, `"tpu_sparsecore"` or `"gpu_stream:#"`.
      out_memory_spaces: a `memory.Space` for the results, or a tree of them that is a
        prefix of the results'.

    Raises:
      TypeError: if `compute_type` is not a string.
      ValueError: for other types, and for such functions within another.

    Returns:
      A function with the arguments and results of `f`; a decorator if `f` is left out.

    >>> import curta, curta.numpy as jnp
    >>> from curta.experimental.compute_on import compute_on
    >>> space = curta.memory.Space.Device
    >>> double = compute_on(lambda x: 2 * x, compute_type="device_host",
    ...                     out_memory_spaces=space)
    >>> double(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if not isinstance(compute_type, str):
        raise TypeError("`compute_on`'s compute_type argument must be a string.")
    if compute_type not in _TYPES and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are"
            " `device_host`, `device`, `tpu_sparsecore`, and `gpu_stream:#`."
        )

    def wrap(fun: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fun)
        def wrapped(*args: Any) -> Any:
            leaves, in_tree = tree_util.tree_flatten((args, {}))
            flat = FlatFunction(fun, in_tree)
            names = leaf_names(fun, args, {}, [*range(len(args))])
            avals = argument_avals(fun, leaves, names)
            closed = stage(flat, avals, debug_info("compute_on", fun, names))
            if computes_elsewhere(closed.jaxpr):
                raise ValueError(
                    "Nesting `compute_on` with different compute types is not allowed."
                    f" Split {fun} into functions with one compute type each."
                )
            captured: list[Any] = []
            if any(isinstance(c, Tracer) for c in closed.consts):
                captured = closed.consts
                closed = ClosedJaxpr(hoist_constants(closed.jaxpr), ())
            outs = ComputeOn(closed, compute_type)(*captured, *leaves)
            result = tree_util.tree_unflatten(flat.out_tree, outs)
            spaces = tree_util.broadcast_prefix(out_memory_spaces, result)
            placed = map(device_put, outs, spaces)
            return tree_util.tree_unflatten(flat.out_tree, [*placed])

        return wrapped

    return wrap if f is None else wrap(f)


compute_on2 = compute_on
"""The name of `compute_on` before JAX 0.12."""

__getattr__ = retired(__name__)
