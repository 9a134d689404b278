"""Index expressions: integer arithmetic over loop variables, kept in affine form.

Where an element lies is a sum `c + k0*i0 + k1*i1 + ...` whose atoms are loop
variables, quotients and remainders of other sums, or integers read from data. The
form shows at once what a schedule asks for: the stride of a load along a loop, and
whether two loads touch the same element. Every atom knows its bounds, so that the
`//` and `%` which reshapes write vanish wherever they can.

Any integer may be combined with an index: `i + 3`, `2 * i`, `i // 4`, `i + x` where x
is an integer scalar expression. Division rounds down and divides by positive integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from curta._base.lazy_dataclass import dataclass
from curta.core.dim import SymbolicDim, is_same

Bounds = tuple[int, int]
"""The least and the greatest value, both inclusive."""


class IndexAtom:
    """A term of an affine sum; hashable, with `bounds`."""

    __slots__ = ()

    @property
    def bounds(self) -> Bounds:
        raise NotImplementedError

    def as_index(self) -> Affine:
        return Affine({self: 1}, 0)


@dataclass(frozen=True, eq=False)
class LoopVar(IndexAtom):
    """A loop counter in `range(extent)`; equal names of equal extent are one loop."""

    name: str
    extent: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LoopVar):
            return NotImplemented
        return self.name == other.name and is_same(self.extent, other.extent)

    def __hash__(self) -> int:
        return hash((self.name, self.extent))

    @property
    def bounds(self) -> Bounds:
        return 0, max(self.extent - 1, 0)


@dataclass(frozen=True)
class Quotient(IndexAtom):
    """`of // by`, rounded down."""

    of: Affine
    by: int

    @property
    def bounds(self) -> Bounds:
        low, high = self.of.bounds
        return low // self.by, high // self.by


@dataclass(frozen=True)
class Remainder(IndexAtom):
    """`of % by`, never negative."""

    of: Affine
    by: int

    @property
    def bounds(self) -> Bounds:
        low, high = self.of.bounds
        return (low, high) if 0 <= low and high < self.by else (0, self.by - 1)


class Affine:
    """A sum of integer multiples of atoms and a constant. Immutable."""

    __slots__ = ("_bounds", "_hash", "const", "terms")

    terms: Mapping[IndexAtom, int]
    const: int

    def __init__(self, terms: dict[IndexAtom, int], const: int) -> None:
        self.terms = terms
        self.const = const
        self._hash: int | None = None
        self._bounds: Bounds | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Affine):
            return NotImplemented
        return self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.const, frozenset(self.terms.items())))
        return self._hash

    @property
    def bounds(self) -> Bounds:
        """The range that the bounds of the atoms allow."""
        if self._bounds is None:
            low = high = self.const
            for atom, k in self.terms.items():
                a, b = atom.bounds
                least, most = (a, b) if k > 0 else (b, a)
                low, high = low + k * least, high + k * most
            self._bounds = low, high
        return self._bounds

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, atom: IndexAtom) -> int:
        """The multiple of `atom` itself (it may hide in other atoms as well)."""
        return self.terms.get(atom, 0)

    def as_index(self) -> Affine:
        return self

    def __add__(self, other: IndexLike) -> Affine:
        right = as_index(other)
        if not right.terms and not right.const:
            return self
        terms = dict(self.terms)
        for atom, k in right.terms.items():
            total = terms.get(atom, 0) + k
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Affine(terms, self.const + right.const)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: IndexLike) -> Affine:
        return self + -as_index(other)

    def __rsub__(self, other: IndexLike) -> Affine:
        difference: Affine = -self + other
        return difference

    def __mul__(self, other: IndexLike) -> Affine:
        varying, factor = self, as_index(other)
        if factor.terms and not self.terms:
            varying, factor = factor, self
        if factor.terms:
            raise TypeError(f"an index times {factor} is not an affine sum")
        if not factor.const:
            return ZERO
        terms = {atom: k * factor.const for atom, k in varying.terms.items()}
        return Affine(terms, varying.const * factor.const)

    __rmul__ = __mul__

    def __floordiv__(self, by: int) -> Affine:
        return self._divmod(by)[0]

    def __mod__(self, by: int) -> Affine:
        return self._divmod(by)[1]

    def _divmod(self, by: int) -> tuple[Affine, Affine]:
        if by == 1:
            return self, ZERO
        whole = Affine(
            {a: k // by for a, k in self.terms.items() if k % by == 0}, self.const // by
        )
        rest = Affine({a: k for a, k in self.terms.items() if k % by}, self.const % by)
        low, high = rest.bounds
        if 0 <= low and high < by:
            return whole, rest
        return whole + Quotient(rest, by).as_index(), Remainder(rest, by).as_index()

    def substitute(self, replace: Callable[[IndexAtom], IndexLike | None]) -> Affine:
        """This sum with atoms exchanged; None leaves one as it is.

        `replace` sees every atom, also those inside quotients and remainders; what
        it is given there has already been rewritten inside.
        """
        kept: dict[IndexAtom, int] = {}
        changed = ZERO
        for atom, k in self.terms.items():
            inner = _rebuild(atom, replace)
            new = replace(inner) if isinstance(inner, IndexAtom) else inner
            if new is not None:
                changed = changed + as_index(new) * k
            elif isinstance(inner, IndexAtom):
                kept[inner] = kept.get(inner, 0) + k
        return Affine(kept, self.const) + changed

    def atoms(self) -> Iterable[IndexAtom]:
        """All atoms, those inside quotients and remainders included."""
        for atom in self.terms:
            yield atom
            if isinstance(atom, (Quotient, Remainder)):
                yield from atom.of.atoms()

    def __repr__(self) -> str:
        return pretty_index(self)


IndexLike = Any
"""An int, an `Affine`, an `IndexAtom`, or an integer scalar expression."""

ZERO = Affine({}, 0)


def as_index(x: IndexLike) -> Affine:
    """Any integer of the compiler as an affine sum."""
    if isinstance(x, (int, SymbolicDim)):
        return Affine({}, cast(int, x)) if x else ZERO
    if isinstance(x, Affine):
        return x
    converted: Affine = x.as_index()
    return converted


def bounds_given(index: Affine, of: Affine, bounds: Bounds) -> Bounds:
    """The bounds of an index where those of another one, or its negative, are given."""
    low, high = index.bounds
    for sign, (least, most) in ((1, bounds), (-1, (-bounds[1], -bounds[0]))):
        rest = index - of * sign
        if rest.is_constant:
            low, high = max(low, rest.const + least), min(high, rest.const + most)
    return low, high


def row_major(index: Iterable[IndexLike], shape: tuple[int, ...]) -> Affine:
    """The offset of the element at `index` of an array of `shape`, in elements."""
    offset, stride = ZERO, 1
    for i, extent in zip(reversed(tuple(index)), reversed(shape), strict=True):
        if extent != 1:
            offset = offset + as_index(i) * stride
        stride *= extent
    return _put_together(offset)


def _put_together(index: Affine) -> Affine:
    """`k*(x % n) + k*n*(x // n)` is `k*x`: a reshape of what lies in memory."""
    for atom, k in index.terms.items():
        if isinstance(atom, Remainder):
            quotient = Quotient(atom.of, atom.by)
            if index.coefficient(quotient) == k * atom.by:
                rest = dict(index.terms)
                del rest[atom], rest[quotient]
                return _put_together(Affine(rest, index.const) + atom.of * k)
    return index


def unravel(offset: Affine, shape: tuple[int, ...]) -> tuple[Affine, ...]:
    """The index of the element at `offset` of an array of `shape`."""
    index: list[Affine] = []
    for extent in reversed(shape[1:]):
        offset, remainder = offset._divmod(max(extent, 1))
        index.append(remainder)
    if shape:
        index.append(offset if shape[0] != 1 else ZERO)
    return tuple(reversed(index))


def _rebuild(
    atom: IndexAtom, replace: Callable[[IndexAtom], IndexLike | None]
) -> IndexAtom | Affine:
    if isinstance(atom, (Quotient, Remainder)):
        of = atom.of.substitute(replace)
        if of != atom.of:
            return of // atom.by if isinstance(atom, Quotient) else of % atom.by
    return atom


def pretty_index(index: Affine) -> str:
    """`8*i + j + 3`."""
    parts = [_pretty_term(atom, k) for atom, k in index.terms.items()]
    if index.const or not parts:
        parts.append(str(index.const))
    return " + ".join(parts).replace("+ -", "- ")


def _pretty_term(atom: IndexAtom, k: int) -> str:
    if isinstance(atom, LoopVar):
        text = atom.name
    elif isinstance(atom, Quotient):
        text = f"(({pretty_index(atom.of)}) // {atom.by})"
    elif isinstance(atom, Remainder):
        text = f"(({pretty_index(atom.of)}) % {atom.by})"
    else:
        text = str(atom)
    return text if k == 1 else f"{k}*{text}"
