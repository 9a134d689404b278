"""Functions of `curta.numpy` along axes: reductions, accumulations, orders."""

from itertools import combinations

import numpy as np
from tests.functions.rows import (
    ALL,
    FLOAT,
    INEXACT,
    NUMBER,
    REAL,
    call,
    rows,
    within,
)

ANY_REAL = (*REAL, "bool")


def axes_of(shape):
    """Every axis, counted from both ends."""
    return range(-len(shape), len(shape))


def reduction(source, shape):
    """None, every axis, every pair of axes, no axis and all axes; dims kept or not."""
    n = len(shape)
    pairs = [(a, b - n) for a, b in combinations(range(n), 2)]
    for axis in [None, *axes_of(shape), *pairs, (), tuple(range(n))]:
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, keepdims=True)


def masked(source, shape):
    """Those above, also with `where`."""
    yield from reduction(source, shape)
    for axis in [None, *axes_of(shape)]:
        yield call(source(shape), axis=axis, where=source.mask(shape))
    yield call(source(shape), axis=None, where=source.mask(shape[-1:]), keepdims=True)


def masked_with_one(source, shape):
    """As above, at least one element of each row being left in."""
    yield from reduction(source, shape)
    for axis in [None, *axes_of(shape)]:
        mask = source.mask(shape)
        mask[(0,) * len(shape) if axis is None else _front(axis, len(shape))] = True
        yield call(source(shape), axis=axis, where=mask)


def _front(axis, n):
    return tuple(0 if i == axis % n else slice(None) for i in range(n))


def with_initial(source, shape):
    yield from masked_or_initial(source, shape, reduction)


def masked_or_initial(source, shape, plain):
    yield from plain(source, shape)
    for axis in [None, *axes_of(shape)]:
        yield call(source(shape), axis=axis, initial=2)
        mask = source.mask(shape)
        yield call(source(shape), axis=axis, where=mask, initial=1, keepdims=True)


def with_initial_and_where(source, shape):
    yield from masked_or_initial(source, shape, masked)


def one_axis(source, shape):
    """None and every axis; dims kept or not."""
    for axis in [None, *axes_of(shape)]:
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, keepdims=True)


def along(source, shape):
    """Every axis."""
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)


def along_or_flat(source, shape):
    yield call(source(shape), axis=None)
    yield from along(source, shape)


def with_gaps(plain):
    """The same calls, on floats that include NaN."""

    def calls(source, shape):
        for given in plain(source, shape):
            x = given.args[0].copy()
            if x.dtype.kind not in "iub":
                gaps = source.mask(shape) & (source.integers(shape, 0, 3) == 0)
                x[gaps] = np.nan
            yield call(x, *given.args[1:], **given.kwargs)

    return calls


REDUCTIONS = [
    *rows("sum", with_initial_and_where, NUMBER, tolerance=2),
    *rows("prod", with_initial_and_where, NUMBER, tolerance=8),
    *rows("max min amax amin", with_initial, REAL, least=1),
    *rows("all any", masked, ALL),
    *rows("mean", masked_with_one, ALL, floating=True, tolerance=2, least=1),
    *rows(
        "std var",
        masked_with_one,
        (*INEXACT, "int32", "int64"),
        floating=True,
        tolerance=8,
        least=1,
    ),
    *rows("ptp", reduction, REAL, least=1),
    *rows("count_nonzero", reduction, ALL),
    *rows("median", reduction, REAL, floating=True, least=1),
    *rows(
        "average", one_axis, (*INEXACT, "int32"), floating=True, least=1, tolerance=2
    ),
    *rows("argmax argmin", one_axis, REAL, least=1),
    *rows("nansum nanprod", with_gaps(reduction), NUMBER, tolerance=8),
    *rows(
        "nanmax nanmin nanmean nanmedian",
        with_gaps(reduction),
        FLOAT,
        least=1,
        floating=True,
        tolerance=2,
    ),
    *rows("nanstd nanvar", with_gaps(reduction), FLOAT, least=1, tolerance=8),
    *rows("nanargmax nanargmin", one_axis, FLOAT, least=1),
]


def bits_axes(source, shape):
    for axis in [None, *axes_of(shape)]:
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, keepdims=True)


def folds(source, shape):
    """Of a ufunc without an identity, too."""
    for axis in [0, None, *axes_of(shape)]:
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, keepdims=True)


def accumulations(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)


def outers(source, shape):
    yield call(source(shape), source((2,)))
    yield call(source(()), source(shape))


def segments(source, shape):
    for axis in axes_of(shape):
        starts = source.integers((4,), 0, shape[axis] - 1)
        yield call(source(shape), starts, axis=axis)


def updates(source, shape):
    x, places = source(shape), source.integers((3,), 0, shape[0] - 1)
    yield call(x, places, source((3, *shape[1:])))
    yield call(x, places, source(()))


def updated(name):
    def reference(x, places, y):
        x = x.copy()
        getattr(np, name).at(x, places, y)
        return x

    return reference


def without_place(name):
    return lambda package: (
        lambda *args: getattr(package.numpy, name).at(*args, inplace=False)
    )


def methods(names, dtypes, **settings):
    """Rows of `reduce`, `accumulate` and `outer` of ufuncs."""
    for name in names.split():
        settings["least"] = 1
        yield from [
            *rows(f"{name}.reduce", folds, dtypes, rank=(1, 4), **settings),
            *rows(f"{name}.accumulate", accumulations, dtypes, rank=(1, 2), **settings),
            *rows(f"{name}.outer", outers, dtypes, **settings),
        ]


def segments_and_updates(names, dtypes, **settings):
    """Rows of `reduceat` and `at` of ufuncs."""
    for name in names.split():
        settings.update(least=1, rank=(1, 2))
        at = {"reference": updated(name), "of": without_place(name)}
        yield from rows(f"{name}.reduceat", segments, dtypes, **settings)
        yield from rows(f"{name}.at", updates, dtypes, **settings, **at)


