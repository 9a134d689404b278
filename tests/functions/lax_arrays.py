"""Reductions, orders and shapes of `curta.lax`."""

import itertools

import numpy as np
from tests.functions.rows import (
    ALL,
    BITS,
    FLOAT,
    NUMBER,
    REAL,
    SINGLE,
    call,
    rows,
    within,
)

FEW = ("float32", "int32", "bool", "complex64", "float64")
NO_ARRAY = {"vmap": "takes no array", "grad": "takes no array"}
STATIC = dict.fromkeys(("jit", "vmap", "grad"), "its answer is no array")


def dims_of(shape):
    return range(len(shape))


def subsets(shape):
    """Every subset of the dims."""
    return itertools.chain.from_iterable(
        itertools.combinations(dims_of(shape), k) for k in range(len(shape), -1, -1)
    )


def reductions(source, shape):
    for axes in subsets(shape):
        yield call(source(shape), axes)


def cumulative(source, shape):
    for axis in dims_of(shape):
        yield call(source(shape), axis)
        yield call(source(shape), axis, reverse=True)


def accumulated(function):
    def reference(x, axis, reverse=False):
        flip = lambda x: np.flip(x, axis) if reverse else x  # noqa: E731
        return flip(function(flip(x), axis))

    return reference


def folded(ufunc):
    return lambda x, axes: ufunc.reduce(x, axis=tuple(axes))


def places(source, shape):
    for axis in dims_of(shape):
        yield call(source(shape), axis, "int32")


def general_folds(source, shape):
    for axes in subsets(shape):
        yield call(source(shape), axes)


def by_multiplying(package):
    lax = package.lax
    one = lambda x: np.ones((), x.dtype)  # noqa: E731
    return lambda x, axes: lax.reduce(x, one(x), lax.mul, axes)


REDUCING = [
    *rows("reduce_sum", reductions, NUMBER, reference=folded(np.add), tolerance=4),
    *rows(
        "reduce_prod", reductions, NUMBER, reference=folded(np.multiply), tolerance=8
    ),
    *rows("reduce_max", reductions, REAL, reference=folded(np.maximum), least=1),
    *rows("reduce_min", reductions, REAL, reference=folded(np.minimum), least=1),
    *rows("reduce_and", reductions, BITS, exact=True, reference=folded(np.bitwise_and)),
    *rows("reduce_or", reductions, BITS, exact=True, reference=folded(np.bitwise_or)),
    *rows("reduce_xor", reductions, BITS, exact=True, reference=folded(np.bitwise_xor)),
    *rows(
        "reduce",
        general_folds,
        NUMBER,
        reference=folded(np.multiply),
        tolerance=8,
        of=by_multiplying,
    ),
    *rows(
        "argmax",
        places,
        REAL,
        rank=(1, 4),
        least=1,
        reference=lambda x, axis, _: np.argmax(x, axis),
    ),
    *rows(
        "argmin",
        places,
        REAL,
        rank=(1, 4),
        least=1,
        reference=lambda x, axis, _: np.argmin(x, axis),
    ),
    *rows(
        "cumsum",
        cumulative,
        NUMBER,
        rank=(1, 4),
        tolerance=8,
        reference=accumulated(np.cumsum),
    ),
    *rows(
        "cumprod",
        cumulative,
        NUMBER,
        rank=(1, 4),
        tolerance=8,
        reference=accumulated(np.cumprod),
    ),
    *rows(
        "cummax",
        cumulative,
        REAL,
        rank=(1, 4),
        reference=accumulated(np.maximum.accumulate),
    ),
    *rows(
        "cummin",
        cumulative,
        REAL,
        rank=(1, 4),
        reference=accumulated(np.minimum.accumulate),
    ),
    *rows(
        "cumlogsumexp",
        cumulative,
        FLOAT,
        rank=(1, 4),
        tolerance=8,
        reference=accumulated(np.logaddexp.accumulate),
    ),
]


def sorts(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), axis)


def pairs_sorted(source, shape):
    for axis in dims_of(shape):
        yield call(source(shape), source(shape), axis)


def sorted_pairs(keys, values, axis):
    order = np.argsort(keys, axis, kind="stable")
    return [np.take_along_axis(x, order, axis) for x in (keys, values)]


def largest(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), min(2, shape[axis]), axis=axis)


