"""Starting as one of several processes, and ending so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from curta._base.on_demand import late
from curta.config import config
from curta.hosts.launched import Launched, launched
from curta.runtime.devices import devices_are_counted

if TYPE_CHECKING:
    from curta.hosts.client import StoreClient
    from curta.hosts.processes import Limits, Processes
    from curta.hosts.service import Service

# What starts processes and speaks over sockets, which few programs do.
mpi: Any = late("curta.hosts.mpi")
starts: Any = late("curta.hosts.processes")
wire: Any = late("curta.hosts.wire")


class DistributedState:
    """The state of `jax.distributed`, once it is initialized.

    `client` asks for keys and values that all processes share, and for barriers.
    """

    process_id: int = 0
    num_processes: int = 1
    coordinator_address: str | None = None
    processes: Processes | None = None

    @property
    def client(self) -> StoreClient | None:
        """Keys, values and barriers of all processes."""
        return None if self.processes is None else self.processes.client

    @property
    def service(self) -> Service | None:
        """The server of the key-value store, in process 0."""
        return None if self.processes is None else self.processes.service


global_state: Final = DistributedState()


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    **options: Any,
) -> None:
    """Become one of several processes that run the same program.

    Call it first. Under `mpiexec`, `srun`, `curta run` or on TPUs of Google's
    Kubernetes no argument is needed; processes that were started in other ways find
    each other by the address of process 0, over TCP. An error in one of them ends all.

    Args:
      coordinator_address: where process 0 can be reached, "host:port".
      num_processes: how many processes there are.
      process_id: the number of this one.
      local_device_ids: the numbers of the GPUs that belong to this process: all, or
        one if a launcher started it that numbers the processes of a machine.
      options: in seconds, `initialization_timeout` (300), until all processes must have
        come, `heartbeat_timeout_seconds` (100), after which one that is silent is taken
        for gone, `shutdown_timeout_seconds` (300); others that JAX knows mean nothing.

    Raises:
      ValueError: if arguments are missing or out of range.
      TypeError: if numbers are not ints.
      RuntimeError: if it was called before, or devices were asked for.
      JaxRuntimeError: if the other processes cannot be reached.

    Returns:
      None, when all processes have come.

    >>> from curta import distributed
    >>> distributed.initialize("localhost:1234", num_processes=1, process_id=0)
    >>> distributed.is_initialized()
    True
    >>> distributed.shutdown()
    """
    result = launched(os.environ)
    if result is not None:
        coordinator_address = coordinator_address or result.coordinator
        num_processes = result.count if num_processes is None else num_processes
        process_id = result.index if process_id is None else process_id
    by_mpi = _is_by_mpi(result, coordinator_address, num_processes)
    if by_mpi and result is not None and result.fallback and not mpi.is_there():
        coordinator_address, by_mpi = result.fallback, False
    if coordinator_address is None and not by_mpi:
        raise ValueError(
            "coordinator_address should be defined. No launcher has started this"
            " process: start the program by `python -m curta.run -n 4 program.py` or"
            " `mpiexec`, or give `initialize` the address of process 0, the number of"
            " processes and the number of this process."
        )
    index, count = _checked(process_id, num_processes)
    alone = count == 1
    address = ("", 0) if alone or by_mpi else wire.parts_of(coordinator_address or "")
    if is_initialized():
        raise RuntimeError("distributed.initialize should only be called once.")
    if count > 1 and devices_are_counted():
        raise RuntimeError(
            "jax.distributed.initialize() must be called before any calls that ask"
            " for devices: call it first in the program."
        )
    limits = _limits(**options)
    if alone:
        processes: Processes = starts.OnlyProcess()
    elif by_mpi:
        processes = starts.over_mpi(count, limits)
    else:
        processes = starts.over_tcp(address, index, count, limits)
    _choose_devices(local_device_ids, result, count)
    global_state.process_id, global_state.num_processes = index, count
    global_state.coordinator_address = coordinator_address or "MPI"
    global_state.processes = processes


def _choose_devices(
    given: int | Sequence[int] | None, launch: Launched | None, count: int
) -> None:
    """Have GPUs of other numbers be those of other processes, as in JAX.

    Processes that a launcher has started have one each, unless they say otherwise.
    """
    if given is None and launch is not None and count > 1 and launch.local is not None:
        given = launch.local
    if given is None:
        return
    numbers = [given] if isinstance(given, int) else [*given]
    visible = ",".join(map(str, numbers))
    config.update("jax_cuda_visible_devices", visible)
    config.update("jax_rocm_visible_devices", visible)


def _is_by_mpi(launch: Launched | None, address: str | None, count: int | None) -> bool:
    """Return True if a launcher of MPI programs has started just these processes."""
    if launch is None or launch.coordinator is not None or count != launch.count:
        return False
    return address is None or mpi.is_there()


def _checked(process_id: Any, num_processes: Any) -> tuple[int, int]:
    """The number of this process and how many there are."""
    if num_processes is None:
        raise ValueError("Number of processes must be defined.")
    if process_id is None:
        raise ValueError("The process id of the current process must be defined.")
    for name, x in (("process_id", process_id), ("num_processes", num_processes)):
        if not isinstance(x, int):
            raise TypeError(f"{name} must be an int. Got {name}={x} of type {type(x)}.")
    if not 0 <= process_id < num_processes:
        raise ValueError(
            "process_id and num_processes must be nonnegative, with process_id <"
            f" num_processes. Got process_id={process_id},"
            f" num_processes={num_processes}."
        )
    return process_id, num_processes


def _limits(
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    **_others: Any,
) -> Limits:
    limits: Limits = starts.Limits(
        initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds
    )
    return limits


def is_initialized() -> bool:
    """Return True if `initialize` was called.

    >>> import curta
    >>> curta.distributed.is_initialized()
    False
    """
    return global_state.processes is not None


def shutdown() -> None:
    """Undo `initialize`, if it was called; it waits until all processes do so.

    >>> import curta
    >>> curta.distributed.shutdown()
    >>> curta.distributed.is_initialized()
    False
    """
    processes, global_state.processes = global_state.processes, None
    if processes is not None:
        processes.close()
    global_state.coordinator_address = None
    global_state.process_id, global_state.num_processes = 0, 1
