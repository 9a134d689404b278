"""Sorting, cumulative sums, indexing and counting of large arrays."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import F32, random_array
from benchmarks.harness import Case, Thunk

SIZE = 10**6


def unary(
    function: Callable[[Any, Any], Any], shape: tuple[int, ...], lib: Any
) -> Thunk:
    f, x = lib.jit(lambda x: function(lib, x)), random_array(lib, *shape)
    return lambda: f(x)


def integers(lib: Any, size: int, below: int) -> Any:
    drawn = np.random.default_rng(1).integers(0, below, size)
    return lib.numpy.asarray(drawn.astype(np.int32))


def counted(lib: Any) -> Thunk:
    f = lib.jit(lambda x: lib.numpy.bincount(x, length=1000))
    x = integers(lib, SIZE, 1000)
    return lambda: f(x)


def searched(lib: Any) -> Thunk:
    f = lib.jit(lambda a, v: lib.numpy.searchsorted(a, v))
    a, v = lib.numpy.sort(random_array(lib, 10**4)), random_array(lib, SIZE)
    return lambda: f(a, v)


def gathered_rows(lib: Any) -> Thunk:
    f = lib.jit(lambda table, places: table[places])
    table, places = random_array(lib, 10**4, 64), integers(lib, 10**5, 10**4)
    return lambda: f(table, places)


def embedding_gradient(lib: Any) -> Thunk:
    def loss(table: Any, places: Any, weights: Any) -> Any:
        return (table[places] * weights).sum()

    f = lib.jit(lib.grad(loss))
    table, places = random_array(lib, 10**4, 64), integers(lib, 10**4, 10**4)
    weights = random_array(lib, 10**4, 64)
    return lambda: f(table, places, weights)


def segment_sum(segments: int, lib: Any) -> Thunk:
    f = lib.jit(lambda x, s: lib.ops.segment_sum(x, s, segments))
    x, s = random_array(lib, SIZE), integers(lib, SIZE, segments)
    return lambda: f(x, s)


def framed(lib: Any, x: Any) -> Any:
    """Frames of 512 elements, one every 128."""
    np = lib.numpy
    return x[np.arange(700)[:, None] * 128 + np.arange(512)]


def frames_gradient(lib: Any, x: Any) -> Any:
    return lib.grad(lambda x: (framed(lib, x) ** 2).sum())(x)


def hankel(lib: Any, x: Any) -> Any:
    i = lib.numpy.arange(1000)
    return x[i[:, None] + i]


def segment_rows(lib: Any) -> Thunk:
    f = lib.jit(lambda x, s: lib.ops.segment_sum(x, s, 1000))
    x, s = random_array(lib, 10**5, 64), integers(lib, 10**5, 1000)
    return lambda: f(x, s)


def where(lib: Any) -> Thunk:
    f = lib.jit(lambda c, x, y: lib.numpy.where(c, x, y))
    x, y = random_array(lib, SIZE), random_array(lib, SIZE)[::-1]
    c = x > y
    return lambda: f(c, x, y)


def selected(lib: Any) -> Thunk:
    """The places where a condition holds."""
    f = lib.jit(lambda x: lib.numpy.nonzero(x > 0, size=SIZE, fill_value=-1)[0])
    x = random_array(lib, SIZE)
    return lambda: f(x)


def sort_pairs(lib: Any) -> Thunk:
    f = lib.jit(lambda keys, x: lib.lax.sort((keys, x), num_keys=1))
    keys, x = integers(lib, SIZE, 10**6), random_array(lib, SIZE)
    return lambda: f(keys, x)


def sort_two_keys(lib: Any) -> Thunk:
    f = lib.jit(lambda x, y, z: lib.lax.sort((x, y, z), num_keys=2))
    x, y = integers(lib, SIZE, 100), random_array(lib, SIZE)
    return lambda: f(x, y, y)


Unary = dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], float]]
UNARY: Unary = {
    "sort, 1e6": (lambda lib, x: lib.numpy.sort(x), (SIZE,), 0.2),
    "argsort, 1e6": (lambda lib, x: lib.numpy.argsort(x), (SIZE,), 0.2),
    "sort, 1e4": (lambda lib, x: lib.numpy.sort(x), (10**4,), 0.2),
    "sort, (10000, 100)": (lambda lib, x: lib.numpy.sort(x), (10**4, 100), 0.2),
    "sort, axis 0 of 1000²": (lambda lib, x: lib.numpy.sort(x, 0), (1000, 1000), 0.2),
    "argsort, (10000, 16)": (lambda lib, x: lib.numpy.argsort(x), (10**4, 16), 0.2),
    "median, (1000, 1000)": (lambda lib, x: lib.numpy.median(x, 1), (1000, 1000), 0.2),
    "top_k 10, 1e6": (lambda lib, x: lib.lax.top_k(x, 10), (SIZE,), 0.2),
    "top_k 1000, 1e6": (lambda lib, x: lib.lax.top_k(x, 1000), (SIZE,), 0.2),
    "top_k 50, (128, 32000)": (lambda lib, x: lib.lax.top_k(x, 50), (128, 32000), 0.2),
    "cumsum, 1e7": (lambda lib, x: lib.numpy.cumsum(x), (10**7,), 0.3),
    "cumsum, reversed, 1e7": (
        lambda lib, x: lib.lax.cumsum(x, reverse=True), (10**7,), 0.3,
    ),
    "frames by index, 700 of 512": (framed, (10**5,), 0.9),
    "gradient of frames by index": (frames_gradient, (10**5,), 0.5),
    "Hankel matrix by index, 1000²": (hankel, (2000,), 1),
    "cumprod, 1e6": (lambda lib, x: lib.numpy.cumprod(1 + x / 1e6), (SIZE,), 0.3),
    "cummax, 1e7": (lambda lib, x: lib.lax.cummax(x), (10**7,), 0.3),
    "cumlogsumexp, 1e6": (lambda lib, x: lib.lax.cumlogsumexp(x), (SIZE,), 0.3),
    "cumsum, axis 1 of 1000²": (
        lambda lib, x: lib.numpy.cumsum(x, 1), (1000, 1000), 0.3,
    ),
    "cumsum, axis 0 of 1000²": (
        lambda lib, x: lib.numpy.cumsum(x, 0), (1000, 1000), 0.3,
    ),
    "histogram, 1e6": (lambda lib, x: lib.numpy.histogram(x, 100)[0], (SIZE,), 0.7),
    "unique, 1e6": (
        lambda lib, x: lib.numpy.unique(lib.numpy.floor(x * 50), size=400),
        (SIZE,), 0.3,
    ),
}  # fmt: skip

ARRAY_CASES = [
    *(
        Case(name, partial(unary, f, shape), target, rtol=1e-3, atol=1e-2)
        for name, (f, shape, target) in UNARY.items()
    ),
    Case("sort of pairs, 1e6", sort_pairs, 0.2),
    Case("sort by two keys, 1e6", sort_two_keys, 0.2),
    Case("searchsorted, 1e6 in 1e4", searched, 0.7),
    Case("bincount, 1e6", counted, 0.7),
    Case("gather of 1e5 rows of 64", gathered_rows, 0.8, F32 * 64 * 10**5),
    Case("gradient of an embedding", embedding_gradient, 0.8),
    Case("segment_sum, 1e6 to 1000", partial(segment_sum, 1000), 0.8, atol=1e-2),
    Case("segment_sum, 1e6 to 1e6", partial(segment_sum, SIZE), 0.8, atol=1e-2),
    Case("segment_sum, 1e5 rows of 64", segment_rows, 0.8, atol=1e-2),
    Case("boolean where, 1e6", where, 0.7, 9 * SIZE, F32 * SIZE),
    Case("nonzero, 1e6", selected, 0.7),
]