def greatest(sign):
    def reference(x, k, axis=-1):
        order = np.argsort(-sign * np.asarray(x, "f8"), axis, kind="stable")
        order = np.take(order, range(k), axis)
        return [np.take_along_axis(x, order, axis), order]

    return reference


def approximate(source, shape):
    yield call(source(shape), min(2, shape[-1]))


SORTING = [
    *rows("sort", sorts, ALL, rank=(1, 4), reference=np.sort),
    *rows("sort_key_val", pairs_sorted, REAL, rank=(1, 4), reference=sorted_pairs),
    *rows("top_k", largest, REAL, rank=(1, 4), reference=greatest(1)),
    *rows(
        "approx_max_k", approximate, SINGLE, rank=(1, 4), least=1, reference=greatest(1)
    ),
    *rows(
        "approx_min_k",
        approximate,
        SINGLE,
        rank=(1, 4),
        least=1,
        reference=greatest(-1),
    ),
]


def reshapes(source, shape):
    size = int(np.prod(shape))
    yield from [call(source(shape), (size,)), call(source(shape), (1, size))]
    yield call(source(shape), shape[::-1], tuple(dims_of(shape))[::-1])


def reshaped(x, sizes, dimensions=None):
    return np.reshape(x if dimensions is None else x.transpose(dimensions), sizes)


def collapses(source, shape):
    yield from [call(source(shape), 0), call(source(shape), 0, 1)]


def collapsed(x, start, stop=None):
    stop = x.ndim if stop is None else stop
    return (
        x.reshape(*x.shape[:start], -1, *x.shape[stop:])
        if x.size
        else x.reshape(
            *x.shape[:start], int(np.prod(x.shape[start:stop])), *x.shape[stop:]
        )
    )


def broadcast_dims(source, shape):
    dims = tuple(d + 1 for d in dims_of(shape))
    yield call(source(shape), (2, *shape), dims)
    ones = tuple(1 for _ in shape)
    yield call(source(ones), (*shape, 2), tuple(dims_of(shape)))


def spread(x, shape, dims):
    fit = [1] * len(shape)
    for i, d in enumerate(dims):
        fit[d] = x.shape[i]
    return np.broadcast_to(x.reshape(fit), shape)


def new_dims(source, shape):
    n = len(shape)
    for dims in [(0,), (n,), (-1,), (0, n + 1), ()]:
        yield call(source(shape), dims)


def ones_dropped(source, shape):
    x = source((1, *shape, 1))
    yield from [
        call(x, (0,)),
        call(x, (-1,)),
        call(x, (0, len(shape) + 1)),
        call(x, ()),
    ]


def orders(source, shape):
    yield from [
        call(source(shape), order) for order in itertools.permutations(dims_of(shape))
    ]


def reversals(source, shape):
    yield from [call(source(shape), dims) for dims in subsets(shape)]


def joins(source, shape):
    for dim in dims_of(shape):
        longer = list(shape)
        longer[dim] += 1
        yield call([source(shape), source(tuple(longer))], dim)


def stacks(source, shape):
    for axis in range(len(shape) + 1):
        yield call([source(shape), source(shape)], axis)


def unstacks(source, shape):
    yield from [call(source(shape), axis) for axis in dims_of(shape)]


