"""References among the arguments of `vmap`, mapped over like arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.api.arguments import leaf_names
from curta.core.flat import debug_info
from curta.core.refs import AbstractRef, Ref, read, refuse_aliases, swap
from curta.core.trace import typeof
from curta.primitives.structure import batch_dim_at
from curta.transforms.vmap import BatchAxis, batch

Dims = Sequence[int | None]


def batch_with_refs(
    fun: Callable[..., Sequence[Any]],
    axis: BatchAxis,
    leaves: Sequence[Any],
    dims: Dims,
) -> tuple[list[Any], list[int | None]]:
    """As `batch`, where each example has its slice of the references that are mapped.

    The slices that the examples write are stacked again along the same dim.
    """
    mapped = [
        i
        for i, (x, d) in enumerate(zip(leaves, dims, strict=True))
        if isinstance(x, Ref) and d is not None
    ]
    if not mapped:
        return batch(fun, axis, leaves, dims)
    arrays = list(leaves)
    for i in mapped:
        arrays[i] = read(leaves[i])

    def run(*args: Any) -> list[Any]:
        inputs = list(args)
        for i in mapped:
            aval = AbstractRef(typeof(args[i]), leaves[i].aval.kind)
            inputs[i] = Ref(aval, args[i])
        outs = list(fun(*inputs))
        finals = {i: read(inputs[i]) for i in mapped}
        written[:] = [i for i in mapped if finals[i] is not args[i]]
        return outs + [finals[i] for i in written]

    written: list[int] = []
    outs, out_dims = batch(run, axis, arrays, dims)
    count = len(outs) - len(written)
    for i, x, d in zip(written, outs[count:], out_dims[count:], strict=True):
        dim = dims[i]
        assert dim is not None  # written references are mapped
        swap(leaves[i], batch_dim_at(x, d, axis.size, dim))
    return outs[:count], out_dims[:count]


def check_refs(
    fun: Callable[..., Any], args: Any, kwargs: Any, leaves: Sequence[Any]
) -> None:
    """Raise ValueError if one reference is several arguments."""
    if any(isinstance(x, Ref) for x in leaves):
        names = leaf_names(fun, args, kwargs)
        refuse_aliases(leaves, debug_info("vmap", fun), names)
