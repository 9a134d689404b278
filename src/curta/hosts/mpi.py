"""Processes that exchange arrays by MPI, through mpi4py.

Calls block in MPI. That a process waits for one that never comes is found out by the
thread that keeps its presence, which ends the process, and with it the job.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from curta._base.on_demand import late
from curta._base.once import once
from curta.config import config
from curta.hosts import wire
from curta.hosts.by_exchange import ByExchange
from curta.hosts.collectives import Begin, CollectiveCall
from curta.hosts.failures import HostsError
from curta.hosts.mpi_calls import FUNCTIONS, nonblocking, operation
from curta.hosts.patience import Patience
from curta.hosts.presence import Presence, end, line_of_main_thread
from curta.hosts.store import StoreConnection
from curta.hosts.transport import Transport

MPI: Any = late("mpi4py.MPI")
T = TypeVar("T")
NDArray = np.ndarray[Any, Any]
_CHUNK = 1 << 30  # bytes in one call: MPI counts with 32 bits
_DIGEST, _TEXT = 16, 512  # bytes that are compared, and that an error shows
_LEFT = 2.0  # seconds to wait in a collective after another process has left


def is_there() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


@once
def library() -> ctypes.CDLL:
    """What mpi4py has loaded: its module finds the names of the library it is for."""
    return ctypes.CDLL(MPI.__file__)


class MPIEngine(ByExchange):
    """The engine of a process that an MPI launcher has started."""

    @property
    def transport(self) -> Transport:  # type: ignore[override]
        """MPI: it may lack nonblocking functions, or have handles of 4 bytes."""
        begun = map(nonblocking, FUNCTIONS)
        return Transport(
            library=MPI.Get_library_version(),
            nonblocking=frozenset(name for name in begun if hasattr(library(), name)),
            handle_bytes=int(MPI._sizeof(MPI.COMM_WORLD)),
            exact=bool(config.curta_hosts_deterministic),
        )

    def __init__(self, presence: Presence) -> None:
        self._world = MPI.COMM_WORLD.Dup()
        super().__init__(self._world.rank, self._world.size)
        self._presence = presence
        self._any_thread = MPI.Query_thread() >= MPI.THREAD_SERIALIZED
        self._comms: dict[tuple[int, ...], Any] = {}
        self._waits: tuple[CollectiveCall, float] | None = None
        self._sites: list[CollectiveCall] = []
        self._site = np.zeros(1, np.int64)
        self._requests: dict[int, tuple[NDArray, CollectiveCall]] = {}
        self._seen = (0, 0, 0.0)
        self._patience = Patience(self.index, presence.states)
        presence.waiting = self._waiting
        presence.watched = self._watched

    def close(self) -> None:
        """All processes have left: MPI can be finalized."""

    def abort(self, status: int) -> None:
        """End the job: MPI would wait for this process for ever."""
        sys.stdout.flush()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(status)

    # ---- waiting

    def site(self, call: CollectiveCall) -> int:
        """The number by which compiled code says that it is in a collective."""
        self._sites.append(call)
        return len(self._sites)

    @property
    def site_address(self) -> int:
        """Where compiled code says so; 0 is for none."""
        return int(self._site.ctypes.data)

    def request(self, call: CollectiveCall) -> int:
        """Where compiled code keeps MPI's request of what it has begun."""
        null = int(MPI._handleof(MPI.REQUEST_NULL)) & (1 << 64) - 1
        word = np.array([null], np.uint64)
        address = int(word.ctypes.data)
        self._requests[address] = word, call
        return address

    def settle(self) -> None:
        """Wait for what was begun: MPI cannot take it back.

        The others begin it too, or fail; then this process is ended.
        """
        super().settle()
        for word, call in self._requests.values():
            request = MPI.Request.fromhandle(int(word[0]))
            if request != MPI.REQUEST_NULL:
                self._in(call, partial(_wait, request), "")
                word[0] = int(MPI._handleof(MPI.REQUEST_NULL)) & (1 << 64) - 1

    def _in_which(self) -> CollectiveCall | None:
        """The collective that the process is in."""
        if (waits := self._waits) is not None:
            return waits[0]
        site = int(self._site[0])
        return self._sites[site - 1] if site else None

    def _waiting(self) -> str | None:
        call = self._in_which()
        return None if call is None else str(call)

    def _since(self) -> float:
        """For how long it has been in it, as far as that was looked at."""
        if (waits := self._waits) is not None:
            return time.monotonic() - waits[1]
        now, seen = time.monotonic(), (int(self._site[0]), self.traffic.total_calls())
        if not seen[0] or seen != self._seen[:2]:
            self._seen = (*seen, now)
        return now - self._seen[2]

    def _watched(self) -> None:
        """End the process if it waits for what cannot come."""
        seconds, call = self._since(), self._in_which()
        if call is None:
            return
        self._patience.look(call, time.monotonic() - seconds, seconds)
        limit = config.curta_hosts_timeout
        gone = [m for m in call.members if m in self._presence.left]
        reason = ""
        if gone and seconds > _LEFT:
            reason = f"process {gone[0]} has ended"
        elif seconds > limit:
            others = [m for m in range(self.count) if m != self.index]
            reason = f"time-out after {limit:g} s: {self._presence.states(others)}"
        if reason and self._in_which() is call and self._since() >= seconds:
            end(f"process {self.index} waits in {call}, but {reason}")

    def comm(self, members: tuple[int, ...]) -> Any:
        """The communicator of hosts, whose ranks are in their order."""
        result = self._comms.get(members)
        if result is None:
            result = self._comms[members] = self._made_comm(members)
        return result

    def _made_comm(self, members: tuple[int, ...]) -> Any:
        return self._world.Create_group(self._world.Get_group().Incl(members))

    # ---- collectives

    def _reduce(self, call: CollectiveCall, kind: str, x: NDArray) -> NDArray:
        known = self._operation(kind, x.dtype)
        if known is None:
            return super()._reduce(call, kind, x)
        type_, op = known
        result = np.empty_like(x)
        a, b, step = x.reshape(-1), result.reshape(-1), _CHUNK // x.itemsize

        def reduce(comm: Any) -> None:
            for i in range(0, x.size, step):
                part, out = a[i : i + step], b[i : i + step]
                comm.Allreduce((part, part.size, type_), (out, part.size, type_), op)

        self._in(call, reduce)
        return result

    def _gather(self, call: CollectiveCall, x: NDArray) -> NDArray:
        n = len(call.members)
        if x.nbytes * n > _CHUNK:
            return super()._gather(call, x)
        stack = np.empty((n, *x.shape), x.dtype)
        self._in(call, lambda comm: comm.Allgather(_bytes(x), _bytes(stack)))
        return stack

    def _reduce_scatter(
        self, call: CollectiveCall, kind: str, parts: NDArray
    ) -> NDArray:
        known = self._operation(kind, parts.dtype)
        if known is None or parts.nbytes > _CHUNK:
            return super()._reduce_scatter(call, kind, parts)
        type_, op = known
        result = np.empty(parts.shape[1:], parts.dtype)
        ends = (parts, result.size, type_), (result, result.size, type_)
        self._in(call, lambda comm: comm.Reduce_scatter_block(*ends, op))
        return result

    def _exchange(self, call: CollectiveCall, parts: NDArray) -> NDArray:
        if parts.nbytes > _CHUNK:
            return super()._exchange(call, parts)
        stack = np.empty_like(parts)
        self._in(call, lambda comm: comm.Alltoall(_bytes(parts), _bytes(stack)))
        return stack

    def _swap(
        self,
        call: CollectiveCall,
        sends: Mapping[int, NDArray],
        receives: Mapping[int, NDArray],
    ) -> None:
        def swap(comm: Any) -> None:
            requests = []
            for start, arrays in ((comm.Irecv, receives), (comm.Isend, sends)):
                for member, array in arrays.items():
                    words = array.reshape(-1).view(np.uint8)
                    for i in range(0, words.size, _CHUNK):
                        part = words[i : i + _CHUNK]
                        requests.append(start((part, part.size, MPI.BYTE), member))
            MPI.Request.Waitall(requests)

        self._in(call, swap)

    def _operation(self, kind: str, dtype: np.dtype[Any]) -> tuple[Any, Any] | None:
        """MPI's type and operation, if it gives what is wanted."""
        names = operation(kind, dtype, bool(config.curta_hosts_deterministic))
        if names is None:
            return None
        type_, op = names
        return getattr(MPI, type_), getattr(MPI, op)

    def in_thread_order(
        self, members: tuple[int, ...], function: Callable[[], T], what: str = ""
    ) -> T:
        if not self._any_thread and not MPI.Is_thread_main():
            raise HostsError(
                "this MPI library must be called by the thread that initialized it"
            )
        return super().in_thread_order(members, function, what)

    def _in(
        self,
        call: CollectiveCall,
        function: Callable[[Any], Any],
        what: str | None = None,
    ) -> None:
        """Call a function of the communicator; who asks finds the process in `call`."""

        def run() -> None:
            self._waits = call, time.monotonic()
            try:
                function(self.comm(call.members))
            finally:
                self._waits = None

        self.in_thread_order(call.members, run, call.key if what is None else what)

    def _begin(self, members: tuple[int, ...], what: str) -> None:
        """Compare what processes begin: MPI's messages do not say what they are of.

        The programs of all members are equal, so their collectives follow.
        """
        if len(members) == 1 or not what or config.curta_hosts_checks == "first":
            return
        members = tuple(sorted(members))
        call = Begin("begin", what, "uint8", (_DIGEST,), members)
        digest = hashlib.blake2b(what.encode(), digest_size=_DIGEST).digest()
        own = np.frombuffer(digest, np.uint8)
        everyone = self._met_at(call, own)
        if (everyone == own).all():
            return
        text = f"{what}, at {line_of_main_thread()}".encode()[:_TEXT]
        row = np.zeros(_TEXT, np.uint8)
        row[: len(text)] = np.frombuffer(text, np.uint8)
        raise HostsError(_different(members, self._met_at(call, row)))

    def _met_at(self, call: CollectiveCall, own: NDArray) -> NDArray:
        """The rows of all members, by a communicator that nothing else uses."""
        key = (-1, *call.members)
        comm = self._comms.get(key)
        if comm is None:
            comm = self._comms[key] = self._made_comm(call.members)
        rows = np.empty((len(call.members), own.size), np.uint8)
        self._waits = call, time.monotonic()
        try:
            comm.Allgather(own, rows)
        finally:
            self._waits = None
        return rows


