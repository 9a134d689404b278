"""A group of items to a kernel: nests in order, with as few dims as possible."""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.compiler.fuse.groups import FusionGroup
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Kernel,
    LoopNest,
    Store,
)
from curta.compiler.loops.rewriter import collapse
from curta.compiler.lower.items import LoopItem


def assemble(group: FusionGroup, builder: ScalarBuilder) -> Kernel:
    """The kernel of a group of loop items."""
    items = group.loops()
    if items[0].ordered:
        (item,) = items
        outer, inner = item.dims[: item.independent], item.dims[item.independent :]
        nest = LoopNest(inner, item.stores, (), 0, True, item.selective)
        return Kernel(outer, (nest,))
    depth = _depth(group)
    nests = tuple(s.nest() for s in _nests(items, depth))
    kernel = collapse(Kernel(items[0].outer[:depth], nests), builder)
    if not kernel.dims and len(kernel.nests) == 1 and not kernel.nests[0].folds:
        (nest,) = kernel.nests  # a map: only its last dim is walked by vectors
        rows = LoopNest(nest.dims[-1:], nest.stores, ())
        return Kernel(nest.dims[:-1], (rows,))
    return kernel


def nest_numbers(group: FusionGroup) -> dict[LoopItem, int]:
    """In which nest of the kernel each item of a group is."""
    nests = _nests(group.loops(), _depth(group))
    return {item: at for at, nest in enumerate(nests) for item in nest.items}


def _depth(group: FusionGroup) -> int:
    """The number of loops around the nests."""
    items = group.loops()
    one_nest = len({i.dims for i in items}) == 1
    return 0 if one_nest and not any(i.folds for i in items) else group.shared


@dataclass
class _Members:
    """A nest in the making; `kept` is None as long as it has no folds."""

    dims: tuple[LoopVar, ...]
    kept: int | None
    items: list[LoopItem]

    def admits(
        self, dims: tuple[LoopVar, ...], kept: int | None, orders: set[str]
    ) -> bool:
        """Whether an item may join; sums of a nest are of one order."""
        if self.dims != dims or not (None in (self.kept, kept) or self.kept == kept):
            return False
        return len(orders.union(*map(_orders, self.items))) <= 1

    def nest(self) -> LoopNest:
        stores = tuple(s for i in self.items for s in i.stores)
        folds = tuple(f for i in self.items for f in i.folds)
        return LoopNest(self.dims, stores, folds, self.kept or 0)


def _orders(item: LoopItem) -> set[str]:
    """The orders of the folds of an item that show in the bits."""
    return {f.order for f in item.folds if f.order != "any"}


def _nests(items: list[LoopItem], depth: int) -> list[_Members]:
    """Each item in the first nest of its dims that comes after what it reads."""
    nests: list[_Members] = []
    stored: dict[Buffer, tuple[int, Store, bool]] = {}
    for item in items:
        dims = item.dims[depth:]
        kept = item.kept - depth if item.folds else None
        earliest, orders = 0, _orders(item)
        for load in item.loads:
            if load.buffer in stored:
                at, store, folded = stored[load.buffer]
                together = not folded and load.offset == store.offset
                together = together and nests[at].admits(dims, kept, orders)
                earliest = max(earliest, at if together else at + 1)
        for at in range(earliest, len(nests)):
            if nests[at].admits(dims, kept, orders):
                break
        else:
            at = len(nests)
            nests.append(_Members(dims, kept, []))
        nests[at].items.append(item)
        if kept is not None:
            nests[at].kept = kept
        for store in item.written():
            stored[store.buffer] = at, store, bool(item.folds)
    return nests


# ------------------------------------------------------------------- collapsing
