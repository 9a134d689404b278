"""Functions of `curta.numpy` that arrange, join and split arrays."""

import numpy as np
from tests.functions.rows import (
    ALL,
    REAL,
    Fixed,
    call,
    rows,
    within,
)

FEW = ("float32", "int32", "bool", "complex64", "float64")
SIZES = {"jit": "the result's shape depends on values"}
SIZES["vmap"] = SIZES["grad"] = SIZES["jit"]
NO_ARRAY = {"vmap": "takes no array", "grad": "takes no array"}
STATIC = dict.fromkeys(("jit", "vmap", "grad"), "its answer is no array")


def axes_of(shape):
    return range(-len(shape), len(shape))


def unary(source, shape):
    yield call(source(shape))


def arranged(*arguments, **kwargs):
    """The array, then the arguments as they are."""
    return lambda source, shape: [call(source(shape), *arguments, **kwargs)]


def each_axis(name="axis", none=False):
    def calls(source, shape):
        for axis in [*([None] if none else []), *axes_of(shape)]:
            yield call(source(shape), **{name: axis})

    return calls


def reshapes(source, shape):
    size = int(np.prod(shape))
    yield call(source(shape), (size,))
    yield call(source(shape), (1, size, 1))
    yield call(source(shape), shape[::-1], order="F")
    if size:
        yield call(source(shape), (*shape[:1], -1))


def orders(source, shape):
    yield call(source(shape))
    yield call(source(shape), order="F")


def transposes(source, shape):
    yield call(source(shape))
    yield call(source(shape), tuple(range(len(shape)))[::-1])
    yield call(source(shape), tuple(np.roll(range(len(shape)), 1).tolist()))


def permutations(source, shape):
    yield from list(transposes(source, shape))[1:]


def axis_pairs(source, shape):
    for a in axes_of(shape):
        for b in axes_of(shape):
            yield call(source(shape), a, b)


def rolled_axes(source, shape):
    for a in axes_of(shape):
        for b in range(len(shape)):
            yield call(source(shape), a, b)


def new_axes(source, shape):
    n = len(shape)
    for axis in [*range(-n - 1, n + 1), (0, -1), (n + 1, 0)]:
        yield call(source(shape), axis)


def ones_removed(source, shape):
    x = source((1, *shape, 1))
    yield from [call(x), call(x, 0), call(x, -1), call(x, (0, -1)), call(x, ())]


def flips(source, shape):
    for axis in [None, *axes_of(shape), (), (0,) if shape else ()]:
        yield call(source(shape), axis)


def turns(source, shape):
    for k in range(-1, 5):
        yield call(source(shape), k)
    yield call(source(shape), 1, (1, 0))


def rolls(source, shape):
    yield from [call(source(shape), 2), call(source(shape), -1)]
    for axis in axes_of(shape):
        yield call(source(shape), 1, axis)
    if len(shape) > 1:
        yield call(source(shape), (1, -2), (0, -1))


def tiles(source, shape):
    for reps in [2, (), (2, 1), (1, 2, 2), (0, 1)]:
        yield call(source(shape), reps)


def repeats(source, shape):
    yield call(source(shape), 2)
    for axis in axes_of(shape):
        yield call(source(shape), 3, axis=axis)
        counts = source.integers((shape[axis],), 0, 2)
        yield call(source(shape), Fixed(counts), axis=axis)


def resizes(source, shape):
    yield from [call(source(shape), (2, 4)), call(source(shape), (3,))]


def broadcasts(source, shape):
    yield call(source(shape), (2, *shape))
    yield call(source((*shape, 1)), (*shape, 3))


def several_broadcast(source, shape):
    yield call(source(shape), source((*shape[:-1], 1) if shape else ()), source(()))


def joins(source, shape):
    parts = [source(shape) for _ in range(3)]
    yield call(parts)
    for axis in axes_of(shape):
        longer = list(shape)
        longer[axis] += 1
        yield call([source(shape), source(tuple(longer))], axis=axis)


def stacks(source, shape):
    for axis in range(-len(shape) - 1, len(shape) + 1):
        yield call([source(shape), source(shape)], axis=axis)


def lists(source, shape):
    yield call([source(shape), source(shape), source(shape)])


def blocks(source, shape):
    yield call([[source(shape), source(shape)], [source(shape), source(shape)]])
    yield call([source(shape), source(shape)])


def appends(source, shape):
    yield call(source(shape), source(shape))
    for axis in axes_of(shape):
        yield call(source(shape), source(shape), axis=axis)


def splits(sections=True):
    def calls(source, shape):
        for axis in axes_of(shape):
            cuts = [min(i, shape[axis]) for i in (1, 2)]
            yield call(source(shape), cuts, axis=axis)
            yield call(source(shape), 1 if sections else 2, axis=axis)

    return calls


def cut_along(axis):
    """Cut behind the first slice along an axis, the only one of vectors."""
    return lambda source, shape: [
        call(source(shape), [min(1, shape[axis if len(shape) > 1 else 0])])
    ]


def unstacks(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)


def offsets(source, shape):
    for k in range(-2, 3):
        yield call(source(shape), k)


