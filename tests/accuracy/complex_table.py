"""The complex functions that are swept, their exact values, and where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from tests.accuracy.sweep import GOAL, ULPS

SIZES = [0.0, 5e-324, 1e-300, 1e-160, 1e-40, 1e-20, 1e-9, 0.01, 0.3, 0.5, 0.999, 1.0,
         1 + 2.0**-30, 1.3, 1.5707963267948966, 3.0, 3.141592653589793, 17.0, 44.0,
         88.0, 350.0, 709.0, 711.0, 1e4, 1e9, 1e40, 1e160, 1e300, 1.7e308]  # fmt: skip
BITS = 2300  # parts of a double may be that far apart
SIDE = mp.mpf(10) ** -650


@dataclass(frozen=True)
class Complex:
    """A function of `curta.numpy` or `curta.lax`, by path, of complex numbers."""

    path: str
    exact: Callable[..., Any]
    arity: int = 1
    overflows: bool = False  # to NaN of both parts, as products of numbers do

    def on(self, root: Any) -> Callable[..., Any]:
        for part in self.path.split("."):
            root = getattr(root, part)
        return root  # type: ignore[no-any-return]


def _numpy(name: str, exact: Callable[..., Any], arity: int = 1) -> Complex:
    return Complex(f"numpy.{name}", exact, arity)


def _expm1(z: Any) -> Any:
    return mp.exp(z) - 1


def _quotient(z: Any, w: Any) -> Any:
    return z / w if w else mp.nan


def _sinc(z: Any) -> Any:
    sine = mp.sin(mp.pi * z)
    # Where it overflows the quotient does, as in NumPy.
    return sine / (mp.pi * z) if max(abs(sine), abs(z)) < 1e38 else mp.nan


FUNCTIONS = [
    *(_numpy(n, getattr(mp, n)) for n in "exp sqrt sin cos sinh cosh tanh tan".split()),
    *(_numpy(f"arc{n}", getattr(mp, f"a{n}"))
      for n in "sin cos tan sinh cosh tanh".split()),
    _numpy("log", mp.log),
    _numpy("log2", lambda z: mp.log(z) / mp.ln2),
    _numpy("log10", lambda z: mp.log(z) / mp.ln10),
    _numpy("exp2", lambda z: mp.exp(z * mp.ln2)),
    _numpy("log1p", lambda z: mp.log(1 + z)),
    _numpy("expm1", _expm1),
    _numpy("abs", abs),
    _numpy("angle", lambda z: mp.arg(z / abs(z))),
    _numpy("sign", lambda z: z / abs(z)),
    _numpy("square", lambda z: z * z),
    _numpy("reciprocal", lambda z: _quotient(1, z)),
    _numpy("sinc", _sinc),
    Complex("lax.logistic", lambda z: 1 / (1 + mp.exp(-z))),
    Complex("lax.rsqrt", lambda z: _quotient(1, mp.sqrt(z))),
    *(Complex(f"lax.integer_pow:{n}", lambda z, n=n: z**n if z or n > 0 else mp.nan,
              overflows=True) for n in (3, -2, 7)),
    Complex("numpy.multiply", lambda z, w: z * w, 2, overflows=True),
    _numpy("divide", _quotient, 2),
    _numpy("power", lambda z, w: mp.exp(w * mp.log(z)) if z else mp.nan, 2),
]  # fmt: skip


def grid(dtype: Any, sizes: list[float] | None = None) -> Any:
    """Complex numbers whose parts are `sizes` and their negatives."""
    info = np.finfo(dtype)
    sizes = [x for x in sizes or SIZES if x == 0 or info.tiny <= x <= info.max
             or x == 5e-324]  # fmt: skip
    sizes = [float(info.smallest_subnormal) if x == 5e-324 else x for x in sizes]
    positive = sorted({float(info.dtype.type(x)) for x in sizes})
    parts = [*positive, *(-x for x in positive)]
    pairs = itertools.product(parts, parts)
    return np.array([complex(x, y) for x, y in pairs], dtype)


def exact_and_slack(function: Complex, args: tuple[Any, ...], dtype: Any) -> Any:
    """The exact value, and how much it changes with a unit in the last place."""
    eps = mp.mpf(float(np.finfo(dtype).eps)) / 1024
    with mp.workprec(BITS):
        if _is_pole(function, args):
            return None
        given = [_beside_cuts(complex(z)) for z in args]
        try:
            exact = function.exact(*given)
            slack = mp.mpf(0)
            for i, z in enumerate(given):
                for moved in (mp.mpc(z.real * (1 + eps), z.imag),
                              mp.mpc(z.real, z.imag * (1 + eps))):  # fmt: skip
                    if moved != z:
                        changed = [*given[:i], moved, *given[i + 1 :]]
                        slack += 1024 * abs(function.exact(*changed) - exact)
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
    most = mp.mpf(float(np.finfo(dtype).max))
    if function.overflows and abs(exact) >= most:
        return None
    return mp.mpc(exact), slack


def _is_pole(function: Complex, args: tuple[Any, ...]) -> bool:
    try:
        value = mp.mpc(function.exact(*[mp.mpc(complex(z)) for z in args]))
    except (ValueError, ZeroDivisionError, OverflowError):
        return True
    return not mp.isfinite(value)


def _beside_cuts(z: complex) -> Any:
    """`z` with a part 0 moved to the side of a branch cut which its sign tells."""
    parts = [mp.mpf(p) or math.copysign(1, p) * SIDE for p in (z.real, z.imag)]
    return mp.mpc(*parts)


def error(got: Any, exact: Any, slack: Any, dtype: Any) -> float:
    """The error relative to the size, scaled down where the arguments' rounding counts.

    Where the size overflows an infinity will do, whose other part may be NaN (C99,
    annex G).
    """
    info = np.finfo(dtype)
    most, tiny = mp.mpf(float(info.max)), mp.mpf(float(info.tiny))
    goal = GOAL["float64" if info.dtype.itemsize == 8 else "float32"]
    got = complex(got)
    if mp.isnan(exact):
        return 0.0
    if np.isinf(got.real) or np.isinf(got.imag):
        over = abs(exact) * (1 + goal) + ULPS * slack >= most
        return 0.0 if over else float("inf")
    if np.isnan(got.real) or np.isnan(got.imag):
        return float("inf")
    miss = abs(mp.mpc(got) - exact)
    size = max(min(abs(exact), most), tiny)
    if miss <= 2 * float(info.smallest_subnormal):
        return 0.0
    return float(miss / size / max(1, ULPS * slack / size / goal))
