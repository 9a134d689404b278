"""A client of a plugin: its devices, and all that lives on them."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from curta._base.once import cached_property, snapshot
from curta.control.callback import barriers
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.buffers import DeviceBuffer, from_host
from curta.runtime.pjrt.called import NOTHING_CALLED, CalledByPrograms
from curta.runtime.pjrt.devices import PluginDevice, PluginMemory
from curta.runtime.pjrt.executable import LoadedExecutable, compiled, deserialized
from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.topology import Topology
from curta.runtime.pjrt.values import NamedValues, Value, array_of, pointers, text

if TYPE_CHECKING:
    from curta.runtime.pjrt.keyvalue import Callbacks

Target = PluginDevice | PluginMemory


class PluginClient:
    """What runs programs on the devices of a plugin.

    It is closed when the process ends, or by `close`: then the buffers and programs on
    it are gone. A forked process cannot use it.

    Args:
      library: the plugin.
      options: by name, as the plugin knows them.
      store: where processes of one program find each other.

    Raises JaxRuntimeError: there is no such device, an option is not known, ...
    """

    free_buffer: Any

    def __init__(
        self,
        library: Library,
        options: Mapping[str, Value] | None = None,
        store: Callbacks | None = None,
    ) -> None:
        self.library = library
        self.closed: str | None = None
        named = NamedValues(options or {})
        given = {} if store is None else store.arguments()
        result = library.call(
            "Client_Create",
            create_options=named.address,
            num_options=named.count,
            **given,
        )
        self.address: int = result.client
        # It is called whenever devices of several processes first work together.
        self.store = store
        #: Handles that must be freed before the client is.
        self.buffers: set[int] = set()
        self.executables: set[int] = set()
        #: Handles of buffers whose memory other libraries use.
        self.borrowed: set[int] = set()
        #: By rank, arguments of copies to the host that are not in use.
        self.reads: defaultdict[int, list[Any]] = defaultdict(list)
        #: Not 0 once it is closed: native code looks here.
        self.closed_word: ctypes.c_uint64 = ctypes.c_uint64(0)
        #: What `sweep` looks after: handles that nobody has any more, but that could
        #: not be freed at once, and memory of the host that the plugin still reads,
        #: with events that say when it does no more.
        self.waiting: deque[tuple[str, int, Any]] = deque()
        #: Who has taken some of `waiting`, one by one, to look at it.
        self._looking: set[object] = set()
        self._by_address: dict[int, Any] = {}
        #: Free the handle of a buffer, perhaps a little later. Finalizers call it,
        #: anywhere: within a callback, too, which a plugin may make while it holds a
        #: lock.
        self.free_buffer = self._make_free()
        #: Wait for the buffer of a handle; raises what went wrong.
        self.await_buffer: Callable[[int], None] = self._await_buffer
        #: Whether native code does so.
        self.works_natively = False
        _open.add(self)

    # ---- what there is

    @cached_property
    def platform(self) -> str:
        """`cuda`, `rocm`, `tpu`, `cpu`, ..., as the plugin names it."""
        result = self._call("PlatformName")
        return text(result.platform_name, result.platform_name_size)

    @cached_property
    def platform_version(self) -> str:
        """Versions of driver and libraries."""
        result = self._call("PlatformVersion")
        return text(result.platform_version, result.platform_version_size)

    @cached_property
    def process_index(self) -> int:
        """The number of this process among those of the program."""
        return self._call("ProcessIndex").process_index

    @cached_property
    def devices(self) -> list[PluginDevice]:
        """All devices, those of other processes too."""
        result = self._call("Devices")
        return [self.device_at(a) for a in pointers(result.devices, result.num_devices)]

    @cached_property
    def local_devices(self) -> list[PluginDevice]:
        """The devices of this process."""
        result = self._call("AddressableDevices")
        addresses = pointers(result.addressable_devices, result.num_addressable_devices)
        return [self.device_at(address) for address in addresses]

    @cached_property
    def memories(self) -> list[PluginMemory]:
        """The memories of this process's devices."""
        result = self._call("AddressableMemories")
        addresses = pointers(
            result.addressable_memories, result.num_addressable_memories
        )
        return [self.memory_at(address) for address in addresses]

    def device_at(self, address: int) -> PluginDevice:
        """The device that the plugin knows by an address."""
        result = self._by_address.get(address)
        if result is None:
            result = self._by_address.setdefault(address, PluginDevice(self, address))
        return result

    def memory_at(self, address: int) -> PluginMemory:
        """The memory that the plugin knows by an address."""
        result = self._by_address.get(address)
        if result is None:
            result = self._by_address.setdefault(address, PluginMemory(self, address))
        return result

    def topology(self) -> Topology:
        """What programs for these devices can be compiled for, without them."""
        return Topology(self.library, self._call("TopologyDescription").topology, self)

    def default_assignment(self, replicas: int, partitions: int) -> list[list[int]]:
        """The ids of devices that the plugin would choose, a row for each replica."""
        ids = array_of([0] * (replicas * partitions), ctypes.c_int32)
        self._call(
            "DefaultDeviceAssignment",
            num_replicas=replicas,
            num_partitions=partitions,
            default_assignment_size=replicas * partitions,
            default_assignment=ctypes.addressof(ids),
        )
        flat = list(ids)[: replicas * partitions]
        return [flat[i * partitions :][:partitions] for i in range(replicas)]

    def _call(self, what: str, *nested: Any, **fields: Any) -> Any:
        self.check_open()
        return self.library.call(
            f"Client_{what}", *nested, client=self.address, **fields
        )

    # ---- what it does

    def compile(self, program: str | bytes, options: bytes) -> LoadedExecutable:
        """Compile a module of StableHLO, text or bytecode, with CompileOptionsProto."""
        self.check_open()
        return compiled(self, program, options)

    def deserialize(
        self, data: bytes, options: bytes | None = None
    ) -> LoadedExecutable:
        """What `LoadedExecutable.serialize` gave, to be run again."""
        self.check_open()
        return deserialized(self, data, options)

    def put(
        self,
        array: np.ndarray[Any, Any],
        target: Target | None = None,
        immutable: bool = False,
    ) -> DeviceBuffer:
        """A buffer with the elements of an array.

        Args:
          array: of the host.
          target: a device or a memory; the first device if not given.
          immutable: nobody will write to `array` any more, so that the plugin may use
            its memory for as long as the buffer lives.

        Raises TypeError for a dtype that PJRT has not.
        """
        self.check_open()
        if target is None:
            target = self.local_devices[0]
        return from_host(self, np.asarray(array), target, immutable)

    # ---- the end of things

    def check_open(self) -> None:
        """Raise JaxRuntimeError if the client was closed, or this process forked."""
        if self.closed:
            raise JaxRuntimeError(f"FAILED_PRECONDITION: {self.closed}")

    def _make_free(self) -> Callable[[int], None]:
        """The function that frees buffers, once for each call of a program."""
        buffers, waiting, running = self.buffers, self.waiting, callbacks.running
        library = self.library
        run = library.functions["Buffer_Destroy"]
        # Arguments come from a free list: other threads may call meanwhile.
        heap: list[tuple[Any, int]] = []

        def free(handle: int) -> None:
            if running:
                waiting.append(("Buffer_Destroy", handle, None))
                return
            buffers.discard(handle)
            try:
                slot = heap.pop()
            except IndexError:
                made = library.struct("Buffer_Destroy_Args")
                slot = made, ctypes.addressof(made)
            slot[0].buffer = handle
            if error := run(slot[1]):
                library.retry(error, run, slot[0], ())
            heap.append(slot)

        return free

    def _await_buffer(self, handle: int) -> None:
        self.library.wait(self.library.call("Buffer_ReadyEvent", buffer=handle).event)

    def free_executable(self, handle: int) -> None:
        """Free a program, perhaps a little later."""
        if self.closed:
            return
        self.waiting.append(("LoadedExecutable_Destroy", handle, None))
        self.sweep()

    def borrow(self, event: int, memory: Any) -> None:
        """Keep memory of the host until an event says that nobody reads it."""
        if not self.closed:
            self.waiting.append(("Event_Destroy", event, memory))

    def wait_for(self, memory: Any) -> None:
        """Wait until borrowed memory is unused; raises errors of its users."""
        self._await_events(lambda borrowed: borrowed is memory)

    def wait_for_programs(self) -> None:
        """Wait until programs over several processes are done, or have failed.

        Memory of the host that a buffer uses is not waited for: the plugin lets go of
        it once the buffer is freed, which may be still to come.
        """
        done = False
        while not done:
            with contextlib.suppress(JaxRuntimeError):  # told by their results
                self._await_events(lambda it: isinstance(it, CalledByPrograms))
                done = True

    def wait_for_host_calls(self) -> None:
        """Wait until functions of Python that programs call have been called.

        Raises what went wrong.
        """
        self._await_events(
            lambda it: isinstance(it, CalledByPrograms) and it is not NOTHING_CALLED
        )

    def _await_events(self, wanted: Callable[[Any], bool]) -> None:
        """Wait for the events of certain memory; raises what went wrong for the first.

        Other threads may have taken some, to look at them: those are awaited, too.
        """
        others = True
        while others:
            others = bool(self._looking)
            for function, handle, memory in self._taken():
                if function == "Event_Destroy" and wanted(memory):
                    self.library.wait(handle)
                else:
                    self.waiting.append((function, handle, memory))
            if others:
                time.sleep(0.001)

    def sweep(self) -> None:
        """Free buffers that are no longer referenced."""
        if callbacks.running:
            return
        # Other threads, and finalizers in this one, may be at it, too.
        for function, handle, memory in self._taken():
            if function == "Buffer_Destroy":
                self.buffers.discard(handle)
                self.library.call(function, buffer=handle)
            elif function == "LoadedExecutable_Destroy":
                self.executables.discard(handle)
                self.library.call(function, executable=handle)
            elif self.library.is_ready(handle):
                self.library.call(function, event=handle)
            else:
                self.waiting.append((function, handle, memory))

    def _taken(self) -> Iterator[Any]:
        """Pop as many of `waiting` as there are now, one by one."""
        token = object()
        self._looking.add(token)
        try:
            for _ in range(len(self.waiting)):
                try:
                    yield self.waiting.popleft()
                except IndexError:
                    return
        finally:
            self._looking.discard(token)

    def _end(self, why: str) -> None:
        self.closed = why
        self.closed_word.value = 1
        self.free_buffer = _leave

    def close(self) -> None:
        """Free buffers, then programs, then the client; later uses raise."""
        if self.closed:
            return
        self._end("the client of the plugin was closed")
        _open.discard(self)
        call = self.library.call
        for handle in tuple(self.buffers):
            call("Buffer_Destroy", buffer=handle)
        for handle in snapshot(self.executables):
            call("LoadedExecutable_Destroy", executable=handle)
        self.buffers.clear()
        self.executables.clear()
        self.wait_for_programs()
        call("Client_Destroy", client=self.address)

    def __repr__(self) -> str:
        return f"Client({self.library.name!r}, {self.platform})"


def _leave(handle: int) -> None:
    """What is left of a buffer when its client is gone."""


_open: weakref.WeakSet[PluginClient] = weakref.WeakSet()


def close_all() -> None:
    """Close the clients while Python still runs: plugins have threads that call it."""
    for client in snapshot(_open):
        client.close()


def _forked() -> None:
    for client in snapshot(_open):
        client._end(
            "this process was forked from one that uses the plugin, whose devices and"
            " threads it does not have: start it by the method 'spawn' instead."
        )


def _wait_for_host_calls() -> None:
    for client in snapshot(_open):
        client.wait_for_host_calls()


atexit.register(close_all)
barriers.append(_wait_for_host_calls)
os.register_at_fork(after_in_child=_forked)
