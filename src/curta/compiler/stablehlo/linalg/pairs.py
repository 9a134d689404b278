"""Pairs of rows of a real Schur form: 2x2 blocks on its diagonal.

Blocks have no row in common, so that all of them are rotated at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.shifts import not_zero
from curta.compiler.stablehlo.linalg.tensors import (
    MatrixTensor,
    column_numbers,
    filled,
    joined,
    row_numbers,
)
from curta.primitives.elementwise.complex import complex_


class Pairs(NamedTuple):
    """The elements (a, b; c, d) of rows k and k + 1, and these columns, for all k."""

    a: MatrixTensor
    b: MatrixTensor
    c: MatrixTensor
    d: MatrixTensor


class _Rotations(NamedTuple):
    """Column k becomes c x[k] + s x[k + 1], and column k + 1 c x[k + 1] + r x[k].

    All are rows of a number for each k; c is 1, and s and r are 0, where none is meant.
    """

    c: MatrixTensor
    s: MatrixTensor
    r: MatrixTensor

    def columns(self, x: MatrixTensor) -> MatrixTensor:
        n = x.shape[1]
        one, zero = filled(1, 1, self.c.dtype, 1), filled(1, 1, self.s.dtype)
        beside = filled(x.shape[0], 1, x.dtype)
        following = joined(1, x.part(1, 1, n), beside)
        preceding = joined(1, beside, x.part(1, 0, n - 1))
        return (
            joined(1, self.c, one) * joined(1, one, self.c) * x
            + joined(1, self.s, zero) * following
            + joined(1, zero, self.r) * preceding
        )

    def both(self, x: MatrixTensor) -> MatrixTensor:
        """G^H x G, where x G are the columns of x rotated."""
        return self.columns(self.columns(x).H).H


def pairs(t: MatrixTensor) -> Pairs:
    n = t.shape[0]
    middle = t.diagonal()
    above = t.part(0, 0, n - 1).part(1, 1, n).diagonal()
    below = t.part(0, 1, n).part(1, 0, n - 1).diagonal()
    return Pairs(middle.part(1, 0, n - 1), above, below, middle.part(1, 1, n))


def _with_pairs(t: MatrixTensor, chosen: MatrixTensor, to: Pairs) -> MatrixTensor:
    """With other elements in the pairs that are chosen."""
    row, column = row_numbers(t.shape[0]), column_numbers(t.shape[1])
    zero, none = filled(1, 1, to.a.dtype), filled(1, 1, np.bool_)
    first = joined(1, chosen, none)
    t = where(first & row.equals(column), joined(1, to.a, zero), t)
    t = where(first & row.equals(column + 1), joined(1, to.c, zero), t)
    second = joined(1, none, chosen)
    t = where(second & row.equals(column - 1), joined(1, zero, to.b), t)
    return where(second & row.equals(column), joined(1, zero, to.d), t)


# ------------------------------------------------------------ standard form


def standardised(
    t: MatrixTensor, z: MatrixTensor | None
) -> tuple[MatrixTensor, MatrixTensor | None]:
    """T with blocks as LAPACK has them, and Z with it.

    Of a block with real eigenvalues nothing is left; one with complex eigenvalues has
    equal elements on its diagonal, and beside it elements of opposite signs.
    """
    if t.shape[0] < 2:
        return t, z
    before = pairs(t)
    chosen = before.c.differs(0)
    after, c, s = _standard(before)
    c, s = where(chosen, c, 1), where(chosen, s, 0)
    rotations = _Rotations(c, s, -s)
    t = _with_pairs(rotations.both(t), chosen, after)
    return t, None if z is None else rotations.columns(z)


def _sign(x: MatrixTensor) -> MatrixTensor:
    return where(x < 0, -1.0, filled(1, 1, x.dtype, 1))


def _hypot(x: MatrixTensor, y: MatrixTensor) -> MatrixTensor:
    size = not_zero(x.abs().maximum(y.abs()))
    return size * ((x / size) * (x / size) + (y / size) * (y / size)).sqrt()


def _standard(of: Pairs) -> tuple[Pairs, MatrixTensor, MatrixTensor]:
    """Elements of the blocks, rotated, and the cosine and sine of the rotation.

    LAPACK's `lanv2`: Bai and Demmel, "On swapping diagonal blocks in real Schur form"
    (1993), section 2.
    """
    a, b, c, d = of
    half = (a - d) * 0.5
    greater = b.abs().maximum(c.abs())
    smaller = b.abs().minimum(c.abs()) * _sign(b) * _sign(c)
    scale = not_zero(half.abs().maximum(greater))
    root = half / scale * half + greater / scale * smaller
    is_real = root >= 4 * float(np.finfo(a.dtype).eps)
    # Real eigenvalues: the rotation makes the matrix triangular.
    z = not_zero(half + _sign(half) * scale.sqrt() * where(is_real, root, 1).sqrt())
    size = not_zero(_hypot(c, z))
    zero = filled(1, 1, a.dtype)
    triangle = Pairs(d + z, b - c, zero, d - greater / z * smaller)
    # Others: it makes the elements on the diagonal equal.
    total = b + c
    length = not_zero(_hypot(total, half * 2.0))
    cosine = (0.5 * (1.0 + total.abs() / length)).sqrt()
    sine = -(half / (length * cosine)) * _sign(total)
    equal, cosine, sine = _equal(of, cosine, sine)
    # Nothing is to be done, or the rows are to be exchanged.
    done = (half.equals(0) & (_sign(b) * _sign(c) < 0)) | c.equals(0)
    swapped = b.equals(0) & c.differs(0)
    one = filled(1, 1, a.dtype, 1)
    result: tuple[MatrixTensor, ...] = *equal, cosine, sine
    for condition, other in (
        (is_real, (*triangle, z / size, c / size)),
        (done, (*of, one, zero)),
        (swapped, (d, -c, zero, a, zero, one)),
    ):
        chosen = (where(condition, x, y) for x, y in zip(other, result, strict=True))
        result = tuple(chosen)
    *elements, cosine, sine = result
    return Pairs(*elements), cosine, sine


def _equal(
    of: Pairs, c: MatrixTensor, s: MatrixTensor
) -> tuple[Pairs, MatrixTensor, MatrixTensor]:
    """The blocks rotated by (c, -s; s, c), which makes the diagonal constant.

    What has real eigenvalues nevertheless is rotated once more.
    """
    right = of.a * c + of.b * s, of.b * c - of.a * s
    under = of.c * c + of.d * s, of.d * c - of.c * s
    mean = (right[0] * c + under[0] * s + under[1] * c - right[1] * s) * 0.5
    above, below = right[1] * c + under[1] * s, under[0] * c - right[0] * s
    is_real = below.differs(0) & above.differs(0) & (_sign(above) * _sign(below) > 0)
    roots = above.abs().sqrt(), below.abs().sqrt()
    moved = roots[0] * roots[1] * _sign(below)
    scale = not_zero((above + below).abs()).sqrt()
    cosine, sine = roots[0] / scale, roots[1] / scale
    zero = filled(1, 1, of.a.dtype)
    swapped = above.equals(0) & below.differs(0)
    result = Pairs(
        where(is_real, mean + moved, mean),
        where(is_real, above - below, where(swapped, -below, above)),
        where(is_real | swapped, zero, below),
        where(is_real, mean - moved, mean),
    )
    rotated = c * cosine - s * sine, c * sine + s * cosine
    return (
        result,
        where(is_real, rotated[0], where(swapped, -s, c)),
        where(is_real, rotated[1], where(swapped, c, s)),
    )


# ------------------------------------------------------------- complex form


def eigenvalues(t: MatrixTensor) -> tuple[MatrixTensor, MatrixTensor]:
    """Those of a real Schur form, a row, and 1 and -1 for those of pairs, else 0."""
    if t.shape[0] < 2:
        middle = t.diagonal()
        return MatrixTensor(complex_(middle.value, (middle * 0.0).value)), middle * 0.0
    blocks = pairs(t)
    imag = blocks.b.abs().sqrt() * blocks.c.abs().sqrt()
    zero = filled(1, 1, t.dtype)
    parts = joined(1, imag, zero) - joined(1, zero, imag)
    kinds = where(blocks.c.differs(0), filled(1, 1, t.dtype, 1), 0)
    kinds = joined(1, kinds, zero) - joined(1, zero, kinds)
    return MatrixTensor(complex_(t.diagonal().value, parts.value)), kinds


def triangular(t: MatrixTensor, z: MatrixTensor) -> tuple[MatrixTensor, MatrixTensor]:
    """The complex Schur form of which a real one is known."""
    dtype = eigenvalues(t)[0].dtype
    if t.shape[0] < 2:
        return t.astype(dtype), z.astype(dtype)
    a, b, c, _ = pairs(t)
    chosen = c.differs(0)
    imag = b.abs().sqrt() * c.abs().sqrt()
    length = not_zero(_hypot(b, imag))
    zero = imag * 0.0
    sine = MatrixTensor(complex_(zero.value, where(chosen, imag / length, 0).value))
    cosine = where(chosen, b / length, 1).astype(dtype)
    rotations = _Rotations(cosine, sine, sine)
    first = MatrixTensor(complex_(a.value, imag.value))
    rotated = rotations.both(t.astype(dtype))
    to = Pairs(first, pairs(rotated).b, zero.astype(dtype), first.conj())
    return _with_pairs(rotated, chosen, to), rotations.columns(z.astype(dtype))
