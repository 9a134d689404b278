"""Vector math in LLVM IR: exp, log, sin, erf, ... for f32 and f64 of any lanes."""

from curta.compiler.llvm.vector_math.table import BRANCHING, FUNCTIONS

__all__ = ["BRANCHING", "FUNCTIONS"]
