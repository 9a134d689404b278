"""Derive the polynomial coefficients of src/curta/compiler/llvm/vector_math.

    python tools/minimax.py > src/curta/compiler/llvm/vector_math/coefficients.py

(with names of tables, only those). A row of `FITS` says what is approximated, on which
interval, with which weight, and how many coefficients there are. For f64 the fit is
Remez's exchange in 60 digits. For f32 each coefficient, from the constant up, is
rounded and the others are fitted again, which gains a bit or two over rounding at the
end. Needs mpmath and NumPy.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Real = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """p(x) ~ f(x) on [low, high], where |p - f| * weight is made small."""

    name: str
    kind: str
    f: Real
    low: float
    high: float
    count: int
    weight: Real = lambda x: mp.mpf(1)
    # A weight that vanishes would leave the polynomial free there: keep that much.
    least: float = 1 / 50


def solve(fit: Fit) -> list[mp.mpf]:
    """The minimax polynomial by Remez's exchange, constant first."""
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    size = 40 * fit.count
    grid = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / size)
        for i in range(size + 1)
    ]
    weights = [mp.mpf(fit.weight(x)) for x in grid]
    weights = [max(w, max(weights) * fit.least) for w in weights]
    values = [fit.f(x) for x in grid]
    n = fit.count
    chosen = [round(i * size / n) for i in range(n + 1)]
    coefficients: list[mp.mpf] = []
    for _ in range(40):
        matrix = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for row, i in enumerate(chosen):
            for k in range(n):
                matrix[row, k] = weights[i] * grid[i] ** k
            matrix[row, n] = (-1) ** row
            right[row] = weights[i] * values[i]
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[i] for i in range(n)]
        errors = [
            w * (mp.polyval(coefficients[::-1], x) - v)
            for x, w, v in zip(grid, weights, values)
        ]
        following = _alternation(errors, n + 1)
        worst = max(abs(e) for e in errors)
        if following is None or worst < abs(solution[n]) * mp.mpf("1.0005"):
            break
        chosen = following
    return coefficients


def _alternation(errors: list[mp.mpf], count: int) -> list[int] | None:
    """The places of the largest errors with alternating signs."""
    places: list[int] = []
    for i, e in enumerate(errors):
        if places and (e > 0) == (errors[places[-1]] > 0):
            if abs(e) > abs(errors[places[-1]]):
                places[-1] = i
        else:
            places.append(i)
    while len(places) > count:
        end = 0 if abs(errors[places[0]]) < abs(errors[places[-1]]) else -1
        places.pop(end)
    return places if len(places) == count else None


def rounded(fit: Fit) -> tuple[list[float], float]:
    """Coefficients in working precision, constant first, and the weighted error."""
    coefficients = [float(c) for c in solve(fit)]
    if fit.kind == "f32":
        coefficients = _round_one_by_one(fit)
    points = [fit.low + (fit.high - fit.low) * mp.mpf(i) / 1000 for i in range(1001)]
    error = max(
        abs(
            fit.weight(x)
            * (sum(c * x**k for k, c in enumerate(coefficients)) - fit.f(x))
        )
        for x in points
    )
    return coefficients, float(error)


def _round_one_by_one(fit: Fit) -> list[float]:
    """Round the constant to f32, fit the others to what is left, and so on up.

    The fits are least squares with Lawson's weights, which tend to the minimax one.
    """
    x = np.linspace(float(fit.low), float(fit.high), 60 * fit.count)
    target = np.array([float(fit.f(mp.mpf(v))) for v in x])
    weight = np.array([float(fit.weight(mp.mpf(v))) for v in x])
    weight = np.maximum(weight, weight.max() * fit.least)
    powers = x[:, None] ** np.arange(fit.count)
    done: list[float] = []
    while len(done) < fit.count:
        rest = target - powers[:, : len(done)] @ np.array(done)
        basis = powers[:, len(done) :] * weight[:, None]
        lawson = np.ones_like(x)
        for _ in range(60):
            root = np.sqrt(lawson)
            fitted = np.linalg.lstsq(basis * root[:, None], rest * weight * root)[0]
            errors = np.abs(basis @ fitted - rest * weight)
            lawson = lawson * errors
            lawson /= lawson.sum()
        done.append(float(np.float32(fitted[0])))
    return done


