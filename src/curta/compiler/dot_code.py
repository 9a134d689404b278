"""Machine code for products of matrices: one function per shape, made when needed.

A product is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from curta.compiler.library.blas_dot import ROUTINES, emit_blas
from curta.compiler.library.contraction import Contraction, emit_contraction
from curta.compiler.library.gemm import Dot, emit_tiled
from curta.compiler.linked import Source
from curta.compiler.llvm import target
from curta.compiler.llvm.types import Type
from curta.compiler.routine_code import transpose_code
from curta.config import config
from curta.tuning import Tuning

_NAME = "dot"


def dot_code(dot: Dot | Contraction) -> Source:
    """The code of a product: `void dot(ptr c, ptr a, ptr b, ptr parallel_for)`."""
    return _dot_code(dot, config.tuning)


@lru_cache(maxsize=1024)
def _dot_code(dot: Dot | Contraction, tuning: Tuning) -> Source:
    module = target.host().module()
    callees: list[Source] = []
    externals: Sequence[str] = ()
    if isinstance(dot, Contraction):
        emit_contraction(module, _NAME, dot)
    elif dot.kind in ROUTINES:
        emit_blas(module, _NAME, dot)
        externals = [ROUTINES[dot.kind]]
    else:
        emit_tiled(module, _NAME, dot)
        if dot.b_transposed:
            vector = Type(dot.kind, target.host().lanes(dot.kind))
            callees = [transpose_code(vector)]
    return Source.of(module.text(), target.GOOD, [_NAME], callees, externals)