DISTINCT = {"grad": "in JAX only if no place is updated twice"}
SAME_RULE = {"grad": "the rule of another row"}
UFUNCS = [
    *methods("add", NUMBER, tolerance=4),
    *methods("multiply", NUMBER, tolerance=8),
    *methods("maximum minimum", ("float32", "int32", "float64")),
    *methods("bitwise_and bitwise_or bitwise_xor", ("int32",)),
    *methods("logical_and logical_or logical_xor", ("bool",)),
    *methods("logaddexp logaddexp2", ("float32", "float64"), tolerance=4),
    *segments_and_updates("add", ("float32", "int32", "float64")),
    *segments_and_updates(
        "multiply", ("float32", "int32", "float64"), tolerance=4, without=DISTINCT
    ),
    *segments_and_updates("maximum", ("float32", "float64"), without=SAME_RULE),
    *segments_and_updates("bitwise_and", ("int32",)),
]


def types_of(source, shape):
    yield call(source(shape))
    yield from along_or_flat(source, shape)


def prefixed(source, shape):
    """Cumulative functions of the array standard, from an identity on or not."""
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, include_initial=True)


def orders(source, shape):
    yield from along_or_flat(source, shape)
    yield call(source(shape), axis=-1, descending=True)


def ordered(x, axis, descending=False):
    return np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)


def partitions(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), shape[axis] // 2, axis=axis)


def halves(x, kth, axis):
    """Sorted within both halves, so that one answer is right."""
    parts = np.split(np.partition(x, kth, axis), [kth, kth + 1], axis)
    return [np.sort(part, axis) for part in parts]


def of_halves(package):
    """`partition`, or the values where `argpartition` points."""

    def function(x, kth, axis):
        return _sorted_parts(package, package.numpy.partition(x, kth, axis), kth, axis)

    return function


def of_places(package):
    def function(x, kth, axis):
        places = package.numpy.argpartition(x, kth, axis)
        found = package.numpy.take_along_axis(x, places, axis)
        return _sorted_parts(package, found, kth, axis)

    return function


def _sorted_parts(package, x, kth, axis):
    parts = package.numpy.split(x, [kth, kth + 1], axis)
    return [package.numpy.sort(part, axis) for part in parts]


def keys(source, shape):
    yield call((source(shape), source(shape)))
    for axis in axes_of(shape):
        yield call((source(shape), source(shape)), axis)


def differences(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)
        yield call(source(shape), n=2, axis=axis)
        yield call(source(shape), axis=axis, prepend=source(()), append=source(()))


def with_ends(source, shape):
    yield call(source(shape))
    yield call(source(shape), to_end=source((2,)), to_begin=source(()))


def slopes(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)
        yield call(source(shape), 0.5, axis=axis)
    yield call(source(shape))


def areas(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)
        yield call(source(shape), dx=0.5, axis=axis)
        yield call(
            source(shape),
            source(
                shape[axis % len(shape)],
            ),
            axis=axis,
        )


def levels(percent):
    def calls(source, shape):
        for axis in [None, *axes_of(shape)]:
            yield call(source(shape), 0.3 * percent, axis=axis)
            yield call(source(shape), 0.5 * percent, axis=axis, keepdims=True)
            q = (np.array([0.1, 0.8]) * percent).astype(source.dtype)
            yield call(source(shape), q, axis=axis)
        for method in "linear", "lower", "higher", "nearest", "midpoint":
            yield call(source(shape), 0.37 * percent, method=method)

    return calls


ALONG = [
    *rows("cumsum cumprod", types_of, NUMBER, tolerance=8),
    *rows("nancumsum nancumprod", with_gaps(types_of), NUMBER, tolerance=8),
    *rows("cumulative_sum cumulative_prod", prefixed, NUMBER, rank=(1, 4), tolerance=8),
    *rows("sort", orders, ALL, rank=(1, 4), reference=ordered),
    *rows(
        "argsort",
        lambda s, shape: along(s, shape),
        ANY_REAL,
        rank=(1, 4),
        reference=lambda x, axis: np.argsort(x, axis, kind="stable"),
    ),
    *rows("sort_complex", lambda s, shape: [call(s(shape))], NUMBER, rank=(1, 4)),
    *rows(
        "partition",
        partitions,
        REAL,
        rank=(1, 4),
        least=1,
        reference=halves,
        of=of_halves,
    ),
    *rows(
        "argpartition",
        partitions,
        REAL,
        rank=(1, 4),
        least=1,
        reference=halves,
        of=of_places,
    ),
    *rows("lexsort", keys, ANY_REAL, rank=(1, 4)),
    *rows("diff", differences, NUMBER, rank=(1, 4), least=1, tolerance=4),
    *rows("ediff1d", with_ends, NUMBER, tolerance=2, least=1),
    *rows("gradient", slopes, INEXACT, rank=(1, 4), least=2, tolerance=2),
    *rows("trapezoid", areas, INEXACT, rank=(1, 4), least=1, tolerance=8),
    *rows(
        "unwrap",
        along,
        ("float32", "float64"),
        rank=(1, 4),
        domain=(-9, 9),
        tolerance=4,
    ),
    *rows("quantile", levels(1), FLOAT, least=1),
    *rows("nanquantile", with_gaps(levels(1)), ("float32", "float64"), least=1),
    *rows("percentile", levels(100), ("float32", "float64"), least=1),
    *rows("nanpercentile", with_gaps(levels(100)), ("float32", "float64"), least=1),
]
TABLE = within("numpy", [*REDUCTIONS, *UFUNCS, *ALONG])
