"""`PartitionSpec`: which mesh axes the dims of an array are split over."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from curta._base.once import Interned
from curta._settings.api_version import MORE_PARAMETERS


class Unconstrained:
    """The entry of a dim whose split is left to the compiler."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return _unconstrained, ()


UNCONSTRAINED = Unconstrained()


class UnreducedKind(enum.Enum):
    """How the parts of an array along its `unreduced` axes are joined."""

    sum = enum.auto()
    max = enum.auto()
    min = enum.auto()


def _unconstrained() -> Unconstrained:
    return UNCONSTRAINED


class PartitionSpec:
    """For each dim of an array, the mesh axis (or axes) that it is split over.

    An entry is None (not split), a name, or a tuple of names, the first of which
    varies slowest. Dims after the last entry are not split. Specs are interned:
    equal ones are one object.

    Args:
      unreduced: axes along which the array is a sum not yet taken.
      reduced: axes whose cotangent will be such a sum.
      unreduced_kind: an `UnreducedKind`, if the array is a maximum or minimum along
        the unreduced axes in place of a sum (which None says too).

    Raises:
      TypeError: `unreduced` or `reduced` is not a set, or `unreduced_kind` of another
        type.
      ValueError: an axis is in two of the three kinds of entries, or a kind is given
        without unreduced axes.

    >>> import curta
    >>> curta.P("x", None), curta.P(("x", "y")), curta.P(("x",)) == curta.P("x")
    (P('x', None), P(('x', 'y'),), True)
    """

    __slots__ = (
        "__weakref__",
        "partitions",
        "reduced",
        "unreduced",
        "unreduced_kind",
    )
    UNCONSTRAINED = UNCONSTRAINED

    partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    unreduced_kind: UnreducedKind | None

    def __new__(
        cls,
        *partitions: Any,
        unreduced: Any = frozenset(),
        reduced: Any = frozenset(),
        unreduced_kind: UnreducedKind | None = None,
    ) -> PartitionSpec:
        entries = tuple(map(_canonical, partitions))
        sums = _axes("unreduced", unreduced)
        if sums and unreduced_kind is None:
            unreduced_kind = UnreducedKind.sum
        key = (entries, sums, _axes("reduced", reduced), unreduced_kind)
        result = _specs.get(key)
        if result is None:
            _check(*key)
            result = object.__new__(cls)
            names = ("partitions", "unreduced", "reduced", "unreduced_kind")
            for name, value in zip(names, key):
                object.__setattr__(result, name, value)
            result = _specs.shared(key, result)
        return result

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("Subclassing `jax.P` is prohibited.")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot assign to field {name!r} of a PartitionSpec")

    def __reduce__(self) -> Any:
        parts = (self.partitions, self.unreduced, self.reduced, self.unreduced_kind)
        return _rebuild, parts

    def __repr__(self) -> str:
        entries = repr(self.partitions)[1:-1]
        rest = ", ".join(
            f"{name}={set(axes)!r}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        )
        plain = None if MORE_PARAMETERS.applies() else UnreducedKind.sum
        if self.unreduced_kind not in (None, plain):
            rest += f", unreduced_kind={self.unreduced_kind.name}"
        gap = "" if not (entries and rest) else " " if entries[-1] == "," else ", "
        return f"P({entries}{gap}{rest})"

    # ---- as a tuple of its entries

    def _only_entries(self) -> tuple[Any, ...]:
        if self.unreduced or self.reduced:
            raise ValueError(
                f"Using {self} as a sequence is dangerous when PartitionSpec has"
                " non-empty unreduced/reduced set. Please use spec.partitions."
            )
        return self.partitions

    def __getitem__(self, i: Any) -> Any:
        return self._only_entries()[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._only_entries())

    def __len__(self) -> int:
        return len(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            plain = (None, UnreducedKind.sum)
            kinds = [self.unreduced_kind, other.unreduced_kind]
            if kinds[0] != kinds[1] and any(kind not in plain for kind in kinds):
                raise TypeError(
                    "PartitionSpec can't be added if the unreduced_kind differs in"
                    f" self and other. Got self={self} and other={other}"
                )
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
                unreduced_kind=kinds[0] or kinds[1],
            )
        if isinstance(other, tuple):
            return PartitionSpec(*self._joinable(other, "__add__"), *other)
        raise NotImplementedError

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            raise NotImplementedError
        return PartitionSpec(*other, *self._joinable(other, "__radd__"))

    def _joinable(self, other: Any, method: str) -> tuple[Any, ...]:
        for name in ("unreduced", "reduced"):
            if getattr(self, name):
                raise TypeError(
                    f"other {other} cannot be of instance `tuple` when self {self} has"
                    f" {name} in `{method}` of PartitionSpec."
                )
        return self.partitions

    def index(self, value: Any) -> int:
        """The first dim with this entry; ValueError if there is none."""
        return self.partitions.index(_canonical(value))

    def count(self, value: Any) -> int:
        """The number of dims with this entry."""
        return self.partitions.count(_canonical(value))

    # ---- changes

    def update(
        self,
        partitions: Any = None,
        unreduced: Any = None,
        reduced: Any = None,
        **kwargs: Any,
    ) -> PartitionSpec:
        """This spec with some of its parts replaced.

        Args:
            partitions: the axes of each dim, as a tuple. None (default) keeps them.
            unreduced, reduced: sets of axes. None (default) keeps them.
            **kwargs: `unreduced_kind`, how unreduced axes are joined, if it is not to
                be kept; None is a sum.

        Returns:
            A new spec.

        Raises:
            TypeError: for other names.
            ValueError: an axis of `partitions` is unreduced or reduced, too.

        >>> from curta import P
        >>> P("x", None).update(partitions=(None, "y"))
        P(None, 'y')
        """
        sums = self.unreduced if unreduced is None else unreduced
        if sums:
            kwargs.setdefault("unreduced_kind", self.unreduced_kind)
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=sums,
            reduced=self.reduced if reduced is None else reduced,
            **kwargs,
        )

    def refuse_extrema(self) -> None:
        """Raise NotImplementedError for maxima and minima along unreduced axes."""
        if self.unreduced_kind not in (None, UnreducedKind.sum):
            raise NotImplementedError(
                f"{self}: arrays that are a {self.unreduced_kind.name} along unreduced"
                " axes are not supported, only sums. Take the extremum by lax.pmax or"
                " lax.pmin."
            )

    def dual(self) -> PartitionSpec:
        """The spec of cotangents: what was unreduced is reduced, and vice versa."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def for_rank(self, rank: int) -> PartitionSpec:
        """This spec with an entry for each of `rank` dims, nothing unconstrained."""
        entries = [None if p is UNCONSTRAINED else p for p in self.partitions]
        return self.update([*entries, *[None] * (rank - len(entries))])

    def axes_of_dims(self) -> list[tuple[Any, ...]]:
        """For each entry, the tuple of its axes."""
        return [entry_axes(p) for p in self.partitions]

    def used_axes(self) -> list[Any]:
        """All axes that split a dim."""
        return [name for axes in self.axes_of_dims() for name in axes]


_specs: Interned[PartitionSpec] = Interned()


def entry_axes(entry: Any) -> tuple[Any, ...]:
    """The axes that one entry of a spec names."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def entry_of(axes: Iterable[Any]) -> Any:
    """The entry that names these axes."""
    names = tuple(axes)
    return None if not names else names[0] if len(names) == 1 else names


