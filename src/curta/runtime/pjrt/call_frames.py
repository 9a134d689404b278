"""Handlers of XLA's typed interface in Python: functions that programs call.

XLA calls a handler with a frame: the addresses of operands and results, attributes, and
a table of functions, by which errors are made. One handler serves all programs of CPUs:
an attribute has the number of the function of Python to call.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import math
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from curta._base.once import Lock, once
from curta.compiler.stablehlo.callbacks import PYTHON_TARGET, Callback
from curta.config import default_device
from curta.errors import JaxRuntimeError
from curta.runtime.devices import local_devices
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.abi import FFI_EXTENSION, STATUS, Struct, bare_structs, structs
from curta.runtime.pjrt.called import CalledByPrograms
from curta.runtime.pjrt.errors import status_of
from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.values import bytes_of

logger: Any = logging.getLogger(__name__)

# XLA_FFI_*, as xla/ffi/api/c_api.h has them; structs within others are written out.
FRAMES = """
CallFrame struct_size:z extension_start:p api:p ctx:p stage:i \
    args_struct_size:z args_extension_start:p args_size:q args_types:p args_args:p \
    rets_struct_size:z rets_extension_start:p rets_size:q rets_types:p rets_rets:p \
    attrs_struct_size:z attrs_extension_start:p attrs_size:q attrs_types:p \
    attrs_names:p attrs_attrs:p
Buffer struct_size:z extension_start:p dtype:i data:p rank:q dims:p
ByteSpan ptr:p len:z
Scalar dtype:i value:p
Extension_Base struct_size:z type:i next:p
Metadata_Extension extension_base_struct_size:z extension_base_type:i \
    extension_base_next:p metadata:p
Metadata struct_size:z api_version_struct_size:z api_version_extension_start:p \
    api_version_major_version:i api_version_minor_version:i traits:i \
    state_type_id_type_id:q
Api struct_size:z extension_start:p api_version_struct_size:z \
    api_version_extension_start:p api_version_major_version:i \
    api_version_minor_version:i internal_api:p XLA_FFI_Error_Create:p
