"""Convolutions, pooling, attention by einsum, and stencils by roll."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import F32, random_array
from benchmarks.harness import Case, Thunk

IMAGES = ("NHWC", "HWIO", "NHWC")


# --- convolutions of 3 by 3 -----------------------------------------------------------


def convolved(lib: Any, stride: int, x: Any, w: Any) -> Any:
    groups = x.shape[-1] // w.shape[2]
    return lib.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=IMAGES,
        feature_group_count=groups,
    )  # fmt: skip


def grouped(features: int, groups: int, lib: Any) -> Thunk:
    f = lib.jit(partial(convolved, lib, 1))
    x = random_array(lib, 8, 28, 28, 64, low=-1.0, high=1.0)
    w = random_array(lib, 3, 3, 64 // groups, features, low=-0.1, high=0.1)
    return lambda: f(x, w)


def grouped_cases() -> list[Case]:
    cases = []
    for features, groups in ((64, 4), (128, 8), (1, 1)):
        name = f"3x3 convolution, 8x28x28x64 to {features} in {groups} groups"
        size = 8 * 28 * 28
        flops = 2 * size * features * 9 * 64 // groups
        make = partial(grouped, features, groups)
        cases.append(Case(name, make, 0.9, F32 * 64 * size, 0, flops, atol=1e-4))
    return cases


def convolution(
    shape: tuple[int, ...], features: int, stride: int, backward: bool, lib: Any
) -> Thunk:
    f: Callable[..., Any] = partial(convolved, lib, stride)
    if backward:
        f = lib.grad(
            lambda x, w: (convolved(lib, stride, x, w) ** 2).mean(), argnums=(0, 1)
        )
    compiled = lib.jit(f)
    x = random_array(lib, *shape, low=-1.0, high=1.0)
    w = random_array(lib, 3, 3, shape[-1], features, low=-0.1, high=0.1)
    return lambda: compiled(x, w)


def convolution_cases() -> list[Case]:
    cases = []
    for shape, features, stride in (
        ((32, 32, 32, 64), 64, 1),
        ((8, 56, 56, 64), 64, 1),
        ((8, 14, 14, 256), 256, 1),
        ((8, 56, 56, 64), 64, 2),
        ((64, 28, 28, 1), 32, 1),
    ):
        size = int(np.prod(shape))
        out = size // shape[-1] // stride**2 * features
        flops = 2 * out * 9 * shape[-1]
        for backward in (False, True):
            kind = "gradient" if backward else "forward"
            sizes = "x".join(map(str, shape))
            name = f"3x3 convolution, {sizes} to {features}, step {stride}, {kind}"
            make = partial(convolution, shape, features, stride, backward)
            times = 3 if backward else 1
            read, written = F32 * size, F32 * out
            cases.append(Case(name, make, 0.9, read, written, times * flops, atol=1e-4))
    return cases


# --- pooling --------------------------------------------------------------------------


def pooled(lib: Any, window: int, x: Any) -> Any:
    dims, steps = (1, window, window, 1), (1, 2, 2, 1)
    least = -lib.numpy.inf
    return lib.lax.reduce_window(x, least, lib.lax.max, dims, steps, "SAME")


def pooling(window: int, backward: bool, lib: Any) -> Thunk:
    f: Callable[..., Any] = partial(pooled, lib, window)
    if backward:
        f = lib.grad(lambda x: (pooled(lib, window, x) ** 2).sum())
    compiled = lib.jit(f)
    x = random_array(lib, 32, 32, 32, 64)
    return lambda: compiled(x)


def pooling_cases() -> list[Case]:
    size, cases = 32 * 32 * 32 * 64, []
    for window in (2, 3):
        for backward in (False, True):
            kind = "gradient" if backward else "forward"
            name = f"max-pool {window}x{window}, 32x32x32x64, {kind}"
            written = F32 * (size if backward else size // 4)
            make = partial(pooling, window, backward)
            cases.append(Case(name, make, 0.5, F32 * size, written))
    return cases


# --- attention ------------------------------------------------------------------------


def attention(lib: Any) -> Thunk:
    """Scaled dot-product attention (Vaswani et al., 2017) of 8 heads."""
    jnp, shape = lib.numpy, (8, 256, 8, 64)

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8.0
        return jnp.einsum("bhqk,bkhd->bqhd", lib.nn.softmax(scores), v)

    f, x = lib.jit(attend), random_array(lib, *shape, low=-1.0, high=1.0)
    return lambda: f(x, x, x)


# --- stencils -------------------------------------------------------------------------


def heat(lib: Any) -> Thunk:
    """20 steps of the heat equation on a torus."""
    roll = lib.numpy.roll

    def step(_: int, u: Any) -> Any:
        around = roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1)
        return u + 0.1 * (around - 4 * u)

    f = lib.jit(lambda u: lib.lax.fori_loop(0, 20, step, u))
    u = random_array(lib, 512, 512)
    return lambda: f(u)


def advection(lib: Any) -> Thunk:
    """A step of upwind advection on a circle."""
    f = lib.jit(lambda u: u - 0.3 * (u - lib.numpy.roll(u, 1)))
    u = random_array(lib, 10**6)
    return lambda: f(u)


def life(lib: Any) -> Thunk:
    """A step of the game of life on a torus."""
    jnp = lib.numpy
    places = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]

    def step(x: Any) -> Any:
        around = sum(jnp.roll(x, place, (0, 1)) for place in places)
        return jnp.where((around == 3) | ((x == 1) & (around == 2)), 1, 0)

    f = lib.jit(step)
    x = (random_array(lib, 512, 512) > 1).astype("int32")
    return lambda: f(x)


CONV_CASES = [
    *convolution_cases(),
    *grouped_cases(),
    *pooling_cases(),
    Case(
        "attention by einsum, 8 heads, 8x256x512",
        attention,
        0.7,
        3 * F32 * 8 * 256 * 512,
        F32 * 8 * 256 * 512,
        4 * 8 * 8 * 256 * 256 * 64,
        atol=1e-3,
    ),
    Case("heat by roll, 512², 20 steps", heat, 0.5, F32 * 512**2, F32 * 512**2),
    Case("advection by roll, 1e6", advection, 0.5, F32 * 10**6, F32 * 10**6),
    Case("game of life by roll, 512²", life, 0.5, F32 * 512**2, F32 * 512**2),
]