def relative(f: Real) -> Real:
    return lambda x: 1 / abs(f(x))


FITS: list[Fit] = []


def add(*arguments: object, **options: object) -> None:
    FITS.append(Fit(*arguments, **options))  # type: ignore[arg-type]


def _series(f: Real, at_zero: float, near: float = 1e-12) -> Real:
    """f with its removable singularity at 0 filled in."""
    return lambda x: mp.mpf(at_zero) if abs(x) < near else f(x)


LN2 = mp.log(2)
HALF = float(LN2 / 2) * 1.01

# e**r = 1 + r + r*r*q(r) and 2**r = 1 + r*q(r)
Q_EXP = _series(lambda r: (mp.expm1(r) - r) / r**2, 0.5)
add("EXP", "f32", Q_EXP, -HALF, HALF, 5, lambda r: r**2 / mp.exp(r))
add("EXP", "f64", Q_EXP, -HALF, HALF, 11, lambda r: r**2 / mp.exp(r))
add("EXPM1", "f32", Q_EXP, -HALF, HALF, 6, lambda r: abs(r) + 1e-20)
add("EXPM1", "f64", Q_EXP, -HALF, HALF, 12, lambda r: abs(r) + 1e-20)
Q_EXP2 = _series(lambda r: mp.expm1(r * LN2) / r, float(LN2))
add("EXP2", "f32", Q_EXP2, -0.505, 0.505, 6, lambda r: abs(r) / 2**r)
add("EXP2", "f64", Q_EXP2, -0.505, 0.505, 12, lambda r: abs(r) / 2**r)

# log(1+f) = f - f*f/2 + f**3*q(f); with s = f/(2+f): 2*s + s**3*p(s*s)
Q_LOG = _series(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, 1 / 3, 1e-10)
add("LOG", "f32", Q_LOG, -0.25, 0.5, 8,
    lambda f: abs(f**3 / mp.log1p(f)) if f else mp.mpf(0))  # fmt: skip
P_LOG = _series(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, 2 / 3, 1e-20)
add("LOG", "f64", P_LOG, 0, 0.0295, 7, lambda z: z / 2 + 1e-30)

# and s**5*p(s*s) beyond 2*s + 2/3*s**3, for pow
P_LOG_PAIR = _series(
    lambda z: ((2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z - mp.mpf(2) / 3) / z,
    2 / 5, 1e-15)  # fmt: skip
add("LOG_PAIR", "f64", P_LOG_PAIR, 0, 0.0295, 8, lambda z: z**2 / 2 + 1e-30)

# log2(1+f) = s*p(s*s), s = f/(2+f), and 2**r = p(r): in doubles, for powers of singles
P_LOG2 = _series(lambda z: 2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) / LN2, float(2 / LN2))
add("LOG2_OF_SINGLE", "f64", P_LOG2, 0, 0.0401, 6)
add("EXP2_OF_SINGLE", "f64", lambda r: 2**r, -0.501, 0.501, 8, lambda r: 2**-r)

# sin(r) = r + r**3*p(r*r), cos(r) = 1 - z/2 + z*z*p(z)
P_SIN = _series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -1 / 6, 1e-20)
P_COS = _series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 1 / 24, 1e-16)
QUARTER = float((mp.pi / 4 + 0.02) ** 2)
add("SIN", "f32", P_SIN, 0, QUARTER, 3, lambda z: z + 1e-30)
add("SIN", "f64", P_SIN, 0, QUARTER, 6, lambda z: z + 1e-30)
add("COS", "f32", P_COS, 0, QUARTER, 3, lambda z: z**2 + 1e-30)
add("COS", "f64", P_COS, 0, QUARTER, 6, lambda z: z**2 + 1e-30)

