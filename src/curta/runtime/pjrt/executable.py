"""Programs that are loaded on devices, and how they are run."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curta.runtime.pjrt.buffers import DeviceBuffer, refuse_foreign
from curta.runtime.pjrt.called import NOTHING_CALLED, CalledByPrograms
from curta.runtime.pjrt.program import PluginModule, PluginProgram
from curta.runtime.pjrt.values import array_of, bytes_of, pointers

if TYPE_CHECKING:
    from curta.runtime.pjrt.client import PluginClient
    from curta.runtime.pjrt.devices import PluginDevice


class _DeviceCall:
    """The arguments of one call, made once and used again.

    A plugin reads the addresses of the operands in `rows`, a row for each device, and
    writes those of the results into `out_rows`.
    """

    def __init__(self, executable: LoadedExecutable, operands: int) -> None:
        library = executable.client.library
        devices, results = len(executable.devices), len(executable.results)
        pointer = ctypes.c_void_p
        # Addresses are numbers to C's arrays, or None.
        self.rows: list[Any] = [(pointer * max(1, operands))() for _ in range(devices)]
        self.out_rows: list[Any] = [
            (pointer * max(1, results))() for _ in range(devices)
        ]
        #: When each device is done; written only by calls that are followed.
        self.events: Any = (pointer * devices)()
        self.row, self.out_row = self.rows[0], self.out_rows[0]
        self._ins = (pointer * devices)(*map(ctypes.addressof, self.rows))
        self._outs = (pointer * devices)(*map(ctypes.addressof, self.out_rows))
        self.options: Any = library.struct("ExecuteOptions")
        self.arguments: Any = library.struct(
            "LoadedExecutable_Execute_Args",
            executable=executable.handle,
            options=ctypes.addressof(self.options),
            argument_lists=ctypes.addressof(self._ins),
            num_devices=devices,
            num_args=operands,
            output_lists=ctypes.addressof(self._outs),
        )
        self.address = ctypes.addressof(self.arguments)

    def run(self, executable: LoadedExecutable) -> None:
        function = executable.function
        if error := function(self.address):
            library = executable.client.library
            library.retry(error, function, self.arguments, [self.options])

    def follow(self, client: PluginClient, memory: Any) -> None:
        """Have `client` keep `memory` until the program is done on all devices."""
        for event in filter(None, self.events):
            client.borrow(event, memory)


class LoadedExecutable:
    """A program on the devices of a client.

    `results` are shapes and dtypes of what one device gives. A call returns while the
    program still runs: what goes wrong then is raised where a result is waited for.
    """

    def __init__(self, client: PluginClient, handle: int) -> None:
        self.client = client
        self.handle = handle
        client.executables.add(handle)
        self.function: Any = client.library.functions["LoadedExecutable_Execute"]
        with self.executable() as program:
            self.name: str = program.name
            self.results: Any = program.results
        result = self._call("AddressableDevices")
        addresses = pointers(result.addressable_devices, result.num_addressable_devices)
        #: The devices of this process that it runs on, in the order of its operands.
        self.devices: list[PluginDevice] = [client.device_at(a) for a in addresses]
        self._single = len(self.devices) == 1
        # Prepared calls by their number of operands. A call is popped while it is in
        # use, so that threads and finalizers may come in between.
        self._calls: defaultdict[int, list[_DeviceCall]] = defaultdict(list)

    def __del__(self) -> None:
        self.client.free_executable(self.handle)

    def _call(self, what: str) -> Any:
        self.client.check_open()
        return self.client.library.call(
            f"LoadedExecutable_{what}", executable=self.handle
        )

    def executable(self) -> PluginProgram:
        """The compiled program itself, to be asked and serialised."""
        result = self.client.library.call(
            "LoadedExecutable_GetExecutable", loaded_executable=self.handle
        )
        return PluginProgram(self.client.library, result.executable)

    def serialize(self) -> bytes:
        """The program, for `PluginClient.deserialize`."""
        with self.executable() as program:
            return program.serialize()

    def call_words(self, operands: int) -> tuple[list[int], Any]:
        """The struct of a call's arguments, in words, and what it refers to.

        For native code, which writes the addresses of operands and results into it.
        """
        call = _DeviceCall(self, operands)
        size = -(-call.arguments.struct_size // 8)
        words = (ctypes.c_uint64 * size).from_address(call.address)
        return [*words], call

    def __call__(
        self, *operands: DeviceBuffer, keep: Sequence[int] = ()
    ) -> list[DeviceBuffer]:
        """Run the program on its device.

        Args:
          operands: buffers on the device; those that the program says it takes over
            are gone afterwards.
          keep: numbers of operands that the program must not take over.

        Raises JaxRuntimeError with the plugin's message, for operands that do not fit,
        say.
        """
        if not self._single:
            raise TypeError(
                f"{self.name} runs on {len(self.devices)} devices: use `sharded`"
            )
        client = self.client
        try:
            handles = [b.handle for b in operands if b.client is client]
        except AttributeError:
            handles = []
        if len(handles) != len(operands) or client.closed:
            self._refuse(operands)
        calls = self._calls[len(handles)]
        try:
            call = calls.pop()
        except IndexError:
            call = _DeviceCall(self, len(handles))
        call.row[: len(handles)] = handles
        if keep or client.borrowed:
            self._run_keeping(call, {*keep, *_lent(operands)})
        elif error := self.function(call.address):
            client.library.retry(error, self.function, call.arguments, [call.options])
        if client.waiting:
            client.sweep()
        # A slice at once: to iterate over an array of C takes as long as the call.
        result = zip(call.out_row[:], self.results)
        made = [DeviceBuffer(client, handle, kind) for handle, kind in result]
        calls.append(call)
        return made

    def sharded(
        self,
        operands: Sequence[Sequence[DeviceBuffer]],
        keep: Sequence[int] = (),
        host_calls: CalledByPrograms | None = None,
    ) -> list[list[DeviceBuffer]]:
        """Run the program on all of its devices.

        Args:
          operands: for each device of `devices` its part of each operand.
          keep: numbers of operands that the program must not take over.
          host_calls: what the program calls.
        """
        if len(operands) != len(self.devices):
            raise TypeError(
                f"{self.name} runs on {len(self.devices)} devices; got operands for"
                f" {len(operands)}"
            )
        count = len(operands[0])
        for row in operands:
            if len(row) != count:
                raise TypeError("devices have different numbers of operands")
            if any(b.client is not self.client for b in row) or self.client.closed:
                self._refuse(row)
        try:
            call = self._calls[count].pop()
        except IndexError:
            call = _DeviceCall(self, count)
        for row, to in zip(operands, call.rows):
            to[:count] = [b.handle for b in row]
        kept = {*keep}.union(*map(_lent, operands))
        # Devices of other processes take part until the program is done here, too.
        if host_calls is not None or self.client.store is not None:
            call.arguments.device_complete_events = ctypes.addressof(call.events)
        if host_calls is not None:
            host_calls.install(call.options, len(self.devices))
        self._run_keeping(call, kept)
        call.follow(self.client, host_calls or NOTHING_CALLED)
        self.client.sweep()
        made = [
            [
                DeviceBuffer(self.client, h, kind)
                for h, kind in zip(row[:], self.results)
            ]
            for row in call.out_rows
        ]
        if host_calls is None:
            self._calls[count].append(call)
        return made

    def _run_keeping(self, call: _DeviceCall, keep: set[int]) -> None:
        kept = array_of(sorted(keep))
        call.options.non_donatable_input_indices = ctypes.addressof(kept)
        call.options.num_non_donatable_input_indices = len(keep)
        call.run(self)
        call.options.num_non_donatable_input_indices = 0
        call.options.non_donatable_input_indices = None

    def _refuse(self, operands: Sequence[Any]) -> None:
        self.client.check_open()
        for buffer in operands:
            refuse_foreign(self.client, buffer)

    def __repr__(self) -> str:
        return f"LoadedExecutable({self.name!r}, {len(self.devices)} devices)"


def _lent(operands: Sequence[DeviceBuffer]) -> list[int]:
    return [i for i, b in enumerate(operands) if b.is_lent]


def compiled(
    client: PluginClient, program: str | bytes, options: bytes
) -> LoadedExecutable:
    """See `PluginClient.compile`."""
    module = PluginModule(client.library, program, options)
    result = client.library.call(
        "Client_Compile", module.struct, client=client.address, **module.arguments
    )
    return LoadedExecutable(client, result.executable)


def deserialized(
    client: PluginClient, data: bytes, options: bytes | None
) -> LoadedExecutable:
    """See `PluginClient.deserialize`."""
    kept, given = bytes_of(data), bytes_of(options or b"")
    result = client.library.call(
        "Executable_DeserializeAndLoad",
        client=client.address,
        serialized_executable=ctypes.addressof(kept),
        serialized_executable_size=len(data),
        overridden_serialized_compile_options=ctypes.addressof(given)
        if options
        else None,
        overridden_serialized_compile_options_size=len(options or b""),
    )
    return LoadedExecutable(client, result.loaded_executable)
