"""Changes of a triangular factor by rotations of its rows."""

from __future__ import annotations

from curta.compiler.library.radix import walk
from curta.compiler.library.routine import Routine, emit_chunks
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value
from curta.config import config
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class RankOneUpdate(Routine):
    """For each of a batch, the triangular R' with R'^T R' = R^T R + w w^T."""

    batch: int
    n: int
    kind: str

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return self.batch * 4 * self.n**2

    @property
    def chunks(self) -> int:
        """How many matrices are worked on at a time."""
        tuning = config.tuning
        enough = self.work // tuning.rotation_chunk_work
        return max(1, min(self.batch, tuning.rotation_chunks, enough))

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs: the vectors, which change."""
        return self.chunks * self._vector

    @property
    def _vector(self) -> int:
        return -(-self.n * Type(self.kind).size // 64) * 64

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr result, ptr r, ptr w, ptr scratch, ptr parallel_for)`."""
        b = module.function("updates", [PTR, I64], exported=False)
        table, chunk = b.arguments
        result, r, w, scratch = (b.load(PTR, b.offset(table, i, PTR)) for i in range(4))
        own = b.offset(scratch, chunk * self._vector, I8)
        n, t = self.n, Type(self.kind)
        first, last = (b.udiv((chunk + i) * self.batch, self.chunks) for i in (0, 1))
        with b.loop(first, last) as each:
            to = b.offset(result, each.index * n**2, t)
            b.copy(to, b.offset(r, each.index * n**2, t), n**2 * t.size)
            b.copy(own, b.offset(w, each.index * n, t), n * t.size)
            with b.loop(0, n) as step:
                row = b.offset(to, step.index * n, t)
                x = b.load(t, b.offset(row, step.index, t))
                y = b.load(t, b.offset(own, step.index, t))
                cosine, sine = _rotation(x, y)

                def rotate(
                    lanes: int,
                    index: Value,
                    row: Value = row,
                    cosine: Value = cosine,
                    sine: Value = sine,
                ) -> None:
                    addresses = [b.offset(p, index, t) for p in (row, own)]
                    x, y = (b.load(t.with_lanes(lanes), p) for p in addresses)
                    c, s = b.splat(cosine, lanes), b.splat(sine, lanes)
                    b.store(c * x + s * y, addresses[0])
                    b.store(c * y - s * x, addresses[1])

                walk(b, b.const(I64, 0), b.const(I64, n), t, rotate)
        b.ret()
        emit_chunks(module, name, b.name, 4, self.chunks)


def _rotation(x: Value, y: Value) -> tuple[Value, Value]:
    """The cosine and the sine of the rotation that leaves nothing of y beside x."""
    b = x.builder
    large = b.max(b.abs(x), b.abs(y))
    none = b.eq(y, 0)
    divisor = b.select(none, 1.0, large)
    x, y = x / divisor, y / divisor
    length = b.sqrt(x * x + y * y)
    one, zero = b.const(x.type, 1), b.const(x.type, 0)
    return b.select(none, one, x / length), b.select(none, zero, y / length)
