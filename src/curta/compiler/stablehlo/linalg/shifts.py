"""Shifts of the QR algorithm, as LAPACK's `lahqr` chooses them.

Of the 2x2 matrix at the end of a block, a complex matrix takes the eigenvalue that is
closer to the last element; a real one takes both, or the closer one twice if both are
real. Where that makes no progress for ten sweeps, a shift is made up.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.tensors import INT, MatrixTensor, joined
from curta.primitives.elementwise.arithmetic import add, sub

#: Of sweeps numbered 1, 2, ... 20, 1, ..., those whose shift is made up from the
#: elements at the head of the block, and at its end.
AT_HEAD, AT_END = 10, 20


def first_column(
    h: MatrixTensor, low: Any, high: Any, number: MatrixTensor
) -> MatrixTensor:
    """Of the product of the shifted blocks from `low` to `high`, the first column.

    Its elements that are not 0: two of complex matrices, which have one shift, three of
    real ones. `number` is that of the sweep.
    """
    before = sub(high, INT.type(1))
    corner, head = h.block(before, before, 2, 2), h.block(low, low, 2, 2)
    made_up = number.equals(AT_HEAD) | number.equals(AT_END)
    base = where(number.equals(AT_HEAD), at(head, 0, 0), at(corner, 1, 1))
    if h.is_complex:
        size = where(number.equals(AT_HEAD), at(head, 1, 0), at(corner, 1, 0)).abs()
        shift = where(made_up, base + size * 0.75, _closer(corner))
        return joined(0, at(head, 0, 0) - shift, at(head, 1, 0))
    second = h.block(add(low, INT.type(2)), add(low, INT.type(1)), 1, 1)
    further = h.block(before, sub(high, INT.type(2)), 1, 1)
    at_head = at(head, 1, 0).abs() + second.abs()
    at_end = at(corner, 1, 0).abs() + further.abs()
    size = where(number.equals(AT_HEAD), at_head, at_end)
    base = base + size * 0.75
    other = joined(0, joined(1, base, size * -0.4375), joined(1, size, base))
    return _of_pair(head, second, *_pair(where(made_up, other, corner)))


def at(x: MatrixTensor, i: int, j: int) -> MatrixTensor:
    """An element whose index is known."""
    return x.part(0, i, i + 1).part(1, j, j + 1)


def not_zero(x: MatrixTensor) -> MatrixTensor:
    """1 in place of 0."""
    return where(x.equals(0), 1, x)


def quotient(x: MatrixTensor, y: MatrixTensor) -> MatrixTensor:
    """x / y of complex numbers, also where |y|^2 is not representable."""
    size = not_zero(y.part_size())
    scaled = y / size
    return x * scaled.conj() / not_zero(scaled.squared()) / size


def _closer(corner: MatrixTensor) -> MatrixTensor:
    """The eigenvalue of a complex 2x2 matrix that is closer to its last element."""
    end = at(corner, 1, 1)
    product = at(corner, 0, 1).sqrt() * at(corner, 1, 0).sqrt()
    half = (at(corner, 0, 0) - end) * 0.5
    size = not_zero(product.pivot_size().maximum(half.pivot_size()))
    scaled, square = half / size, product / size
    root = (scaled * scaled + square * square).sqrt()
    root = where((scaled * root.conj()).real < 0, -root, root) * size
    moved = product * quotient(product, half + root)
    return where(product.equals(0), end, end - moved)


def _pair(corner: MatrixTensor) -> tuple[MatrixTensor, MatrixTensor, MatrixTensor]:
    """The shifts of a real 2x2 matrix: real parts, and the first's imaginary part."""
    size = corner.abs().sum(0, 1)
    a, b, c, d = (at(corner / not_zero(size), *ij) for ij in _PLACES)
    mean = (a + d) * 0.5
    determinant = (a - mean) * (d - mean) - b * c
    root = determinant.abs().sqrt()
    first, second = mean + root, mean - root
    closer = where((first - d).abs() <= (second - d).abs(), first, second)
    complex_ = determinant >= 0
    real = where(complex_, mean, closer) * size
    return real, real, where(complex_, root * size, 0)


_PLACES = (0, 0), (0, 1), (1, 0), (1, 1)


def _of_pair(
    head: MatrixTensor,
    second: MatrixTensor,
    first: MatrixTensor,
    other: MatrixTensor,
    imag: MatrixTensor,
) -> MatrixTensor:
    """The first column of (H - s)(H - t), where s and t are real or conjugate."""
    a, b, c, d = (at(head, *ij) for ij in _PLACES)
    size = not_zero((a - other).abs() + imag.abs() + c.abs())
    below = c / size
    column = joined(
        0,
        below * b + (a - first) * ((a - other) / size) + imag * (imag / size),
        below * (a + d - first - other),
        below * second,
    )
    return column / not_zero(column.abs().sum())
