"""What carries arrays between hosts, as far as compiled code depends on it."""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Transport:
    """A way to carry arrays between hosts. It is data, and equal on all hosts.

    Fields:
        library: the version of MPI that compiled code calls; empty if every collective
            is a call of Python.
        nonblocking: the names of MPI's functions that begin a collective.
        handle_bytes: the size of MPI's handles: 8 if they are pointers, else 4.
        exact: True if sums of floats must be taken in the order of the hosts, which is
            not left to MPI.
    """

    library: str = ""
    nonblocking: frozenset[str] = frozenset()
    handle_bytes: int = 8
    exact: bool = False

    @property
    def polled(self) -> bool:
        """True if what was begun goes on only while the program looks after it."""
        return bool(self.library)


IN_PYTHON = Transport()