# asin(x) = x + x**3*p(x*x) up to 1/2; atan(t) = t + t**3*p(t*t) up to tan(pi/8)
P_ASIN = _series(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 1 / 6, 1e-20)
P_ATAN = _series(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -1 / 3, 1e-20)
add("ASIN", "f32", P_ASIN, 0, 0.2501, 5, lambda z: z + 1e-30)
add("ASIN", "f64", P_ASIN, 0, 0.2501, 13, lambda z: z + 1e-30)
add("ATAN", "f32", P_ATAN, 0, 0.1717, 5, lambda z: z + 1e-30)
add("ATAN", "f64", P_ATAN, 0, 0.1717, 11, lambda z: z + 1e-30)

# (e**2r - 1)/2 = r + r*r*q(r), of which tanh is made
Q_HALF = _series(lambda r: (mp.expm1(2 * r) / 2 - r) / r**2, 1.0)
add("EXPM1_HALF", "f32", Q_HALF, -HALF / 2, HALF / 2, 5, lambda r: abs(r) + 1e-20)
add("EXPM1_HALF", "f64", Q_HALF, -HALF / 2, HALF / 2, 12, lambda r: abs(r) + 1e-20)

# sinh(x) = x + x**3*p(x*x) up to 1
P_SINH = _series(lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 1 / 6, 1e-20)
add("SINH", "f32", P_SINH, 0, 1.01, 4, lambda z: z / 1.1 + 1e-30)
add("SINH", "f64", P_SINH, 0, 1.01, 8, lambda z: z / 1.1 + 1e-30)


# erf(x) = x + x*p(x*x) up to 1 in f64, 1 - exp(x*p(x)) up to 4 in f32
P_ERF = _series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
                float(2 / mp.sqrt(mp.pi) - 1), 1e-20)  # fmt: skip
add("ERF", "f64", P_ERF, 0, 1.0, 12)
P_LOG_ERFC = _series(lambda x: mp.log(mp.erfc(x)) / x, float(-2 / mp.sqrt(mp.pi)))
add("LOG_ERFC", "f32", P_LOG_ERFC, 0, 4.0, 8,
    lambda x: x * mp.erfc(x) / mp.erf(x) if x else mp.sqrt(mp.pi) / 2,
    least=1e-9)  # fmt: skip

# erf less t, where t is the distance from the nearest multiple of a width, as
# polynomials of t. There are as many as a register of AVX-512 has singles.
ERF_WIDTH = mp.mpf(33) / 128


def erf_piece(number: int) -> Fit:
    """The polynomial of a piece; near 0, of erf(t)/t - 1."""
    half = float(ERF_WIDTH / 2)
    if not number:
        slope = _series(lambda t: mp.erf(t) / t - 1, float(2 / mp.sqrt(mp.pi)) - 1)
        return Fit("", "f32", slope, 0, half, 5)

    def f(t: mp.mpf) -> mp.mpf:
        return mp.erf(number * ERF_WIDTH + t)

    return Fit("", "f32", lambda t: f(t) - t, -half, half, 6, relative(f))


PIECES = {"ERF_PIECES": [erf_piece(i) for i in range(16)]}

# (1 + 2*x) * exp(x*x) * erfc(x) as a polynomial of u = (x - 4)/(x + 4)


def scaled_erfc(u: mp.mpf) -> mp.mpf:
    x = 4 * (1 + u) / (1 - u)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


add("ERFC", "f32", scaled_erfc, -1, (10.2 - 4) / (10.2 + 4), 12)
add("ERFC", "f64", scaled_erfc, -1, (27.3 - 4) / (27.3 + 4), 22)


# erf_inv(x)/x, with w = -log(1 - x*x): near the centre of w, in the tails of sqrt(w)
def central(middle: float) -> Real:
    return lambda v: _inverse_erf(v + middle)


def tail(middle: float) -> Real:
    return lambda v: _inverse_erf((v + middle) ** 2)