def _canonical(entry: Any) -> Any:
    if isinstance(entry, (list, tuple)):
        if any(isinstance(name, (list, tuple)) for name in entry):
            raise ValueError(
                "A tuple inside PartitionSpec cannot contain a nested tuple. Got"
                f" {entry}"
            )
        return entry_of(entry)
    return entry


def _axes(what: str, given: Any) -> frozenset[Any]:
    if not isinstance(given, (set, frozenset)):
        raise TypeError(
            f"{what} argument of PartitionSpec should of type `frozenset` or `set`."
            f" Got type {given}"
        )
    return frozenset(given)


def _check(
    entries: tuple[Any, ...],
    unreduced: frozenset[Any],
    reduced: frozenset[Any],
    unreduced_kind: UnreducedKind | None,
) -> None:
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if None in axes:
            raise ValueError(
                f"{name} cannot contain None. All elements in {name} should refer to"
                " the mesh axes."
            )
    if unreduced & reduced:
        raise ValueError(
            "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got"
            f" unreduced: {unreduced} and reduced: {reduced}"
        )
    check_kind(unreduced, unreduced_kind)
    used = {name for entry in entries for name in entry_axes(entry)}
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if used & axes:
            raise ValueError(
                f"partitions cannot overlap with {name} axes passed to PartitionSpec."
                f" Got partitions: {entries} and {name} axes: {axes}"
            )


def check_kind(unreduced: frozenset[Any], unreduced_kind: UnreducedKind | None) -> None:
    """Check the kind of unreduced axes.

    Raises:
      TypeError: it is not an `UnreducedKind`.
      ValueError: it is given though there are no such axes.
    """
    kind = unreduced_kind
    if kind is not None and not isinstance(kind, UnreducedKind):
        raise TypeError(
            "Expected unreduced_kind to be of type `jax.sharding.UnreducedKind` but"
            f" got {type(kind)}"
        )
    if not unreduced and kind is not None:
        raise ValueError(
            "`unreduced_kind` should be `None` when `unreduced` is an empty set. Got"
            f" {unreduced_kind=} and {unreduced=}"
        )


def _rebuild(
    entries: Any, unreduced: Any, reduced: Any, kind: UnreducedKind | None = None
) -> PartitionSpec:
    return PartitionSpec(
        *entries, unreduced=unreduced, reduced=reduced, unreduced_kind=kind
    )
