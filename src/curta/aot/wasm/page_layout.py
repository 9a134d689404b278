"""The addresses of a call's arguments, results and workspace in a module's memory.

All sizes are known when a library is built, so that every address is. A function's
frame begins after stack and data; frames of different functions overlap, because a call
copies its arguments in and its results out.
"""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.aot.entry_code import is_checked
from curta.aot.errors import BuildError
from curta.aot.interface import Interface, LeafField, layout_of
from curta.aot.wasm.linking import aligned

_POINTER = 4
_ALIGN = 64
_ADDRESSES = 1 << 32


@dataclass(frozen=True, eq=False)
class LeafPlace:
    """The place of a leaf.

    Fields:
        at: the address of its elements.
        pointer: the address of the struct's field that points there; 0 for a number,
            which is in the struct, and for an array that is not read.
    """

    at: int
    pointer: int


@dataclass(frozen=True, eq=False)
class CallFrame:
    """The addresses of a call.

    Fields:
        inputs: of the struct of arguments.
        outputs: of the struct of results.
        workspace: of the memory that the call works in.
        end: of what follows.
        arguments: the places of the arguments.
        results: the places of the results.
    """

    inputs: int
    outputs: int
    workspace: int
    end: int
    arguments: tuple[LeafPlace, ...]
    results: tuple[LeafPlace, ...]


def frame_of(signature: Interface, heap: int) -> CallFrame:
    """Return the frame of a function.

    Args:
        signature: the function.
        heap: the first address that is free.

    Raises:
        BuildError: it does not fit into 32-bit addresses.
    """
    allocated = _Allocation(heap)
    inputs = layout_of(signature.inputs, _POINTER)
    outputs = layout_of(signature.outputs, _POINTER)
    in_at, out_at = allocated.take(inputs.size), allocated.take(outputs.size)
    arguments = [
        allocated.slot(leaf, in_at + offset, leaf.is_read or leaf.is_overwritten)
        for leaf, offset in zip(signature.arguments, inputs.offsets, strict=True)
    ]
    results = [
        allocated.slot(leaf, out_at + offset, is_checked(leaf))
        for leaf, offset in zip(signature.results, outputs.offsets, strict=True)
    ]
    for leaf in signature.results:
        if leaf.in_place is not None:  # the call sets the pointer
            results[leaf.index] = LeafPlace(arguments[leaf.in_place].at, 0)
    workspace = allocated.take(signature.workspace)
    if allocated.end > _ADDRESSES:
        raise BuildError(
            f"{signature.source}: a call needs {allocated.end:,} bytes of memory;"
            f" addresses of wasm32 end at {_ADDRESSES:,}"
        )
    return CallFrame(
        in_at, out_at, workspace, allocated.end, tuple(arguments), tuple(results)
    )


class _Allocation:
    def __init__(self, start: int) -> None:
        self.end = start

    def take(self, size: int) -> int:
        start = aligned(self.end, _ALIGN)
        self.end = start + size
        return start

    def slot(self, leaf: LeafField, field: int, has_memory: bool) -> LeafPlace:
        if leaf.is_value:
            return LeafPlace(field, 0)
        if not has_memory:
            return LeafPlace(0, 0)
        return LeafPlace(self.take(leaf.nbytes), field)