def _inverse_erf(w: mp.mpf) -> mp.mpf:
    if w < mp.mpf("1e-30"):
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


add("ERF_INV", "f64", central(3.125), -3.125, 3.125, 22)
add("ERF_INV_TAIL", "f64", tail(3.25), -0.75, 0.75, 19)
add("ERF_INV_FAR", "f64", tail(5), -1.0, 1.08, 18)

# log(gamma(y)) = (y - 2)*q(y - 2.25) on [1.5, 3]; with z = 1/(x*x),
# log(gamma(x)) = (x - 1/2)*log(x) - x + log(2*pi)/2 + p(z)/x for x >= 3
add("LGAMMA", "f32", lambda v: _gamma_slope(v + 2.25), -0.75, 0.75, 9)
add("LGAMMA", "f64", lambda v: _gamma_slope(v + 2.25), -0.75, 0.75, 21)


def _gamma_slope(y: mp.mpf) -> mp.mpf:
    if abs(y - 2) < mp.mpf("1e-20"):
        return mp.digamma(2)
    return mp.loggamma(y) / (y - 2)


def _stirling(z: mp.mpf) -> mp.mpf:
    if z < mp.mpf("1e-8"):
        return mp.mpf(1) / 12 - z / 360 + z * z / 1260
    x = 1 / mp.sqrt(z)
    main_part = (x - mp.mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2
    return (mp.loggamma(x) - main_part) * x


add("STIRLING", "f32", _stirling, 0, 1 / 9, 3)
add("STIRLING", "f64", _stirling, 0, 1 / 9, 10)


def _digamma(z: mp.mpf) -> mp.mpf:
    """digamma(x) = log(x) - 1/(2*x) - z*p(z)"""
    if z < mp.mpf("1e-9"):
        return mp.mpf(1) / 12 - z / 120 + z * z / 252
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


add("DIGAMMA", "f32", _digamma, 0, 1 / 36, 3)
add("DIGAMMA", "f64", _digamma, 0, 1 / 100, 8)


HEADER = """\
\"\"\"Polynomial coefficients, highest degree first; made by tools/minimax.py.

The comments give the largest weighted error of each, before rounding in evaluation.
\"\"\"

Table = dict[str, tuple[float, ...]]
Pieces = tuple[tuple[float, ...], ...]  # the coefficients of each degree, by piece
"""


def main(wanted: list[str]) -> None:
    print(HEADER)
    tables: dict[str, list[Fit]] = {}
    for fit in FITS:
        tables.setdefault(fit.name, []).append(fit)
    for name, fits in tables.items():
        if wanted and name not in wanted:
            continue
        print(f"{name}: Table = {{")
        for fit in fits:
            coefficients, error = rounded(fit)
            digits = 9 if fit.kind == "f32" else 17
            body = ", ".join(f"{c:.{digits}g}" for c in reversed(coefficients))
            print(f"    # error 2**{float(mp.log(error, 2)):.1f}")
            print(f'    "{fit.kind}": (')
            print(_fill(body + ","))
            print("    ),")
        print("}  # fmt: skip\n", flush=True)
    for name, pieces in PIECES.items():
        if not wanted or name in wanted:
            _print_pieces(name, pieces)


def _print_pieces(name: str, fits: list[Fit]) -> None:
    """Polynomials of pieces; those of lower degree have no constant."""
    pieces, errors = zip(*map(rounded, fits))
    size = max(map(len, pieces))
    rows = [[0.0] * (size - len(p)) + p for p in pieces]
    print(f"# error 2**{float(mp.log(max(errors), 2)):.1f}")
    print(f"{name}: Pieces = (")
    for coefficients in reversed([*zip(*rows)]):
        print("    (")
        print(_fill(", ".join(f"{c:.9g}" for c in coefficients) + ","))
        print("    ),")
    print(")  # fmt: skip\n", flush=True)


def _fill(body: str) -> str:
    return textwrap.fill(
        body,
        88,
        initial_indent=" " * 8,
        subsequent_indent=" " * 8,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
