"""Works: the kernels, regions and library calls of a program, scheduled and placed."""

from __future__ import annotations

from collections.abc import Sequence

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee
from curta.compiler.library.contraction import Contraction
from curta.compiler.library.gemm import Dot
from curta.compiler.library.routine import Routine
from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.nodes import Buffer, Copy, Kernel, Region, memory_of
from curta.compiler.loops.schedule import Schedule
from curta.compiler.lower.items import LibraryItem
from curta.compiler.memory.accesses import (
    Accesses,
    accesses_of,
    kernel_accesses,
    region_accesses,
)


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A kernel or a region with all that is decided about it."""

    kernel: Kernel | Region
    plan: Schedule
    placement: BufferPlacement


Work = Scheduled | LibraryItem


@dataclass(frozen=True, eq=False)
class Job:
    """Kernels whose chunks threads share out together.

    A thread takes the chunks, in the order of the kernels, from one of the `starts` to
    the next.
    """

    works: tuple[Scheduled, ...]
    starts: tuple[int, ...]


def works_in(jobs: Sequence[Work | Job]) -> list[Work]:
    """The works in order, those of jobs too."""
    return [w for job in jobs for w in (job.works if isinstance(job, Job) else [job])]


def buffers(work: Work) -> tuple[Buffer, ...]:
    """The buffers in memory that a piece of work touches."""
    if isinstance(work, LibraryItem):
        return *work.results, *work.operands, *work.temporaries
    return tuple(map(memory_of, work.placement.arguments))


def work_accesses(work: Work) -> Accesses:
    """Return the accesses of a scheduled work, without registers and rows."""
    if isinstance(work, LibraryItem):
        return accesses_of(work)
    if isinstance(work.kernel, Region):
        return region_accesses(work.kernel, buffers(work))
    return kernel_accesses(work.kernel, frozenset(buffers(work)))


LibraryKey = Dot | Contraction | Routine
"""What the library computes."""


def library_keys(works: Sequence[Work]) -> list[LibraryKey]:
    """The products and the routines that are called, each once, in table order."""
    return list(dict.fromkeys(w.routine for w in works if isinstance(w, LibraryItem)))


def called_programs(works: Sequence[Work]) -> list[Callee]:
    """The programs that are called, each once, in table order."""
    return list(dict.fromkeys(p for w in works for p in programs_of(w)))


def programs_of(work: Work) -> tuple[Callee, ...]:
    region = work.kernel if isinstance(work, Scheduled) else None
    return region.programs if isinstance(region, Region) else ()


def in_entry(work: Work) -> Region | None:
    """The region that is no function of its own, as it calls programs, or copies."""
    region = work.kernel if isinstance(work, Scheduled) else None
    if not isinstance(region, Region) or region.parts:
        return None
    copies = all(isinstance(s, Copy) for s in region.body)
    return region if region.programs or copies else None
