"""`curta.nn`, `curta.image` and the filters of `curta.scipy.ndimage`."""

import itertools

import numpy as np
import scipy.ndimage
import scipy.special as sp
from tests.functions.numpy_elementwise import unary
from tests.functions.rows import FLOAT, INTEGER, SINGLE, call, rows, within


def softplus(x):
    return np.logaddexp(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x))


def gelu(x, approximate=True):
    if not approximate:
        return x * (1 + sp.erf(x / np.sqrt(2))) / 2
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def relu6(x):
    return np.clip(x, 0, 6)


def selu(x):
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * elu(x, alpha)


def sparse_plus(x):
    return np.where(x <= -1, 0, np.where(x < 1, (x + 1) ** 2 / 4, x))


ACTIVATIONS = {
    "celu": lambda x, a=1.0: np.where(x > 0, x, a * np.expm1(x / a)),
    "elu": elu,
    "gelu": gelu,
    "hard_sigmoid": lambda x: relu6(x + 3) / 6,
    "hard_silu": lambda x: x * relu6(x + 3) / 6,
    "hard_swish": lambda x: x * relu6(x + 3) / 6,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "identity": np.asarray,
    "leaky_relu": lambda x, slope=0.01: np.where(x >= 0, x, slope * x),
    "log_sigmoid": lambda x: -softplus(-x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": relu6,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "softplus": softplus,
    "sparse_plus": sparse_plus,
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "squareplus": lambda x, b=4: (x + np.sqrt(x * x + b)) / 2,
    "tanh": np.tanh,
}
WITH_PARAMETER = {
    "celu": 0.7,
    "elu": 0.7,
    "leaky_relu": 0.3,
    "squareplus": 2,
    "gelu": False,
}


def parametrized(name):
    def calls(source, shape):
        yield call(source(shape))
        if name in WITH_PARAMETER:
            yield call(source(shape), WITH_PARAMETER[name])

    return calls


def one_axis(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), axis=axis)
    yield call(source(shape), axis=tuple(range(len(shape))))


def masked(source, shape):
    yield from one_axis(source, shape)
    mask = source.mask(shape)
    mask[..., :1] = True
    yield call(source(shape), axis=-1, where=mask)


def reductions(source, shape):
    for given in one_axis(source, shape):
        yield given
        yield call(*given.args, keepdims=True, **given.kwargs)
    yield call(source(shape), axis=None)


def weighted(source, shape):
    yield from reductions(source, shape)
    yield call(source(shape), axis=0, b=source(shape, low=0.1))


def log_softmax(x, axis, where=True):
    x = np.where(where, x, -np.inf)
    return x - sp.logsumexp(x, axis, keepdims=True)


def softmax(x, axis, where=True):
    return np.exp(log_softmax(x, axis, where))


def standardize(x, axis=-1, where=True):
    mean = x.mean(axis, keepdims=True, where=where)
    return (x - mean) / np.sqrt(x.var(axis, keepdims=True, where=where) + 1e-5)


def log_mean(x, axis=None, keepdims=False):
    with np.errstate(all="ignore"):
        return np.log(np.exp(x).mean(axis, keepdims=keepdims))


def glus(source, shape):
    for axis in range(-len(shape), len(shape)):
        even = list(shape)
        even[axis] *= 2
        yield call(source(tuple(even)), axis)


def glu(x, axis):
    a, b = np.split(x, 2, axis)
    return a * sigmoid(b)


def classes(source, shape):
    yield call(source.integers(shape, -1, 4), 4)
    yield call(source.integers(shape, 0, 3), 4, axis=0)


def one_hot(x, n, axis=-1):
    return np.moveaxis((x[..., None] == np.arange(n)).astype(float), -1, axis)


def attentions(source, shape):
    query, key = source((2, 3, 2, 4)), source((2, 5, 2, 4))
    yield call(query, key, source((2, 5, 2, 4)))
    yield call(query, key, key, bias=source((2, 2, 3, 5)), scale=0.3)
    mask = source.mask((2, 2, 3, 5))
    mask[..., 0] = True
    yield call(query, key, key, mask=mask)
    yield call(query, key, key, is_causal=True)


def attention(q, k, v, bias=0, mask=True, scale=None, is_causal=False):
    scores = np.einsum("bthd,bshd->bhts", q, k) * (scale or q.shape[-1] ** -0.5) + bias
    seen = np.tril(np.ones(scores.shape[-2:], bool)) if is_causal else mask
    return np.einsum("bhts,bshd->bthd", softmax(np.where(seen, scores, -1e30), -1), v)


