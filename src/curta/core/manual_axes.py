"""How a value in the body of a `shard_map` relates to the axes that are mapped over."""

from __future__ import annotations

import dataclasses
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._settings.api_version import MORE_PARAMETERS
from curta.core.partition_spec import UnreducedKind, check_kind

_NO_AXES: frozenset[Any] = frozenset()


@dataclass(frozen=True, kw_only=True, repr=False)
class ManualAxisType:
    """The axes over which shards differ, and those over which they are partial sums.

    Args:
      varying: axes along which each device may have another value.
      unreduced: axes along which the value is the sum of what the devices have.
      reduced: axes along whose cotangent will be such a sum.
      unreduced_kind: an `UnreducedKind`, if the value is a maximum or minimum along the
        unreduced axes in place of a sum. None (default) is a sum.

    Raises:
      ValueError: an axis is both varying and one of the others, or a kind is given
        without unreduced axes.
      TypeError: `unreduced_kind` has another type.

    >>> from curta.sharding import ManualAxisType
    >>> sorted(ManualAxisType(varying={"i", "j"}).varying)
    ['i', 'j']
    >>> ManualAxisType(varying={"i"}, reduced={"i"})
    Traceback (most recent call last):
        ...
    ValueError: varying and reduced cannot have common mesh axes. Got ...
    """

    varying: frozenset[Any] = _NO_AXES
    unreduced: frozenset[Any] = _NO_AXES
    reduced: frozenset[Any] = _NO_AXES
    unreduced_kind: UnreducedKind | None = None

    def __post_init__(self) -> None:
        for name in ("varying", "unreduced", "reduced"):
            object.__setattr__(self, name, frozenset(getattr(self, name)))
        if self.unreduced and self.unreduced_kind is None:
            object.__setattr__(self, "unreduced_kind", UnreducedKind.sum)
        check_kind(self.unreduced, self.unreduced_kind)
        for name in ("unreduced", "reduced"):
            if self.varying & getattr(self, name):
                raise ValueError(
                    f"varying and {name} cannot have common mesh axes. Got"
                    f" varying={self.varying} and {name}={getattr(self, name)}"
                )

    @property
    def vur(self) -> frozenset[Any]:
        """All axes named."""
        return self.varying | self.unreduced | self.reduced

    @property
    def empty(self) -> bool:
        """Whether no axis is named."""
        return not self.vur

    def invarying(self, mesh: Any) -> frozenset[Any]:
        """The manual axes of a mesh along which all devices have the same value."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **changes: Any) -> ManualAxisType:
        """This type with some of its parts replaced.

        The kind goes with the unreduced axes, unless it is given.
        """
        if not changes.get("unreduced", self.unreduced):
            changes.setdefault("unreduced_kind", None)
        return dataclasses.replace(self, **changes)

    def refuse_extrema(self) -> None:
        """Raise NotImplementedError for maxima and minima along unreduced axes."""
        if self.unreduced_kind not in (None, UnreducedKind.sum):
            raise NotImplementedError(
                f"{self}: values that are a {self.unreduced_kind.name} along unreduced"
                " axes are not supported, only sums. Take the extremum by lax.pmax or"
                " lax.pmin."
            )

    def to_ct_mat(self) -> ManualAxisType:
        """The type of cotangents: what was unreduced is reduced, and vice versa."""
        self.refuse_extrema()
        kind = UnreducedKind.sum if self.reduced else None
        return ManualAxisType(
            varying=self.varying,
            unreduced=self.reduced,
            reduced=self.unreduced,
            unreduced_kind=kind,
        )

    def __repr__(self) -> str:
        kind = f", unreduced_kind={self.unreduced_kind}"
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced},"
            f" reduced={self.reduced}{kind if MORE_PARAMETERS.applies() else ''})"
        )


NOT_VARYING = ManualAxisType()
