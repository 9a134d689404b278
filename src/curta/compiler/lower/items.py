"""Work items: the materialized values of a jaxpr, and how each is computed.

An item computes one value into its buffer(s), as a map (an expression for each index),
as a fold (a reduction over inner dims), by a library, or in Python by the `eval` rule
of its op. Fusion (fuse.py) decides which items share a kernel.
"""

from __future__ import annotations

import math
from typing import ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.contraction import Contraction
from curta.compiler.library.gemm import Dot
from curta.compiler.library.routine import Routine
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Buffer, LoopNest, Region
from curta.core.dim import typical
from curta.core.jaxpr import Eqn


@dataclass(frozen=True, eq=False)
class LoopItem(LoopNest):
    """A nest by itself: a map, or a fold over all dims but the first `kept`.

    An `ordered` one is so (a scatter, a cumulative sum) for each index of the first
    `independent` dims on its own. A `partial` item is not the only one that writes its
    buffer. One that is `behind` a barrier, by its number, shares no kernel with what
    came before it.
    """

    label: str = ""
    independent: int = 0
    partial: bool = False
    behind: int = 0
    kind: ClassVar[str] = "loops"

    @property
    def outer(self) -> tuple[LoopVar, ...]:
        """The dims for whose indices it has a result."""
        return self.dims[: self.kept] if self.folds else self.dims

    @property
    def work(self) -> int:
        """The number of indices it visits, for estimates."""
        return typical(math.prod(v.extent for v in self.dims))


@dataclass(frozen=True, eq=False)
class LibraryItem:
    """A product, or what a routine computes with memory of its own, by library code."""

    routine: Dot | Contraction | Routine
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...] = ()

    @property
    def kind(self) -> str:
        """The operation of the library."""
        return "library" if isinstance(self.routine, Routine) else "product of matrices"


@dataclass(frozen=True, eq=False)
class RegionItem:
    """A loop, a branch or a call of Python as code of its own.

    The `temporaries` are memory that nothing else touches.
    """

    eqn: Eqn
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    region: Region
    temporaries: tuple[Buffer, ...] = ()

    @property
    def kind(self) -> str:
        """The function that runs it."""
        if not self.region.programs:
            return "loop or branch in registers" if self.eqn.op.regions else "loops"
        return "loop or branch over programs" if self.eqn.op.regions else "Python"


Item = LoopItem | LibraryItem | RegionItem


def reads(item: Item) -> list[Buffer]:
    """The buffers an item reads, each once."""
    if isinstance(item, LoopItem):
        return list(dict.fromkeys(e.buffer for e in item.loads))
    return list(dict.fromkeys(item.operands))


def written(item: Item) -> list[Buffer]:
    """The buffers an item writes."""
    if isinstance(item, LoopItem):
        return list(dict.fromkeys(s.buffer for s in item.written()))
    return list(item.results)
