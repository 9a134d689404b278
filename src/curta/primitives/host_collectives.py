"""Ops between hosts, as programs of one host have them (docs/design/hosts.md).

They are made by the partitioner, after derivatives have been taken, and have no rules
but those of running, and of mapping the body of a `shard_map` over devices of a host.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.jaxpr import jaxprs_of
from curta.core.op import BatchDims, Batched, Op
from curta.hosts.engine import Engine, current
from curta.hosts.group import HostGroup
from curta.primitives.structure import move_dim

NDArray = np.ndarray[Any, Any]


class HostCollective(Op):
    """An op in which the hosts of `group` meet."""

    meets_hosts: ClassVar[bool] = True
    polls: ClassVar[bool] = False  # lets what was begun go on, and does not wait
    compiled_above: ClassVar[str | None] = None
    group: HostGroup

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        return self.with_leading_dim()(move_dim(x, dim, 0)), 0

    def with_leading_dim(self) -> Op:
        """The op on values that have one more dim in front."""
        return self


@dataclass(frozen=True, kw_only=True)
class Moving(HostCollective):
    """A collective that makes one array of another.

    `order` is its place among the collectives of a local program, from 1 on; 0 is for
    collectives of no such program (`partition/collective_order.py`).
    """

    hidden_fields: ClassVar[tuple[str, ...]] = ("order",)
    order: int = 0
    to_neighbours: ClassVar[bool] = False
    """Whether each host sends to one at most, and has to wait for one at most."""

    def eval(self, x: Any) -> Any:
        return self.moved(current(), np.asarray(x, order="C"))

    @abstractmethod
    def moved(self, engine: Engine, x: NDArray) -> NDArray:
        """What an engine gives for a C-contiguous array."""


@dataclass(frozen=True)
class HostIndex(HostCollective):
    """The number of this host in its group, an int32."""

    name: ClassVar[str] = "host_index"
    group: HostGroup

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((), np.dtype("int32"))

    def eval(self) -> Any:
        return np.int32(self.group.index(current().index))


@dataclass(frozen=True)
class HostReduce(Moving):
    """The fold over the group, the same on all its hosts (all-reduce)."""

    name: ClassVar[str] = "host_reduce"
    group: HostGroup
    kind: str

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def moved(self, engine: Engine, x: NDArray) -> NDArray:
        return engine.all_reduce(self.group, self.kind, x)


@dataclass(frozen=True)
class HostGather(Moving):
    """The parts of all hosts of the group joined along a dim (all-gather)."""

    name: ClassVar[str] = "host_gather"
    group: HostGroup
    dim: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        return _resized(x, {self.dim: x.shape[self.dim] * self.group.size})

    def with_leading_dim(self) -> Op:
        return replace(self, dim=self.dim + 1)

    def moved(self, engine: Engine, x: NDArray) -> NDArray:
        return engine.all_gather(self.group, x, self.dim)


@dataclass(frozen=True)
class HostReduceScatter(Moving):
    """The host's part along a dim of the fold over the group (reduce-scatter)."""

    name: ClassVar[str] = "host_reduce_scatter"
    group: HostGroup
    kind: str
    dim: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        return _resized(x, {self.dim: x.shape[self.dim] // self.group.size})

    def with_leading_dim(self) -> Op:
        return replace(self, dim=self.dim + 1)

    def moved(self, engine: Engine, x: NDArray) -> NDArray:
        return engine.reduce_scatter(self.group, self.kind, x, self.dim)


@dataclass(frozen=True)
class HostExchange(Moving):
    """Parts along `split` go to the hosts of the group, joined along `join`."""

    name: ClassVar[str] = "host_exchange"
    group: HostGroup
    split: int
    join: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        x = _resized(x, {self.split: x.shape[self.split] // self.group.size})
        return _resized(x, {self.join: x.shape[self.join] * self.group.size})

    def with_leading_dim(self) -> Op:
        return replace(self, split=self.split + 1, join=self.join + 1)

    def moved(self, engine: Engine, x: NDArray) -> NDArray:
        return engine.all_to_all(self.group, x, self.split, self.join)


@dataclass(frozen=True)
class HostPermute(Moving):
    """What host `to` of the group gets from host `from`; zeros if nothing."""

    name: ClassVar[str] = "host_permute"
    to_neighbours: ClassVar[bool] = True
    group: HostGroup
    pairs: tuple[tuple[int, int], ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def moved(self, engine: Engine, x: NDArray) -> NDArray:
        return engine.permute(self.group, self.pairs, x)


@dataclass(frozen=True)
class HostBucket(HostCollective):
    """Several arrays of one dtype, of which `each` is folded, or sent, together."""

    name: ClassVar[str] = "host_bucket"
    multiple_results: ClassVar[bool] = True
    each: Moving

    @property
    def group(self) -> HostGroup:  # type: ignore[override]
        """The hosts that meet."""
        return self.each.group

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return avals

    def eval(self, *args: Any) -> Any:
        flat = self.each.eval(np.concatenate([np.ravel(x) for x in args]))
        ends = np.cumsum([x.size for x in args])[:-1]
        pieces = zip(np.split(flat, ends), args, strict=True)
        return [piece.reshape(x.shape) for piece, x in pieces]


@dataclass(frozen=True)
class _Begun(HostCollective):
    """A part of a collective that goes on while the program computes."""

    each: Moving

    @property
    def group(self) -> HostGroup:  # type: ignore[override]
        """The hosts that meet."""
        return self.each.group


@dataclass(frozen=True)
class HostStart(_Begun):
    """Begin a collective; the result is its number (XLA's all-reduce-start).

    Its operand must stay as it is until the `HostDone` that gets the number: that has
    it as an operand too.
    """

    name: ClassVar[str] = "host_start"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((), np.dtype("int64"))

    def eval(self, x: Any) -> Any:
        return np.int64(current().start(lambda: self.each.eval(x)))


@dataclass(frozen=True)
class HostPoll(_Begun):
    """Make progress on a started collective; gives its number."""

    name: ClassVar[str] = "host_poll"
    polls: ClassVar[bool] = True

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, number: Any) -> Any:
        return number


@dataclass(frozen=True)
class HostDone(_Begun):
    """Wait for a collective that was begun, and give its result."""

    name: ClassVar[str] = "host_done"
    waits_for_hosts: ClassVar[bool] = True

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return self.each.aval(avals[0])

    def eval(self, x: Any, number: Any) -> Any:
        return current().finish(int(number))


def communicates(op: Op) -> bool:
    """Whether hosts meet in an op, or in what it runs."""
    if isinstance(op, HostCollective):
        return not isinstance(op, HostIndex)
    inner = jaxprs_of(op)
    return any(communicates(e.op) for jaxpr in inner for e in jaxpr.eqns)


def _resized(x: ShapedArray, sizes: dict[int, int]) -> ShapedArray:
    shape = tuple(sizes.get(d, n) for d, n in enumerate(x.shape))
    return ShapedArray(shape, x.dtype, x.weak_type)
