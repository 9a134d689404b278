"""Programs in the spirit of public reports that JAX is slow on a CPU.

Most are loops: writes of single elements, small matrices, scans of dictionaries. The
others are sorts, convolutions, transforms and systems of equations by the thousand.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Case, Thunk

SUBMODULES = (
    *("lax", "nn", "numpy", "ops", "random", "scipy.linalg", "scipy.signal"),
    "experimental.ode",
)
F32 = np.float32


def drawn(lib: Any, *shape: int, seed: int = 0) -> Any:
    """Uniform float32 numbers."""
    return lib.numpy.asarray(np.random.default_rng(seed).random(shape, F32))


def whole(lib: Any, high: int, *shape: int, seed: int = 0) -> Any:
    """Uniform int32 numbers below `high`."""
    rng = np.random.default_rng(seed)
    return lib.numpy.asarray(rng.integers(0, high, shape, np.int32))


def called(lib: Any, function: Callable[..., Any], *arguments: Any) -> Thunk:
    compiled = lib.jit(function)
    return lambda: compiled(*arguments)


def written_in_loop(lib: Any) -> Thunk:
    def step(i: Any, row: Any) -> Any:
        return row.at[i].set(0.5 * i)

    empty = lib.numpy.zeros(200_000, F32)
    return called(lib, lambda row: lib.lax.fori_loop(0, row.size, step, row), empty)


def written_in_scan(lib: Any) -> Thunk:
    """Each element is one more than the one before it."""

    def step(row: Any, i: Any) -> tuple[Any, None]:
        return row.at[i].set(row[i - 1] + 1), None

    def count(row: Any) -> Any:
        return lib.lax.scan(step, row, lib.numpy.arange(row.size))[0]

    return called(lib, count, lib.numpy.zeros(200_000, F32))


def drawn_in_loop(lib: Any) -> Thunk:
    """A key is split in each iteration of a while loop."""
    n = 20_000

    def step(state: Any) -> Any:
        i, row, key = state
        key, used = lib.random.split(key)
        return i + 1, row.at[i].set(lib.random.randint(used, (), 0, 2)), key

    def fill(key: Any) -> Any:
        start = (0, lib.numpy.zeros(n, np.int32), key)
        return lib.lax.while_loop(lambda state: state[0] < n, step, start)[1]

    return called(lib, fill, lib.random.key(0))


def gradient_of_dictionary(lib: Any) -> Thunk:
    """A scan over 60 named scalars, each depending on two others."""
    names = [f"n{i:02}" for i in range(60)]

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        others = names[1:] + names[:1], names[7:] + names[:7]
        after = {
            name: 0.99 * state[name]
            + 0.01 * x * state[near]
            + 1e-3 * lib.numpy.sin(state[far])
            for name, near, far in zip(names, *others, strict=True)
        }
        return after, state[names[0]]

    def loss(state: Any, xs: Any) -> Any:
        state, ys = lib.lax.scan(step, state, xs)
        return sum(state.values()) + ys.sum()

    state = {name: lib.numpy.float32(i / 60) for i, name in enumerate(names)}
    return called(lib, lib.grad(loss), state, drawn(lib, 614))


def powers_of_matrix(lib: Any) -> Thunk:
    """10,000 products of 3x3 matrices in a scan; a rotation keeps them bounded."""
    matrix = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0].astype(F32)

    def power(m: Any) -> Any:
        return lib.lax.scan(lambda c, _: (c @ m, c[0, 0]), m, None, length=10_000)

    return called(lib, power, lib.numpy.asarray(matrix))


def chain_of_joints(lib: Any) -> Thunk:
    """Positions along a chain of 35 homogeneous transforms, written out in Python."""
    jnp = lib.numpy

    def joint(angle: Any) -> Any:
        c, s = jnp.cos(angle), jnp.sin(angle)
        rows = [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
        return jnp.array(rows, dtype=F32)

    def gram(links: Any, angles: Any) -> Any:
        frame, positions = jnp.eye(4, dtype=F32), []
        for i in range(35):
            frame = frame @ links[i] @ joint(angles[i])
            positions.append(frame[:3, 3])
        stacked = jnp.stack(positions)
        return stacked @ stacked.T

    return called(lib, gram, 0.6 * drawn(lib, 35, 4, 4), drawn(lib, 35))


def largest_by_loop(lib: Any) -> Thunk:
    def largest(row: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, lib.numpy.maximum(state[1], row[state[0]])

        start = (0, lib.numpy.int32(0))
        return lib.lax.while_loop(lambda s: s[0] < row.size, step, start)[1]

    return called(lib, largest, whole(lib, 10**6, 4_000_000))


def gradient_of_small_solves(lib: Any) -> Thunk:
    """86,268 positive definite systems of 3 equations."""
    half = np.random.default_rng(0).normal(size=(86_268, 3, 3)).astype(F32)
    systems = half @ half.transpose(0, 2, 1) + 3 * np.eye(3, dtype=F32)

    def loss(a: Any, b: Any) -> Any:
        return lib.numpy.sum(lib.numpy.linalg.solve(a, b[..., None]) ** 2)

    right = drawn(lib, 86_268, 3)
    return called(lib, lib.grad(loss), lib.numpy.asarray(systems), right)


def total_variation(lib: Any) -> Thunk:
    def variation(x: Any) -> Any:
        return sum(lib.numpy.sum(lib.numpy.diff(x, axis=i) ** 2) for i in range(3))

    return called(lib, lib.value_and_grad(variation), drawn(lib, 200, 200, 200))


def sum_of_planes(lib: Any) -> Thunk:
    return called(lib, lambda x: x.sum(0), drawn(lib, 128, 128, 128))


def argsort(lib: Any) -> Thunk:
    return called(lib, lib.numpy.argsort, drawn(lib, 1_000_000))


def argsort_of_columns(lib: Any) -> Thunk:
    return called(lib, partial(lib.numpy.argsort, axis=0), drawn(lib, 100, 10_000))


def convolved_in_loop(lib: Any) -> Thunk:
    weights, x = drawn(lib, 64, 64, 1, 1), drawn(lib, 1, 64, 128, 128)

    def twice(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return 0.03 * lib.lax.conv(x, weights, (1, 1), "SAME")

        return lib.lax.fori_loop(0, 2, step, x)

    return called(lib, twice, x)


def depthwise(lib: Any) -> Thunk:
    numbers = ("NHWC", "HWIO", "NHWC")

    def convolve(x: Any, weights: Any) -> Any:
        return lib.lax.conv_general_dilated(
            *(x, weights, (1, 1), "SAME"),
            dimension_numbers=numbers,
            feature_group_count=256,
        )

    x, weights = drawn(lib, 1, 124, 124, 256), drawn(lib, 3, 3, 1, 256)
    return called(lib, convolve, x, weights)


def convolved_directly(lib: Any) -> Thunk:
    x = drawn(lib, 300, 300)
    direct = partial(lib.scipy.signal.convolve, mode="same", method="direct")
    return called(lib, direct, x, x)


def convolved_by_transforms(lib: Any) -> Thunk:
    x = drawn(lib, 300, 300)
    return called(lib, partial(lib.scipy.signal.fftconvolve, mode="same"), x, x)


def sum_of_range(lib: Any) -> Thunk:
    """Without arguments: a compiler may compute it, for as long as that takes."""
    return called(lib, lambda: lib.numpy.arange(1, 30_000_000).sum())


def long_transform(lib: Any) -> Thunk:
    x = drawn(lib, 2**22).astype(np.complex64)
    return called(lib, lib.numpy.fft.fft, x)


def running_median(lib: Any) -> Thunk:
    jnp = lib.numpy

    def median(x: Any) -> Any:
        return jnp.median(jnp.stack([jnp.roll(x, i) for i in range(-2, 3)]), axis=0)

    return called(lib, median, drawn(lib, 1_000_000))


def viterbi(lib: Any) -> Thunk:
    """The best of 64 states before each, for 5,000 observations."""
    jnp = lib.numpy
    moves = drawn(lib, 64, 64)

    def step(score: Any, seen: Any) -> tuple[Any, Any]:
        each = score[:, None] + moves
        return jnp.max(each, axis=0) + seen, jnp.argmax(each, axis=0)

    def path(seen: Any) -> Any:
        return lib.lax.scan(step, seen[0], seen)

    return called(lib, path, drawn(lib, 5000, 64, seed=1))


def levenshtein(lib: Any) -> Thunk:
    """The table of edit distances by a scan in a scan."""
    jnp, lax = lib.numpy, lib.lax

    def distance(first: Any, second: Any) -> Any:
        def row(above: Any, letter: Any) -> tuple[Any, None]:
            def cell(left: Any, given: Any) -> tuple[Any, Any]:
                up, diagonal, other = given
                best = jnp.minimum(
                    jnp.minimum(left, up) + 1, diagonal + (letter != other)
                )
                return best, best

            start = above[0] + 1
            rest = lax.scan(cell, start, (above[1:], above[:-1], second))[1]
            return jnp.concatenate([start[None], rest]), None

        return lax.scan(row, jnp.arange(second.size + 1), first)[0][-1]

    return called(lib, distance, whole(lib, 4, 1500), whole(lib, 4, 1500, seed=1))


def gradient_of_ode(lib: Any) -> Thunk:
    """Of predators and prey, by `odeint`."""
    jnp = lib.numpy

    def slope(state: Any, _: Any, p: Any) -> Any:
        prey, predators = state
        meetings = prey * predators
        return jnp.stack(
            [p[0] * prey - p[1] * meetings, p[3] * meetings - p[2] * predators]
        )

    def loss(p: Any) -> Any:
        times = jnp.linspace(0.0, 10.0, 50)
        return lib.experimental.ode.odeint(slope, jnp.ones(2), times, p).sum()

    return called(lib, lib.grad(loss), jnp.array([1.1, 0.4, 0.4, 0.1]))


def grouped(lib: Any) -> Thunk:
    def group(keys: Any, values: Any) -> Any:
        return (
            lib.ops.segment_sum(values, keys, 1000),
            lib.ops.segment_max(values, keys, 1000),
            lib.numpy.bincount(keys, length=1000),
        )

    return called(lib, group, whole(lib, 1000, 1_000_000), drawn(lib, 1_000_000))


def nearest_neighbours(lib: Any) -> Thunk:
    def nearest(x: Any) -> Any:
        distances = lib.numpy.sum((x[:, None] - x[None]) ** 2, axis=-1)
        return lib.lax.top_k(-distances, 10)

    return called(lib, nearest, drawn(lib, 2000, 16))


def lstm_training(lib: Any) -> Thunk:
    jnp, nn = lib.numpy, lib.nn
    units = 64

    def step(weights: Any, state: Any, x: Any) -> tuple[Any, Any]:
        hidden, cell = state
        gates = jnp.concatenate([x, hidden], axis=1) @ weights
        taken, kept, new, shown = jnp.split(gates, 4, axis=1)
        cell = nn.sigmoid(kept) * cell + nn.sigmoid(taken) * jnp.tanh(new)
        hidden = nn.sigmoid(shown) * jnp.tanh(cell)
        return (hidden, cell), hidden

    def loss(weights: Any, xs: Any) -> Any:
        start = (jnp.zeros((32, units), F32),) * 2
        return jnp.sum(lib.lax.scan(partial(step, weights), start, xs)[1] ** 2)

    weights = 0.2 * drawn(lib, 2 * units, 4 * units) - 0.1
    return called(lib, lib.grad(loss), weights, drawn(lib, 100, 32, units))


def gaussian_process(lib: Any) -> Thunk:
    """The likelihood of 600 points by its length scales, and the gradient."""
    jnp = lib.numpy
    x, y = drawn(lib, 600, 3), drawn(lib, 600, seed=1)

    def loss(scales: Any) -> Any:
        scaled = x / scales
        squares = jnp.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1)
        factor = jnp.linalg.cholesky(jnp.exp(-squares / 2) + jnp.eye(600) / 10)
        solved = lib.scipy.linalg.cho_solve((factor, True), y)
        return y @ solved + jnp.log(jnp.diag(factor)).sum()

    return called(lib, lib.value_and_grad(loss), jnp.ones(3))


def case(make: Callable[[Any], Thunk], **tolerances: float) -> Case:
    return Case(make.__name__.replace("_", " "), make, 0.9, **tolerances)


COMPLAINTS = [
    case(written_in_loop),
    case(written_in_scan),
    case(drawn_in_loop),
    case(gradient_of_dictionary, rtol=1e-3),
    case(powers_of_matrix, atol=1e-2),
    case(chain_of_joints, rtol=1e-3),
    case(largest_by_loop),
    case(gradient_of_small_solves, rtol=1e-2, atol=1e-4),
    case(total_variation, rtol=1e-3),
    case(sum_of_planes),
    case(argsort),
    case(argsort_of_columns),
    case(convolved_in_loop, rtol=1e-3, atol=1e-3),
    case(depthwise),
    case(convolved_directly, rtol=1e-3, atol=1e-2),
    case(convolved_by_transforms, rtol=1e-3, atol=1e-1),
    case(sum_of_range),
    case(long_transform, atol=1e-1),
    case(running_median),
    case(viterbi),
    case(levenshtein),
    case(gradient_of_ode, rtol=1e-2),
    case(grouped, rtol=1e-3),
    case(nearest_neighbours),
    case(lstm_training, rtol=1e-2, atol=1e-2),
    case(gaussian_process, rtol=2e-2, atol=1e-1),
]
