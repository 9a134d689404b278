"""Folds by exchanging pieces, each of which one host folds in the order of the hosts.

That moves as many bytes as a ring, and the sums do not depend on who is early: they are
those of simulated hosts, bit for bit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from curta.hosts.collectives import CollectiveCall, ProcessEngine, pieces
from curta.hosts.folding import fold

NDArray = np.ndarray[Any, Any]
# Up to so many bytes, everybody folds everything: one round of messages, not two.
_ONE_ROUND = 1 << 14


class ByExchange(ProcessEngine):
    """An engine that says how arrays are sent to and received from other members."""

    @abstractmethod
    def _swap(
        self,
        call: CollectiveCall,
        sends: Mapping[int, NDArray],
        receives: Mapping[int, NDArray],
    ) -> None:
        """Send and fill C-contiguous arrays, by the rank of a member in its group."""

    def _reduce(self, call: CollectiveCall, kind: str, x: NDArray) -> NDArray:
        if x.nbytes <= _ONE_ROUND:
            return fold(kind, self._gather(call, x))
        me, n = self._rank(call), len(call.members)
        flat, spans = x.reshape(-1), pieces(x.size, n)
        first, last = spans[me]
        mine = np.empty((n, last - first), x.dtype)
        mine[me] = flat[first:last]
        self._swap(
            call,
            {i: flat[a:b] for i, (a, b) in enumerate(spans) if i != me},
            {i: mine[i] for i in range(n) if i != me},
        )
        result = np.empty_like(flat)
        result[first:last] = fold(kind, mine)
        self._swap(
            call,
            {i: result[first:last] for i in range(n) if i != me},
            {i: result[a:b] for i, (a, b) in enumerate(spans) if i != me},
        )
        return result.reshape(x.shape)

    def _gather(self, call: CollectiveCall, x: NDArray) -> NDArray:
        me, n = self._rank(call), len(call.members)
        stack = np.empty((n, *x.shape), x.dtype)
        stack[me] = x
        others = [i for i in range(n) if i != me]
        self._swap(call, dict.fromkeys(others, x), {i: stack[i, ...] for i in others})
        return stack

    def _reduce_scatter(
        self, call: CollectiveCall, kind: str, parts: NDArray
    ) -> NDArray:
        return fold(kind, self._exchange(call, parts))

    def _exchange(self, call: CollectiveCall, parts: NDArray) -> NDArray:
        me, n = self._rank(call), len(call.members)
        stack = np.empty_like(parts)
        stack[me] = parts[me]
        others = [i for i in range(n) if i != me]
        sends = {i: parts[i, ...] for i in others}
        self._swap(call, sends, {i: stack[i, ...] for i in others})
        return stack

    def _permute(
        self, call: CollectiveCall, to: tuple[int, ...], source: int | None, x: NDArray
    ) -> NDArray | None:
        result = None if source is None else np.empty_like(x)
        receives = {} if source is None or result is None else {source: result}
        self._swap(call, dict.fromkeys(to, x), receives)
        return result

    def _rank(self, call: CollectiveCall) -> int:
        return call.members.index(self.index)


def words(x: NDArray) -> memoryview:
    """The bytes of a C-contiguous array, which may be written to."""
    return x.reshape(-1).view(np.uint8).data
