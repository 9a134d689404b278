"""A plugin that is loaded: its table of functions, and how one is called."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from typing import Any

from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.abi import (
    FUNCTIONS,
    FUNCTIONS_OFFSET,
    MAJOR,
    OLDEST_MINOR,
    SPARE,
    VERSION_OFFSET,
    Struct,
    structs,
)
from curta.runtime.pjrt.errors import runtime_error
from curta.runtime.pjrt.values import decode, text

# Every function takes the address of a struct and returns that of an error, or null.
# Python's lock is released while it runs.
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

_WRONG_SIZE = re.compile(r"Unexpected (PJRT_\w+) size: expected (\d+), got (\d+)")


class Library:
    """The functions of a plugin.

    Args:
      api: the address of its `PJRT_Api`.
      name: what errors call it.
      keep: what has to live as long as the plugin is used.
      identity: what tells the plugin from others, and from older ones of its name.

    Raises JaxRuntimeError if the plugin speaks another version of the interface.
    """

    def __init__(
        self, api: int, name: str, keep: Any = None, identity: str = ""
    ) -> None:
        self.name = name
        self.keep = keep
        self.identity = identity
        self.api = api
        self.version: tuple[Any, ...] = tuple(
            (ctypes.c_int32 * 2).from_address(api + VERSION_OFFSET)
        )
        self._check_version()
        size = ctypes.c_size_t.from_address(api).value
        count = max(0, size - FUNCTIONS_OFFSET) // ctypes.sizeof(ctypes.c_void_p)
        table = (ctypes.c_void_p * count).from_address(api + FUNCTIONS_OFFSET)
        self.functions: Any = {f: FUNCTION(p) for f, p in zip(FUNCTIONS, table) if p}
        #: Sizes of structs that this plugin wants larger than they are known here.
        self.sizes: dict[str, int] = {}
        #: Whether programs can call Python by a handler; None until somebody asks.
        self.calls_python: bool | None = None
        # Arguments of `wait` that are not in use.
        self._waits: list[Any] = []
        self.call("Plugin_Initialize")

    def _check_version(self) -> None:
        major, minor = self.version
        if major == MAJOR and minor >= OLDEST_MINOR:
            return
        older = (major, minor) < (MAJOR, OLDEST_MINOR)
        remedy = "install a newer plugin" if older else "install a newer curta"
        raise JaxRuntimeError(
            f"UNIMPLEMENTED: plugin {self.name!r} speaks version {major}.{minor} of the"
            f" PJRT C API; curta speaks {MAJOR}.{OLDEST_MINOR} and later versions"
            f" {MAJOR}.*: {remedy}."
        )

    def __repr__(self) -> str:
        return f"Library({self.name!r}, PJRT {self.version[0]}.{self.version[1]})"

    def has(self, name: str) -> bool:
        """Whether the plugin has a function."""
        return name in self.functions

    def struct(self, struct: str, **fields: Any) -> Struct:
        """A struct, of the size that the plugin wants."""
        cls = structs()[struct]
        made = cls(**fields)
        made.struct_size = self.sizes.get(cls.c_name, cls.c_size)
        return made

    def call(self, function: str, *nested: Struct, **fields: Any) -> Any:
        """Call a function; the struct of its arguments and results.

        `nested` are structs that the arguments point to.

        Raises JaxRuntimeError with the plugin's status word and message.
        """
        args = self.struct(function + "_Args", **fields)
        run = self.functions.get(function)
        if run is None:
            raise JaxRuntimeError(
                f"UNIMPLEMENTED: plugin {self.name!r} (PJRT C API {self.version[0]}."
                f"{self.version[1]}) has no function PJRT_{function}."
            )
        error = run(ctypes.addressof(args))
        if error:
            self.retry(error, run, args, nested)
        return args

    def retry(
        self, error: int, run: Any, args: Struct, nested: Sequence[Struct]
    ) -> None:
        """Call again with the sizes that a newer plugin wants, or raise its error."""
        while error:
            code, message = self.take_error(error)
            result = _WRONG_SIZE.search(message)
            structs_ = [s for s in (args, *nested) if result and s.c_name == result[1]]
            wanted = int(result[2]) if result else 0
            fits = [s for s in structs_ if s.struct_size < wanted <= s.c_size + SPARE]
            if not fits:
                raise runtime_error(code, message)
            for s in fits:
                self.sizes[s.c_name] = s.struct_size = wanted
            error = run(ctypes.addressof(args))

    def take_error(self, error: int) -> tuple[int, str]:
        """The code and message of an error, which is freed."""
        message = self.struct("Error_Message_Args", error=error)
        self.functions["Error_Message"](ctypes.addressof(message))
        code = self.struct("Error_GetCode_Args", error=error)
        self.functions["Error_GetCode"](ctypes.addressof(code))
        said = code.code, text(message.message, message.message_size)
        done = self.struct("Error_Destroy_Args", error=error)
        self.functions["Error_Destroy"](ctypes.addressof(done))
        return said

    def raise_error(self, error: int) -> None:
        """Raise an error, which is freed."""
        raise runtime_error(*self.take_error(error))

    def wait(self, event: int | None) -> None:
        """Wait for an event and free it; raises its error."""
        if not event:
            return
        # Arguments come from a free list: other threads may call meanwhile.
        try:
            await_, destroy = self._waits.pop()
        except IndexError:
            names = ("Event_Await_Args", "Event_Destroy_Args")
            await_, destroy = [
                (s, ctypes.addressof(s)) for s in map(self.struct, names)
            ]
        await_[0].event = destroy[0].event = event
        try:
            run = self.functions["Event_Await"]
            if error := run(await_[1]):
                self.retry(error, run, await_[0], ())
        finally:
            run = self.functions["Event_Destroy"]
            if error := run(destroy[1]):
                self.retry(error, run, destroy[0], ())
            self._waits.append((await_, destroy))

    def is_ready(self, event: int) -> bool:
        """Whether what the event stands for is done, or failed."""
        return self.call("Event_IsReady", event=event).is_ready

    def attributes(self) -> dict[str, Any]:
        """What the plugin says of itself: versions of XLA and StableHLO, say."""
        result = self.call("Plugin_Attributes")
        return decode(result.attributes, result.num_attributes)

    def extension_function(self, kind: int, number: int = 0) -> Any:
        """A function of an extension (a PJRT_Extension_Type); None if it is not there.

        As all functions it takes the address of a struct, and returns that of an error.
        """
        at = self.extension(kind)
        if at is None:
            return None
        first = at + ctypes.sizeof(structs()["Extension_Base"])
        slot = first + number * ctypes.sizeof(ctypes.c_void_p)
        address = ctypes.c_void_p.from_address(slot).value
        return FUNCTION(address) if address else None

    def extension(self, kind: int) -> int | None:
        """The address of an extension (a PJRT_Extension_Type), if it is there."""
        base = structs()["Extension_Base"]
        address = ctypes.c_void_p.from_address(self.api + 8).value
        while address:
            head: Any = base.from_address(address)
            if head.type == kind:
                return address
            address = head.next
        return None


def open_library(path: str | os.PathLike[str], name: str) -> Library:
    """Load a plugin; JaxRuntimeError if the file is none or cannot be loaded."""
    try:
        # The symbols of one plugin are hidden from those of another.
        shared = ctypes.CDLL(os.fspath(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise JaxRuntimeError(
            f"NOT_FOUND: the library of plugin {name!r} cannot be loaded: {error}"
        ) from None
    get = getattr(shared, "GetPjrtApi", None)
    if get is None:
        raise JaxRuntimeError(
            f"INVALID_ARGUMENT: {os.fspath(path)} is not a PJRT plugin: it has no"
            " function GetPjrtApi."
        )
    get.restype = ctypes.c_void_p
    api = get()
    if not api:
        raise JaxRuntimeError(
            f"INTERNAL: GetPjrtApi of {os.fspath(path)} gives no table of functions."
        )
    info = os.stat(path)
    identity = f"{os.fspath(path)} {info.st_size} {info.st_mtime_ns}"
    return Library(api, name, shared, identity)
