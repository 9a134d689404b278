"""Copies of panels of a matrix, row after row, as the tiles of a product read them."""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.transposes import RowTranspose
from curta.compiler.llvm.types import I64, PTR, Type, Value


def even_parts(total: int, most: int) -> list[int]:
    """`total` in as few parts as can be, of almost equal size, the larger first.

    Example:
        >>> from curta.compiler.library.packing import even_parts
        >>> even_parts(10, 4)
        [4, 3, 3]
    """
    count = -(-total // most)
    size, larger = divmod(total, count)
    return [size + 1] * larger + [size] * (count - larger)


@dataclass(frozen=True)
class PackPanel:
    """A copy of a panel of B, so many vectors wide, the rest of which may be missing.

    Rows of it or, if B lies `transposed`, columns.
    """

    vector: Type
    vectors: int
    transposed: bool

    @property
    def name(self) -> str:
        """The name of its function."""
        order = "_transposed" if self.transposed else ""
        return f"pack_{self.vectors}x{self.vector.suffix}{order}"

    def emit(self, module: Module) -> None:
        """Add `void name(ptr to, ptr from, ptr numbers)` to the module.

        The numbers, in elements: how far rows lie apart in `from`, the columns, the
        steps.
        """
        b = module.function(self.name, [PTR, PTR, PTR])
        to, source, numbers = b.arguments
        row, columns, steps = (b.load(I64, b.offset(numbers, i, I64)) for i in range(3))
        if self.transposed:
            self._transposed(b, (to, source), row, columns, steps)
        else:
            lanes = self.vector.lanes
            masks = [
                b.first_lanes(b.max(b.sub(columns, i * lanes), 0), lanes)
                for i in range(self.vectors)
            ]
            whole = b.eq(columns, self.vectors * lanes)
            with b.when(whole):
                self._rows(b, (to, source), row, steps, [])
            with b.when(b.not_(whole)):
                self._rows(b, (to, source), row, steps, masks)
        b.ret()

    def _rows(
        self, b: Builder, addresses: tuple[Value, Value], row: Value, steps: Value,
        masks: Values,
    ) -> None:  # fmt: skip
        vector, element = self.vector, self.vector.with_lanes(1)
        width = self.vectors * vector.lanes
        with b.loop(0, steps, carried=addresses, runs=True) as loop:
            to, source = loop.carried
            for i in range(self.vectors):
                at = b.offset(source, i * vector.lanes, element)
                value = (
                    b.masked_load(vector, at, masks[i]) if masks else b.load(vector, at)
                )
                b.store(value, b.offset(to, i * vector.lanes, element))
            loop.next(b.offset(to, width, element), b.offset(source, row, element))

    def _transposed(
        self, b: Builder, addresses: tuple[Value, Value], row: Value, columns: Value,
        steps: Value,
    ) -> None:  # fmt: skip
        """By a function, a vector of columns at a time: LLVM is slow with shuffles."""
        vector, element = self.vector, self.vector.with_lanes(1)
        width = b.const(I64, self.vectors * vector.lanes)
        with b.loop(0, columns, vector.lanes) as loop:
            first = b.offset(addresses[1], b.mul(loop.index, row), element)
            last = b.sub(b.min(b.sub(columns, loop.index), vector.lanes), 1)
            address = b.offset(addresses[0], loop.index, element)
            RowTranspose(vector).call(b, address, width, first, row, last, steps)