NN = [
    row
    for name, reference in ACTIVATIONS.items()
    for row in rows(name, parametrized(name), FLOAT, reference=reference, tolerance=4)
]
NN += [
    *rows(
        "log1mexp",
        unary,
        SINGLE,
        domain=(0.1, 3),
        reference=lambda x: np.log(-np.expm1(-x)),
        tolerance=4,
    ),
    *rows(
        "softmax", masked, FLOAT, rank=(1, 3), least=1, reference=softmax, tolerance=4
    ),
    *rows(
        "log_softmax",
        one_axis,
        FLOAT,
        rank=(1, 3),
        least=1,
        reference=log_softmax,
        tolerance=4,
    ),
    *rows(
        "standardize",
        masked,
        SINGLE,
        rank=(1, 3),
        least=2,
        reference=standardize,
        tolerance=30,
    ),
    *rows(
        "logsumexp",
        weighted,
        FLOAT,
        rank=(1, 3),
        least=1,
        reference=sp.logsumexp,
        tolerance=4,
    ),
    *rows(
        "logmeanexp",
        reductions,
        FLOAT,
        rank=(1, 3),
        least=1,
        reference=log_mean,
        tolerance=4,
    ),
    *rows("glu", glus, FLOAT, rank=(1, 3), reference=glu, tolerance=2),
    *rows("one_hot", classes, INTEGER, rank=(0, 3), reference=one_hot),
    *rows(
        "dot_product_attention",
        attentions,
        SINGLE,
        rank=(1, 1),
        reference=attention,
        tolerance=8,
    ),
]


def sizes(source, shape):
    yield call(source((3, 4)), (6, 4), "linear")
    yield call(source((3, 4)), (3, 8), "nearest")
    yield call(source((2, 4)), (2, 2), "linear")
    yield call(source((2, 4)), (3, 5), "cubic", antialias=False)


def kernel(method, x):
    x = np.abs(x)
    if method == "linear":
        return np.maximum(0, 1 - x)
    near, far = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def weights(n, m, scale, shift, method, antialias):
    """How much the n inputs count in each of m outputs along one dim."""
    place = (np.arange(m) + 0.5 - shift) / scale - 0.5
    if method == "nearest":
        return np.eye(n)[:, np.floor(place + 0.5).astype(int)]
    wide = max(1, 1 / scale) if antialias else 1
    w = kernel(method, (place[None] - np.arange(n)[:, None]) / wide)
    w = w / np.where(w.sum(0) == 0, 1, w.sum(0))
    return np.where((place >= -0.5) & (place <= n - 0.5), w, 0)


def resized(x, shape, method, antialias=True):
    for d, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        w = weights(n, m, m / n, 0, method, antialias)
        x = np.moveaxis(np.tensordot(x, w, (d, 0)), -1, d)
    return x


def scalings(source, shape):
    scale = np.array([1.5, 0.8], source.dtype)
    yield call(
        source((3, 4)),
        (5, 3),
        (0, 1),
        scale,
        np.array([0.4, -0.2], source.dtype),
        "linear",
    )


def scaled(x, shape, dims, scale, shift, method):
    for d in dims:
        w = weights(x.shape[d], shape[d], scale[d], shift[d], method, True)
        x = np.moveaxis(np.tensordot(x, w, (d, 0)), -1, d)
    return x


def coordinates(source, shape):
    places = [source((2, 3), low=-1.5, high=4.5) for _ in range(2)]
    modes = "constant", "nearest", "mirror", "reflect", "wrap"
    for order, mode in itertools.product((1, 0), modes):
        if mode != "wrap":  # SciPy's is one element shorter
            yield call(source((3, 4)), places, order, mode=mode)
    yield call(source((3, 4)), places, 1, cval=2.0)


def interpolated(x, places, order, mode="constant", cval=0.0):
    grid = {"constant": "grid-constant"}.get(mode, mode)
    return scipy.ndimage.map_coordinates(x, places, order=order, mode=grid, cval=cval)


IMAGES = [
    *rows("image.resize", sizes, SINGLE, rank=(1, 1), reference=resized, tolerance=8),
    *rows(
        "image.scale_and_translate",
        scalings,
        SINGLE,
        rank=(1, 1),
        reference=scaled,
        tolerance=8,
    ),
    *rows(
        "scipy.ndimage.map_coordinates",
        coordinates,
        SINGLE,
        rank=(1, 1),
        tolerance=8,
        reference=interpolated,
    ),
]
TABLE = [*within("nn", NN), *IMAGES]
