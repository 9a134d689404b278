"""Layers of neural networks as pairs of functions: initialize, apply.

`init_fun(key, input_shape)` gives the shape of the output and the parameters,
`apply_fun(params, inputs, **kwargs)` the output; `rng` among the keyword arguments is
for layers that draw random numbers.

>>> from curta import numpy as jnp, random
>>> from curta.example_libraries import stax
>>> init, apply = stax.serial(stax.Dense(4), stax.Relu, stax.Dense(2))
>>> shape, params = init(random.key(0), (-1, 3))
>>> print(shape, apply(params, jnp.ones((5, 3))).shape)
(-1, 2) (5, 2)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax, nn, random
from curta._base.on_demand import Listing, own
from curta.nn.initializers import glorot_normal, normal, ones, zeros

__dir__: Listing = own(__name__)

# Shorter names, which programs know.
glorot = glorot_normal
randn = normal
logsoftmax: Callable[..., Any] = nn.log_softmax

Layer = tuple[Callable[..., Any], Callable[..., Any]]


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:  # noqa: B008
    """inputs W + b.

    Args:
      out_dim: the last dim of the outputs.
      W_init: makes `W`, of shape (last dim of the inputs, out_dim), of a key and the
        shape.
      b_init: makes `b`, of shape (out_dim,).

    Returns:
      The pair of `init_fun(key, input_shape)`, which gives the output's shape and the
      parameters, and `apply_fun(params, inputs)`.

    Raises:
      TypeError: when it is initialized, for an `out_dim` that is not an integer.
      IndexError: for inputs without dims.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.Dense(4)
    >>> shape, params = init(curta.random.key(0), (1, 3))
    >>> shape
    (1, 4)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        of_weights, of_bias = random.split(rng)
        weights = W_init(of_weights, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(of_bias, (out_dim,)))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        weights, bias = params
        return jnp.dot(inputs, weights) + bias

    return init_fun, apply_fun


def _convolution(
    convolve: Callable[..., Any],
    shape_of: Callable[..., Any],
    dimension_numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Any,
    W_init: Any,
    b_init: Any,
) -> Layer:
    inputs_spec, kernel_spec, out_spec = dimension_numbers
    steps = tuple(strides or (1,) * len(filter_shape))
    W_init = W_init or glorot_normal(kernel_spec.index("I"), kernel_spec.index("O"))

    def init_fun(rng: Any, input_shape: Any) -> Any:
        spatial = iter(filter_shape)
        sizes = {"O": out_chan, "I": input_shape[inputs_spec.index("C")]}
        kernel = [sizes[c] if c in sizes else next(spatial) for c in kernel_spec]
        out = shape_of(input_shape, kernel, steps, padding, dimension_numbers)
        bias = [out_chan if c == "C" else 1 for c in out_spec]
        of_weights, of_bias = random.split(rng)
        return out, (W_init(of_weights, kernel), b_init(of_bias, bias))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        weights, bias = params
        out = convolve(
            inputs, weights, steps, padding, dimension_numbers=dimension_numbers
        )
        return out + bias

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:
    """A convolution, with the layouts `dimension_numbers` of `conv_general_dilated`.

    Args:
      dimension_numbers: three strings, for the inputs, the kernel and the outputs.
      out_chan: the number of output channels.
      filter_shape: the spatial dims of the kernel.
      strides: one for each spatial dim; 1 if left out.
      padding: "VALID", "SAME", or a pair for each spatial dim.
      W_init: makes the kernel of a key and its shape; `glorot_normal` if left out.
      b_init: makes the bias.

    Returns:
      The pair of `init_fun(key, input_shape)`, which gives the output's shape and the
      parameters, and `apply_fun(params, inputs)`.

    Raises:
      ValueError: for other than three `dimension_numbers`.
      RuntimeError: when it is initialized, for an unknown padding.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.GeneralConv(("NHWC", "HWIO", "NHWC"), 4, (3, 3))
    >>> shape, params = init(curta.random.key(0), (2, 5, 5, 3))
    >>> shape
    (2, 3, 3, 4)
    """
    return _convolution(
        lax.conv_general_dilated,
        lax.conv_general_shape_tuple,
        dimension_numbers,
        out_chan,
        filter_shape,
        strides,
        padding,
        W_init,
        b_init,
    )


