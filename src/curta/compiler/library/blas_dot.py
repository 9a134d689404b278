"""Products of complex matrices by OpenBLAS, in pieces that the shape decides.

OpenBLAS splits work by the number of its threads, and its results with it. Here it has
one thread; the result is cut into blocks and each is a call of its own.
"""

from __future__ import annotations

from curta.compiler.library.blas_buffers_code import ENTER, LEAVE
from curta.compiler.library.gemm import Dot
from curta.compiler.library.routine import emit_chunks
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import F32, F64, I8, I32, I64, PTR, Type, Value
from curta.config import config

ROUTINES = {"c64": "cgemm", "c128": "zgemm"}
_PARTS = {"c64": F32, "c128": F64}
_LARGEST = 2**31 - 1


def emit_blas(module: Module, name: str, dot: Dot) -> None:
    """Add `void name(ptr c, ptr a, ptr b, ptr parallel_for)` to the module.

    The routine of `ROUTINES` is to be imported.

    Raises:
        ValueError: an index does not fit the 32 bits of BLAS.
    """
    if max(dot.m, dot.n, dot.k) > _LARGEST:
        raise ValueError(f"BLAS has 32-bit indices, too few for {dot}")
    block = config.tuning.blas_block
    rows, columns = -(-dot.m // block), -(-dot.n // block)
    chunk = f"{name}.chunk"
    _emit_chunk(module, chunk, dot, rows, columns)
    emit_chunks(module, name, chunk, 3, dot.batch * rows * columns)


def _emit_chunk(module: Module, name: str, dot: Dot, rows: int, columns: int) -> None:
    """`void chunk(ptr table, i64 index)`: one block of one product of the batch.

    Fortran sees the transposes of our arrays, so it is asked for B' A' = (A B)'.
    """
    b = module.function(name, [PTR, I64], exported=False)
    table, index = b.arguments
    c, a, right = (b.load(PTR, b.offset(table, i, PTR)) for i in range(3))
    batch = b.udiv(index, rows * columns)
    row = b.urem(b.udiv(index, columns), rows) * config.tuning.blas_block
    column = b.urem(index, columns) * config.tuning.blas_block
    part = _PARTS[dot.kind]

    def at(base: Value, size: int, offset: Value) -> Value:
        return b.offset(base, (batch * size + offset) * 2, part)

    a = at(a, dot.m * dot.k, row if dot.a_transposed else row * dot.k)
    right = at(right, dot.k * dot.n, column * (dot.k if dot.b_transposed else 1))
    c = at(c, dot.m * dot.n, row * dot.n + column)
    size_m, size_n = (
        b.convert(b.min(b.sub(total, start), config.tuning.blas_block), "i32")
        for total, start in ((dot.m, row), (dot.n, column))
    )
    right_row = dot.k if dot.b_transposed else dot.n
    a_row = dot.m if dot.a_transposed else dot.k
    b.call(ENTER, None)
    b.call(
        ROUTINES[dot.kind], None,
        _flip(b, dot.b_transposed), _flip(b, dot.a_transposed),
        _by_reference(b, size_n), _by_reference(b, size_m), _integer(b, dot.k),
        _complex(b, part, 1), right, _integer(b, right_row),
        a, _integer(b, a_row), _complex(b, part, 0), c, _integer(b, dot.n),
    )  # fmt: skip
    b.call(LEAVE, None)
    b.ret()


def _by_reference(b: Builder, value: Value) -> Value:
    """The address of a value: Fortran takes nothing else."""
    pointer = b.scratch(value.type.size, align=8)
    b.store(value, pointer)
    return pointer


def _flip(b: Builder, transposed: bool) -> Value:
    return _by_reference(b, b.const(I8, ord("T" if transposed else "N")))


def _integer(b: Builder, number: int) -> Value:
    return _by_reference(b, b.const(I32, number))


def _complex(b: Builder, part: Type, number: int) -> Value:
    pointer = b.scratch(2 * part.size, align=8)
    b.store(b.const(part, number), pointer)
    b.store(b.const(part, 0), b.offset(pointer, 1, part))
    return pointer
