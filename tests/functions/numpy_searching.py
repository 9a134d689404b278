"""Functions of `curta.numpy` that take, search, count and make."""

import numpy as np
from tests.functions.numpy_arrays import (
    FEW,
    NO_ARRAY,
    SIZES,
    STATIC,
    axes_of,
    offsets,
    unary,
)
from tests.functions.rows import (
    ALL,
    INTEGER,
    NUMBER,
    REAL,
    Fixed,
    call,
    rows,
    within,
)


def takes(source, shape):
    yield call(source(shape), source.integers((2, 2), 0, int(np.prod(shape)) - 1))
    for axis in axes_of(shape):
        n = shape[axis]
        yield call(source(shape), source.integers((3,), -n, n - 1), axis=axis)
        far = source.integers((3,), -9, 9)
        yield call(source(shape), far, axis=axis, mode="wrap")
        yield call(source(shape), far, axis=axis, mode="clip")


def taken(x, places, axis=None, mode="raise"):
    return np.take(
        x, np.clip(places, 0, None) if mode == "clip" else places, axis, mode=mode
    )


def takes_along(source, shape):
    for axis in axes_of(shape):
        places = source.integers(shape, 0, shape[axis] - 1)
        yield call(source(shape), places, axis=axis)
    yield call(source(shape), source.integers((4,), 0, int(np.prod(shape)) - 1), None)


def puts_along(source, shape):
    for axis in axes_of(shape):
        places = np.argsort(source(shape, "float32"), axis=axis)
        yield call(source(shape), places, source(shape), axis=axis, inplace=False)


def put_along(x, places, values, axis, inplace):
    x = x.copy()
    np.put_along_axis(x, places, values, axis)
    return x


def puts(source, shape):
    size = int(np.prod(shape))
    places = np.random.default_rng(0).permutation(size)[:2].astype("int32")
    yield call(source(shape), places, source((len(places),)), inplace=False)
    yield call(source(shape), places + size, source(()), mode="wrap", inplace=False)
    yield call(source(shape), places[:1] + 99, source(()), mode="clip", inplace=False)


def put(x, places, values, mode="raise", inplace=False):
    x = x.copy()
    np.put(x, places, values, mode)
    return x


def places(source, shape):
    mask = source.mask(shape)
    mask[(0,) * len(shape)] = True
    yield call(source(shape), mask, source((3,)), inplace=False)


def placed(x, mask, values, inplace):
    x = x.copy()
    np.place(x, mask, values)
    return x


def choices(source, shape):
    yield call(source.integers(shape, -5, 5), [source(()), source(shape)], mode="wrap")
    yield call(source.integers(shape, 0, 2), [source(shape) for _ in range(3)])
    yield call(source.integers(shape, -5, 5), [source(()), source(shape)], mode="clip")


def selects(source, shape):
    conditions = [source.mask(shape), source.mask(shape)]
    yield call(conditions, [source(shape), source(shape)], 0)


def compressions(source, shape):
    yield call(np.array([True, False, True])[: int(np.prod(shape))], source(shape))
    for axis in axes_of(shape):
        yield call(
            Fixed(source.mask(shape[axis : axis + 1 or None])), source(shape), axis=axis
        )


def extractions(source, shape):
    yield call(source.mask(shape), source(shape))


def like(source, shape):
    yield call(source(shape))
    yield call(source(shape), dtype="float32")
    yield call(source(shape), shape=(2, 2))


def full_like(source, shape):
    yield call(source(shape), 2)
    yield call(source(shape), source(()), dtype="float32")


def numbers_made(*calls):
    return lambda source, shape: list(calls)


def vectors(source, shape):
    yield call(*(source((n,)) for n in (2, 3, 1)))
    yield call(source((2,)), source((3,)), sparse=True, indexing="ij")


def integer_vectors(source, shape):
    yield call(*(source.integers((n,), 0, 3) for n in (2, 3)))


def sets(source, shape):
    yield call(source(shape), source((5,)))


def sets_of_one(source, shape):
    yield call(source(shape))


def uniques(source, shape):
    yield call(source(shape))
    yield call(
        source(shape), return_index=True, return_inverse=True, return_counts=True
    )
    for axis in axes_of(shape) if source.dtype[0] != "c" else ():
        yield call(source(shape), axis=axis)


def members(source, shape):
    yield call(source(shape), source((4,)))
    yield call(source(shape), source((2, 2)), invert=True)


def searches(source, shape):
    yield call(np.sort(source((5,))), source(shape))
    yield call(np.sort(source((5,))), source(shape), side="right")


def digits(source, shape):
    yield call(source(shape), np.sort(source((5,))))
    yield call(source(shape), np.sort(source((5,)))[::-1], right=True)


