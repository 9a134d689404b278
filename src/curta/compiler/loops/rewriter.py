"""Rebuild expressions with other indices, and join adjacent dims of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import Affine, IndexAtom, IndexLike, LoopVar, as_index
from curta.compiler.loops.nodes import (
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


def collapse(kernel: Kernel, builder: ScalarBuilder) -> Kernel:
    """Merge neighboring dims that every index treats as one."""
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
