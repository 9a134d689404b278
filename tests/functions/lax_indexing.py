"""Slices, gathers and scatters of `curta.lax`; segments of `curta.ops`."""

import numpy as np
from tests.functions.lax_arrays import dims_of
from tests.functions.rows import (
    FLOAT,
    NUMBER,
    SINGLE,
    call,
    rows,
    within,
)

FEW = ("float32", "int32", "bool", "complex64", "float64")
PLAIN = ("float32", "int32", "complex64", "float64")


def slices(source, shape):
    yield call(source(shape), tuple(0 for _ in shape), shape)
    yield call(
        source(shape), tuple(min(1, n) for n in shape), shape, tuple(2 for _ in shape)
    )


def sliced(x, start, stop, strides=None):
    strides = strides or (1,) * x.ndim
    return x[tuple(map(slice, start, stop, strides))]


def slices_in_dim(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), min(1, shape[axis]), shape[axis], 1, axis)
        yield call(source(shape), None, None, 2, axis)


def indices_in_dim(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), shape[axis] - 1, axis)
        yield call(source(shape), -1, axis, False)


def at_index(x, index, axis=0, keepdims=True):
    return np.take(x, [index] if keepdims else index, axis)


def dynamic_indices(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), source.integers((), -1, shape[axis] - 1), axis)
        yield call(source(shape), source.integers((), 0, shape[axis] - 1), axis, False)


def dynamic_slices(source, shape):
    sizes = tuple(max(n - 1, 0) for n in shape)
    yield call(source(shape), [source.integers((), 0, 4) for _ in shape], sizes)
    yield call(source(shape), source.integers((len(shape),), 0, 1), sizes)


def inside(starts, shape, sizes):
    """Starts from which a slice of these sizes fits."""
    found = [int(s) + n if s < 0 else int(s) for s, n in zip(starts, shape)]
    limits = [(n - k) for n, k in zip(shape, sizes)]
    return [min(max(s, 0), most) for s, most in zip(found, limits)]


def slice_at(x, starts, sizes):
    starts = inside(starts, x.shape, sizes)
    return x[tuple(slice(s, s + k) for s, k in zip(starts, sizes))]


def dynamic_slices_in_dim(source, shape):
    for axis in dims_of(shape):
        yield call(
            source(shape), source.integers((), 0, 3), max(shape[axis] - 1, 0), axis
        )


def slice_in_dim_at(x, start, size, axis):
    starts, sizes = [0] * x.ndim, list(x.shape)
    starts[axis], sizes[axis] = start, size
    return slice_at(x, starts, sizes)


def updates(source, shape):
    sizes = tuple(max(n - 1, 0) for n in shape)
    starts = [source.integers((), 0, 4) for _ in shape]
    yield call(source(shape), source(sizes), starts)


def updated(x, new, starts):
    x = x.copy()
    starts = inside(starts, x.shape, new.shape)
    x[tuple(slice(s, s + k) for s, k in zip(starts, new.shape))] = new
    return x


def updates_in_dim(source, shape):
    for axis in dims_of(shape):
        sizes = list(shape)
        sizes[axis] = max(shape[axis] - 1, 0)
        yield call(source(shape), source(tuple(sizes)), source.integers((), 0, 3), axis)


def updated_in_dim(x, new, start, axis):
    starts = [0] * x.ndim
    starts[axis] = start
    return updated(x, new, starts)


def updates_at_index(source, shape):
    for axis in dims_of(shape):
        new = source((*shape[:axis], *shape[axis + 1 :]))
        yield call(source(shape), new, source.integers((), 0, shape[axis] - 1), axis)


def updated_at_index(x, new, index, axis):
    x = x.copy()
    x[(slice(None),) * axis + (index,)] = new
    return x


def takes(source, shape):
    index = source.integers((3,), 0, shape[0] - 1)
    yield call(source(shape), [index], (0,))
    if len(shape) > 1:
        last = source.integers((3,), 0, shape[-1] - 1)
        yield call(source(shape), [index, last], (0, len(shape) - 1))


def taken(x, indices, axes):
    rest = [slice(None)] * x.ndim
    for i, d in zip(indices, axes, strict=True):
        rest[d] = i
    out = x[tuple(rest)]
    return out


def gathers(source, shape):
    """Rows, at places that are partly out of bounds."""
    yield call(source(shape), source.integers((4, 1), 0, shape[0] - 1))


def rows_of(package):
    lax = package.lax

    def function(x, index):
        numbers = lax.GatherDimensionNumbers(
            offset_dims=tuple(range(1, x.ndim)),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
        )
        return lax.gather(x, index, numbers, (1, *x.shape[1:]))

    return function


def scatters(source, shape):
    index = np.argsort(source((shape[0],), "float32"))[:2, None].astype("int32")
    yield call(source(shape), index, source((len(index), *shape[1:])))


def colliding(source, shape):
    index = source.integers((3, 1), 0, shape[0] - 1)
    yield call(source(shape), index, source((3, *shape[1:])))


def into_rows(name):
    def of(package):
        lax = package.lax

        def function(x, index, new):
            numbers = lax.ScatterDimensionNumbers(
                update_window_dims=tuple(range(1, x.ndim)),
                inserted_window_dims=(0,),
                scatter_dims_to_operand_dims=(0,),
            )
            unique = name == "scatter_mul"
            return getattr(lax, name)(x, index, new, numbers, unique_indices=unique)

        return function

    return of


