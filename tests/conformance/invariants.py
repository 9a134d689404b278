"""Invariants of decompositions, independent of signs and phases of vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.primitives.linalg import SVD, Eig, Eigh, Schur


def without_choices(op: Any, outs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs, or what is made of those that are not unique.

    Vectors become the matrix that was decomposed and the products that say that they
    are orthonormal. Two algorithms agree on those.
    """
    if isinstance(op, Eigh):
        v, w = map(_wide, outs)
        product = (v * w[..., None, :]) @ _adjoint(v)
        found = [outs[1], product, _adjoint(v) @ v]
        return [found[0], *(x.astype(outs[0].dtype) for x in found[1:])]
    if isinstance(op, SVD) and op.compute_uv:
        s, u, vh = map(_wide, outs)
        k = s.shape[-1]
        product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
        found = [product, _adjoint(u) @ u, vh @ _adjoint(vh)]
        return [outs[0], *(x.astype(outs[1].dtype) for x in found)]
    if isinstance(op, Schur):
        return _of_schur_form(*outs)
    if isinstance(op, Eig):
        return _of_eigenvectors(op, *map(_wide, outs))
    return list(outs)


def _of_schur_form(t: np.ndarray, *z: np.ndarray) -> list[np.ndarray]:
    """The matrix and the unit matrix, or the eigenvalues, and what is below T."""
    below = np.tril(t, -1 if t.dtype.kind == "c" else -2)
    if not z:
        return [_coefficients(np.linalg.eigvals(_wide(t))), below]
    t, z = _wide(t), tuple(map(_wide, z))
    return [z[0] @ t @ _adjoint(z[0]), _adjoint(z[0]) @ z[0], below]


def _of_eigenvectors(op: Eig, w: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
    """The eigenvalues, and for each side the matrix, the lengths and the phases."""
    found = [_coefficients(w)]
    for i, v in enumerate(vectors):
        left = op.compute_left_eigenvectors and i == 0
        values = np.conj(w) if left else w
        made = (v * values[..., None, :]) @ np.linalg.inv(v)
        size = np.abs(v)
        great = size > 0.99 * size.max(-2, keepdims=True)
        found.append(_adjoint(made) if left else made)
        found.append(np.linalg.norm(v, axis=-2))
        found.append(np.where(great, np.abs(v.imag), 1).min(-2))
    return found


def _coefficients(w: np.ndarray) -> np.ndarray:
    """Of the polynomials with these roots: the order of those does not matter."""
    result = np.ones((*w.shape[:-1], 1), np.result_type(w, np.complex64))
    for i in range(w.shape[-1]):
        none = np.zeros_like(result[..., :1])
        moved = np.concatenate([none, result], -1) * w[..., i, None]
        result = np.concatenate([result, none], -1) - moved
    return result


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.result_type(x, np.float32)) if x.dtype.kind in "fc" else x


def _adjoint(x: np.ndarray) -> np.ndarray:
    return np.conjugate(np.swapaxes(x, -1, -2))
