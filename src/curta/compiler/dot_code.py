"""Machine code for products of matrices: one function per shape, made when needed.

A product is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from functools import lru_cache

from curta.compiler.cache import object_file
from curta.compiler.library import blas
from curta.compiler.library.blas_dot import ROUTINES, emit_blas
from curta.compiler.library.contraction import Contraction, emit_contraction
from curta.compiler.library.gemm import Dot, emit_tiled
from curta.compiler.library.packing import turn_name
from curta.compiler.link import LoadedCode, load
from curta.compiler.llvm import target
from curta.compiler.llvm.types import Type
from curta.compiler.routine_code import turn_code
from curta.lazy_dataclass import dataclass

_NAME = "dot"


@dataclass(frozen=True)
class DotCode:
    """`void dot(ptr c, ptr a, ptr b, ptr parallel_for)` at an address."""

    code: tuple[LoadedCode, ...]
    address: int


@lru_cache(maxsize=1024)
def dot_code(dot: Dot | Contraction) -> DotCode:
    """The code of a product."""
    module = target.host().module()
    helpers: tuple[LoadedCode, ...] = ()
    imports: dict[str, int] = {}
    if isinstance(dot, Contraction):
        emit_contraction(module, _NAME, dot)
    elif dot.kind in ROUTINES:
        emit_blas(module, _NAME, dot)
        imports = blas.addresses([ROUTINES[dot.kind]])
    else:
        emit_tiled(module, _NAME, dot)
        if dot.b_transposed:
            vector = Type(dot.kind, target.host().lanes(dot.kind))
            turn = turn_code(vector)
            helpers, imports = (turn.code,), {turn_name(vector): turn.address}
    code = load(object_file(module.text(), target.GOOD), [_NAME], imports)
    return DotCode((code, *helpers), code.address(_NAME))
