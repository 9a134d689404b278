"""How a value in the body of a `shard_map` relates to the axes that are mapped over."""

from __future__ import annotations

import dataclasses
from typing import Any

from curta.lazy_dataclass import dataclass

_NO_AXES: frozenset[Any] = frozenset()


@dataclass(frozen=True, kw_only=True, repr=False)
class ManualAxisType:
    """The axes over which shards differ, and those over which they are partial sums.

    Args:
      varying: axes along which each device may have another value.
      unreduced: axes along which the value is the sum of what the devices have.
      reduced: axes along whose cotangent will be such a sum.

    Raises ValueError if an axis is both varying and one of the others.

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

    def __post_init__(self) -> None:
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
        """This type with some of its parts replaced."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced},"
            f" reduced={self.reduced})"
        )


NOT_VARYING = ManualAxisType()
