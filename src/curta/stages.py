"""The stages of ahead-of-time compilation: what `jit(f).trace` and on give."""

from curta.api.aot import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    Lowered as Lowered,
    Traced as Traced,
)