def interpolations(source, shape):
    xp = np.cumsum(source((5,), low=0.5, high=2)).astype(source.dtype) - 3
    yield call(source(shape), xp, source((5,)))
    yield call(source(shape), xp, source((5,)), left=-1.0, right=2.0)


def with_period(source, shape):
    yield call(source(shape), source((4,)), source((4,)), period=2.5)


def histograms(source, shape):
    yield call(source(shape))
    yield call(source(shape), bins=4, range=(-2, 2), density=True)
    yield call(source(shape), np.linspace(-3, 3, 4).astype(source.dtype))
    yield call(source(shape), bins=3, weights=source(shape))


def edges(source, shape):
    yield call(source(shape), 4)
    yield call(source(shape), 3, (-2, 2))


def histograms_2d(source, shape):
    yield call(source((7,)), source((7,)), 3)
    yield call(source((7,)), source((7,)), [2, 3], [[-3, 3], [-2, 2]], density=True)


def histograms_dd(source, shape):
    yield call(source((7, 2)), 3)
    yield call(source((7, 3)), [2, 1, 3], range=[(-3, 3), (-2, 2), (-3, 3)])


def counts(source, shape):
    x = source((6,), low=0, high=5)
    yield call(x, length=7)
    yield call(x, source((6,), "float32"), length=7)


def counted(x, weights=None, length=None):
    return np.bincount(x, weights, length)


def indices_of_shape(source, shape):
    yield call(source.integers(shape, 0, 23), (2, 3, 4))


def raveled(source, shape):
    for mode in "wrap", "clip":
        yield call(
            tuple(source.integers(shape, -2, 5) for _ in "ab"), (3, 4), mode=mode
        )
    yield call(tuple(source.integers(shape, 0, 2) for _ in "ab"), (3, 4), order="F")


def bits(source, shape):
    for axis in [None, *axes_of(shape)]:
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, bitorder="little")


def of_bits(source, shape):
    yield from bits(source, shape)
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis, count=11)
        yield call(source(shape), axis=axis, count=-3)


def trims(source, shape):
    x = source((6,))
    x[[0, 1, 5]] = 0
    yield call(x)
    yield call(x, "f")


def applied_along(source, shape):
    for axis in axes_of(shape):
        yield call(_first_and_sum, axis, source(shape))


def _first_and_sum(x):
    return x[0] + x.sum()


def applied_over(source, shape):
    yield call(_sum, source(shape), [0, -1])
    yield call(_sum, source(shape), (0,))


def _sum(x, axis):
    return x.sum(axis, keepdims=True)


def pieces(source, shape):
    x = source(shape)
    yield call(x, [x < 0, x > 1], [lambda x: -x, lambda x: x * x, 1])


def from_index(source, shape):
    yield call(lambda *i: sum(i) * 2, shape, dtype="int32")


TAKING = [
    *rows("take", takes, FEW, rank=(1, 3), least=1, reference=taken),
    *rows("take_along_axis", takes_along, FEW, rank=(1, 3), least=1),
    *rows("put_along_axis", puts_along, FEW, rank=(1, 3), least=1, reference=put_along),
    *rows("put", puts, FEW, rank=(1, 3), least=1, reference=put),
    *rows("place", places, FEW, rank=(1, 3), least=1, reference=placed),
    *rows("choose", choices, FEW),
    *rows("select", selects, FEW),
    *rows("compress", compressions, FEW, rank=(1, 3), least=1, without=SIZES),
    *rows("extract", extractions, FEW, without=SIZES),
    *rows(
        "apply_along_axis",
        applied_along,
        ("float32", "float64"),
        rank=(1, 3),
        least=1,
        tolerance=2,
    ),
    *rows(
        "apply_over_axes",
        applied_over,
        ("float32", "float64"),
        rank=(1, 3),
        tolerance=2,
    ),
    *rows("piecewise", pieces, ("float32", "float64")),
]
SEARCHING = [
    *rows("nonzero flatnonzero argwhere", unary, FEW, rank=(1, 3), without=SIZES),
    *rows("union1d intersect1d setdiff1d setxor1d", sets, REAL, without=SIZES),
    *rows("unique", uniques, ALL, rank=(1, 3), without=SIZES),
    *rows(
        "unique_all unique_counts unique_inverse",
        sets_of_one,
        FEW,
        rank=(1, 3),
        without=SIZES,
    ),
    *rows("unique_values", sets_of_one, FEW, reference=np.unique, without=SIZES),
    *rows("isin", members, FEW),
    *rows("searchsorted", searches, REAL),
    *rows("digitize", digits, ("float32", "int32", "float64")),
    *rows("interp", interpolations, ("float32", "float64"), tolerance=4),
    *rows("interp", with_period, ("float32", "float64"), tolerance=8),
    *rows(
        "histogram",
        histograms,
        ("float32", "float64"),
        rank=(1, 3),
        least=2,
        tolerance=2,
        without={"grad": "it counts"},
    ),
    *rows(
        "histogram_bin_edges",
        edges,
        ("float32", "float64"),
        rank=(1, 3),
        least=1,
        tolerance=2,
    ),
    *rows(
        "histogram2d",
        histograms_2d,
        ("float32", "float64"),
        rank=(1, 1),
        tolerance=2,
        without={"grad": "it counts"},
    ),
    *rows(
        "histogramdd",
        histograms_dd,
        ("float32", "float64"),
        rank=(1, 1),
        tolerance=2,
        without={"grad": "it counts"},
    ),
    *rows("bincount", counts, INTEGER, rank=(1, 1), reference=counted),
    *rows("unravel_index", indices_of_shape, ("int32", "int64")),
    *rows("ravel_multi_index", raveled, ("int32", "int64")),
    *rows("packbits", bits, ("uint8", "bool"), rank=(1, 3), exact=True),
    *rows(
        "unpackbits",
        of_bits,
        ("uint8",),
        rank=(1, 3),
        least=1,
        exact=True,
        domain=(0, 255),
    ),
    *rows("trim_zeros", trims, FEW[:2], rank=(1, 1), without=SIZES),
]