def _different(members: tuple[int, ...], rows: NDArray) -> str:
    texts = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in rows]
    each = (f"host {m} {text}" for m, text in zip(members, texts, strict=True))
    return f"hosts run different programs or collectives: {'; '.join(each)}"


def _wait(request: Any, comm: Any) -> None:
    request.Wait()


def _bytes(x: NDArray) -> tuple[NDArray, Any]:
    return x.reshape(-1).view(np.uint8), MPI.BYTE


# ---- how processes find the one that serves them


def local_rank(count: int) -> int:
    """The rank of this process; MPI must have been started with `count` ranks.

    All get a token, so that nobody else takes part. Raises RuntimeError if the
    launcher is not that of the MPI library.
    """
    world = MPI.COMM_WORLD
    if world.size != count:
        raise RuntimeError(
            f"the launcher has started {count} processes, but MPI here"
            f" ({MPI.Get_library_version().split(',')[0]}) knows of {world.size}: use"
            " the launcher that belongs to it (curta run finds it)"
        )
    token = os.environ.get(wire.TOKEN) or secrets.token_hex(16)
    os.environ[wire.TOKEN] = world.bcast(token)
    return world.rank


def own_address() -> tuple[str, int]:
    """The address of process 0: the loopback if all are on this machine."""
    names = MPI.COMM_WORLD.allgather(MPI.Get_processor_name())
    others = [n for n in names if n != names[0]]
    if not others:
        return "127.0.0.1", 0
    # The address from which process 0 reaches another machine; nothing is sent.
    if MPI.COMM_WORLD.rank:
        return "", 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((others[0], 9))
        return probe.getsockname()[0], 0


def agree(address: tuple[str, int]) -> tuple[str, int]:
    """The address of process 0."""
    return MPI.COMM_WORLD.bcast(address)


def made_engine(store: StoreConnection, presence: Presence) -> MPIEngine:
    """The engine, once the processes know each other."""
    return MPIEngine(presence)
