"""Weights outside of a library: large constants in a file that programs map.

The file has the format of safetensors. `NAME_init` compares its header with the one
that was written with the library, and stores the address of each array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.api import safetensors
from curta.compiler.emit.standalone import StandaloneModule
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I8, I32, I64, PTR, Value

NDArray = np.ndarray[Any, Any]
_LEAST = 1 << 10  # bytes of a constant that goes to the file
BAD_WEIGHTS = 4  # the error code of other files


@dataclass(frozen=True)
class WrittenWeights:
    """A written file of weights.

    Fields:
        header: its first bytes, which tell it from other files.
        size: its size in bytes.
        offsets: the position of each array in it, by index.
    """

    header: bytes
    size: int
    offsets: tuple[int, ...]


class Weights:
    """The constants of a library that are not in it, each with an index."""

    def __init__(self) -> None:
        self.arrays: list[NDArray] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def index_of(self, array: NDArray) -> int | None:
        """Return the index of a large constant; None for others."""
        if array.nbytes < _LEAST:
            return None
        array = np.ascontiguousarray(array)
        key = array.dtype.name, array.shape, array.tobytes()
        index = self._known.setdefault(key, len(self.arrays))
        if index == len(self.arrays):
            self.arrays.append(array)
        return index

    def write(self, path: str) -> WrittenWeights:
        """Write the file; wide elements come first, so that all are aligned."""
        order = sorted(range(len(self.arrays)), key=lambda i: -self._align(i))
        stored = {}
        for i in order:
            array = self.arrays[i]
            kind = safetensors.stored_as(array.dtype)
            same = array.dtype == kind
            stored[f"constant{i}"] = array if same else array.reshape(-1).view(kind)
        size = safetensors.write(path, stored)
        at = size - sum(x.nbytes for x in self.arrays)
        with open(path, "rb") as file:
            header = file.read(at)
        offsets = [0] * len(order)
        for i in order:
            offsets[i] = at
            at += self.arrays[i].nbytes
        return WrittenWeights(header, size, tuple(offsets))

    def _align(self, index: int) -> int:
        return self.arrays[index].dtype.itemsize


def add_init(module: StandaloneModule, library: str, written: WrittenWeights) -> None:
    """Add `int NAME_init(NAME_weights *, const void *file, size_t bytes)`."""
    functions = Module.of(module.target)
    size = I64 if module.target.pointer_bytes == 8 else I32
    b = functions.function(f"{library}_init", [PTR, PTR, size], I32)
    weights, file, given = b.arguments
    bad = b.const(I32, BAD_WEIGHTS)
    b.return_when(b.is_null(weights), bad)
    b.return_when(b.is_null(file), bad)
    b.return_when(b.ne(given, b.const(size, written.size)), bad)
    b.return_when(b.ne(b.and_(b.cast("ptrtoint", file, size), 7), 0), bad)
    header = Value(f"@{module.data(written.header)}", PTR, b)
    with b.loop(0, len(written.header)) as loop:
        own, other = (b.load(I8, b.offset(x, loop.index, I8)) for x in (header, file))
        b.return_when(b.ne(own, other), bad)
    for i, offset in enumerate(written.offsets):
        b.store(b.offset(file, offset, I8), b.offset(weights, i, PTR))
    b.ret(b.const(I32, 0))
    module.add_text(functions.text())
