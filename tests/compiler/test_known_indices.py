"""Integers computed from iotas are affine indices: what they read has a stride."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax


def frames(x, hop=4, count=30, width=9):
    return x[jnp.arange(count)[:, None] * hop + jnp.arange(width)]


def toeplitz(x):
    i = jnp.arange(60)
    return x[i[:, None] - i + 59]


def hankel(x):
    i = jnp.arange(60)
    return x[i[:, None] + i]


def stencil(x):
    i = jnp.arange(1, 126)
    return x[i - 1] - 2 * x[i] + x[i + 1]


def patches(x):
    i = jnp.arange(6)[:, None] + jnp.arange(3)
    return x.reshape(8, 16)[i[:, None, :, None], i[None, :, None, :]]


def windows(x):
    starts = jnp.arange(10) * 5
    return curta.vmap(lambda s: lax.dynamic_slice(x, (s,), (20,)))(starts)


def flat(x):
    k = jnp.arange(128)
    return x.reshape(8, 16)[lax.div(k, 16), lax.rem(k, 16)]


READ = {
    "frames": frames,
    "toeplitz": toeplitz,
    "hankel": hankel,
    "stencil": stencil,
    "patches": patches,
    "windows": windows,
    "reversed": lambda x: x[127 - jnp.arange(128)],
    "quotients": lambda x: x.reshape(8, 16)[jnp.arange(99) // 15, jnp.arange(99) % 15],
    "below zero": lambda x: x[lax.rem(jnp.arange(20) - 19, 5) + 4],
    "up to zero": lambda x: x[lax.div(jnp.arange(20) - 19, 4) + 5],
    "about zero": lambda x: x[lax.rem(jnp.arange(20) - 9, 11) + 9],
    "counted": lambda x: x[np.arange(100) + 3],
    "counted down": lambda x: x[np.arange(127, 0, -2)],
    "counted pairs": lambda x: x.reshape(8, 16)[
        np.arange(8)[:, None], np.arange(2, 16, 3)
    ],
    "counted sums": lambda x: x[np.arange(8)[:, None] * 5 - np.arange(3) + 2],
    "of uint8": lambda x: x[jnp.arange(100, dtype="uint8") + jnp.uint8(27)],
}

CHOSEN = {  # one of two sums or three, by a comparison of indices
    "periodic": lambda x: (
        x[(jnp.arange(128) - 1) % 128] + x[(jnp.arange(128) + 3) % 128]
    ),
    "wrapped once": lambda x: x[(jnp.arange(64)[:, None] + jnp.arange(64) + 5) % 128],
    "rows": lambda x: x.reshape(8, 16)[(jnp.arange(8) + 3) % 8],
    "negative": lambda x: x[jnp.arange(90) - 40],
    "circulant": lambda x: x[(jnp.arange(128)[:, None] - jnp.arange(128)) % 128],
    "torus": lambda x: x.reshape(8, 16)[(jnp.arange(8) - 1) % 8][
        :, (jnp.arange(16) + 1) % 16
    ],
    "counted below zero": lambda x: x[np.arange(100) - 30],
    "counted modulo": lambda x: x[(np.arange(128) - 5) % 128],
    "counted and reflected": lambda x: x[np.abs(np.arange(-1, 126))],
    "two jumps": lambda x: x[np.r_[40:90, 3:33, 60:128]],
    "complex": lambda x: lax.complex(x, -x)[(jnp.arange(128) - 1) % 128].real,
}

LEFT = {  # indices that are not affine sums, or wrap around in their dtype
    "twice": lambda x: x[(jnp.arange(128) - 1) % 128][(jnp.arange(128) + 1) % 128] + 1,
    "flat": flat,
    "wraps": lambda x: x[(jnp.arange(100, dtype="int8") * jnp.int8(3)).astype("int32")],
    "wraps below": lambda x: x[(jnp.arange(50, dtype="uint8") - jnp.uint8(20)) & 127],
    "clipped": lambda x: x[jnp.clip(jnp.arange(140) - 6, 0, 127)],
    "out of bounds": lambda x: x.at[jnp.arange(140) - 6].get(mode="fill", fill_value=7),
    "squares": lambda x: x[jnp.arange(11) * jnp.arange(11)],
    "mixed signs": lambda x: x[(jnp.arange(40) - 9) // 4 + 3],
    "constant": lambda x: x[np.array([5, 3, 99, 4, 120, 0])],
    "constants": lambda x: x.reshape(8, 16)[np.tril_indices(8)],
    "remainders": lambda x: x[lax.rem(jnp.arange(20) - 9, 5) + 5],
    "truncated": lambda x: x[lax.div(jnp.arange(20) - 9, 4) + 5],
    "least": lambda x: x[jnp.minimum(jnp.arange(20)[:, None], jnp.arange(20))],
}


def alike(f):
    x = jnp.asarray(np.random.default_rng(0).integers(-9, 9, 128), "float32")
    found = curta.jit(lambda x: f(x))(x)
    with curta.disable_jit():
        wanted = f(x)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", [*READ, *CHOSEN, *LEFT])
def test_elements(name):
    f = (READ | CHOSEN | LEFT)[name]
    alike(f)
    alike(curta.grad(lambda x: (f(x) ** 2).sum()))  # sums of integers are exact
    alike(lambda x: f(x) * jnp.arange(f(x).shape[-1]))


@pytest.mark.parametrize("name", READ)
def test_no_index_is_data(name, monkeypatch, capsys):
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    read = READ[name]
    for f in (lambda x: read(x), curta.grad(lambda x: read(x).sum())):
        curta.jit(f)(jnp.ones(128))
        printed = capsys.readouterr().err
        assert "kernel" in printed
        assert ":int32" not in printed and ":uint8" not in printed


@pytest.mark.parametrize("name", CHOSEN)
def test_loads_are_chosen(name, monkeypatch, capsys):
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    read = CHOSEN[name]
    curta.jit(lambda x: read(x))(jnp.ones(128))
    printed = capsys.readouterr().err
    assert " where " in printed
    assert ":int32" not in printed and "[t" not in printed


def test_where_no_lane_is_read_memory_is_not_touched(monkeypatch, capsys):
    monkeypatch.setenv("CURTA_DUMP", "llvm")
    curta.jit(lambda x: x[(jnp.arange(4096) - 1) % 4096])(jnp.ones(4096))
    assert "vector.reduce.or" in capsys.readouterr().err


@pytest.mark.parametrize("count", [50, 3000])
def test_indices_of_iotas_stay_in_loops(count, monkeypatch, capsys):
    def steps(x):
        outside = (jnp.arange(count) + 1) % count

        def step(_, x):
            i = jnp.arange(count)
            left = x[(i - 1) % count] - x[np.arange(count) - 2]
            return x + left + x[outside]

        return lax.fori_loop(0, 4, step, x)

    x = np.arange(count, dtype="float32") % 7
    wanted = x
    for _ in range(4):
        left = np.roll(wanted, 1) - np.roll(wanted, 2)
        wanted = wanted + left + np.roll(wanted, -1)
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    found = curta.jit(steps)(x)
    np.testing.assert_array_equal(found, wanted)
    printed = capsys.readouterr().err
    if count > 64:  # what fits in registers has tables
        assert not any(x in printed for x in (":int32", "[t", "const"))


def test_constants_of_all_dtypes_go_into_loops():
    """Keys count nothing; int64 stays what it is without x64."""
    keys, wide = curta.random.split(curta.random.key(0), 3), np.arange(1, 9)

    def step(i, x):
        return x + curta.random.uniform(keys[i], (9,)) + x[wide[0]]

    found = curta.jit(lambda x: lax.fori_loop(0, 3, step, x))(jnp.ones(9))
    with curta.disable_jit():
        wanted = lax.fori_loop(0, 3, step, jnp.ones(9))
    np.testing.assert_allclose(found, wanted, 1e-5)
    x = jnp.arange(16.0)
    assert np.array_equal(curta.jit(lambda x: x[wide])(x), x[1:9])
