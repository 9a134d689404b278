"""A lowered program as data: works, the order in which they run, and their memory.

A `Program` is made by lowering (`works.py`) and read by the stages after it: emission
writes its code, linking compiles and loads that. It holds no machine code and no
address: bodies of loops and branches are programs of their own, which works call as
`Callee`s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee
from curta.compiler.fuse.fuse import FusionPlan
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.memory.analysis import MemoryAliases
from curta.compiler.memory.arena import Arena
from curta.compiler.memory.places import Places
from curta.compiler.program.work import Job, Work, called_programs, works_in
from curta.compiler.targets import Target
from curta.core.jaxpr import ClosedJaxpr, Jaxpr


@dataclass(frozen=True, eq=False, kw_only=True)
class Program(Callee):
    """A program after lowering, fusion, scheduling and memory planning.

    Fields:
        target: the machine that it is made for.
        flat: the prepared jaxpr with its constants.
        jaxpr: the same equations in the order of execution.
        items: the work items of the jaxpr.
        plan: the groups of items that share kernels.
        groups: the works of each group; most groups are one kernel.
        jobs: the works in the order of execution, with independent kernels joined.
        pointers: buffers that the caller provides: results, arguments, constants.
        may_overwrite: arguments that the caller gives away, each with the result that
            may take its memory.
        workspace: whether these may be overwritten by other values, too.
        memory: which buffers share memory.
        arena: offsets of the temporaries.
        consts: the arrays of the constants.
        often: True if the program is the body of a loop or a branch.
    """

    target: Target
    flat: ClosedJaxpr
    jaxpr: Jaxpr
    items: LoweredItems
    plan: FusionPlan
    groups: tuple[tuple[Work, ...], ...]
    jobs: tuple[Work | Job, ...]
    pointers: tuple[Buffer, ...]
    may_overwrite: InPlace
    workspace: bool
    memory: MemoryAliases
    arena: Arena
    consts: tuple[np.ndarray[Any, Any], ...]
    often: bool

    @property
    def shared(self) -> set[tuple[int, int]]:
        """The results that share the memory of an argument, each with that."""
        return {(o, i) for i, o in self.may_overwrite.items() if o in self.in_place}

    @property
    def places(self) -> Places:
        """Where the buffers of the works are stored."""
        return Places(self.items, self.memory, self.arena, self.may_overwrite)

    @property
    def works(self) -> list[Work]:
        """The works in the order of execution."""
        return works_in(self.jobs)

    @property
    def callees(self) -> list[Callee]:
        """The native functions that the works call, each once, in table order."""
        return called_programs(self.works)

    def inner_first(self) -> Iterator[Program]:
        """Yield the programs it calls, directly or not, before it, and then itself."""
        met: set[Callee] = set()
        yield from self._inner_first(met)

    def _inner_first(self, met: set[Callee]) -> Iterator[Program]:
        met.add(self)
        for callee in self.callees:
            if isinstance(callee, Program) and callee not in met:
                yield from callee._inner_first(met)
        yield self
