"""Rotations in three dimensions, and interpolation between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import curta.numpy as jnp
from curta._base.on_demand import Listing, own
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact

__dir__: Listing = own(__name__)


class Rotation(NamedTuple):
    """One rotation or many, as unit quaternions (x, y, z, w) of shape (..., 4).

    >>> from curta.scipy.spatial.transform import Rotation
    >>> quarter = Rotation.from_euler("z", 90, degrees=True)
    >>> quarter.as_matrix().round(3)
    Array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]], dtype=float32)
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """The rotations of several objects in one."""
        return cls(jnp.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """From angles about up to three axes.

        `seq` has a letter an axis: "xyz" rotates about fixed axes, "XYZ" about those
        of the body. `angles` has an angle per letter along its last axis.
        """
        axes, intrinsic = _axes(seq)
        angles = _vectors("angles", jnp.atleast_1d(angles), len(axes))
        angles = _where(degrees, lambda: jnp.deg2rad(angles), lambda: angles)
        quat = _about(axes[0], angles[..., 0])
        for column, axis in enumerate(axes[1:], 1):
            rotation = _about(axis, angles[..., column])
            quat = _compose(quat, rotation) if intrinsic else _compose(rotation, quat)
        return cls(quat)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """From rotation matrices of shape (..., 3, 3)."""
        matrix = jnp.asarray(matrix)
        if matrix.ndim < 2 or matrix.shape[-2:] != (3, 3):
            raise ValueError(
                "inconsistent size for core dimension: rotation matrices have shape"
                f" (..., 3, 3), got {matrix.shape}"
            )
        return cls(_from_matrix(matrix))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """From modified Rodrigues parameters of shape (..., 3)."""
        mrp = _vectors("mrp", mrp, 3)
        square = jnp.sum(mrp * mrp, axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """From quaternions (x, y, z, w) of any length but 0."""
        return cls(_normalise(_vectors("quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """From vectors along the axis, as long as the angle."""
        rotvec = _vectors("rotvec", rotvec, 3)
        rotvec = _where(degrees, lambda: jnp.deg2rad(rotvec), lambda: rotvec)
        angle = _length(rotvec)
        square = angle * angle
        near = 0.5 - square / 48 + square * square / 3840
        safe = jnp.where(angle <= 1e-3, 1, angle)
        scale = jnp.where(angle <= 1e-3, near, jnp.sin(safe / 2) / safe)
        return cls(jnp.concatenate([scale * rotvec, jnp.cos(angle / 2)], axis=-1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that changes nothing, or `num` of them."""
        quat = jnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(quat if num is None else jnp.tile(quat, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Raises NotImplementedError: normalize `random.normal` of shape (num, 4)."""
        raise NotImplementedError(
            "Rotation.random is not implemented. Use"
            " Rotation.from_quat(curta.random.normal(key, (num, 4))): it is uniform."
        )

    @property
    def single(self) -> bool:
        """Whether this is one rotation rather than an array."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        return Rotation(_normalise(_compose(self.quat, other.quat)))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The rotated vectors, of shape (..., 3)."""
        matrix, columns = self.as_matrix(), _vectors("vectors", vectors, 3)[..., None]
        rotated = _where(
            inverse,
            lambda: jnp.swapaxes(matrix, -1, -2) @ columns,
            lambda: matrix @ columns,
            inner=2,
        )
        return jnp.squeeze(rotated, -1)

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Three angles about the axes `seq`, as `from_euler` takes them.

        By Bernardes and Viollet, Quaternion to Euler angles conversion (2022).
        """
        if len(seq) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        axes, intrinsic = _axes(seq)
        angles = _euler(self.quat, axes, intrinsic)
        return _where(degrees, lambda: jnp.rad2deg(angles), lambda: angles)

    def as_matrix(self) -> Any:
        """Rotation matrices, of shape (..., 3, 3)."""
        x, y, z, w = jnp.moveaxis(self.quat, -1, 0)
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters, of shape (..., 3)."""
        quat = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Vectors along the axis, as long as the angle, which is at most π."""
        quat = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        angle = 2 * jnp.arctan2(_length(quat[..., :3]), quat[..., 3:])
        square = angle * angle
        near = 2 + square / 12 + 7 * square * square / 2880
        safe = jnp.where(angle <= 1e-3, 1, angle)
        scale = jnp.where(angle <= 1e-3, near, safe / jnp.sin(safe / 2))
        vector = scale * quat[..., :3]
        return _where(degrees, lambda: jnp.rad2deg(vector), lambda: vector)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """The quaternions, as (w, x, y, z) if `scalar_first`.

        If `canonical`, return q or -q so that the first nonzero of w, x, y, z is
        positive.
        """
        quat = _canonical(self.quat) if canonical else self.quat
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def inv(self) -> Rotation:
        """The inverse rotations."""
        vector, scalar = self.quat[..., :3], self.quat[..., 3:]
        return Rotation(jnp.concatenate([-vector, scalar], axis=-1))

    def magnitude(self) -> Any:
        """The angles, in radians."""
        length = _length(self.quat[..., :3])[..., 0]
        return 2 * jnp.arctan2(length, jnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation whose squared distance to all, `weights` counted, is least."""
        dtype, n = self.quat.dtype, self.quat.shape[0]
        w = jnp.ones(n, dtype) if weights is None else jnp.asarray(weights, dtype)
        if w.ndim != 1:
            raise ValueError(
                f"Expected `weights` to be 1 dimensional, got shape {w.shape}."
            )
        if w.shape[0] != len(self):
            raise ValueError(
                "Expected `weights` to have number of values equal to number of"
                f" rotations, got {w.shape[0]} values and {len(self)} rotations."
            )
        _, vectors = jnp.linalg.eigh((w[:, None] * self.quat).T @ self.quat)
        return Rotation(vectors[:, -1])


class Slerp(NamedTuple):
    """Rotations between those at given times, at constant speed. Made by `init`.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.spatial.transform import Rotation, Slerp
    >>> keys = Rotation.from_euler("z", jnp.array([[0], [90]]), degrees=True)
    >>> between = Slerp.init([0, 1], keys)
    >>> between(0.5).magnitude().round(4)
    Array(0.7854, dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """From at least two rotations and their increasing times."""
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if times.ndim != 1:
            raise ValueError(
                "Expected times to be specified in a 1 dimensional array, got"
                f" {times.ndim} dimensions."
            )
        if times.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps"
                f" given, got {len(rotations)} rotations and {times.shape[0]}"
                " timestamps."
            )
        quat = rotations.quat
        before, after = Rotation(quat[:-1]), Rotation(quat[1:])
        return cls(times, jnp.diff(times), before, (before.inv() * after).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at `times`, a scalar or an array of one dimension."""
        times = jnp.asarray(times, dtype=self.times.dtype)
        if times.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        at = jnp.atleast_1d(times)
        index = jnp.maximum(jnp.searchsorted(self.times, at) - 1, 0)
        share = (at - self.times[index]) / self.timedelta[index]
        rotation = Rotation.from_rotvec(self.rotvecs[index] * share[:, None])
        result = self.rotations[index] * rotation
        return result if times.ndim else result[0]


def _axes(seq: str) -> tuple[list[int], bool]:
    """The numbers of the axes, and whether they rotate with the body."""
    if not 1 <= len(seq) <= 3:
        raise ValueError(
            "Expected axis specification to be a non-empty string of upto 3"
            f" characters, got {seq}"
        )
    if not re.fullmatch("[XYZ]+|[xyz]+", seq):
        raise ValueError(
            "Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'],"
            f" got {seq}"
        )
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()


def _vectors(name: str, x: Any, size: int) -> Any:
    """`x` as an inexact array whose last axis is of length `size`."""
    (x,) = promote_dtypes_inexact(jnp.asarray(x))
    if x.shape[-1:] != (size,):
        raise ValueError(
            f"inconsistent size for core dimension: {name} must have shape"
            f" (..., {size}), got {x.shape}"
        )
    return x


def _where(
    flag: Any, yes: Callable[[], Any], no: Callable[[], Any], inner: int = 1
) -> Any:
    """The one or the other, as a flag says for all or for each of a batch."""
    if isinstance(flag, bool):
        return yes() if flag else no()
    check_arraylike("where", flag)
    return jnp.where(jnp.expand_dims(flag, tuple(range(-inner, 0))), yes(), no())


def _length(vector: Any) -> Any:
    square = jnp.sum(vector * vector, axis=-1, keepdims=True)
    nonzero = square > 0  # where the root has a derivative
    return jnp.where(nonzero, jnp.sqrt(jnp.where(nonzero, square, 1)), 0)


def _normalise(quat: Any) -> Any:
    return quat / _length(quat)


def _about(axis: int, angle: Any) -> Any:
    """The quaternion of a rotation about a coordinate axis."""
    parts = [jnp.zeros_like(angle)] * 3 + [jnp.cos(angle / 2)]
    parts[axis] = jnp.sin(angle / 2)
    return jnp.stack(parts, axis=-1)


def _compose(p: Any, q: Any) -> Any:
    """Hamilton's product of quaternions."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = a * v + b * u + jnp.cross(u, v)
    scalar = a * b - jnp.sum(u * v, axis=-1, keepdims=True)
    return jnp.concatenate([vector, scalar], axis=-1)


def _from_matrix(m: Any) -> Any:
    """From the largest of the four components, which the diagonal tells."""
    diagonal = jnp.diagonal(m, axis1=-2, axis2=-1)
    trace = jnp.sum(diagonal, axis=-1, keepdims=True)
    choice = jnp.argmax(jnp.concatenate([diagonal, trace], axis=-1), axis=-1)
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = [jnp.zeros_like(m[..., 0, 0])] * 4
        parts[i] = 1 - trace[..., 0] + 2 * m[..., i, i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        candidates.append(jnp.stack(parts, axis=-1))
    components = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0]]
    components += [m[..., 1, 0] - m[..., 0, 1], 1 + trace[..., 0]]
    candidates.append(jnp.stack(components, axis=-1))
    chosen = jnp.stack(candidates, axis=-2)
    return _normalise(
        jnp.take_along_axis(chosen, choice[..., None, None], axis=-2)[..., 0, :]
    )


def _euler(quat: Any, axes: list[int], intrinsic: bool) -> Any:
    i, j, k = axes[::-1] if intrinsic else axes
    symmetric = i == k
    if symmetric:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2
    x, y, z, w = quat[..., i], quat[..., j], quat[..., k] * sign, quat[..., 3]
    a, b, c, d = (w, x, y, z) if symmetric else (w - y, x + z, y + w, z - x)
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    # Where the outer axes meet, only the sum or difference of their angles is known.
    aligned, opposed = jnp.abs(middle) <= 1e-7, jnp.abs(middle - np.pi) <= 1e-7
    degenerate = aligned | opposed
    outer = -half_difference if not intrinsic else half_difference
    alone = 2 * jnp.where(aligned, half_sum, outer)
    before, after = half_sum - half_difference, half_sum + half_difference
    if intrinsic:
        first, last = jnp.where(degenerate, alone, after), before
        last = jnp.where(degenerate, 0, last)
        first = first if symmetric else first * sign
    else:
        first, last = jnp.where(degenerate, alone, before), after
        last = jnp.where(degenerate, 0, last)
        last = last if symmetric else last * sign
    middle = middle if symmetric else middle - np.pi / 2
    angles = jnp.stack([first, middle, last], axis=-1)
    return (angles + np.pi) % (2 * np.pi) - np.pi


def _canonical(quat: Any) -> Any:
    """The one of q and -q whose first nonzero of w, x, y, z is positive."""
    x, y, z, w = jnp.moveaxis(quat, -1, 0)
    sign = w
    for part in (x, y, z):
        sign = jnp.where(sign == 0, part, sign)
    return jnp.where(sign[..., None] < 0, -quat, quat)
