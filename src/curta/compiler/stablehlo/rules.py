"""All families of rules; importing this fills the table."""

from curta.compiler.stablehlo import (
    callbacks,
    calls,
    collectives,
    conversions,
    elementwise,
    placing,
    shard_maps,
)

FAMILIES = (
    callbacks,
    calls,
    collectives,
    conversions,
    elementwise,
    placing,
    shard_maps,
)
