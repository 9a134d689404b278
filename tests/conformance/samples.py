"""The samples of `Op.samples`, and the operands made from them.

A sample is `(op, operands)`, an operand is `(shape, kind)` or `(shape, kind, domain)`.

**Kinds.** A concrete dtype (`"int32"` or `np.dtype`) or a family of them: `any`
`number` `inexact` `real` `ordered` `float` `int` `bool_or_int` `bool` `complex`
`index` `key`, see `FAMILIES`. A sample is run once for every dtype of its families;
operands of the same family have the same dtype, and shorter families repeat.

**Domain.** A dict of what the elements may be:

==============  ==============================================================
`low`, `high`   bounds, inclusive, of numbers and of the parts of complex ones
`values`        a list of values to repeat instead of random ones
`nonzero`       no element is 0, nor very near it
`distinct`      no two elements are equal, or within rounding of each other
`special`       some are NaN, infinite or -0.0 (then no derivative is checked)
`rough`         the derivative is not the limit of differences, by definition
`constant`      this operand is never differentiated
==============  ==============================================================

Samples are to be small, and to contain an empty array and one of rank 0 where the
op takes them.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.op import Op

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KEY = dtypes.KeyDType("fry", words=2)


def _dtypes(*names: str) -> list[np.dtype]:
    return [BFLOAT16 if n == "bfloat16" else np.dtype(n) for n in names]


_FLOAT = _dtypes("float32", "float64", "float16", "bfloat16")
_COMPLEX = _dtypes("complex64", "complex128")
_INT = _dtypes("int32", "uint8", "int64", "int8", "uint32", "int16", "uint64", "uint16")
_BOOL = _dtypes("bool")

FAMILIES: dict[str, list[Any]] = {
    "any": [*_FLOAT, *_COMPLEX, *_INT, *_BOOL],
    "number": [*_FLOAT, *_COMPLEX, *_INT],
    "inexact": [*_FLOAT, *_COMPLEX],
    "real": [*_FLOAT, *_INT],
    "ordered": [*_FLOAT, *_INT, *_BOOL],
    "float": _FLOAT,
    "int": _INT,
    "bool_or_int": [*_INT, *_BOOL],
    "bool": _BOOL,
    "complex": _COMPLEX,
    "index": _dtypes("int32", "uint8", "int64"),
    "key": [KEY],
}
_DEFAULT_DOMAIN = {"index": {"low": -2, "high": 5}}


@dataclass(frozen=True)
class Case:
    """An op with operands: NumPy arrays of the physical dtypes of `avals`."""

    op: Op
    avals: tuple[ShapedArray, ...]
    args: tuple[np.ndarray, ...]
    domains: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(a.str_short(True) for a in self.avals)})"


def cases(cls: type[Op]) -> list[Case]:
    """The samples of an op, for each dtype they claim."""
    rng = np.random.default_rng(sum(map(ord, cls.__name__)))
    found = []
    for op, operands in cls.samples():
        for kinds in _assignments([o[1] for o in operands]):
            avals, args, domains = [], [], []
            for (shape, kind, *rest), dtype in zip(operands, kinds, strict=True):
                domain = {**_DEFAULT_DOMAIN.get(kind, {}), **(rest[0] if rest else {})}
                avals.append(ShapedArray(tuple(shape), dtype))
                args.append(make_array(rng, tuple(shape), dtype, domain))
                domains.append(domain)
            found.append(Case(op, tuple(avals), tuple(args), tuple(domains)))
    return found


def _assignments(kinds: list[Any]) -> list[list[Any]]:
    """The dtypes of the operands, once for each dtype of the largest family."""
    families = {
        k: FAMILIES[k] if isinstance(k, str) and k in FAMILIES else [np.dtype(k)]
        for k in kinds
    }
    count = max(map(len, families.values()), default=1)
    return [[families[k][n % len(families[k])] for k in kinds] for n in range(count)]


def make_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, domain: dict[str, Any]
) -> np.ndarray:
    """An array of `shape` with elements of `domain`."""
    if isinstance(dtype, dtypes.ExtendedDType):
        words = rng.integers(0, 1 << 62, shape, np.uint64)
        return np.asarray(words, dtype.physical)
    if "values" in domain:
        count = int(np.prod(shape))
        values = list(itertools.islice(itertools.cycle(domain["values"]), count))
        with np.errstate(over="ignore"):
            return np.array(values).reshape(shape).astype(dtype)
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtypes.issubdtype(dtype, np.integer):
        flat = _integers(rng, size, dtype, domain)
    elif dtype.kind == "c":
        parts = [_floats(rng, size, domain) for _ in range(2)]
        flat = parts[0] + 1j * parts[1]
    else:
        flat = _floats(rng, size, domain)
    flat = np.asarray(flat).astype(dtype)
    if domain.get("special") and dtypes.issubdtype(dtype, np.inexact):
        flat[: size // 2] = [np.nan, -0.0, np.inf, -np.inf, 0.0][: size // 2]
    return flat.reshape(shape)


def _integers(rng: np.random.Generator, size: int, dtype: Any, domain: dict) -> Any:
    info = np.iinfo(dtype)
    low = max(int(np.ceil(domain.get("low", -5))), int(info.min))
    high = min(int(np.floor(domain.get("high", 9))), int(info.max))
    if domain.get("distinct"):
        high = max(high, low + size)
        return rng.permutation(np.arange(low, high))[:size]
    drawn = rng.integers(low, max(low, high), size, endpoint=True)
    return np.where(drawn == 0, max(low, 1), drawn) if domain.get("nonzero") else drawn


def _floats(rng: np.random.Generator, size: int, domain: dict) -> Any:
    low, high = domain.get("low", -2.0), domain.get("high", 2.0)
    if domain.get("distinct"):
        return rng.permutation(np.linspace(low, high, size + 2)[1:-1])
    drawn = rng.uniform(low, high, size)
    if domain.get("nonzero"):
        drawn = np.where(np.abs(drawn) < 0.1, drawn + 0.3, drawn)
    return drawn
