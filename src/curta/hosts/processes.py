"""The process as one of several: start and end of its services."""

from __future__ import annotations

from collections.abc import Callable

from curta._base.lazy_dataclass import dataclass
from curta.hosts import mpi
from curta.hosts.client import StoreClient
from curta.hosts.collectives import ProcessEngine
from curta.hosts.endings import Endings
from curta.hosts.engine import Alone, set_process_engine
from curta.hosts.presence import Presence
from curta.hosts.service import Service
from curta.hosts.store import KeyValueTable, StoreConnection
from curta.hosts.tcp import TCP, connected

Address = tuple[str, int]
MakeEngine = Callable[[StoreConnection, Presence], ProcessEngine]


@dataclass(frozen=True)
class Limits:
    """Seconds: for all to come, for signs of life, and for all to leave."""

    initialization: float = 300.0
    heartbeat: float = 100.0
    shutdown: float = 300.0


class Processes:
    """The services of a process that is one of several, until `close`.

    `client` asks the table of keys and values that all share.
    """

    service: Service | None
    client: StoreClient

    def close(self) -> None:
        """Wait until all close, and be the only process again."""


class OnlyProcess(Processes):
    """The form of a program of one process, which needs no connections."""

    def __init__(self) -> None:
        self.service: None = None
        self.client: StoreClient = StoreClient(KeyValueTable().answer, 0, 1)


class SeveralProcesses(Processes):
    """A process with others. Process 0 serves at the address, on which they `agree`."""

    def __init__(
        self,
        address: Address,
        index: int,
        count: int,
        limits: Limits,
        make_engine: MakeEngine,
        agree: Callable[[Address], Address] = lambda address: address,
    ) -> None:
        self._limits = limits
        self._index, self._count = index, count
        self.service = None
        if index == 0:
            self.service = Service(*address)
            address = address[0], self.service.address[1]
        address = agree(address)
        self._store = StoreConnection(address, limits.initialization)
        self.client: StoreClient = StoreClient(self._store.ask, index, count)
        self.presence: Presence = Presence(self._store, index, limits.heartbeat)
        self._endings = Endings(self._end)
        self.engine: ProcessEngine = make_engine(self._store, self.presence)
        self.engine.store = self._store
        set_process_engine(self.engine)

    def close(self) -> None:
        """Wait until all close, and be the only process again."""
        self._store.barrier("curta/shutdown", self._count, self._limits.shutdown)
        self._endings.remove()
        self._leave()
        set_process_engine(Alone())

    def _leave(self) -> None:
        for wait in self.engine.unfinished:
            wait()
        self.presence.leave()
        if self.service is not None:
            self.service.wait_until_left(self._index)
            self.service.close()
        self.engine.close()

    def _end(self, reason: str | None, status: int) -> None:
        """The process ends, by an error if there is a reason."""
        if reason is not None:
            self.presence.failed(reason)
            self.engine.abort(status)
        elif self.presence.failure is not None:
            self.engine.abort(1)
        else:
            self._leave()


def over_tcp(
    address: Address, index: int, count: int, limits: Limits
) -> SeveralProcesses:
    """Processes that need nothing but Python; process 0 is reached at the address."""

    def make(store: StoreConnection, presence: Presence) -> TCP:
        return TCP(
            index, connected(store, index, count, limits.initialization), presence
        )

    return SeveralProcesses(address, index, count, limits, make)


def over_mpi(count: int, limits: Limits) -> SeveralProcesses:
    """The processes, so many, that a launcher of MPI programs has started.

    Raises RuntimeError if there is no mpi4py, or the launcher belongs to another MPI.
    """
    if not mpi.is_there():
        raise RuntimeError(
            "this process was started by a launcher of MPI programs, and mpi4py is not"
            " installed: pip install 'curta[mpi]'"
        )
    index = mpi.local_rank(count)
    return SeveralProcesses(
        mpi.own_address(), index, count, limits, mpi.made_engine, mpi.agree
    )
