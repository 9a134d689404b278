"""Machine code for products of matrices: one function per shape, made when needed.

A product is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from functools import cache, lru_cache

from curta.compiler.cache import fixed_object_file, object_file
from curta.compiler.library import blas, packing
from curta.compiler.library.blas_dot import ROUTINES, emit_blas
from curta.compiler.library.contraction import Contraction, emit_contraction
from curta.compiler.library.gemm import Dot, emit_tiled
from curta.compiler.link import LoadedCode, load
from curta.compiler.llvm import target
from curta.compiler.llvm.types import Type
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
            helpers, imports = _helpers(dot.kind)
    code = load(object_file(module.text(), target.GOOD), [_NAME], imports)
    return DotCode((code, *helpers), code.address(_NAME))


@cache
def _helpers(kind: str) -> tuple[tuple[LoadedCode, ...], dict[str, int]]:
    """What products with a transposed right side call: its code and its address."""
    machine = target.host()
    vector = Type(kind, machine.lanes(kind))

    def write() -> str:
        module = machine.module()
        packing.emit_turn(module, vector)
        return module.text()

    name = packing.turn_name(vector)
    compiled = fixed_object_file(write, target.QUICK, [packing.__name__], kind)
    code = load(compiled, [name])
    return (code,), {name: code.address(name)}
