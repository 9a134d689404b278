"""A group of items to a kernel: nests in order, with as few dims as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from curta.compiler.graph.groups import FusionGroup
from curta.compiler.graph.items import LoopItem
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import Affine, IndexAtom, IndexLike, LoopVar, as_index
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    DataIndex,
    Expr,
    Fold,
    IndexValue,
    Instr,
    Kernel,
    Load,
    LoopNest,
    Placeholder,
    Store,
    walk,
)
from curta.lazy_dataclass import dataclass


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


def collapse(kernel: Kernel, builder: ScalarBuilder) -> Kernel:
    """Neighbouring dims that every index treats as one become one."""
    indices = list(dict.fromkeys(_indices(kernel)))
    merge: dict[LoopVar, tuple[LoopVar, LoopVar] | None] = {}
    dims = _collapsed(kernel.dims, indices, merge)
    inner = [
        (
            (_collapsed(s.dims[: s.kept], indices, merge)),
            (_collapsed(s.dims[s.kept :], indices, merge)),
        )
        if _alone(s, kernel)
        else (s.dims[: s.kept], s.dims[s.kept :])
        for s in kernel.nests
    ]
    if not merge:
        return kernel
    rewriter = Rewriter(builder, _replacement(merge))
    nests = [
        LoopNest(kept + folded, *rewriter.body(s), len(kept))
        for (kept, folded), s in zip(inner, kernel.nests, strict=True)
    ]
    return Kernel(dims, tuple(nests), kernel.piece)


def _alone(nest: LoopNest, kernel: Kernel) -> bool:
    """Whether the other nests have all of its dims, or none of them."""
    return all(
        (s.dims == nest.dims and s.kept == nest.kept)
        or not set(s.dims) & set(nest.dims)
        for s in kernel.nests
    )


def _collapsed(
    dims: tuple[LoopVar, ...],
    indices: list[Affine],
    merge: dict[LoopVar, tuple[LoopVar, LoopVar] | None],
) -> tuple[LoopVar, ...]:
    """`dims` after merging; `merge` says what becomes of each old variable.

    The last variable of a run becomes the new one, the others into 0.
    """
    runs: list[list[LoopVar]] = []
    for dim in dims:
        if runs and are_one(runs[-1][-1], dim, indices):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    result = []
    for run in runs:
        if len(run) > 1:
            extent = 1
            for variable in run:
                extent *= variable.extent
            fresh = LoopVar("".join(v.name for v in run), extent)
            merge.update((v, None) for v in run[:-1])
            merge[run[-1]] = run[-1], fresh
            result.append(fresh)
        else:
            result.append(run[0])
    return tuple(result)


def are_one(a: LoopVar, b: LoopVar, indices: Iterable[Affine]) -> bool:
    """Whether indices treat two dims, the second within the first, as one."""
    return all(i.coefficient(a) == i.coefficient(b) * b.extent for i in indices)


def _replacement(
    merge: dict[LoopVar, tuple[LoopVar, LoopVar] | None],
) -> Callable[[IndexAtom], IndexAtom | int | None]:
    def replace(atom: IndexAtom) -> IndexAtom | int | None:
        if not isinstance(atom, LoopVar) or atom not in merge:
            return None
        result = merge[atom]
        return 0 if result is None else result[1]

    return replace


def _indices(kernel: Kernel) -> Iterator[Affine]:
    """Every affine sum of a kernel, those inside of others included."""
    for nest in kernel.nests:
        for store in nest.written():
            yield from _nested(store.offset)
        yield from indices_of(nest.body)


def indices_of(body: Iterable[Expr]) -> Iterator[Affine]:
    """The affine sums of expressions, those inside of others included."""
    for expr in body:
        if isinstance(expr, Load):
            yield from _nested(expr.offset)
        elif isinstance(expr, IndexValue):
            yield from _nested(expr.index)


def _nested(index: Affine) -> Iterator[Affine]:
    yield index
    for atom in index.atoms():
        of = getattr(atom, "of", None)
        if of is not None:
            yield of


class Rewriter:
    """Expressions with atoms of their indices exchanged; some are `given`."""

    def __init__(
        self,
        builder: ScalarBuilder,
        replace: Callable[[IndexAtom], IndexLike | None],
        given: Mapping[Expr, Expr] = MappingProxyType({}),
    ) -> None:
        self.builder = builder
        self._replace = replace
        self._given = given
        self._done: dict[Expr, Expr] = {}

    def body(self, nest: LoopNest) -> tuple[tuple[Store, ...], tuple[Fold, ...]]:
        """The stores and folds of a nest, rewritten."""
        self.rebuilt(nest.body)
        stores = tuple(self.store(s) for s in nest.stores)
        return stores, tuple(self._fold(f) for f in nest.folds)

    def rebuilt(self, roots: Iterable[Expr]) -> tuple[Expr, ...]:
        """Expressions, rewritten with all that is in them."""
        roots = (*roots,)
        for expr in walk(roots):
            self._done[expr] = self._given.get(expr) or self._rebuilt(expr)
        return tuple(self._done[x] for x in roots)

    def store(self, store: Store) -> Store:
        value = self._done.get(store.value, store.value)
        where = None if store.where is None else self._done[store.where]
        return Store(store.buffer, self.index(store.offset), value, where)

    def _fold(self, fold: Fold) -> Fold:
        inputs = tuple(self._done[x] for x in fold.inputs)
        return replace(fold, inputs=inputs, stores=tuple(map(self.store, fold.stores)))

    def index(self, index: Affine) -> Affine:
        return index.substitute(self._atom)

    def _atom(self, atom: IndexAtom) -> object:
        if isinstance(atom, DataIndex):
            return as_index(self._done[atom.value])
        return self._replace(atom)

    def _rebuilt(self, expr: Expr) -> Expr:
        if isinstance(expr, (Const, Placeholder)):
            return expr
        if isinstance(expr, Instr):
            args = tuple(self._done[a] for a in expr.args)
            return self.builder.instruction(expr.name, expr.dtype, *args)
        if isinstance(expr, Load):
            where = None if expr.where is None else self._done[expr.where]
            offset = self.index(expr.offset)
            return self.builder.load_where(expr.buffer, offset, where, expr.dtype)
        assert isinstance(expr, IndexValue)
        return self.builder.index_expression(self.index(expr.index))
