"""The stages of ahead-of-time compilation: what `jit(f).trace` and on give."""

from curta.api.aot import ArgInfo as ArgInfo
from curta.api.aot import Compiled as Compiled
from curta.api.aot import Lowered as Lowered
from curta.api.aot import Traced as Traced
from curta.runtime.shape_struct import ShapeDtypeStruct as OutInfo
