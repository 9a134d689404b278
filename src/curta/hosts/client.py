"""Keys, values and barriers as libraries for JAX use them.

`curta.distributed.global_state.client` is one; the names and the opening words of the
errors are those of JAX's client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curta.errors import JaxRuntimeError


class StoreClient:
    """Asks a table of keys and values, that of all processes."""

    def __init__(
        self, ask: Callable[..., list[bytes]], process_id: int, num_processes: int
    ) -> None:
        self._ask = ask
        self.process_id = process_id
        self.num_processes = num_processes

    def key_value_set(
        self, key: str, value: str, allow_overwrite: bool = False
    ) -> None:
        """Set a key to a text; ALREADY_EXISTS if it has been set."""
        self.key_value_set_bytes(key, value.encode(), allow_overwrite)

    def key_value_set_bytes(
        self, key: str, value: bytes, allow_overwrite: bool = False
    ) -> None:
        """Set a key to bytes; ALREADY_EXISTS if it has been set."""
        verb = b"reset" if allow_overwrite else b"set"
        status, _ = self._ask(verb, key.encode(), value)
        if status != b"ok":
            raise JaxRuntimeError(f"ALREADY_EXISTS: key {key} already exists.")

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """The text of a key, waiting for it; DEADLINE_EXCEEDED if it does not come."""
        return self.blocking_key_value_get_bytes(key, timeout_in_ms).decode()

    def blocking_key_value_get_bytes(self, key: str, timeout_in_ms: int) -> bytes:
        """The bytes of a key, waiting for it; DEADLINE_EXCEEDED if it does not come."""
        seconds = b"%f" % (timeout_in_ms / 1000)
        status, value = self._ask(b"get", key.encode(), seconds)
        if status != b"ok":
            raise JaxRuntimeError(
                f"DEADLINE_EXCEEDED: GetKeyValue() timed out with key: {key} and"
                f" duration: {timeout_in_ms}ms"
            )
        return value

    def key_value_try_get(self, key: str) -> str:
        """The text of a key; NOT_FOUND if it has none now."""
        return self.key_value_try_get_bytes(key).decode()

    def key_value_try_get_bytes(self, key: str) -> bytes:
        """The bytes of a key; NOT_FOUND if it has none now."""
        status, value = self._ask(b"get", key.encode(), b"0")
        if status != b"ok":
            raise JaxRuntimeError(f"NOT_FOUND: Config key {key} not found.")
        return value

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Keys within a key, with their texts."""
        return [(k, v.decode()) for k, v in self.key_value_dir_get_bytes(key)]

    def key_value_dir_get_bytes(self, key: str) -> list[tuple[str, bytes]]:
        """Keys within a key, with their bytes."""
        _, *texts = self._ask(b"folder", key.encode(), b"")
        keys = (k.decode() for k in texts[::2])
        return list(zip(keys, texts[1::2], strict=True))

    def key_value_increment(self, key: str, increment: int) -> int:
        """Add to a number, which begins as 0; the sum."""
        _, total = self._ask(b"add", key.encode(), b"%d" % increment)
        return int(total)

    def key_value_delete(self, key: str) -> None:
        """Forget a key, and all within it."""
        self._ask(b"delete", key.encode(), b"")

    def wait_at_barrier(
        self,
        barrier_id: str,
        timeout_in_ms: int,
        process_ids: Sequence[int] | None = None,
    ) -> None:
        """Wait until all processes, or those of `process_ids`, are here.

        DEADLINE_EXCEEDED if some do not come; INVALID_ARGUMENT if one comes that is not
        among `process_ids`.
        """
        name = f"curta/barrier/{barrier_id}".encode()
        count = self.num_processes if process_ids is None else len(process_ids)
        if process_ids is not None and self.process_id not in process_ids:
            stranger = (
                f"A non-participating task ({self.process_id}) called the barrier:"
                f" {barrier_id}"
            )
            self._ask(b"break", name, stranger.encode())
            raise JaxRuntimeError(f"INVALID_ARGUMENT: {stranger}")
        wanted = b"%d %f" % (count, timeout_in_ms / 1000)
        status, broken = self._ask(b"meet", name, wanted)
        if broken:
            raise JaxRuntimeError(f"INVALID_ARGUMENT: {broken.decode()}")
        if status != b"ok":
            raise JaxRuntimeError(
                f"DEADLINE_EXCEEDED: Barrier timed out. Id: {barrier_id}. {count}"
                " tasks were to come."
            )

    def get_live_nodes(self, process_ids: Sequence[int]) -> dict[int, int]:
        """Which of the processes run: all, as they end together."""
        return dict.fromkeys(process_ids, 0)
