"""How plugins reach the key-value store of a program (hosts/store.py).

They do so through callbacks when a client is made, and whenever devices of several
processes first work together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from curta.hosts.store import StoreConnection
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.abi import structs
from curta.runtime.pjrt.host_calls import callback_error

# PJRT_Error* callback(args*)
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Callbacks:
    """A store as plugins call it; `prefix` keeps the keys of plugins apart.

    It lives as long as the client that is made with it.
    """

    def __init__(self, store: StoreConnection, prefix: str = "") -> None:
        self.store = store
        self.prefix = prefix
        libc = ctypes.CDLL(None)
        self._allocate = libc.malloc
        self._allocate.restype, self._allocate.argtypes = (
            ctypes.c_void_p,
            [ctypes.c_size_t],
        )
        self._free = ctypes.cast(libc.free, ctypes.c_void_p).value
        self._functions = {
            "kv_get_callback": self._made("KeyValueGetCallback_Args", self._get),
            "kv_put_callback": self._made("KeyValuePutCallback_Args", self._put),
            "kv_try_get_callback": self._made("KeyValueTryGetCallback_Args", self._try),
        }

    def arguments(self) -> dict[str, int]:
        """Fields of PJRT_Client_Create_Args."""
        return {n: callbacks.address_of(f) for n, f in self._functions.items()}

    def _made(self, struct: str, body: Callable[[Any, str], None]) -> Any:
        kind = structs()[struct]

        def call(address: int) -> None:
            args: Any = kind.from_address(address)
            key = ctypes.string_at(args.key, args.key_size).decode()
            body(args, self.prefix + key)

        def failed(error: BaseException, address: int) -> int | None:
            args: Any = kind.from_address(address)
            return callback_error(args.callback_error, error)

        return callbacks.guarded(_CALLBACK, call, failed)

    def _get(self, args: Any, key: str) -> None:
        self._hand_over(args, self.store.get(key, args.timeout_in_ms / 1000))

    def _try(self, args: Any, key: str) -> None:
        self._hand_over(args, self.store.try_get(key))

    def _put(self, args: Any, key: str) -> None:
        self.store.put(key, ctypes.string_at(args.value, args.value_size))

    def _hand_over(self, args: Any, value: bytes) -> None:
        """Copy a value to memory of C, which the plugin frees."""
        memory = self._allocate(max(1, len(value)))
        ctypes.memmove(memory, value, len(value))
        args.value, args.value_size = memory, len(value)
        args.value_deleter_callback = self._free