def GeneralConvTranspose(
    dimension_numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:
    """A transposed convolution; see `GeneralConv`.

    Args:
      dimension_numbers: three strings, for the inputs, the kernel and the outputs.
      out_chan: the number of output channels.
      filter_shape: the spatial dims of the kernel.
      strides: by how much each spatial dim grows; 1 if left out.
      padding: "VALID", "SAME", or a pair for each spatial dim.
      W_init: makes the kernel of a key and its shape; `glorot_normal` if left out.
      b_init: makes the bias.

    Returns:
      The pair of `init_fun(key, input_shape)`, which gives the output's shape and the
      parameters, and `apply_fun(params, inputs)`.

    Raises:
      ValueError: for other than three `dimension_numbers`, and when it is initialized
        for an unknown padding.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 4, (3, 3))
    >>> shape, params = init(curta.random.key(0), (2, 5, 5, 3))
    >>> shape
    (2, 7, 7, 4)
    """
    return _convolution(
        lax.conv_transpose,
        lax.conv_transpose_shape_tuple,
        dimension_numbers,
        out_chan,
        filter_shape,
        strides,
        padding,
        W_init,
        b_init,
    )


Conv: Any = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose: Any = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose: Any = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Mean 0 and variance 1 over `axis`, then scaled and moved.

    S. Ioffe and C. Szegedy, Batch normalization (2015).

    Args:
      axis: the dims over which mean and variance are taken.
      epsilon: added to the variance.
      center: whether a vector is added afterwards.
      scale: whether outputs are multiplied by a vector before that.
      beta_init: makes the vector that is added, of a key and its shape.
      gamma_init: makes the one that is multiplied by.

    Returns:
      The pair of `init_fun(key, input_shape)`, which gives the output's shape and the
      parameters, and `apply_fun(params, inputs)`.

    Raises:
      ValueError: when it is applied, for dims that the inputs have not.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.BatchNorm()
    >>> shape, params = init(curta.random.key(0), (2, 5, 5, 3))
    >>> shape
    (2, 5, 5, 3)
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axes)
        of_beta, of_gamma = random.split(rng)
        beta = beta_init(of_beta, shape) if center else ()
        gamma = gamma_init(of_gamma, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        kept = tuple(None if i in axes else slice(None) for i in range(jnp.ndim(x)))
        out = nn.standardize(x, axes, epsilon=epsilon)
        out = gamma[kept] * out if scale else out
        return out + beta[kept] if center else out

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A function of each element as a layer.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.elementwise(curta.numpy.negative)
    >>> apply((), curta.numpy.ones(2))
    Array([-1., -1.], dtype=float32)
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return fun(inputs, **fun_kwargs)

    return _unchanged, apply_fun


def _unchanged(rng: Any, input_shape: Any) -> Any:
    """`init_fun` of a layer without parameters that keeps the shape."""
    return input_shape, ()


Tanh: Any = elementwise(jnp.tanh)
Relu: Any = elementwise(nn.relu)
Exp: Any = elementwise(jnp.exp)
LogSoftmax: Any = elementwise(nn.log_softmax, axis=-1)
Softmax: Any = elementwise(nn.softmax, axis=-1)
Softplus: Any = elementwise(nn.softplus)
Sigmoid: Any = elementwise(nn.sigmoid)
Elu: Any = elementwise(nn.elu)
LeakyRelu: Any = elementwise(nn.leaky_relu)
Selu: Any = elementwise(nn.selu)
Gelu: Any = elementwise(nn.gelu)


_POOLING = """A layer that takes {what} of each window.

    Args:
      window_shape: of the windows, one size for each spatial dim.
      strides: from one window to the next; 1 if left out.
      padding: "VALID", "SAME", or pairs.
      spec: the order of the dims, "NHWC" if left out.

    Returns:
      The pair of `init_fun(key, input_shape)`, which gives the output's shape and no
      parameters, and `apply_fun(params, inputs)`.

    Raises:
      ValueError: for a `spec` without N or C.
      RuntimeError: when it is initialised, for an unknown padding.

    >>> from curta import numpy as jnp, random
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.{name}((2, 2), strides=(2, 2))
    >>> shape, params = init(random.key(0), (1, 2, 4, 1))
    >>> shape, apply(params, jnp.arange(8.0).reshape(1, 2, 4, 1)).ravel()
    ((1, 1, 2, 1), Array([{first}, {second}], dtype=float32))
    """


def _pooling(
    name: str, texts: dict[str, str], reducer: Any, start: float, mean: bool = False
) -> Callable[..., Layer]:
    def layer(
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Any = "VALID",
        spec: str | None = None,
    ) -> Layer:
        window = list(window_shape)
        steps = list(strides or (1,) * len(window))
        last = len(window) + 1
        others = (0, last) if spec is None else (spec.index("N"), spec.index("C"))
        for i in sorted(others):
            window.insert(i, 1)
            steps.insert(i, 1)

        def pooled(x: Any, reducer: Any, start: float) -> Any:
            return lax.reduce_window(x, start, reducer, window, steps, padding)

        def init_fun(rng: Any, input_shape: Any) -> Any:
            edges = lax.padtype_to_pads(input_shape, window, steps, padding)
            one = (1,) * len(window)
            shape = lax.reduce_window_shape_tuple(
                input_shape, window, steps, edges, one, one
            )
            return shape, ()

        def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = pooled(inputs, reducer, start)
            if not mean:
                return out
            # Windows at the edges have fewer elements.
            sizes = [1 if i in others else d for i, d in enumerate(inputs.shape)]
            return out / pooled(jnp.ones(sizes, inputs.dtype), lax.add, 0.0)

        return init_fun, apply_fun

    layer.__name__ = layer.__qualname__ = name
    layer.__doc__ = _POOLING.format(name=name, **texts)
    return layer


MaxPool: Any = _pooling(
    "MaxPool",
    {"what": "the greatest", "first": "5.", "second": "7."},
    lax.max,
    -np.inf,
)
SumPool: Any = _pooling(
    "SumPool",
    {"what": "the sum", "first": "10.", "second": "18."},
    lax.add,
    0.0,
)
AvgPool: Any = _pooling(
    "AvgPool",
    {"what": "the mean", "first": "2.5", "second": "4.5"},
    lax.add,
    0.0,
    mean=True,
)


def _flatten_init(rng: Any, input_shape: Any) -> Any:
    return (input_shape[0], math.prod(input_shape[1:])), ()


Flatten: Layer = (
    _flatten_init,
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)
Identity: Layer = (_unchanged, lambda params, inputs, **kwargs: inputs)


def FanOut(num: int) -> Layer:
    """The input, several times.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.FanOut(2)
    >>> shape, params = init(curta.random.key(0), (1, 3))
    >>> shape
    [(1, 3), (1, 3)]
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        return [input_shape] * num, ()

    return init_fun, lambda params, inputs, **kwargs: [inputs] * num


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs),
)


def FanInConcat(axis: int = -1) -> Layer:
    """Several inputs, joined along an axis.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.serial(stax.FanOut(2), stax.FanInConcat())
    >>> shape, params = init(curta.random.key(0), (1, 3))
    >>> shape
    (1, 6)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        dim = axis % len(input_shape[0])
        shape = list(input_shape[0])
        shape[dim] = sum(s[dim] for s in input_shape)
        return tuple(shape), ()

    return init_fun, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Each element with probability `rate`, scaled; all unless `mode` is "train".

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.Dropout(0.5)
    >>> apply((), curta.numpy.ones(4), rng=curta.random.key(0))
    Array([0., 0., 2., 2.], dtype=float32)
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key"
                " argument. That is, instead of `apply_fun(params, inputs)`, call it"
                " like `apply_fun(params, inputs, rng=key)` with a key of random.key."
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return _unchanged, apply_fun


def serial(*layers: Layer) -> Layer:
    """One layer after the other.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(4), stax.Relu, stax.Dense(2))
    >>> shape, params = init(curta.random.key(0), (1, 3))
    >>> shape
    (1, 2)
    """
    inits, applies = zip(*layers)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params = []
        for init in inits:
            rng, of_layer = random.split(rng)
            input_shape, param = init(of_layer, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rngs = _split(kwargs.pop("rng", None), len(layers))
        for apply, param, rng in zip(applies, params, rngs):
            inputs = apply(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def _split(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else random.split(rng, count)


def parallel(*layers: Layer) -> Layer:
    """Each layer on its own input.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.parallel(stax.Dense(4), stax.Identity)
    >>> shape, params = init(curta.random.key(0), [(1, 3), (1, 2)])
    >>> shape
    ((1, 4), (1, 2))
    """
    inits, applies = zip(*layers)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        rngs = random.split(rng, len(layers))
        pairs = [init(r, shape) for init, r, shape in zip(inits, rngs, input_shape)]
        return zip(*pairs)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rngs = _split(kwargs.pop("rng", None), len(layers))
        return [
            apply(param, x, rng=rng, **kwargs)
            for apply, param, x, rng in zip(applies, params, inputs, rngs)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that `make_layer` gives for the shape of the input.

    >>> import curta
    >>> from curta.example_libraries import stax
    >>> init, apply = stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1]))
    >>> shape, params = init(curta.random.key(0), (1, 3))
    >>> shape
    (1, 6)
    """

    def init_fun(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
