"""Kernel density estimation with Gaussian kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax, random, tree_util
from curta.api.vmap import vmap
from curta.core.trace import is_array_like, typeof
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact
from curta.scipy.special import logsumexp, ndtr


@tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class gaussian_kde:
    """A density estimated by a Gaussian at each data point.

    Args:
      dataset: real array of shape (n,) or (d, n): n points in d dimensions.
      bw_method: "scott" (the default), "silverman", a scalar, or a function of this
        object: the factor of the data's standard deviation that is the kernels'.
      weights: array of shape (n,), by default equal.

    ValueError for other shapes, NotImplementedError for complex data. It is a pytree.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> density = stats.gaussian_kde(jnp.array([-1.0, 0.0, 1.0]))
    >>> density(0.0).round(3)
    Array([0.318], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self,
        dataset: Any,
        bw_method: str | float | Callable[[Any], Any] | None = None,
        weights: Any = None,
    ) -> None:
        check_arraylike("gaussian_kde", dataset)
        dataset = jnp.atleast_2d(dataset)
        if dtypes.issubdtype(dataset.dtype, np.complexfloating):
            raise NotImplementedError("gaussian_kde does not support complex data")
        if not dataset.size > 1:
            raise ValueError("`dataset` input should have multiple elements.")
        dataset, weights = _normalised(dataset, weights)
        self._set(dataset=dataset, weights=weights, neff=1 / jnp.sum(weights**2))
        factor = self._bandwidth(bw_method)
        spread = jnp.cov(dataset, rowvar=True, bias=False, aweights=weights)
        spread = jnp.atleast_2d(spread)
        inverse = jnp.linalg.inv(spread)
        self._set(covariance=spread * factor**2, inv_cov=inverse / factor**2)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _bandwidth(self, method: Any) -> Any:
        if method is None or (isinstance(method, str) and method == "scott"):
            return jnp.power(self.neff, -1.0 / (self.d + 4))
        if isinstance(method, str) and method == "silverman":
            return jnp.power(self.neff * (self.d + 2) / 4.0, -1.0 / (self.d + 4))
        if callable(method):
            return method(self)
        if is_array_like(method) and np.ndim(method) == 0:
            return method
        raise ValueError(
            "`bw_method` should be 'scott', 'silverman', a scalar, or a callable."
        )

    def tree_flatten(self) -> tuple[Any, None]:
        """The children and the metadata, for `register_pytree_node_class`."""
        return [getattr(self, f.name) for f in dataclasses.fields(self)], None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> gaussian_kde:
        kde = object.__new__(cls)
        names = (field.name for field in dataclasses.fields(cls))
        kde._set(**dict(zip(names, children)))
        return kde

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of data points."""
        return self.dataset.shape[1]

    def evaluate(self, points: Any) -> Any:
        """The density at points of shape (d, m) or (m,) for d = 1; shape (m,)."""
        check_arraylike("evaluate", points)
        logs = self._log_kernels(self._points(points))
        return jnp.sum(jnp.exp(logs) * self.weights, axis=-1)

    __call__ = evaluate

    def pdf(self, x: Any) -> Any:
        """The density, as `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        check_arraylike("logpdf", x)
        logs = self._log_kernels(self._points(x))
        return logsumexp(logs, axis=-1, b=self.weights)

    def _log_kernels(self, points: Any) -> Any:
        """The log of each data point's kernel at each point, of shape (m, n)."""
        whiten = jnp.linalg.cholesky(self.inv_cov)
        data, points = (jnp.dot(x.T, whiten) for x in (self.dataset, points))
        log_norm = jnp.sum(jnp.log(jnp.diag(whiten))) - self.d * math.log(2 * np.pi) / 2
        distance = jnp.sum(jnp.square(points[:, None] - data), axis=-1)
        return log_norm - 0.5 * distance

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal density."""
        mean = jnp.atleast_1d(jnp.squeeze(mean))
        cov = jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return self._convolve(jnp.linalg.cholesky(self.covariance + cov), mean)

    def _convolve(self, factor: Any, mean: Any) -> Any:
        """The weighted sum of normal densities at `mean`."""
        difference = self.dataset - mean[:, None]
        white = lax.linalg.triangular_solve(
            factor, difference, left_side=True, lower=True
        )
        norm = (2 * np.pi) ** (self.d / 2) * jnp.prod(jnp.diag(factor))
        return jnp.sum(jnp.exp(-0.5 * jnp.sum(white**2, 0)) * self.weights) / norm

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product of two densities."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        factor = jnp.linalg.cholesky(self.covariance + other.covariance)
        small, large = (self, other) if self.n < other.n else (other, self)
        at_points = vmap(lambda mean: large._convolve(factor, mean), in_axes=1)
        return jnp.sum(at_points(small.dataset) * small.weights)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of an interval, for d = 1."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        check_arraylike("gaussian_kde.integrate_box_1d", low, high)
        if np.ndim(low) != 0 or np.ndim(high) != 0:
            raise ValueError(
                "the limits of integration in integrate_box_1d must be scalars"
            )
        sigma = jnp.squeeze(jnp.sqrt(self.covariance))
        low, high = (jnp.squeeze((x - self.dataset) / sigma) for x in (low, high))
        return jnp.sum(self.weights * (ndtr(high) - ndtr(low)))

    def integrate_box(
        self, low_bounds: Any, high_bounds: Any, maxpts: Any = None
    ) -> Any:
        """Raises NotImplementedError: there is only `integrate_box_1d`."""
        raise NotImplementedError(
            "only 1D box integrations are supported; use `integrate_box_1d`"
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Raises NotImplementedError: make a new object instead."""
        raise NotImplementedError(
            "dynamically changing the bandwidth method is not supported"
        )

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Points drawn from the density, of shape (d, *shape)."""
        of_index, of_noise = random.split(key)
        index = random.choice(of_index, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.covariance.dtype)
        noise = random.multivariate_normal(
            of_noise, zero, self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, index] + noise.T

    def _points(self, points: Any) -> Any:
        if dtypes.issubdtype(typeof(points).dtype, np.complexfloating):
            raise NotImplementedError(
                "gaussian_kde does not support complex coordinates"
            )
        points = jnp.atleast_2d(points)
        d, m = points.shape
        if d == self.d:
            return points
        if d == 1 and m == self.d:  # one point
            return jnp.reshape(points, (self.d, 1))
        raise ValueError(f"points have dimension {d}, dataset has dimension {self.d}")


def _normalised(dataset: Any, weights: Any) -> tuple[Any, Any]:
    """The data as floats and weights that sum to 1."""
    n = dataset.shape[1]
    if weights is None:
        (dataset,) = promote_dtypes_inexact(dataset)
        return dataset, jnp.full(n, 1.0 / n, dtype=dataset.dtype)
    check_arraylike("gaussian_kde", weights)
    dataset, weights = promote_dtypes_inexact(dataset, weights)
    weights = jnp.atleast_1d(weights)
    if weights.ndim != 1:
        raise ValueError("`weights` input should be one-dimensional.")
    if len(weights) != n:
        raise ValueError("`weights` input should be of length n")
    return dataset, weights / jnp.sum(weights)
