"""Machine code for products of matrices: one function per shape, made when needed.

A product is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from curta.compiler.cache import object_file
from curta.compiler.library.gemm import Dot, emit_tiled
from curta.compiler.link import LoadedCode, load
from curta.compiler.llvm import target

_NAME = "dot"


@dataclass(frozen=True)
class DotCode:
    """`void dot(ptr c, ptr a, ptr b, ptr parallel_for)` at an address."""

    code: LoadedCode
    address: int


@lru_cache(maxsize=1024)
def dot_code(dot: Dot) -> DotCode:
    """The code of a product."""
    module = target.host().module()
    emit_tiled(module, _NAME, dot)
    code = load(object_file(module.text(), target.GOOD), [_NAME])
    return DotCode(code, code.address(_NAME))
