"""In which memory the results of an op are, given that of its operands.

Operands are all in the memory of devices or all in that of their host. Numbers, which
programs carry with them, go with either.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.sharding import MemorySpace
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.indexing.gather import Scattering
from curta.primitives.placing import ShardAlike
from curta.primitives.sorting import Sort
from curta.primitives.structure import BroadcastInDim


def out_spaces(op: Op, avals: Sequence[ShapedArray], count: int) -> list[MemorySpace]:
    """The memory of each of the `count` results of `op`.

    Raises ValueError for operands in memories that do not go together.
    """
    if all(a.memory_space is MemorySpace.Device for a in avals):
        return [MemorySpace.Device] * count
    spaces = _rule(op, avals)
    return [spaces] * count if isinstance(spaces, MemorySpace) else spaces


@functools.singledispatch
def _rule(op: Op, avals: Sequence[ShapedArray]) -> MemorySpace | list[MemorySpace]:
    """That of the operands that are no numbers; of devices if there are none."""
    if op.runs_python:
        return MemorySpace.Device  # as what NumPy arrays become
    if all(a.memory_space is MemorySpace.Any for a in avals):
        return MemorySpace.Any
    arrays = [a for a in avals if a.ndim]
    for before, aval in zip(arrays, arrays[1:], strict=False):
        if before.memory_space is not aval.memory_space:
            raise ValueError(
                f"memory_space of all inputs passed to `{op.name}` must be the same."
                f" Got one operand with type: {before.str_short()} and another operand"
                f" with type: {aval.str_short()}. Move one of them, with"
                " jax.device_put(x, jax.memory.Space.Device)."
            )
    return arrays[-1].memory_space if arrays else MemorySpace.Device


@_rule.register(Scattering)
@_rule.register(BroadcastInDim)
def _of_first(op: Op, avals: Sequence[ShapedArray]) -> MemorySpace:
    return avals[0].memory_space


@_rule.register(OptimizationBarrier)
@_rule.register(ShardAlike)
@_rule.register(Sort)
def _each_its_own(op: Op, avals: Sequence[ShapedArray]) -> list[MemorySpace]:
    return [a.memory_space for a in avals]