def diagonals(source, shape):
    for k in range(-1, 3):
        yield call(source(shape), k)
    yield call(source(shape), 0, -1, 0)
    if len(shape) > 2:
        yield call(source(shape), 1, 0, -1)


def filled_diagonals(source, shape):
    n = min(shape)
    yield call(source((n, n)), source(()), inplace=False)
    yield call(source((n + 1, n)), source((n,)), inplace=False)


def diagonal_filled(x, value, inplace):
    x = x.copy()
    np.fill_diagonal(x, value)
    return x


def pads(source, shape):
    widths = [(i, 2 - i % 2) for i in range(len(shape))]
    yield call(source(shape), widths)
    yield call(source(shape), 1, constant_values=1)
    modes = "edge reflect symmetric wrap linear_ramp maximum mean minimum median empty"
    for mode in modes.split() if 0 not in shape and 1 not in shape else ():
        integral_mean = mode in ("mean", "median") and source.dtype[0] in "iub"
        unordered = mode == "median" and source.dtype[0] == "c"
        if mode != "empty" and not integral_mean and not unordered:
            yield call(source(shape), 1, mode=mode)


def deletions(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), 0, axis=axis)
        yield call(source(shape), slice(0, 2), axis=axis)
        yield call(source(shape), Fixed(np.array([0, -1])), axis=axis)


def insertions(source, shape):
    for axis in axes_of(shape):
        yield call(source(shape), 1, source(()), axis=axis)
        yield call(source(shape), Fixed(np.array([0, 1])), source(()), axis=axis)


def array_calls(source, shape):
    yield call(source(shape))
    yield call(source(shape), dtype="complex64")


def types(source, shape):
    for dtype in "float32", "int32", "bool", "complex64":
        if not (source.dtype[0] == "c" and dtype != "complex64"):
            yield call(source(shape, low=0, high=9), dtype)


ARRANGING = [
    *rows("reshape", reshapes, ALL),
    *rows("ravel", orders, ALL),
    *rows("transpose", transposes, ALL),
    *rows("permute_dims", permutations, FEW),
    *rows("matrix_transpose linalg.matrix_transpose", unary, FEW, rank=(2, 4)),
    *rows("swapaxes moveaxis", axis_pairs, FEW, rank=(1, 3)),
    *rows("rollaxis", rolled_axes, FEW, rank=(1, 3)),
    *rows("expand_dims", new_axes, ALL, rank=(0, 3)),
    *rows("squeeze", ones_removed, FEW, rank=(0, 2), least=2),
    *rows("flip", flips, ALL),
    *rows("fliplr flipud", unary, FEW, rank=(2, 4)),
    *rows("rot90", turns, FEW, rank=(2, 4)),
    *rows("roll", rolls, ALL),
    *rows("tile", tiles, ALL, rank=(0, 3)),
    *rows("repeat", repeats, ALL),
    *rows("resize", resizes, FEW, least=1),
    *rows("broadcast_to", broadcasts, ALL, rank=(0, 3)),
    *rows("broadcast_arrays", several_broadcast, FEW, rank=(0, 3)),
    *rows("atleast_1d atleast_2d atleast_3d", unary, FEW),
    *rows(
        "pad",
        pads,
        ("float32", "int32", "complex64", "float64"),
        rank=(1, 3),
        tolerance=2,
    ),
    *rows("copy array asarray", array_calls, FEW),
    *rows(
        "astype",
        types,
        REAL,
        reference=lambda x, dtype: x.astype(dtype),
        without={"grad": "in single precision"},
    ),
]
JOINING = [
    *rows("concatenate concat", joins, ALL, rank=(1, 3)),
    *rows("stack", stacks, ALL, rank=(0, 3)),
    *rows("vstack hstack dstack column_stack", lists, FEW, rank=(0, 3)),
    *rows("block", blocks, FEW, rank=(0, 3)),
    *rows("append", appends, FEW, rank=(1, 3)),
    *rows("split", splits(), FEW, rank=(1, 3)),
    *rows("array_split", splits(False), FEW, rank=(1, 3)),
    *rows("vsplit", cut_along(0), FEW, rank=(2, 3)),
    *rows("hsplit", cut_along(1), FEW, rank=(1, 3)),
    *rows("dsplit", cut_along(2), FEW, rank=(3, 3)),
    *rows("unstack", unstacks, FEW, rank=(1, 3)),
    *rows("delete", deletions, FEW, rank=(1, 3), least=2),
    *rows("insert", insertions, FEW, rank=(1, 3), least=1),
]
DIAGONALS = [
    *rows("tril triu", offsets, ALL, rank=(2, 4)),
    *rows("diag", offsets, FEW, rank=(1, 2)),
    *rows("diagflat", offsets, FEW, rank=(0, 2)),
    *rows("diagonal trace", diagonals, FEW[:2] + FEW[3:], rank=(2, 4), tolerance=4),
    *rows(
        "fill_diagonal", filled_diagonals, FEW, rank=(2, 2), reference=diagonal_filled
    ),
]

TABLE = within("numpy", [*ARRANGING, *JOINING, *DIAGONALS])
