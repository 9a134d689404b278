"""`Layout` and `Format`: the order of an array's elements in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.core.sharding import Sharding


class _Auto:
    """The layout that is left to the compiler."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> Any:
        return getattr, (Layout, "AUTO")  # there is only one


@dataclass(frozen=True)
class Layout:
    """The order of an array's dims in memory.

    Args:
      major_to_minor: the dims, from the one of the longest strides to the one whose
        elements are neighbours.
      tiling: tiles that elements are gathered in; none on a CPU.
      sub_byte_element_size_in_bits: of elements of less than a byte that are packed.

    Arrays are in row-major order unless `device_put` or `jit` was given another one,
    which changes no result: `Array.format` says how an array is stored. Tiles are those
    of devices: of a CPU's arrays only the order is followed.

    >>> Layout((1, 0))
    Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    AUTO = _Auto()

    major_to_minor: Iterable[int]
    tiling: Iterable[Iterable[int]] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "major_to_minor", self.order)
        if self.tiling is not None:
            object.__setattr__(self, "tiling", tuple(map(tuple, self.tiling)))

    @property
    def order(self) -> tuple[int, ...]:
        """The dims, major to minor."""
        return tuple(self.major_to_minor)

    @property
    def is_row_major(self) -> bool:
        """Whether the last dim is the one whose elements are neighbours."""
        return self.order == (*range(len(self.order)),)

    def update(self, **changes: Any) -> Layout:
        """This layout with other values for some of its arguments."""
        return Layout(**{**vars(self), **changes})

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of that shape do not have these dims."""
        if len(self.order) != len(shape):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got"
                f" major_to_minor={self.major_to_minor} and shape={tuple(shape)}"
            )
        if sorted(self.order) != [*range(len(shape))]:
            raise ValueError(
                f"major_to_minor={self.major_to_minor} is not an order of the"
                f" {len(shape)} dims of an array of shape {tuple(shape)}"
            )


class Format:
    """How an array is stored: its layout on each device, and its sharding.

    Args:
      layout: a `Layout`, `Layout.AUTO` or None, which leave it open.
      sharding: a `Sharding`; None leaves it open, where there is no `Layout`.

    Raises:
      ValueError: for a `Layout` without a sharding.
      TypeError: for other types.

    >>> Format(Layout.AUTO)
    Format(layout=AUTO, sharding=None)
    """

    __slots__ = ("layout", "sharding")

    def __init__(
        self, layout: Layout | _Auto | None = None, sharding: Sharding | None = None
    ):
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}."
                " Please pass a `jax.sharding.NamedSharding` or"
                " `jax.sharding.SingleDeviceSharding` to the sharding argument. Got"
                f" sharding {sharding}"
            )
        if not isinstance(layout, (Layout, _Auto, type(None))):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are"
                " `None`, `Layout.AUTO` or an instance of `Layout`. Got"
                f" {layout} of type {type(layout)}"
            )
        if not isinstance(sharding, (Sharding, type(None))):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are"
                f" `None` or an instance of `jax.Sharding`. Got {sharding} of type"
                f" {type(sharding)}"
            )
        self.layout: _Auto | Layout | None = layout
        self.sharding: Sharding | None = sharding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Format)
            and self.layout == other.layout
            and self.sharding == other.sharding
        )

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def concrete_layout(sharding: Any, user: str) -> Any:
    """What a user gave as a sharding, with a layout that says something.

    Raises TypeError for `Layout.AUTO`, which is for programs, that choose one.
    """
    if isinstance(sharding, Format) and sharding.layout is Layout.AUTO:
        raise TypeError(
            "`Layout.AUTO` cannot be used in place of a device-local layout"
            f" {user}. Got {sharding}"
        )
    return sharding


def stored_format(order: Iterable[int], sharding: Sharding) -> Format:
    """The format of an array whose dims are stored in an order, major to minor."""
    return Format(Layout(order, ()), sharding)


def layout_of(target: Any) -> Layout | _Auto | None:
    """The layout that a `device` or `sharding` of a user gives; None if it has none."""
    return target.layout if isinstance(target, Format) else None
