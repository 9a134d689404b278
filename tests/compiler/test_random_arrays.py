"""Random programs over arrays of every dtype do compiled as they do in NumPy.

A seed makes a program: each instruction draws what it needs (axes, sizes, dtypes, which
values) while it runs, so that a program is the same whenever its values have the same
types. Floats are small multiples of 1/4, which most instructions keep exact, with some
infinities, NaNs and zeros below zero among them.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import curta
import curta.numpy as jnp
from curta import dtypes, lax
from curta.config import backend, enable_x64

DTYPES = tuple(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32"
    " float32 float32 float64 complex64 int4 float8_e5m2".split()
)
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65)
MOST = 3000  # elements of a value
LENGTH = 5  # instructions of a program


def kind(x: Any) -> str:
    """One of `bool`, `int`, `float` and `complex`."""
    return dtypes.scalar_type_of(x.dtype).__name__


def converted(x: Any, dtype: Any) -> Any:
    """The numbers, or their real parts, in another dtype."""
    is_complex = dtypes.issubdtype(dtype, np.complexfloating)
    if kind(x) == "complex" and not is_complex:
        x = lax.real(x)
    return lax.convert_element_type(x, jnp.dtype(dtype))


class Program:
    """A function of a few arrays, made of random instructions."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.arguments = [self.array(self.shape()) for _ in range(2)]

    def __call__(self, *args: Any) -> list[Any]:
        self.random = random.Random(self.seed)
        self.values = list(args)
        for _ in range(LENGTH):
            instruction = self.random.choice(INSTRUCTIONS)
            made = instruction(self, self.random.choice(self.values[-3:]))
            self.values += [v for v in made if v.size <= MOST]
        return self.values[2:]

    # ---- what instructions draw

    def shape(self) -> tuple[int, ...]:
        shape = [self.random.choice(EXTENTS) for _ in range(self.random.randrange(4))]
        while np.prod(shape) > MOST:
            shape.pop()
        return tuple(shape)

    def array(self, shape: tuple[int, ...], dtype: Any = None) -> Any:
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        dtype = jnp.dtype(dtype or self.random.choice(DTYPES))
        numbers = rng.integers(-12, 13, shape)
        if dtypes.issubdtype(dtype, np.inexact):
            special = rng.choice([np.nan, np.inf, -np.inf, -0.0], shape)
            rare = rng.random(shape) < self.random.choice([0, 0.05])
            numbers = np.where(rare, special, numbers / 4)
        elif dtypes.itemsize_bits(dtype) < 8:
            numbers = numbers % 8
        with np.errstate(invalid="ignore"):
            return np.asarray(numbers).astype(np.float32).astype(dtype)

    def other(self, x: Any) -> Any:
        """A value like `x`: one there was, or a constant."""
        like = [v for v in self.values if (v.shape, v.dtype) == (x.shape, x.dtype)]
        constant = jnp.asarray(self.array(x.shape, x.dtype))
        return self.random.choice([*like, constant])

    def axis(self, x: Any) -> int:
        return self.random.randrange(x.ndim)

    def places(self, x: Any, axes: list[int], batch: tuple[int, ...]) -> Any:
        """Index vectors, some of them beyond the ends."""
        columns = [
            [self.random.randrange(-2, x.shape[d] + 3) for _ in range(np.prod(batch))]
            for d in axes
        ]
        return jnp.asarray(np.array(columns, np.int32).T.reshape(*batch, len(axes)))


def on(*kinds: str, rank: int = 0) -> Callable[[Any], Any]:
    """An instruction for values of some kinds, of a rank, with elements if it has one.

    Values of other kinds are converted to float32; others are left alone.
    """

    def wrap(instruction: Any) -> Any:
        @functools.wraps(instruction)
        def guarded(program: Program, x: Any) -> list[Any]:
            if kinds and kind(x) not in kinds:
                x = converted(x, np.float32)
            if x.ndim < rank or (rank and not x.size):
                return []
            made = instruction(program, x)
            return list(made) if isinstance(made, (list, tuple)) else [made]

        return guarded

    return wrap


@on()
def binary(p: Program, x: Any) -> Any:
    ops = {
        "bool": [lax.bitwise_and, lax.bitwise_xor, lax.max, lax.min],
        "int": [lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.div, lax.rem,
                lax.bitwise_or, lax.shift_left, lax.shift_right_arithmetic,
                lax.shift_right_logical],
        "float": [lax.add, lax.sub, lax.mul, lax.max, lax.min],
        "complex": [lax.add, lax.sub, lax.mul],
    }  # fmt: skip
    return p.random.choice(ops[kind(x)])(x, p.other(x))


