"""A row of a table: a public function, calls of it, and what gives its values.

The tables name functions by their path below the package, so that they hold for any
library of the same interface. A call is made of NumPy arrays, which transformations
may trace, and of everything else, which stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special
import scipy.stats

Shape = tuple[int, ...]

FLOAT = ("float32", "bfloat16", "float16", "float64")
COMPLEX = ("complex64", "complex128")
INEXACT = (*FLOAT, *COMPLEX)
INTEGER = ("int32", "int8", "uint8", "int64")
REAL = (*FLOAT, *INTEGER)
NUMBER = (*INEXACT, *INTEGER)
ALL = (*NUMBER, "bool")
BITS = (*INTEGER, "bool")
SINGLE = ("float32", "float64")  # of linear algebra
LINEAR = (*SINGLE, *COMPLEX)
WIDE = ("float64", "complex128", "int64")  # only with 64 bits enabled


@dataclass(frozen=True)
class Fixed:
    """An array that no transformation traces: counts, indices of a static size."""

    value: Any


@dataclass(frozen=True)
class Call:
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


@dataclass(frozen=True)
class Source:
    """Draws arrays of one dtype between two bounds: `source(shape)`."""

    rng: np.random.Generator
    dtype: str
    low: float
    high: float

    def __call__(self, shape: Shape, dtype: str | None = None, **bounds) -> np.ndarray:
        kind = np.dtype(dtype or self.dtype)
        low, high = bounds.get("low", self.low), bounds.get("high", self.high)
        if kind.kind == "b":
            return self.mask(shape)
        if kind.kind in "iu":
            low = max(low, 0) if kind.kind == "u" else low
            return self.integers(shape, math.ceil(low), math.floor(high)).astype(kind)
        values = self.rng.uniform(low, high, shape)
        if kind.kind == "c":
            values = values + 1j * self.rng.uniform(low, high, shape)
        return np.asarray(values).astype(kind)

    def mask(self, shape: Shape) -> np.ndarray:
        return np.asarray(self.rng.integers(0, 2, shape), bool)

    def integers(self, shape: Shape, low: int, high: int) -> np.ndarray:
        """Of int32, both bounds included."""
        return np.asarray(self.rng.integers(low, high + 1, shape), np.int32)

    def real(self, shape: Shape, **bounds) -> np.ndarray:
        """Of the real dtype that belongs to this dtype."""
        return self(shape, np.zeros(0, self.dtype).real.dtype.name, **bounds)


Calls = Callable[[Source, Shape], Iterator[Call]]


@dataclass(frozen=True)
class Row:
    """How one function is tested.

    name: its path below the package, like "numpy.linalg.det", and after a colon
      what these calls are about if it has several rows.
    calls: makes its calls from a source of arrays and a shape; the first call is the
      one that is differentiated, compiled and batched.
    reference: gives the values; by default NumPy's or SciPy's function of that path.
      It gets the same arguments, in 64 bits unless `exact`; `floating` if it makes
      floats of integers and booleans first.
    rank: the least and the greatest number of dims that it takes.
    least: the least size of a dim.
    domain: the bounds of the numbers drawn.
    tolerance: how many times less accurate it is than one operation.
    of: makes the function from the package where it is not just found by its name.
    without: the checks that do not apply, each with the reason.
    """

    name: str
    calls: Calls
    dtypes: tuple[str, ...] = FLOAT
    reference: Callable[..., Any] | None = None
    rank: tuple[int, int] = (0, 4)
    least: int = 0
    domain: tuple[float, float] = (-3.0, 3.0)
    tolerance: float = 1.0
    exact: bool = False
    floating: bool = False
    of: Callable[[Any], Callable[..., Any]] | None = None
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.name.split(":")[0]

    def function(self, package: Any) -> Callable[..., Any]:
        if self.of is not None:
            return self.of(package)
        return reduce(getattr, self.path.split("."), package)

    def source(self, dtype: str, seed: int = 0) -> Source:
        return Source(np.random.default_rng(seed), dtype, *self.domain)

    def calls_at(self, dtype: str, shape: Shape, seed: int = 0) -> list[Call]:
        return list(self.calls(self.source(dtype, seed), shape))

    def takes(self, shape: Shape) -> bool:
        least, most = self.rank
        return least <= len(shape) <= most and min(shape, default=9) >= self.least

    def wanted(self, given: Call) -> Any:
        """The result of the reference."""
        function = self.reference or found(self.path)
        change = unfixed if self.exact else widened
        args = floated(given.args) if self.floating else change(given.args)
        kwargs = change(given.kwargs)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)


def found(path: str) -> Callable[..., Any]:
    """NumPy's or SciPy's function of that path."""
    first, *rest = path.split(".")
    root = {"numpy": np, "scipy": scipy, "lax": np}[first]
    return reduce(getattr, rest, root)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree`, of lists, tuples and dicts, with the function of every leaf."""
    if isinstance(tree, Mapping):
        return {k: mapped(function, x) for k, x in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)([mapped(function, x) for x in tree])
    return function(tree)


def unfixed(tree: Any) -> Any:
    return mapped(lambda x: x.value if isinstance(x, Fixed) else x, tree)


def widened(tree: Any) -> Any:
    return mapped(wide, unfixed(tree))


def floated(tree: Any) -> Any:
    def leaf(x):
        integral = isinstance(x, np.ndarray) and x.dtype.kind in "biu"
        return x.astype("f8") if integral else wide(x)

    return mapped(leaf, unfixed(tree))


def wide(x: Any) -> Any:
    """An array in 64 bits, so that the reference rounds and wraps nothing."""
    if not isinstance(x, np.ndarray):
        return x
    kind = "f" if x.dtype == ml_dtypes.bfloat16 else x.dtype.kind
    return x.astype({"f": "f8", "c": "c16", "i": "i8", "u": "i8"}.get(kind, x.dtype))


def rows(names: str, calls: Calls, dtypes: tuple[str, ...] = FLOAT, **settings):
    """A row for each of the names, which are written in one string."""
    return [Row(name, calls, dtypes, **settings) for name in names.split()]


def within(prefix: str, table: list[Row]) -> list[Row]:
    """The rows with a prefix before their names."""
    return [replace(row, name=f"{prefix}.{row.name}") for row in table]
