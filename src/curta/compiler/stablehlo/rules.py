"""All families of rules; importing this fills the table."""

from curta.compiler.stablehlo import (
    branches,
    callbacks,
    calls,
    collectives,
    conversions,
    elementwise,
    indexing,
    loops,
    placing,
    products,
    reductions,
    shape,
    shard_maps,
    sized,
    sorting,
    windows,
)

FAMILIES = (
    branches,
    callbacks,
    calls,
    collectives,
    conversions,
    elementwise,
    indexing,
    loops,
    placing,
    products,
    reductions,
    shape,
    shard_maps,
    sized,
    sorting,
    windows,
)
