"""All families of rules; importing this fills the table."""

from curta.compiler.stablehlo import (
    callbacks,
    calls,
    collectives,
    elementwise,
    placing,
    shard_maps,
)

FAMILIES = (
    callbacks,
    calls,
    collectives,
    elementwise,
    placing,
    shard_maps,
)