def splits(source, shape):
    for axis in dims_of(shape):
        n = shape[axis]
        yield call(source(shape), (n // 2, n - n // 2), axis)


def parts_of(x, sizes, axis):
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def tiles(source, shape):
    yield call(source(shape), tuple(1 + i for i in dims_of(shape)))


def pads(source, shape):
    for low, high, between in (1, 2, 0), (0, 1, 2), (-1, 0, 0), (2, -1, 1):
        if not (low + high < 0 and 0 in shape):
            config = [(low, high, between)] * len(shape)
            yield call(source(shape), source(()), config)


def padded(x, value, config):
    """Space between the elements, then at the ends, where less than 0 cuts off."""
    for axis, (low, high, between) in enumerate(config):
        x = np.moveaxis(x, axis, 0)
        n = max(0, len(x) + max(len(x) - 1, 0) * between)
        wide = np.full((n, *x.shape[1:]), value, x.dtype)
        wide[:: between + 1] = x
        ends = [np.full((max(0, e), *x.shape[1:]), value, x.dtype) for e in (low, high)]
        x = np.concatenate([ends[0], wide, ends[1]])
        x = x[max(0, -low) : len(x) - max(0, -high)]
        x = np.moveaxis(x, 0, axis)
    return x


def to_types(source, shape):
    for dtype in "float32", "int32", "bool", "complex64", "bfloat16":
        if source.dtype[0] != "c" or dtype == "complex64":
            yield call(source(shape, low=0, high=9), dtype)


def bits_as(source, shape):
    yield call(source(shape), {4: "int32", 2: "int16"}[np.dtype(source.dtype).itemsize])
    yield call(source(shape), "uint8")


def same_bits(x, dtype):
    width = np.dtype(dtype).itemsize
    extra = () if width == x.dtype.itemsize else (x.dtype.itemsize // width,)
    return np.ascontiguousarray(x)[..., None].view(dtype).reshape((*x.shape, *extra))


def made(*calls):
    return lambda source, shape: list(calls)


def constant(names, *calls, **settings):
    settings = {"rank": (0, 0), "without": NO_ARRAY} | settings
    return rows(names, made(*calls), SINGLE, **settings)


def grid(dtype, shape, dim):
    return np.broadcast_to(
        np.arange(shape[dim]).reshape([-1 if i == dim else 1 for i in dims_of(shape)]),
        shape,
    ).astype(dtype)


SHAPING = [
    *rows("reshape", reshapes, ALL, reference=reshaped),
    *rows("collapse", collapses, FEW, rank=(1, 4), reference=collapsed),
    *rows(
        "broadcast",
        lambda s, shape: [call(s(shape), (2, 3)), call(s(shape), ())],
        FEW,
        rank=(0, 2),
        reference=lambda x, sizes: np.broadcast_to(x, (*sizes, *x.shape)),
    ),
    *rows("broadcast_in_dim", broadcast_dims, FEW, rank=(0, 3), reference=spread),
    *rows(
        "broadcast_to_rank",
        lambda s, shape: [call(s(shape), 4)],
        FEW,
        reference=lambda x, n: x.reshape((1,) * (n - x.ndim) + x.shape),
    ),
    *rows(
        "broadcast_like",
        lambda s, shape: [call(s(shape), s((2, *shape)))],
        FEW,
        rank=(0, 3),
        reference=lambda x, y: np.broadcast_to(x, y.shape),
    ),
    *rows("expand_dims", new_dims, FEW, rank=(0, 2), reference=np.expand_dims),
    *rows("squeeze", ones_dropped, FEW, rank=(0, 2), reference=np.squeeze),
    *rows("transpose", orders, ALL, reference=np.transpose),
    *rows("rev", reversals, ALL, reference=np.flip),
    *rows("concatenate", joins, ALL, rank=(1, 3)),
    *rows("stack", stacks, FEW, rank=(0, 3)),
    *rows(
        "unstack",
        unstacks,
        FEW,
        rank=(1, 3),
        reference=lambda x, axis: np.unstack(x, axis=axis),
    ),
    *rows("split", splits, FEW, rank=(1, 3), reference=parts_of),
    *rows("tile", tiles, FEW, rank=(1, 3)),
    *rows("pad", pads, FEW, rank=(1, 2), least=1, reference=padded),
    *rows(
        "convert_element_type",
        to_types,
        REAL,
        reference=lambda x, dtype: x.astype(dtype),
        without={"grad": "in single precision"},
    ),
    *rows(
        "bitcast_convert_type",
        bits_as,
        ("float32", "int32"),
        exact=True,
        reference=same_bits,
    ),
    *rows(
        "full_like",
        lambda s, shape: [call(s(shape), 2), call(s(shape), 1, "int32")],
        FEW,
    ),
    *constant("full", call((2, 3), 2.5), call((), 1, "int32"), call((0, 2), True)),
    *constant("empty", call((2, 3), "float32"), reference=np.zeros),
    *constant(
        "iota",
        call("int32", 4),
        call("float32", 0),
        reference=lambda d, n: np.arange(n),
    ),
    *constant(
        "broadcasted_iota",
        call("int32", (2, 3), 1),
        call("float32", (0, 2), 0),
        call("int8", (2, 2, 2), 0),
        reference=grid,
    ),
    *constant(
        "shape_as_value",
        call((2, 3)),
        call(()),
        reference=lambda s: np.array(s, int),
        without=STATIC,
    ),
    *constant(
        "broadcast_shapes", call((2, 1), (1, 3)), call((2,), (2,)), without=STATIC
    ),
]

TABLE = within("lax", [*REDUCING, *SORTING, *SHAPING])