def applied(package):
    lax = package.lax

    def function(x, index):
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        return lax.scatter_apply(
            x, index, lambda y: y * y, numbers, update_shape=(1,), unique_indices=True
        )

    return function


def squared_rows(x, index):
    x = x.copy()
    x[index[:, 0]] **= 2
    return x


def scattered(ufunc):
    def reference(x, index, new):
        x = x.copy()
        if ufunc is None:
            x[index[:, 0]] = new
        else:
            ufunc.at(x, index[:, 0], new)
        return x

    return reference


INDEXING = [
    *rows("slice", slices, FEW, rank=(1, 3), reference=sliced),
    *rows(
        "slice_in_dim",
        slices_in_dim,
        FEW,
        rank=(1, 3),
        reference=lambda x, a, b, step, axis: np.moveaxis(
            np.moveaxis(x, axis, 0)[a:b:step], 0, axis
        ),
    ),
    *rows(
        "index_in_dim", indices_in_dim, FEW, rank=(1, 3), least=1, reference=at_index
    ),
    *rows(
        "dynamic_index_in_dim",
        dynamic_indices,
        FEW,
        rank=(1, 3),
        least=1,
        reference=at_index,
    ),
    *rows(
        "dynamic_slice", dynamic_slices, FEW, rank=(1, 3), least=1, reference=slice_at
    ),
    *rows(
        "dynamic_slice_in_dim",
        dynamic_slices_in_dim,
        FEW,
        rank=(1, 3),
        least=1,
        reference=slice_in_dim_at,
    ),
    *rows(
        "dynamic_update_slice", updates, FEW, rank=(1, 3), least=1, reference=updated
    ),
    *rows(
        "dynamic_update_slice_in_dim",
        updates_in_dim,
        FEW,
        rank=(1, 3),
        least=1,
        reference=updated_in_dim,
    ),
    *rows(
        "dynamic_update_index_in_dim",
        updates_at_index,
        FEW,
        rank=(1, 3),
        least=1,
        reference=updated_at_index,
    ),
    *rows("index_take", takes, FEW, rank=(1, 3), least=1, reference=taken),
    *rows(
        "gather",
        gathers,
        FEW,
        rank=(1, 3),
        least=1,
        of=rows_of,
        reference=lambda x, index: x[index[:, 0]],
    ),
    *rows(
        "scatter",
        scatters,
        FEW,
        rank=(1, 3),
        least=1,
        of=into_rows("scatter"),
        reference=scattered(None),
    ),
    *rows(
        "scatter_add",
        colliding,
        PLAIN,
        rank=(1, 3),
        least=1,
        tolerance=4,
        of=into_rows("scatter_add"),
        reference=scattered(np.add),
    ),
    *rows(
        "scatter_sub",
        colliding,
        PLAIN,
        rank=(1, 3),
        least=1,
        tolerance=4,
        of=into_rows("scatter_sub"),
        reference=scattered(np.subtract),
    ),
    *rows(
        "scatter_mul",
        scatters,
        PLAIN,
        rank=(1, 3),
        least=1,
        of=into_rows("scatter_mul"),
        reference=scattered(np.multiply),
    ),
    *rows(
        "scatter_max",
        colliding,
        SINGLE,
        rank=(1, 3),
        least=1,
        of=into_rows("scatter_max"),
        reference=scattered(np.maximum),
    ),
    *rows(
        "scatter_min",
        colliding,
        SINGLE,
        rank=(1, 3),
        least=1,
        of=into_rows("scatter_min"),
        reference=scattered(np.minimum),
    ),
    *rows(
        "scatter_apply",
        lambda s, shape: [call(s(shape), np.array([[0]], "int32"))],
        PLAIN,
        rank=(1, 1),
        least=1,
        of=applied,
        reference=squared_rows,
        without={"grad": "none in JAX"},
    ),
]


def segment_calls(source, shape):
    ids = source.integers(shape[:1], 0, 2)
    yield call(source(shape), ids, 3)
    yield call(source(shape), np.sort(ids), 4, indices_are_sorted=True)


def segments(ufunc, empty):
    def reference(x, ids, n, indices_are_sorted=False):
        start = empty(x) if callable(empty) else empty
        out = np.full((n, *x.shape[1:]), start, x.dtype)
        ufunc.at(out, ids, x)
        return out

    return reference


SEGMENTS = [
    *rows(
        "segment_sum",
        segment_calls,
        NUMBER,
        rank=(1, 3),
        reference=segments(np.add, 0),
        tolerance=4,
    ),
    *rows(
        "segment_prod",
        segment_calls,
        NUMBER,
        rank=(1, 3),
        tolerance=8,
        reference=segments(np.multiply, 1),
        without={"grad": "in JAX only if ids are unique"},
    ),
    *rows(
        "segment_max",
        segment_calls,
        FLOAT,
        rank=(1, 3),
        reference=segments(np.maximum, -np.inf),
    ),
    *rows(
        "segment_min",
        segment_calls,
        FLOAT,
        rank=(1, 3),
        reference=segments(np.minimum, np.inf),
    ),
]

TABLE = [*within("lax", INDEXING), *within("ops", SEGMENTS)]
