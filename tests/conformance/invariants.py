"""What decompositions leave no choice of: signs and phases of vectors are one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.primitives.linalg import SVD, Eigh


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
    return list(outs)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.result_type(x, np.float32)) if x.dtype.kind in "fc" else x


def _adjoint(x: np.ndarray) -> np.ndarray:
    return np.conjugate(np.swapaxes(x, -1, -2))
