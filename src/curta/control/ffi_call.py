"""The op of a call of a function of another language, by a handler of a plugin."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.control.callback import IO, Computing, PureCallback
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.op import BatchDims, Batched

Orders = tuple[tuple[int, ...], ...]
"""For each of several arrays its dims, from the one of the longest strides."""


class HashableArray:
    """An array among the attributes of an op: equal for the same elements."""

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.value = value.copy()
        self._key = value.dtype, value.shape, self.value.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashableArray) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"HashableArray({self.value!r})"


class FrozenDict(Mapping[str, Any]):
    """A dictionary among the attributes of an op."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"FrozenDict({self._items!r})"


@dataclass(frozen=True)
class FfiCall(Computing):
    """What a handler of XLA's typed interface computes.

    Args:
      target_name: the name under which it is registered with the plugin.
      result_avals: the types of its results.
      attributes: what it is given besides arrays, by name.
      input_output_aliases: numbers of an operand and of the result in its place.
      has_side_effect: whether it is called even if nobody uses the results.
      vmap_method: as for `PureCallback`.
      layouts: in which order the handler has the dims of each operand, and of each
        result; row-major if not given.
      batch_rank: how many leading dims are a batch, which may be split over devices.
    """

    name: ClassVar[str] = "ffi_call"
    kind: ClassVar[str] = "FFI"
    target_name: str
    result_avals: tuple[ShapedArray, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    input_output_aliases: tuple[tuple[int, int], ...] = ()
    has_side_effect: bool = False
    vmap_method: str | None = None
    layouts: tuple[Orders, Orders] | None = None
    batch_rank: int | None = None

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({IO} if self.has_side_effect else ())

    def eval(self, *args: Any) -> NoReturn:
        raise NotImplementedError(
            f"the handler '{self.target_name}' of XLA's typed interface is called by"
            " plugins: on the CPU it cannot be. Put the arguments on a device of the"
            " platform that it is registered for, by device_put."
        )

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        batch: Any = PureCallback.batch
        op = self
        if self.layouts and not (self.vmap_method or "").startswith("sequential"):
            inner, outer = (_behind_a_batch(orders) for orders in self.layouts)
            op = dataclasses.replace(self, layouts=(inner, outer))
        return batch(op, axis, args, dims)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> NoReturn:
        raise ValueError(
            f"The FFI call to `{self.target_name}` cannot be differentiated. You can"
            " use `jax.custom_jvp` or `jax.custom_vjp` to add support."
        )


def _behind_a_batch(orders: Orders) -> Orders:
    """The orders of arrays that have a dim more in front."""
    return tuple((0, *[d + 1 for d in order]) for order in orders)
