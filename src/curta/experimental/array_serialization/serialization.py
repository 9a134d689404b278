"""Checkpoints of many arrays, written while the program goes on.

manager = GlobalAsyncCheckpointManager()
manager.serialize_with_paths([x, y], [path_of_x, path_of_y])
...  # x and y may change
manager.wait_until_finished()
x, y = manager.deserialize_with_paths(shardings, [path_of_x, path_of_y])
"""

from __future__ import annotations

import abc
import asyncio
import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta._base.on_demand import Listing, listed
from curta.core.array import Array
from curta.experimental.array_serialization import tensorstore_impl
from curta.experimental.array_serialization.tensorstore_impl import (
    Spec,
    async_deserialize as async_deserialize,
    async_serialize as async_serialize,
    run_deserialization as run_deserialization,
    run_serialization as run_serialization,
)

__all__ = [
    "AsyncManager",
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "async_deserialize",
    "async_serialize",
    "get_tensorstore_spec",
    "run_deserialization",
    "run_serialization",
]
__dir__: Listing = listed(__all__)


def get_tensorstore_spec(ckpt_path: str | os.PathLike[str], **options: Any) -> Spec:
    """The spec of an array in a folder of its own, in the format zarr."""
    settings = {"driver": "zarr", "ocdbt": False, **options}
    return tensorstore_impl.get_tensorstore_spec(ckpt_path, **settings)


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """The base of managers that write checkpoints in the background."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong in writing so far."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait for the checkpoint, and raise what went wrong."""

    @abc.abstractmethod
    def serialize(
        self,
        arrays: Any,
        tensorstore_specs: Any,
        *,
        on_commit_callback: Callable[[], None],
    ) -> None:
        """Begin to write arrays."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[Spec],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> Any:
        """Read arrays."""


class AsyncManager:
    """A thread that waits for files to be written, and keeps what it raised."""

    def __init__(self, timeout_secs: int = 300):
        self._timeout = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._futures: list[Any] = []

    def _add_futures(self, futures: list[Any]) -> None:
        self._futures = futures

    def _start_async_commit(self, on_commit: Callable[[], None] | None) -> None:
        self._thread = threading.Thread(target=self._commit, args=(on_commit,))
        self._thread.start()

    def _commit(self, on_commit: Callable[[], None] | None) -> None:
        try:
            for future in self._futures:
                future.result()
            if on_commit is not None:
                on_commit()
        except Exception as error:  # raised where the program asks for it
            self._error = error

    def check_for_errors(self) -> None:
        """Raise what went wrong in writing so far, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_until_finished(self) -> None:
        """Wait for the files, and raise what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes arrays with TensorStore; see the module for an example."""

    def serialize(
        self,
        arrays: Any,
        tensorstore_specs: Any,
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """Copy the arrays, then write them in a thread of their own.

        `on_commit_callback()` is called when all is written. A checkpoint that is
        being written is waited for first.
        """
        self.wait_until_finished()
        futures: list[Any] = []
        write = functools.partial(
            async_serialize, commit_future=futures, transaction=transaction
        )

        async def copy() -> None:
            is_spec = {"is_leaf": lambda x: isinstance(x, dict) and "driver" in x}
            specs = tree_util.tree_leaves(tensorstore_specs, **is_spec)
            await asyncio.gather(*map(write, tree_util.tree_leaves(arrays), specs))

        asyncio.run(copy())
        self._add_futures(futures)
        self._start_async_commit(on_commit_callback)

    def serialize_with_paths(
        self, arrays: Sequence[Array], paths: Sequence[str], **options: Any
    ) -> None:
        """As `serialize`, each array into a folder of its own."""
        self.serialize(arrays, list(map(get_tensorstore_spec, paths)), **options)

    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[Spec],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Array]:
        """Read arrays, each as its sharding says."""
        self.wait_until_finished()
        given = list(shardings), list(tensorstore_specs), global_shapes, dtypes
        return run_deserialization(*given, concurrent_gb)

    def deserialize_with_paths(
        self,
        shardings: Sequence[Any],
        paths: Sequence[str],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Array]:
        """As `deserialize`, each array from a folder of its own."""
        specs = list(map(get_tensorstore_spec, paths))
        return self.deserialize(shardings, specs, global_shapes, dtypes, concurrent_gb)
