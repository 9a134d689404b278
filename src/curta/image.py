"""Image resizing in any number of dimensions."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, listed
from curta.api.jit_options import check_hashable
from curta.core.array import Array
from curta.core.dim import is_symbolic_dim
from curta.core.shapes import canonicalize_shape
from curta.numpy.arguments import canonical_axes, ensure_arraylike, ensure_arraylikes
from curta.numpy.promotion import promote_dtypes_inexact

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
__dir__: Listing = listed(__all__)


class ResizeMethod(enum.Enum):
    """How values between pixels come about.

    >>> from curta import image, numpy as jnp
    >>> image.resize(jnp.arange(2.0), (4,), image.ResizeMethod.NEAREST)
    Array([0., 0., 1., 1.], dtype=float32)
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name such as "bilinear"; ValueError for others."""
        if s not in _NAMES:
            raise ValueError(f'Unknown resize method "{s}"')
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(
        ("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR
    ),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}

Kernel = Callable[[Any], Any]


def _triangle(x: Any) -> Any:
    return jnp.maximum(0, 1 - x)


def _lanczos(radius: float) -> Kernel:
    def kernel(x: Any) -> Any:
        value = jnp.sinc(x) * jnp.sinc(x / radius)
        return jnp.where(x > radius, 0.0, value)

    return kernel


def _cubic(a: float) -> Kernel:
    """R. Keys, Cubic convolution interpolation (1981), with the slope a at 1."""

    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = a * (((x - 5) * x + 8) * x - 4)
        return jnp.where(x >= 2, 0.0, jnp.where(x >= 1, far, near))

    return kernel


# Of each method the kernel and its radius; AREA has none, but counts overlaps.
_KERNELS: dict[ResizeMethod, tuple[Kernel | None, int]] = {
    ResizeMethod.LINEAR: (_triangle, 1),
    ResizeMethod.LANCZOS3: (_lanczos(3.0), 3),
    ResizeMethod.LANCZOS5: (_lanczos(5.0), 5),
    ResizeMethod.CUBIC: (_cubic(-0.5), 2),
    ResizeMethod.CUBIC_PYTORCH: (_cubic(-0.75), 2),
    ResizeMethod.AREA: (None, 1),
}


def _image_and_shape(name: str, image: Any, shape: Any) -> tuple[Any, tuple[int, ...]]:
    """The arguments of a function, with a size for each dim."""
    image, shape = ensure_arraylike(name, image), canonicalize_shape(shape)
    if len(shape) != image.ndim:
        raise ValueError(
            "shape must have length equal to the number of dimensions of x; "
            f" {shape} vs {image.shape}"
        )
    return image, shape


def _method(method: str | ResizeMethod, antialias: bool) -> ResizeMethod:
    method = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if not isinstance(method, ResizeMethod):
        raise AssertionError(
            f"method must be a ResizeMethod or the name of one, got {method!r}"
        )
    if method == ResizeMethod.CUBIC_PYTORCH and antialias:
        return ResizeMethod.CUBIC
    return method


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """The image in another shape.

    "linear" weighs with a triangle, "cubic" with R. Keys's kernel (Cubic convolution
    interpolation, 1981; a = -1/2, and -3/4 for "cubic-pytorch"), the Lanczos ones with
    sinc(x) sinc(x/r) (C. Duchon, Lanczos filtering in one and two dimensions, 1979).

    Args:
      image: an array of any number of dims; integers become floats unless "nearest".
      shape: its new shape, of the same rank, static.
      method: "nearest", "linear" (also "bilinear", "trilinear", "triangle"), "cubic"
        (also "bicubic", "tricubic"), "cubic-pytorch", "lanczos3", "lanczos5", "area",
        or a `ResizeMethod`.
      antialias: when shrinking, average over all pixels that become one. Default True.
      precision: how exactly the products with the weights are formed: None, "default",
        "high", "highest" or a `lax.Precision`. Default `HIGHEST`.

    Returns:
      An array of the new shape.

    Raises:
      TypeError: `image` is a list, a string or None; `shape` is not of integers.
      ValueError: `shape` has another rank, or the name of the method or `precision` is
        unknown.
      AssertionError: `method` is neither a name nor a `ResizeMethod`.

    >>> from curta import image, numpy as jnp
    >>> image.resize(jnp.array([0.0, 4.0]), (4,), "linear")
    Array([0., 1., 3., 4.], dtype=float32)
    """
    check_hashable(antialias)
    image, shape = _image_and_shape("resize", image, shape)
    method = _method(method, antialias)
    dims = [i for i, size in enumerate(shape) if size != image.shape[i]]
    if method == ResizeMethod.NEAREST:
        return _nearest(image, shape, dims)
    (image,) = promote_dtypes_inexact(image)
    scale = [shape[d] / image.shape[d] if shape[d] else 1.0 for d in dims]
    zeros = [0.0] * len(dims)
    return _resample(image, shape, dims, scale, zeros, method, antialias, precision)


def _nearest(image: Any, shape: tuple[int, ...], dims: Sequence[int]) -> Any:
    for d in dims:
        size, wanted = image.shape[d], shape[d]
        known = not (is_symbolic_dim(size) or is_symbolic_dim(wanted))
        xp: Any = np if known else jnp
        middles = (xp.arange(wanted, dtype=np.float32) + 0.5) * size / wanted
        image = jnp.take(image, xp.floor(middles).astype(np.int32), axis=d)
    return image


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """The image scaled and moved, in a new shape, zero where there is none.

    A point at x goes to x * scale + translation. It has derivatives also by `scale` and
    `translation`.

    Args:
      image: an array of any number of dims; integers become floats.
      shape: the shape of the result, of the same rank, static.
      spatial_dims: the n dims to scale and move; the others keep their size.
      scale: a vector (n,) of floats.
      translation: a vector (n,) of floats.
      method: "linear" (also "bilinear", "trilinear", "triangle"), "cubic" (also
        "bicubic", "tricubic"), "cubic-pytorch", "lanczos3", "lanczos5", "area", or a
        `ResizeMethod`; not "nearest".
      antialias: when shrinking, average over all pixels that become one. Default True.
      precision: how exactly the products with the weights are formed: None, "default",
        "high", "highest" or a `lax.Precision`. Default `HIGHEST`.

    Returns:
      An array of the new shape.

    Raises:
      TypeError: `image`, `scale` or `translation` is a list, a string or None; `shape`
        is not of integers.
      ValueError: `shape` has another rank, a dim is out of bounds or occurs twice, or
        the method is "nearest" or unknown, or `precision` is unknown.
      AssertionError: `scale` or `translation` has not n elements, or `method` is
        neither a name nor a `ResizeMethod`.

    >>> from curta import image, numpy as jnp
    >>> x, one = jnp.array([1.0, 2.0, 3.0]), jnp.ones(1)
    >>> image.scale_and_translate(x, (3,), (0,), one, one, "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    image, shape = _image_and_shape("scale_and_translate", image, shape)
    method = _method(method, antialias)
    if method == ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for"
            " scale_and_translate."
        )
    (image,) = promote_dtypes_inexact(image)
    scale, translation = promote_dtypes_inexact(
        *ensure_arraylikes("scale_and_translate", scale, translation)
    )
    if any(len(x) != len(spatial_dims) for x in (scale, translation)):
        raise AssertionError(
            "scale_and_translate takes a scale and a translation for each of"
            f" spatial_dims={spatial_dims}, got {len(scale)} and {len(translation)}."
        )
    dims = canonical_axes(tuple(spatial_dims), image.ndim)
    return _resample(
        image, shape, dims, scale, translation, method, antialias, precision
    )


