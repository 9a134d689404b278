"""Results of ops that work along dims that are cut: a rule for each op.

The rules are in stencils, sliding, updates, lookups, order, transposed and
random_parts. They ask the partitioner that they work for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.op import Op
from curta.partition.host_mesh import HostMesh, Split
from curta.partition.part import Fit, HostPart
from curta.primitives.relation import Factors

Axes = tuple[Any, ...]
Parts = Sequence[HostPart]
Splits = Sequence[Split]


class Partitioning(Protocol):
    """What rules ask of the `Partitioner` (partition.py), which says more of each."""

    hosts: HostMesh

    def staged(
        self, closed: ClosedJaxpr, ins: Splits, outs: Splits | None = None
    ) -> tuple[ClosedJaxpr, list[Split]]:
        """The local jaxpr for inputs split so, and how its outputs are."""

    def jaxpr(
        self,
        closed: ClosedJaxpr,
        args: Parts,
        outs: Splits | None = None,
        hints: Splits = (),
    ) -> list[HostPart]:
        """Apply the jaxpr's ops to the parts of one host."""

    def axes_of_factors(
        self, rel: Factors, parts: Parts, wanted: Splits, given: Mapping[int, Axes]
    ) -> dict[int, Axes]:
        """Along which axes of hosts each factor is split."""

    def assign(
        self,
        rel: Factors,
        dim: Sequence[int],
        axes: Axes,
        assigned: dict[int, Axes],
        used: set[Any],
    ) -> None:
        """Split the factors of a dim along axes, as far as they can be."""

    def applied(
        self,
        op: Op,
        rel: Factors,
        outs: Sequence[ShapedArray],
        values: Sequence[Any],
        splits: Splits,
        fits: Mapping[int, Fit],
    ) -> Sequence[Any]:
        """The op on the values of one host."""

    def folded(self, part: HostPart, kind: str, axes: Axes, wanted: Split) -> HostPart:
        """The fold over the parts of hosts along `axes`; of each its own, if wanted."""

    def refined(self, part: HostPart, wanted: Split) -> HostPart:
        """The part, cut further where that is wanted and costs nothing."""


@functools.singledispatch
def along_cut(
    op: Op, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """The results of an eqn on one host; None where no dim that matters is cut.

    Then the op is taken as others are, with those dims whole.
    """
    return None