def constant(names, *calls, **settings):
    settings = {"rank": (0, 0), "without": NO_ARRAY, "tolerance": 2} | settings
    return rows(names, numbers_made(*calls), ("float32", "float64"), **settings)


MAKING = [
    *rows("zeros_like ones_like", like, ALL),
    *rows("full_like", full_like, FEW),
    *rows("empty_like", like, FEW, reference=np.zeros_like),
    *constant(
        "zeros ones",
        call(3),
        call((2, 0)),
        call((), "int32"),
        call((2, 3), "complex64"),
    ),
    *constant("empty", call((2, 3)), reference=np.zeros),
    *constant("full", call((2, 3), 2.5), call((), 1, "int32"), call((0, 2), True)),
    *constant(
        "eye", call(3), call(2, 4), call(4, 2, -1), call(0), call(3, k=1, dtype="int32")
    ),
    *constant("identity", call(3), call(0), call(2, "bool")),
    *constant("tri", call(3), call(2, 4, 1), call(4, 2, -1, "int32")),
    *constant(
        "arange",
        call(5),
        call(2, 9, 3),
        call(5, 1, -2),
        call(0.5, 3),
        call(0, 1, 0.25),
        call(0),
    ),
    *constant(
        "linspace",
        call(1, 3),
        call(1, 3, 0),
        call(0, 1, 1),
        call(0, 1, 5, endpoint=False),
        call(-1, 2, 4, retstep=True),
    ),
    *constant(
        "logspace", call(0, 2, 5), call(0, 2, 4, endpoint=False, base=2.0), tolerance=8
    ),
    *constant("geomspace", call(1, 16, 5), call(1, 27, 3, endpoint=False), tolerance=8),
    *constant(
        "indices", call((2, 3)), call((2, 3), sparse=True), call((0, 2)), call(())
    ),
    *constant("tril_indices triu_indices", call(3), call(3, 1), call(2, -1, 4)),
    *constant("diag_indices", call(3), call(2, 3)),
    *constant(
        "bartlett blackman hamming hanning", call(0), call(1), call(6), tolerance=4
    ),
    *constant("kaiser", call(6, 3.0), call(1, 2.0), tolerance=8),
    *constant(
        "mask_indices",
        call(3, np.tril),
        call(2, np.triu, 1),
        without=NO_ARRAY | SIZES,
        of=lambda p: (
            lambda n, f, *k: p.numpy.mask_indices(n, getattr(p.numpy, f.__name__), *k)
        ),
    ),
    *constant("fromfunction", call(lambda i, j: i * 2 + j, (2, 3), dtype="int32")),
    *rows("meshgrid", vectors, FEW, rank=(0, 0)),
    *rows("ix_", integer_vectors, ("int32",), rank=(0, 0), without=SIZES),
    *rows("tril_indices_from triu_indices_from", offsets, FEW[:1], rank=(2, 2)),
    *rows(
        "diag_indices_from", lambda s, shape: [call(s((3, 3)))], FEW[:1], rank=(2, 2)
    ),
    *rows(
        "vander",
        lambda s, shape: [
            call(s((3,))),
            call(s((3,)), 2),
            call(s((3,)), 4, increasing=True),
        ],
        NUMBER,
        rank=(1, 1),
        tolerance=4,
    ),
]
ABOUT = [
    *rows("shape ndim size", unary, FEW, without=STATIC),
    *rows(
        "broadcast_shapes",
        numbers_made(call((2, 1), (3,)), call(), call((0, 1), (1,))),
        ("float32",),
        rank=(0, 0),
        without=STATIC,
    ),
]

TABLE = within("numpy", [*TAKING, *SEARCHING, *MAKING, *ABOUT])