@on()
def unary(p: Program, x: Any) -> Any:
    ops = {
        "bool": [lax.bitwise_not],
        "int": [lax.neg, lax.sign, lax.bitwise_not, lax.population_count, lax.clz],
        "float": [lax.neg, lax.sign, lax.abs, lax.floor, lax.ceil, lax.is_finite],
        "complex": [lax.neg, lax.conj, lax.real, lax.imag],
    }
    return p.random.choice(ops[kind(x)])(x)


@on("bool", "int", "float")
def compare(p: Program, x: Any) -> Any:
    return p.random.choice([lax.eq, lax.ne, lax.lt, lax.ge])(x, p.other(x))


@on()
def convert(p: Program, x: Any) -> Any:
    return converted(x, p.random.choice(DTYPES))


@on()
def select(p: Program, x: Any) -> Any:
    shape = p.random.choice([x.shape, ()])
    return lax.select_n(jnp.asarray(p.array(shape, bool)), x, p.other(x))


@on("int", "float")
def reduce(p: Program, x: Any) -> Any:
    axes = [d for d in range(x.ndim) if p.random.random() < 0.5]
    names = ["sum", "max", "min"] + (["and", "xor"] if kind(x) == "int" else [])
    if x.dtype.name == "int4":
        names = ["max", "min"]
    return getattr(lax, f"reduce_{p.random.choice(names)}")(x, axes)


@on("int", "float", rank=1)
def extremum(p: Program, x: Any) -> Any:
    op = p.random.choice([lax.argmax, lax.argmin])
    return op(x, p.axis(x), p.random.choice([np.int32, np.uint8]))


@on("int", "float", rank=1)
def cumulate(p: Program, x: Any) -> Any:
    op = p.random.choice([lax.cumsum, lax.cummax, lax.cummin])
    return op(x, p.axis(x), reverse=p.random.random() < 0.5)


@on("bool", "int", "float", rank=1)
def sort(p: Program, x: Any) -> Any:
    d = p.axis(x)
    places = lax.broadcasted_iota(np.int32, x.shape, d)
    return lax.sort(
        (x, p.other(x), places), dimension=d, num_keys=p.random.choice([1, 2])
    )


@on("float", rank=1)
def top_k(p: Program, x: Any) -> Any:
    return lax.top_k(x, p.random.randint(0, x.shape[-1]))


@on(rank=1)
def move(p: Program, x: Any) -> Any:
    d, order = p.axis(x), list(range(x.ndim))
    p.random.shuffle(order)
    rows = p.random.randint(0, x.shape[d])
    moves = [
        lambda: lax.transpose(x, order),
        lambda: lax.rev(x, [d]),
        lambda: lax.reshape(x, (x.size,)),
        lambda: lax.broadcast_in_dim(x, (3, *x.shape), [i + 1 for i in range(x.ndim)]),
        lambda: lax.concatenate([x, lax.slice_in_dim(p.other(x), 0, rows, axis=d)], d),
        lambda: jnp.stack([x, p.other(x), x], d),
        lambda: jnp.roll(x, rows, d),
    ]
    return p.random.choice(moves)()


@on(rank=1)
def cut(p: Program, x: Any) -> Any:
    starts = [p.random.randint(0, n) for n in x.shape]
    limits = [p.random.randint(s, n) for s, n in zip(starts, x.shape, strict=True)]
    return lax.slice(x, starts, limits, [p.random.randint(1, 3) for _ in starts])


@on()
def pad(p: Program, x: Any) -> Any:
    config = [tuple(p.random.choice([0, 1, 2]) for _ in range(3)) for _ in x.shape]
    return lax.pad(x, jnp.asarray(p.array((), x.dtype)), config)


@on(rank=1)
def window(p: Program, x: Any) -> Any:
    """A dynamic slice, or its update."""
    sizes = [p.random.randint(1, n) for n in x.shape]
    starts = list(p.places(x, list(range(x.ndim)), (1,))[0])
    if p.random.random() < 0.5:
        return lax.dynamic_slice(x, starts, sizes)
    update = jnp.asarray(p.array(tuple(sizes), x.dtype))
    return lax.dynamic_update_slice(x, update, starts)


@on(rank=1)
def gather_and_scatter(p: Program, x: Any) -> Any:
    r, rank = p.random, x.ndim
    indexed = r.sample(range(rank), r.randint(1, rank))
    batch = r.choice([(1,), (3,), (2, 4), (40,)])
    sizes = [
        1 if d in indexed and r.random() < 0.6 else r.randint(1, n)
        for d, n in enumerate(x.shape)
    ]
    dropped = tuple(d for d in range(rank) if sizes[d] == 1 and r.random() < 0.7)
    count = rank - len(dropped)
    offset = tuple(sorted(r.sample(range(count + len(batch)), count)))
    mode = r.choice(["clip", "fill"])
    where = p.places(x, indexed, batch)
    numbers = lax.GatherDimensionNumbers(offset, dropped, tuple(indexed))
    found = lax.gather(x, where, numbers, sizes, mode=mode)
    if found.size > 4 * MOST:
        return []
    ops = [lax.scatter]
    if kind(x) in ("int", "float"):
        ops += [lax.scatter_add, lax.scatter_min]
    back = lax.ScatterDimensionNumbers(offset, dropped, tuple(indexed))
    updates = jnp.asarray(p.array(found.shape, x.dtype))
    return found, r.choice(ops)(x, where, updates, back, mode=mode)


