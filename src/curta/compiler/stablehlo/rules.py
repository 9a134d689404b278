"""All families of rules; importing this fills the table."""

from curta.compiler.stablehlo import (
    calls,
    elementwise,
)

FAMILIES = (
    calls,
    elementwise,
)
