"""Calls of jitted functions on devices of a plugin, in native code.

entry(args, leaves, compiled, build)  # an entry of `native_call`, or None
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from curta._base.once import once
from curta.compiler.support import (
    call_code,
    device_call_code,
    entry_code,
    invoke_code,
)
from curta.compiler.support.entry import builtin_function
from curta.config import config
from curta.core.avals import placed_aval
from curta.core.sharding import Sharding
from curta.runtime.array import ArrayImpl
from curta.runtime.device_call import DeviceCall
from curta.runtime.device_data import DeviceData
from curta.runtime.native_call import (
    MISS,
    CallArguments,
    NotReady,
    Walk,
    code_of_calls,
    field_offset,
    known_layout,
    record_words,
)
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.buffers import DeviceBuffer
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.executable import LoadedExecutable
from curta.runtime.pjrt.library import Library

Build = Callable[[Sequence[Any]], Any] | None


def entry(
    given: CallArguments,
    leaves: Sequence[Any],
    call: DeviceCall,
    commit: bool,
    build: Build,
) -> tuple[Any, ...] | None:
    """What native code needs to call a program on arrays of a device.

    `commit` says whether results are placed, `build` puts them into a tree.

    The call was made once, so that donated arguments are gone. None if there is no
    native code, or it does not do such calls: of programs on devices of several
    processes, that call functions of the host, or whose arguments lie elsewhere.
    """
    code, run = _code(), call.executable
    if code is None or not leaves or not run.is_plain:
        return None
    donated, wanted = call.donated, run.in_shardings
    if not all(
        _is_there(x, s, i in donated) for i, (x, s) in enumerate(zip(leaves, wanted))
    ):
        return None
    expected = {id(x): s for x, s in zip(leaves, wanted)}
    try:
        walk = Walk(given, lambda x: _seen(x, expected[id(x)]))
    except NotReady:
        return None
    program: LoadedExecutable = run.program
    client = program.client
    _work_natively(client, code)
    execute = ctypes.cast(program.function, ctypes.c_void_p).value or 0
    arguments, kept = program.call_words(len(leaves))
    arrays, results = len(leaves), len(program.results)
    devices = len(program.devices)
    operands, outputs = devices * arrays, devices * results
    # The head that `invoke_code` expects; it does not call this function.
    head = [execute, operands + outputs, outputs, *[0] * (invoke_code.HEAD_WORDS - 3)]
    borrowed, closed = id(client.borrowed), ctypes.addressof(client.closed_word)
    more = [borrowed, closed, devices, arrays, results, len(arguments), *arguments]
    sizes = arrays, operands, outputs
    words = record_words(head, walk, sizes, len(donated), [*more, *donated])
    record = _packed(code.address("run_on_device"), *words)
    make, library = _maker(client, run, commit, build), client.library
    failed = _python_says(library) if donated else library.raise_error
    # After the first four come objects that are kept alive: the record points to them.
    return record, [], make, failed, run, kept, config.context, walk.kept, code


def _python_says(library: Library) -> Callable[[int], Any]:
    """What a refused call that donates is followed by: the same call by Python.

    The plugin took nothing. What is wrong, an array that is donated and used, say, is
    told as it is on every device.
    """

    def failed(error: int) -> Any:
        library.take_error(error)
        return MISS

    return failed


def _packed(*words: int) -> bytes:
    return struct.pack(f"={len(words)}Q", *words)


def _is_there(x: Any, wanted: Sharding, donated: bool) -> bool:
    """Whether an argument is an array that lies, or lay, where a program wants it."""
    if type(x) is not ArrayImpl:
        return False
    data = getattr(x, "_pending", None)
    if data is None and donated:
        return x._sharding is None or x._sharding == wanted
    return type(data) is DeviceData and data.sharding == wanted


def _seen(x: Any, wanted: Sharding) -> tuple[Any, ...]:
    """The objects by which an array is recognised."""
    if getattr(x, "_pending", None) is None:  # it was donated
        return x.aval, x._sharding, x._sharding or wanted
    return x.aval, x._sharding, x._pending.sharding


def _maker(
    client: PluginClient, run: Any, commit: bool, build: Build
) -> Callable[..., Any]:
    """What makes the results of a call, given the handles of its buffers."""
    ends = zip(run.program.results, run.out_avals, run.out_shardings, strict=True)
    wanted = [
        (
            kind,
            aval,
            at,
            placed_aval(aval, at) if commit else aval,
            at if commit else None,
        )
        for kind, aval, at in ends
    ]

    count = len(wanted)

    def on_one_device(*handles: int) -> Any:
        if client.waiting:
            client.sweep()
        outs = []
        for handle, (kind, aval, at, placed, where) in zip(handles, wanted):
            array = ArrayImpl(None, placed, where)
            array._pending = DeviceData((DeviceBuffer(client, handle, kind),), aval, at)
            outs.append(array)
        return outs[0] if build is None else build(outs)

    def on_several(*handles: int) -> Any:
        if client.waiting:
            client.sweep()
        outs = []
        for k, (kind, aval, at, placed, where) in enumerate(wanted):
            # Those of each device follow one another.
            buffers = [
                DeviceBuffer(client, handle, kind) for handle in handles[k::count]
            ]
            array = ArrayImpl(None, placed, where)
            array._pending = DeviceData(buffers, aval, at)
            outs.append(array)
        return outs[0] if build is None else build(outs)

    return on_one_device if len(run.program.devices) == 1 else on_several


def _work_natively(client: PluginClient, code: Any) -> None:
    """Have native code free the buffers of a client, and wait for them."""
    if client.works_natively or client.closed:
        return
    client.works_natively = True

    def made(name: str, *owned: Any) -> Any:
        address = code.address(name)
        return builtin_function(name.encode(), code, address)(owned)

    records = [
        _function(client, name)
        for name in ("Buffer_ReadyEvent", "Event_Await", "Event_Destroy")
    ]
    client.await_buffer = made("await_buffer", *records, client.library.raise_error)
    record, later = _function(client, "Buffer_Destroy"), client.free_buffer
    owned = record, callbacks.running, client.buffers, later
    client.free_buffer = made("free_buffer", *owned)


def _function(client: PluginClient, name: str) -> bytes:
    """What native code calls a function of the plugin by."""
    arguments: Any = client.library.struct(name + "_Args")
    size = -(-arguments.struct_size // 8)
    words = (ctypes.c_uint64 * size).from_buffer(arguments)
    address = ctypes.cast(client.library.functions[name], ctypes.c_void_p).value or 0
    return _packed(address, size, *words)


# ---- the native code


@once
def _code() -> Any:
    """The native code, if there is any."""
    sources = call_code, entry_code
    return code_of_calls(device_call_code, sources, _known_layout(), _OBJECTS)


_OBJECTS: dict[str, Any] = {
    "array_type": ArrayImpl,
    "device_data_type": DeviceData,
    "dict_type": dict,
    "miss": MISS,
    "none": None,
}


class _NoClient:
    """Stands for a client, of which a buffer tells when it is made and dropped."""

    buffers: set[int] = set()

    def free_buffer(self, handle: int) -> None:
        """Nothing is to be freed."""


def _known_layout() -> device_call_code.DeviceLayout | None:
    """Where fields lie; None if they are not found."""
    arrays = known_layout()
    if arrays is None:
        return None
    handle, sharding = 1 << 40, object()
    buffer = DeviceBuffer(_NoClient(), handle, None)  # type: ignore[arg-type]
    data = DeviceData((buffer,), object(), sharding)  # type: ignore[arg-type]
    offsets = (
        field_offset(data, sharding),
        field_offset(data, data.buffers),
        field_offset(buffer, handle),
    )
    if None in offsets:
        return None
    return device_call_code.DeviceLayout(arrays, *(p or 0 for p in offsets))