@on("int", "float", rank=1)
def dot(p: Program, x: Any) -> Any:
    order = list(range(x.ndim))
    p.random.shuffle(order)
    batch, summed = order[: x.ndim // 2], order[x.ndim // 2 :][:1]
    extents = [x.shape[d] for d in (*batch, *summed)] + [p.random.choice([1, 5, 17])]
    y = jnp.asarray(p.array(tuple(extents), x.dtype))
    places = tuple(range(len(batch))), (len(batch),)
    return lax.dot_general(x, y, ((summed, places[1]), (batch, places[0])))


@on("int", "float", rank=1)
def convolve(p: Program, x: Any) -> Any:
    r = p.random
    groups, features, outputs = r.choice([1, 2]), r.choice([1, 3]), r.choice([1, 5])
    need = 2 * groups * features * 6 * 5
    image = jnp.resize(x, need).reshape(2, 6, 5, groups * features)
    kernel = p.array((2, 3, features, groups * outputs), x.dtype)
    padding = [(r.randint(-1, 2), r.randint(0, 2)) for _ in range(2)]
    strides, dilation = ([r.choice([1, 2]) for _ in range(2)] for _ in range(2))
    return lax.conv_general_dilated(
        image, jnp.asarray(kernel), strides, padding, None, dilation,
        ("NHWC", "HWIO", "NHWC"), feature_group_count=groups,
    )  # fmt: skip


@on("float", rank=1)
def pool(p: Program, x: Any) -> Any:
    op, start = p.random.choice([(lax.add, 0), (lax.max, -np.inf), (lax.min, np.inf)])
    sizes, strides, holes = (
        [p.random.randint(1, 3) for _ in x.shape] for _ in range(3)
    )
    around = [(p.random.randint(0, 2), p.random.randint(0, 2)) for _ in x.shape]
    first = np.asarray(start, x.dtype)
    return lax.reduce_window(x, first, op, sizes, strides, around, None, holes)


@on(rank=1)
def loop(p: Program, x: Any) -> Any:
    """A scan that moves its carry about, and a loop that updates rows in place."""
    chosen = p.random.choice([binary, unary, move])
    draws = p.random.getstate()

    def same(v: Any) -> Any:
        p.random.setstate(draws)
        (new,) = chosen(p, v) or [v]
        return new if (new.shape, new.dtype) == (v.shape, v.dtype) else v

    def step(carry: Any, row: Any) -> Any:
        return lax.select(carry == carry, carry, row), same(carry)

    def swap(i: Any, v: Any) -> Any:
        row = lax.dynamic_index_in_dim(v, (5 * i + 1) % len(v), 0)
        return lax.dynamic_update_slice_in_dim(v, same(row), i, 0)

    known, p.values = p.values, p.values[:2]  # and none from inside of the loops
    last, rows = lax.scan(step, x[0], x, reverse=True)
    swapped = lax.fori_loop(0, len(x), swap, x)
    p.values = known
    return last, rows, swapped


INSTRUCTIONS = [
    binary, binary, unary, compare, convert, select, reduce, reduce, extremum, cumulate,
    sort, top_k, move, move, cut, pad, window, gather_and_scatter, gather_and_scatter,
    dot, convolve, pool, loop,
]  # fmt: skip


def assert_alike(found: Any, wanted: Any) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if not dtypes.issubdtype(wanted.dtype, np.inexact):
        np.testing.assert_array_equal(found, wanted)
        return
    wide = (
        np.result_type(np.float64, np.float64) if kind(wanted) == "float" else complex
    )
    eps = 8 * float(dtypes.finfo(wanted.dtype).eps)
    found, wanted = found.astype(wide), wanted.astype(wide)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = min(finite.max(initial=1), 1e30)
    np.testing.assert_allclose(found, wanted, rtol=eps, atol=eps * scale)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_compiled_arrays_are_those_of_numpy(seed: int) -> None:
    check(seed)


def check(seed: int) -> None:
    """Compare a random program with itself, run by the rules of its ops."""
    program = Program(seed)
    with enable_x64(True), np.errstate(all="ignore"):
        with backend("numpy"):
            wanted = program(*map(jnp.asarray, program.arguments))
        donated = (0, 1) if seed % 2 else ()
        compiled = curta.jit(program, donate_argnums=donated)
        found = compiled(*map(jnp.array, program.arguments))
    for x, y in zip(found, wanted, strict=True):
        assert_alike(np.asarray(x), np.asarray(y))
