"""Collectives to and from values that are sums of what the devices hold.

In a `shard_map`, a value that is unreduced over an axis is the sum of the terms that
the devices have along it. Its cotangent is reduced: the same on all, and it counts once
for each term. Here are the ops between these two, and values that vary or do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.manual_axes import ManualAxisType
from curta.primitives.collective import Psum, PVary
from curta.primitives.exchange import AllGather, PsumScatter

Axes = frozenset[Any]


def _check_unreduced(name: str, axes: Axes, x: ShapedArray) -> None:
    if not axes <= x.mat.unreduced:
        raise ValueError(
            f"{name} only accepts inputs that are unreduced along its axes"
            f" {set(axes)}. Got {x.str_short(True)}"
        )


@dataclass(frozen=True)
class UnreducedPsum(Psum):
    """The sum that an unreduced value stands for, the same on all devices."""

    name: ClassVar[str] = "unreduced_psum"
    hidden_fields: ClassVar[tuple[str, ...]] = ("groups",)
    takes_sums: ClassVar[bool] = True

    def manual_type(self, x: ShapedArray, names: Axes) -> ManualAxisType:
        _check_unreduced(self.name, names, x)
        return x.mat.update(unreduced=x.mat.unreduced - names)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [Preduced(self.axis_names)(cotangent)]


@dataclass(frozen=True)
class UnreducedReduceScatter(PsumScatter):
    """The sum that an unreduced value stands for, of which each device gets a slice."""

    name: ClassVar[str] = "unreduced_reduce_scatter"
    takes_sums: ClassVar[bool] = True

    def manual_type(self, x: ShapedArray, names: Axes) -> ManualAxisType:
        _check_unreduced(self.name, names, x)
        return x.mat.update(
            unreduced=x.mat.unreduced - names, varying=x.mat.varying | names
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = AllGatherReduced(self.axis_names, self.axis_size, self.dim, self.tiled)
        return [op(cotangent)]


def require_varying(x: ShapedArray, names: Axes) -> None:
    """Raise ValueError unless `x` is a value of its own on all these axes."""
    if not names <= x.mat.varying:
        raise ValueError(
            "all_gather_reduced only accepts inputs that are varying. Got"
            f" {x.str_short(short_dtypes=True)}, for axes {tuple(names)} of a shard_map"
            " with check_vma=True"
        )


@dataclass(frozen=True)
class AllGatherReduced(AllGather):
    """The values of all devices, for each of them, counted once for each."""

    name: ClassVar[str] = "all_gather_reduced"

    def manual_type(self, x: ShapedArray, names: Axes) -> ManualAxisType:
        require_varying(x, names)
        return x.mat.update(
            varying=x.mat.varying - names, reduced=x.mat.reduced | names
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = UnreducedReduceScatter(
            self.axis_names, self.axis_size, self.dim, self.tiled
        )
        return [op(cotangent)]


@dataclass(frozen=True)
class Preduced(PVary):
    """A value that is the same on all devices, counted once for each."""

    name: ClassVar[str] = "preduced"

    def manual_type(self, x: ShapedArray, names: Axes) -> ManualAxisType:
        if names & x.mat.varying:
            raise ValueError(
                "preduced is a Invariant->Reduced collective. This means that the axis"
                " names mentioned in `axes` passed to `preduced` must not be present in"
                f" `jax.typeof(inp).mat.varying`. Got axes={self.axis_names} and"
                f" jax.typeof(inp).mat.varying={x.mat.varying}"
            )
        return x.mat.update(reduced=x.mat.reduced | names)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [UnreducedPsum(self.axis_names)(cotangent)]


@dataclass(frozen=True)
class VaryUnreducedCast(PVary):
    """What each device has, as a term of a sum."""

    name: ClassVar[str] = "vary_unreduced_cast_p"

    def manual_type(self, x: ShapedArray, names: Axes) -> ManualAxisType:
        if not names <= x.mat.varying:
            raise ValueError(
                "vary_unreduced_cast is a Varying->Unreduced collective. This means"
                " that the axis names mentioned in `axes` passed to"
                " `vary_unreduced_cast` must be present in"
                f" `jax.typeof(x).mat.varying`. Got axes={self.axis_names} and"
                f" jax.typeof(x).mat.varying={x.mat.varying}"
            )
        return x.mat.update(
            varying=x.mat.varying - names, unreduced=x.mat.unreduced | names
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [ReducedVaryCast(self.axis_names)(cotangent)]


@dataclass(frozen=True)
class ReducedVaryCast(PVary):
    """A reduced value as each device's own."""

    name: ClassVar[str] = "reduced_vary_cast_p"
    takes_sums: ClassVar[bool] = True

    def manual_type(self, x: ShapedArray, names: Axes) -> ManualAxisType:
        if not names <= x.mat.reduced:
            raise ValueError(
                "reduced_vary_cast is a Reduced->Varying collective. This means that"
                " the axis names mentioned in `axes` passed to `reduced_vary_cast` must"
                f" be present in `jax.typeof(x).mat.reduced`. Got axes="
                f"{self.axis_names} and jax.typeof(x).mat.reduced={x.mat.reduced}"
            )
        return x.mat.update(
            varying=x.mat.varying | names, reduced=x.mat.reduced - names
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [VaryUnreducedCast(self.axis_names)(cotangent)]
