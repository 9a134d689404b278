"""Work items: the values of a jaxpr that are materialised, and how each is made.

An item computes one value into its buffer(s), as a map (an expression for each index),
as a fold (a reduction over inner dims), by a library, or in Python by the `eval` rule
of its op. Fusion (fuse.py) decides which items share a kernel.
"""

from __future__ import annotations

import math

from curta.compiler.graph.loop_parts import Parts
from curta.compiler.library.contraction import Contraction
from curta.compiler.library.gemm import Dot
from curta.compiler.library.routine import Routine
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Buffer, Expr, Fold, Load, Region, Store, walk
from curta.compiler.native import NativeProgram
from curta.core.jaxpr import Eqn
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class LoopItem:
    """A map over `dims`, or a fold over `inner` for each index of `dims`.

    An `ordered` item updates a buffer in the order of its indices (a scatter, a
    cumulative sum), for each index of the first `independent` dims on its own. In a
    `selective` one few indices do so: those for which the guard of its stores holds. A
    `partial` item is not the only one that writes its buffer.
    """

    label: str
    dims: tuple[LoopVar, ...]
    inner: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    folds: tuple[Fold, ...]
    loads: tuple[Load, ...]
    ordered: bool = False
    independent: int = 0
    selective: bool = False
    partial: bool = False

    @property
    def work(self) -> int:
        """The number of indices it visits."""
        return math.prod(v.extent for v in self.dims + self.inner)

    @property
    def writes(self) -> tuple[Store, ...]:
        return self.stores + tuple(s for f in self.folds for s in f.stores)


@dataclass(frozen=True, eq=False)
class HostItem:
    """An eqn that runs in Python, where native code calls the `program`."""

    eqn: Eqn
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    program: NativeProgram


@dataclass(frozen=True, eq=False)
class DotItem:
    """A product of matrices, or of more dims, by library code."""

    dot: Dot | Contraction
    left: Buffer
    right: Buffer
    result: Buffer


@dataclass(frozen=True, eq=False)
class RoutineItem:
    """What a routine of the library computes, with memory of its own."""

    routine: Routine
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    scratch: Buffer


@dataclass(frozen=True, eq=False)
class ControlItem:
    """A loop or branch over compiled programs: those of the jaxprs of `eqn`.

    `carries` are two buffers for each part of a loop's carry; iterations read one and
    write the other, alternately. A loop may be cut along the rows of its arrays; then
    the program is the body for one part, and every part has memory of its own. So many
    `chunks` share out the parts. Programs that need an arena have it in `scratch`, a
    row of which is for one chunk. A loop calls `signals`, if there is such a program,
    now and then; one that is `polled` looks whether its call was cancelled.
    """

    eqn: Eqn
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    programs: tuple[NativeProgram, ...]
    carries: tuple[tuple[Buffer, Buffer], ...]
    scratch: Buffer | None
    parts: Parts | None = None
    chunks: int = 1
    signals: NativeProgram | None = None
    polled: bool = False


@dataclass(frozen=True, eq=False)
class RegisterItem:
    """A loop or branch of which all values lie in registers, as code of its own."""

    eqn: Eqn
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    region: Region


Item = LoopItem | DotItem | RoutineItem | ControlItem | RegisterItem | HostItem


def reads(item: Item) -> list[Buffer]:
    """The buffers an item reads, each once."""
    if isinstance(item, LoopItem):
        return list(dict.fromkeys(e.buffer for e in item.loads))
    if isinstance(item, DotItem):
        return [item.left, item.right]
    return list(dict.fromkeys(item.operands))


def written(item: Item) -> list[Buffer]:
    """The buffers an item writes."""
    if isinstance(item, LoopItem):
        return list(dict.fromkeys(s.buffer for s in item.writes))
    if isinstance(item, DotItem):
        return [item.result]
    return list(item.results)


def loop_item(
    label: str,
    dims: tuple[LoopVar, ...],
    inner: tuple[LoopVar, ...],
    stores: tuple[Store, ...],
    folds: tuple[Fold, ...],
    ordered: bool = False,
    independent: int = 0,
    selective: bool = False,
    partial: bool = False,
) -> LoopItem:
    """A loop item, with the loads of its expressions found."""
    roots: list[Expr] = [e for s in stores for e in s.operands()]
    roots += [x for f in folds for x in f.inputs]
    loads = tuple(e for e in walk(roots) if isinstance(e, Load))
    kinds = ordered, independent, selective, partial
    return LoopItem(label, dims, inner, stores, folds, loads, *kinds)