Error_Create_Args struct_size:z extension_start:p message:p errc:i
"""
# What only asks a handler for its version; the stage at which results are made.
_METADATA, _EXECUTE = 1, 3
# XLA_FFI_DataType of tokens.
_TOKEN = 17
# The minor versions of the interface whose frames are as above, the newest first.
_MINORS = 3, 2, 1, 0

# XLA_FFI_Error* handler(XLA_FFI_CallFrame*)
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
#: Numbers for custom calls of Python: no two programs of a process share one.
call_numbers: Final[Iterator[int]] = itertools.count()


@once
def frame_structs() -> dict[str, type[Struct]]:
    """The structs by their names in C without `XLA_FFI_`."""
    return bare_structs(FRAMES, "XLA_FFI_")


class _Function:
    """A function of Python, with the shapes and dtypes that it takes and gives."""

    def __init__(self, callback: Callback) -> None:
        self.run = callback.run
        self.ins, self.outs = (
            [(a.shape, np.dtype(a.dtype)) for a in avals]
            for avals in (callback.in_avals, callback.out_avals)
        )


# The functions that programs may call, by number, for as long as their owners live.
_known: dict[int, weakref.ref[_Function]] = {}


def _remember(number: int, function: _Function) -> None:
    def forget(_: Any) -> None:
        _known.pop(number, None)

    _known[number] = weakref.ref(function, forget)


class PythonCalls(CalledByPrograms):
    """The functions of a program; they can be called while this object lives.

    Nothing is to be said of a single run: the handler knows them by their numbers.
    """

    def __init__(self, called: Sequence[Callback]) -> None:
        self._functions = [_Function(c) for c in called]
        for callback, function in zip(called, self._functions, strict=True):
            if callback.number is not None:
                _remember(callback.number, function)


# ---- the handler


def _handle(address: int) -> None:
    frame: Any = frame_structs()["CallFrame"].from_address(address)
    if frame.extension_start:
        extension: Any = frame_structs()["Metadata_Extension"].from_address(
            frame.extension_start
        )
        if extension.extension_base_type == _METADATA:
            _describe(extension.metadata)
            return
    if frame.stage == _EXECUTE:
        _execute(frame)


def _describe(metadata: int) -> None:
    """Answer which version of the interface is spoken."""
    said: Any = frame_structs()["Metadata"].from_address(metadata)
    said.api_version_major_version, said.api_version_minor_version = 0, _spoken.minor
    said.traits = 0
    if said.struct_size >= type(said).c_size:
        said.state_type_id_type_id = 0


def _execute(frame: Any) -> None:
    function = _known[_attribute(frame, b"index")]()
    if function is None:
        raise KeyError("a function whose program is gone")
    operands = _arrays(frame.args_args, frame.args_size, function.ins)
    results = _arrays(frame.rets_rets, frame.rets_size, function.outs)
    # What it computes is computed here: the device waits for it.
    with default_device(local_devices(backend="cpu")[0]):
        outs = function.run(*operands)
    for result, out in zip(results, outs, strict=True):
        np.copyto(result, out)


def _attribute(frame: Any, name: bytes) -> int:
    """The value of a number of 64 bits; KeyError if there is none of that name."""
    known = frame_structs()
    for i in range(frame.attrs_size):
        span: Any = known["ByteSpan"].from_address(
            _pointers(frame.attrs_names, frame.attrs_size)[i]
        )
        if ctypes.string_at(span.ptr, span.len) == name:
            scalar: Any = known["Scalar"].from_address(
                _pointers(frame.attrs_attrs, frame.attrs_size)[i]
            )
            return ctypes.c_uint64.from_address(scalar.value).value
    raise KeyError(f"a custom call without the attribute {name.decode()}")


def _pointers(address: int, count: int) -> Any:
    return (ctypes.c_void_p * count).from_address(address)


def _arrays(
    address: int, count: int, kinds: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
) -> list[np.ndarray[Any, Any]]:
    """Buffers as arrays, which may be used only during the call; tokens are none."""
    known: Any = frame_structs()["Buffer"]
    given = map(known.from_address, _pointers(address, count) if count else ())
    buffers = [b for b in given if b.dtype != _TOKEN]
    result = []
    for buffer, (shape, dtype) in zip(buffers, kinds, strict=True):
        size = math.prod(shape) * dtype.itemsize
        if size:
            memory: Any = (ctypes.c_char * size).from_address(buffer.data)
            result.append(np.frombuffer(memory, dtype).reshape(shape))
        else:
            result.append(np.empty(shape, dtype))
    return result


def _failed(error: BaseException, address: int) -> int | None:
    """XLA's error for an exception of a function."""
    known = frame_structs()
    frame: Any = known["CallFrame"].from_address(address)
    api: Any = known["Api"].from_address(frame.api)
    word = status_of(error)
    message = (str(error) or repr(error)).removeprefix(f"{word}: ").encode()
    args: Any = known["Error_Create_Args"]()
    kept = bytes_of(message + b"\0")
    args.struct_size, args.message = type(args).c_size, ctypes.addressof(kept)
    args.errc = STATUS.index(word)
    return _HANDLER(api.XLA_FFI_Error_Create)(ctypes.addressof(args))


_handler = callbacks.guarded(_HANDLER, _handle, _failed)


# ---- registering it


class _Spoken:
    """The minor version that the handler says it speaks."""

    minor = _MINORS[0]


_spoken = _Spoken()
_registering = Lock()


def can_call_python(library: Library) -> bool:
    """Whether programs of a plugin for CPUs can call Python by a handler.

    It is registered then, under JAX's name.
    """
    with _registering:
        if library.calls_python is None:
            library.calls_python = _register(library)
        return library.calls_python


def _register(library: Library) -> bool:
    """Register the handler, as one of the version that the plugin speaks."""
    register = library.extension_function(FFI_EXTENSION, 2)
    if register is None:
        return False
    error = None
    for minor in _MINORS:
        _spoken.minor = minor
        try:
            register_handler(library, PYTHON_TARGET, callbacks.address_of(_handler))
        except JaxRuntimeError as problem:
            error = error or problem
            continue
        return True
    logger.warning("programs of %s cannot call Python: %s", library.name, error)
    return False


def register_handler(
    library: Library, name: str, handler: int, platform: str = "Host"
) -> None:
    """Register the address of a handler with a plugin.

    Raises JaxRuntimeError if the plugin takes none, or not this one.
    """
    register = library.extension_function(FFI_EXTENSION, 2)
    if register is None:
        raise JaxRuntimeError(
            f"UNIMPLEMENTED: plugin {library.name!r} takes no handlers of custom calls."
        )
    target, where = name.encode(), platform.encode()
    kept = bytes_of(target), bytes_of(where)
    args: Any = structs()["FFI_Register_Handler_Args"]()
    args.struct_size, args.handler = type(args).c_size, handler
    args.target_name, args.target_name_size = ctypes.addressof(kept[0]), len(target)
    args.platform_name = ctypes.addressof(kept[1])
    args.platform_name_size = len(where)
    if error := register(ctypes.addressof(args)):
        library.raise_error(error)