def _resample(
    image: Any,
    shape: tuple[int, ...],
    dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Any:
    """The image times a matrix of weights along each dim."""
    kernel, radius = _KERNELS[method]
    for i, d in enumerate(dims):
        sizes = image.shape[d], shape[d]
        if kernel is None:
            weights = _overlaps(*sizes, scale[i], translation[i])
        elif method == ResizeMethod.CUBIC_PYTORCH:
            weights = _edge_weights(*sizes, scale[i], translation[i], kernel, radius)
        else:
            weights = _weights(*sizes, scale[i], translation[i], kernel, antialias)
        weights = weights.astype(image.dtype)
        moved = jnp.moveaxis(image, d, -1)
        moved = jnp.matmul(moved, weights, precision=precision)
        image = jnp.moveaxis(moved, -1, d)
    return image


def _centres(n: int, scale: Any, translation: Any) -> Any:
    """Where the middles of the new pixels are among the old ones."""
    number = jnp.arange(n, dtype=jnp.result_type(scale, translation))
    return (number + 0.5) / scale - translation / scale - 0.5


def _normalised(weights: Any) -> Any:
    """Columns of sum 1; those that see no pixel stay 0."""
    total = jnp.sum(weights, axis=0, keepdims=True)
    seen = jnp.abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return jnp.where(seen, weights / jnp.where(total != 0, total, 1), 0)


def _weights(
    m: int, n: int, scale: Any, translation: Any, kernel: Kernel, antialias: bool
) -> Any:
    """The share of each of m pixels in each of n new ones, (m, n)."""
    centres = _centres(n, scale, translation)
    width = jnp.maximum(1 / jnp.asarray(scale), 1) if antialias else 1.0
    old = jnp.arange(m, dtype=centres.dtype)
    weights = _normalised(kernel(jnp.abs(centres[None] - old[:, None]) / width))
    inside = (centres >= -0.5) & (centres <= m - 0.5)
    return jnp.where(inside[None], weights, 0)


def _edge_weights(
    m: int, n: int, scale: Any, translation: Any, kernel: Kernel, radius: int
) -> Any:
    """`_weights` for an image whose edges go on beyond it."""
    centres = _centres(n, scale, translation)
    old = np.arange(-radius, m + radius)
    weights = kernel(jnp.abs(centres[None] - old[:, None].astype(centres.dtype)))
    summed = jnp.zeros((m, n), weights.dtype)
    return _normalised(summed.at[np.clip(old, 0, m - 1)].add(weights))


def _overlaps(m: int, n: int, scale: Any, translation: Any) -> Any:
    """How much of each new pixel is covered by each old one."""
    dtype = jnp.result_type(scale, translation)
    start = jnp.arange(n, dtype=dtype) / scale - translation / scale
    old = jnp.arange(m, dtype=dtype)[:, None]
    common = jnp.minimum(start + 1 / scale, old + 1) - jnp.maximum(start, old)
    weights = _normalised(jnp.maximum(0, common))
    centres = _centres(n, scale, translation)
    inside = (centres >= -0.5) & (centres <= m - 0.5)
    return jnp.where(inside[None], weights, 0)
