"""Elements that are not one buffer in the memory of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.sharding import Sharding

NDArray = np.ndarray[Any, Any]


class Held:
    """What an array has instead of a buffer at hand: its elements are not in one."""

    __slots__ = ()


class RemoteData(Held):
    """What an array holds whose elements lie on devices of a plugin, or on hosts."""

    __slots__ = ()

    aval: ShapedArray
    sharding: Sharding

    def is_ready(self) -> bool:
        """Whether the elements are computed, or have failed."""
        return True

    def block_until_ready(self) -> None:
        """Wait for the elements; raises what went wrong while they were computed."""

    def start_transfer(self) -> None:
        """Begin to bring the elements to this process."""

    @property
    def is_here(self) -> bool:
        """Whether this process has all elements."""
        if self.sharding.is_fully_replicated:
            return self.sharding.has_addressable_devices
        return self.sharding.is_fully_addressable

    def check_here(self) -> None:
        """Raise RuntimeError if only other processes have some of the elements."""
        if not self.is_here:
            raise RuntimeError(
                "Fetching value for `jax.Array` that spans non-addressable (non process"
                " local) devices is not possible: other processes have parts of it."
                " Gather them with jax.experimental.multihost_utils.process_allgather,"
                " or read those that are here by `.addressable_shards`."
            )

    def wait(self) -> NDArray:
        """The elements as one array here.

        Raises RuntimeError if other processes have some of them.
        """
        raise NotImplementedError

    def shard(self, device: Any, index: Any, term: Any = ()) -> RemoteData | NDArray:
        """The part on one device: at an index, of one term of a sum."""
        raise NotImplementedError

    def shared(self) -> RemoteData:
        """The same elements for an array of its own, which may be deleted by itself."""
        raise NotImplementedError

    def copy(self) -> RemoteData:
        """The same elements in memory of their own."""
        raise NotImplementedError

    def in_order(self, order: Sequence[int]) -> RemoteData:
        """The elements of the array whose dims are these in another order."""
        raise NotImplementedError

    def delete(self) -> None:
        """Give the memory back."""

    @property
    def nbytes(self) -> int:
        """The bytes of the elements in their memory."""
        raise NotImplementedError

    def address(self) -> int:
        """That of the elements; ValueError if there is more than one buffer."""
        raise NotImplementedError
