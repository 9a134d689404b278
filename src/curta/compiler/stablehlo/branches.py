"""Conditionals, and what depends on the platform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import (
    PLATFORM_INDEX,
    BlockBuilder,
    lower_closed,
    ordered_effects,
    rule,
)
from curta.compiler.stablehlo.shape import converted
from curta.control.cond import Cond
from curta.control.platform import PlatformIndex, Platforms
from curta.core.jaxpr import ClosedJaxpr


@rule(Cond)
def _cond(
    b: BlockBuilder, op: Cond, index: HloValue, *operands: HloValue
) -> Sequence[HloValue]:
    """The branches read the operands where they are."""
    if op.branches_platforms is not None and len(b.program.platforms) == 1:
        (platform,) = b.program.platforms
        chosen = op.branches[platform_index(op.branches_platforms, platform)]
        return lower_closed(b, chosen, operands)
    effects = ordered_effects(op.effects)

    def region(branch: ClosedJaxpr) -> HloBlock:
        with b.region([]) as inner:
            outs = lower_closed(inner, branch, operands)
            return inner.finish(*[inner.tokens[e] for e in effects], *outs)

    branches = [region(branch) for branch in op.branches]
    types = [*[b.tokens[e].type for e in effects], *b.out_types]
    result = b.emit("stablehlo.case", [index], types, branches)
    b.tokens.update(zip(effects, result))
    return result[len(effects) :]


@rule(PlatformIndex)
def _platform_index(b: BlockBuilder, op: PlatformIndex) -> HloValue:
    indices = [platform_index(op.platforms, p) for p in b.program.platforms]
    if len(set(indices)) == 1:
        return b.constant(np.int32(indices[0]))

    def region(number: int) -> HloBlock:
        with b.region([]) as inner:
            return inner.finish(inner.constant(np.int32(number)))

    index = converted(b, b.numbers[PLATFORM_INDEX], np.dtype(np.int32))
    regions = [region(i) for i in indices]
    return b.emit("stablehlo.case", [index], [b.out_type], regions)[0]


def platform_index(among: Platforms, platform: str) -> int:
    """The index among names of platforms of the one that is meant; None is any."""
    for i, names in enumerate(among):
        if names is not None and platform in names:
            return i
    if None in among:
        return among.index(None)
    raise NotImplementedError(
        f"MLIR translation rule for primitive 'platform_index(platforms={among})' not"
        f" found for platform {platform}: give a `{platform}` branch, or a `default`"
    )
