"""Functions of the host that a program calls, through its sends and receives.

A program sends operands over channels and receives results over others; the plugin
calls back with what it has sent, and asks for what it wants to receive.
"""

from __future__ import annotations

import ctypes
import queue
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import Lock
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.abi import STATUS, structs
from curta.runtime.pjrt.called import CalledByPrograms
from curta.runtime.pjrt.errors import status_of
from curta.runtime.pjrt.library import Library

# PJRT_Error* send(PJRT_Chunk*, PJRT_CallbackError*, size_t total, bool done, void* arg)
_SEND = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_bool,
    ctypes.c_void_p,
)
# void receive(PJRT_CopyToDeviceStream*, void* arg)
_RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_ERROR = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
)


def callback_error(address: int, error: BaseException) -> int | None:
    """An error of the plugin's for an exception; `address`: where its maker stands."""
    make = _ERROR(ctypes.c_void_p.from_address(address).value or 0)
    code, message = STATUS.index(status_of(error)), str(error) or repr(error)
    encoded = message.removeprefix(f"{STATUS[code]}: ").encode()
    return make(code, encoded, len(encoded))


@dataclass(frozen=True)
class Channel:
    """One array that goes over a channel."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class DeviceHostCall:
    """A function of arrays that a program calls on the host."""

    function: Callable[..., Sequence[np.ndarray[Any, Any]]]
    sends: tuple[Channel, ...]
    receives: tuple[Channel, ...]


class HostCalls(CalledByPrograms):
    """What a program's host calls need for one run on some devices.

    The functions of C live as long as this object: keep it until the run is over.
    """

    def __init__(self, library: Library, calls: Sequence[DeviceHostCall]) -> None:
        self.library = library
        self.calls = calls
        self._keep: list[Any] = []
        #: The chunks that were handed over and are not yet given back.
        self._chunks: dict[int, Any] = {}
        self._deleter = callbacks.guarded(_DELETER, self._delete, callbacks.report)

    def install(self, options: Any, devices: int) -> None:
        """Write the callbacks for each device into PJRT_ExecuteOptions."""
        send_rows, receive_rows = [], []
        for _ in range(devices):
            running = [_Running(self, call) for call in self.calls]
            send_rows.append(self._row("Send", [s for r in running for s in r.sends]))
            receive_rows.append(
                self._row("Recv", [s for r in running for s in r.receives])
            )
        options.num_send_ops = sum(len(c.sends) for c in self.calls)
        options.num_recv_ops = sum(len(c.receives) for c in self.calls)
        options.send_callbacks = self._pointers(send_rows)
        options.recv_callbacks = self._pointers(receive_rows)

    def _row(self, kind: str, entries: Sequence[tuple[Channel, Any]]) -> Any:
        info = structs()[f"{kind}CallbackInfo"]
        row = (info * max(1, len(entries)))()
        field = "send_callback" if kind == "Send" else "recv_callback"
        for item, (channel, function) in zip(row, entries):
            item.channel_id = channel.number
            setattr(item, field, callbacks.address_of(function))
            self._keep.append(function)
        self._keep.append(row)
        return row

    def _pointers(self, rows: Sequence[Any]) -> int:
        made = (ctypes.c_void_p * len(rows))(*map(ctypes.addressof, rows))
        self._keep.append(made)
        return ctypes.addressof(made)

    def add_chunk(self, stream: int, data: np.ndarray[Any, Any]) -> None:
        """Hand an array to a stream to the device."""
        chunk: Any = structs()["Chunk"]()
        chunk.data, chunk.size = data.ctypes.data, data.nbytes
        chunk.deleter = callbacks.address_of(self._deleter)
        key = chunk.deleter_arg = ctypes.addressof(chunk)
        self._chunks[key] = chunk, data
        result = self.library.call(
            "CopyToDeviceStream_AddChunk", stream=stream, chunk=key
        )
        self.library.wait(result.transfer_complete)

    def _delete(self, data: int, key: int) -> None:
        self._chunks.pop(key, None)


class _Running:
    """One callback of a device to the host, from operands to results."""

    def __init__(self, owner: HostCalls, call: DeviceHostCall) -> None:
        self.owner = owner
        self.call = call
        # Operands come in parts, from any thread.
        self._lock = Lock()
        self.parts: dict[int, bytearray] = {c.number: bytearray() for c in call.sends}
        self.done: set[int] = set()
        self.results: dict[int, queue.SimpleQueue[Any]] = {
            c.number: queue.SimpleQueue() for c in call.receives
        }
        self.sends = [(c, self._sender(c)) for c in call.sends]
        self.receives = [(c, self._receiver(c)) for c in call.receives]
        if not call.sends:
            self._run({})

    def _sender(self, channel: Channel) -> Any:
        def send(chunk: int, error: int, total: int, done: bool, _: Any) -> Any:
            part: Any = structs()["Chunk"].from_address(chunk)
            data = ctypes.string_at(part.data, part.size)
            if part.deleter:
                _DELETER(part.deleter)(part.data, part.deleter_arg)
            operands = self._arrived(channel, data, done)
            if operands is not None:
                self._run(operands)
            return None

        def failed(problem: BaseException, chunk: int, error: int, *_: Any) -> Any:
            for results in self.results.values():
                results.put(None)
            return callback_error(error, problem)

        return callbacks.guarded(_SEND, send, failed)

    def _arrived(
        self, channel: Channel, data: bytes, done: bool
    ) -> dict[int, bytearray] | None:
        """Keep a part of an operand; all operands, if these are complete."""
        with self._lock:
            self.parts[channel.number] += data
            if done:
                self.done.add(channel.number)
            if len(self.done) < len(self.call.sends):
                return None
            result, self.done = self.parts, set()
            self.parts = {c.number: bytearray() for c in self.call.sends}
            return result

    def _run(self, parts: dict[int, bytearray]) -> None:
        operands = [
            np.frombuffer(parts[c.number], c.dtype).reshape(c.shape)
            for c in self.call.sends
        ]
        outs = self.call.function(*operands)
        for channel, out in zip(self.call.receives, outs, strict=True):
            dense = np.ascontiguousarray(out, channel.dtype).reshape(channel.shape)
            self.results[channel.number].put(dense)

    def _receiver(self, channel: Channel) -> Any:
        def receive(stream: int, _: Any) -> None:
            try:
                result = self.results[channel.number].get()
                if result is not None:
                    self.owner.add_chunk(stream, result)
            finally:
                self.owner.library.call("CopyToDeviceStream_Destroy", stream=stream)

        return callbacks.guarded(_RECEIVE, receive, callbacks.report)
