"""Large scatters: in pieces and blocks that threads share out, in a fixed order."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.compiler.host_target import host
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.rewrite.simplify import simplify


def rng():
    return np.random.default_rng(0)


def added(operand, places, updates):
    """The expected `at[places].add(updates)`; places out of bounds are dropped."""
    total = operand.astype(np.float64 if operand.dtype.kind == "f" else np.int64)
    inside = (places >= -len(operand)) & (places < len(operand))
    np.add.at(total, places[inside], np.asarray(updates, total.dtype)[inside])
    return total


@pytest.mark.parametrize("row", [(), (3,), (64,), (2, 40)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_many_updates_of_few_rows(row, dtype):
    count, size = 65_539, 90
    updates = (rng().normal(size=(count, *row)) * 8).astype(dtype)
    places = rng().integers(-size - 5, size + 5, count).astype("int32")
    operand = (rng().normal(size=(size, *row)) * 8).astype(dtype)
    found = curta.jit(lambda x, p, u: x.at[p].add(u))(operand, places, updates)
    expected = added(operand, places, updates)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2)


def test_scalar_updates_go_in_pieces():
    x, places = jnp.zeros(100), jnp.zeros(1 << 17, "int32")
    closed = curta.make_jaxpr(lambda x, p: x.at[p].add(1.0))(x, places)
    inlined = curta.make_jaxpr(lambda x, p: curta.lax.scatter_add(
        x, p[:, None], jnp.ones(1 << 17), SCALARS))(x, places)  # fmt: skip
    assert "broadcast_dimensions" in str(inlined)
    names = [e.op.name for e in inline_calls(inlined, expansions(host())).eqns]
    assert names.count("add") == 8
    assert compile_jaxpr(closed).native is not None


SCALARS = curta.lax.ScatterDimensionNumbers((), (0,), (0,))


def test_untouched_elements_keep_their_sign():
    x = jnp.full(10, -0.0)
    out = curta.jit(lambda x, p: x.at[p].add(1.0))(x, jnp.zeros(1 << 17, "int32"))
    assert out[0] == 1 << 17 and np.signbit(np.asarray(out)[1:]).all()


def test_batches_and_gradients():
    table, places = rng().normal(size=(200, 64)), rng().integers(0, 200, 3000)
    weights = rng().normal(size=(3000, 64))

    def loss(table, weights):
        return (table[places] * weights).sum()

    with curta.enable_x64(True):
        found = curta.jit(curta.grad(loss))(table, weights)
        expected = added(np.zeros_like(table), places, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        many = curta.jit(curta.vmap(lambda p, u: jnp.zeros(50).at[p].add(u)))
        places, updates = rng().integers(0, 50, (40, 2000)), weights.T[:40, :2000]
        for row, p, u in zip(many(places, updates), places, updates, strict=True):
            np.testing.assert_allclose(row, added(np.zeros(50), p, u), rtol=1e-9)


def digest():
    """Of the results of programs whose work threads share out."""
    x = rng().normal(size=(20_000, 64)).astype("float32")
    places = rng().integers(0, 300, 20_000).astype("int32")
    programs = (
        lambda x, p: jnp.zeros((300, 64)).at[p].add(x),
        lambda x, p: jnp.zeros(300).at[jnp.tile(p, 4)].add(jnp.tile(x[:, 0], 4)),
        lambda x, p: curta.lax.sort((x[:, 0].round(1), p, x[:, 1]), num_keys=2),
        lambda x, p: curta.lax.top_k(x.reshape(-1), 20),
        lambda x, p: jnp.sort(x.reshape(-1)),
    )
    found = hashlib.sha256()
    for program in programs:
        for out in curta.tree.leaves(curta.jit(program)(x, places)):
            found.update(np.asarray(out).tobytes())
    return found.hexdigest()


def test_the_number_of_threads_changes_nothing():
    command = "from tests.compiler.test_scatters import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "CURTA_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == digest()


def test_many_wide_rows_go_in_pieces_too():
    x, places = jnp.zeros((100, 64)), jnp.zeros((1 << 14, 1), "int32")
    rows = curta.lax.ScatterDimensionNumbers((1,), (0,), (0,))
    closed = curta.make_jaxpr(
        lambda x, p: curta.lax.scatter_add(x, p, jnp.ones((1 << 14, 64)), rows)
    )(x, places)
    names = [e.op.name for e in inline_calls(closed, expansions(host())).eqns]
    assert names.count("add") == 8


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("count", [63, 64, 67, 100])
def test_places_outside_are_left_alone(dtype: str, count: int) -> None:
    """Single elements, several updates in a turn of the loop: some go nowhere."""
    rng = np.random.default_rng(count)
    least = -9 if dtype.startswith("i") else 0
    places = rng.integers(least, 60, count).astype(dtype)
    with curta.enable_x64(True):
        for values in (rng.random(count), rng.random(count) + 1j * rng.random(count)):
            x = jnp.arange(50).astype(values.dtype)
            added = curta.jit(
                lambda x, i, v: x.at[i].add(v, wrap_negative_indices=False)
            )
            expected = np.arange(50).astype(values.dtype)
            inside = (places >= 0) & (places < 50)
            np.add.at(expected, places[inside].astype(int), values[inside])
            np.testing.assert_allclose(added(x, places, values), expected)


@pytest.mark.parametrize("offset", [(0, 1), (0, 2), (1, 2)])
def test_windows_that_overlap_are_written_one_after_the_other(
    offset: tuple[int, ...],
) -> None:
    """Whatever the order of the dims of the updates, the last window remains."""
    numbers = curta.lax.ScatterDimensionNumbers(offset, (), (0, 1))
    shape = [40 if d not in offset else 3 for d in range(3)]
    updates = rng().normal(size=shape).astype(np.float32)
    places = rng().integers(0, 5, (40, 2))
    x = expected = np.zeros((7, 7), np.float32)
    expected = expected.copy()
    batch = next(d for d in range(3) if d not in offset)
    for (i, j), window in zip(places, np.moveaxis(updates, batch, 0), strict=True):
        expected[i : i + 3, j : j + 3] = window
    for scatter in (curta.lax.scatter, curta.jit(curta.lax.scatter, static_argnums=3)):
        np.testing.assert_array_equal(scatter(x, places, updates, numbers), expected)


@pytest.mark.parametrize("shape", [(40, 7), (3, 5, 300), (2000, 10)])
@pytest.mark.parametrize("places", ["int8", "uint8", "int32", "uint32"])
def test_one_update_a_row_is_a_map(places, shape):
    def chosen(x, i):
        return jnp.take_along_axis(jnp.sin(x), i[..., None], -1).sum()

    x = rng().normal(size=shape).astype("float32")
    low = -shape[-1] if places.startswith("i") else 0
    i = rng().integers(max(low, -128), min(shape[-1], 127) + 1, shape[:-1])
    grad = curta.grad(chosen)
    found = curta.jit(grad)(x, i.astype(places))
    hit = np.where(i < 0, i + shape[-1], i)[..., None] == np.arange(shape[-1])
    np.testing.assert_allclose(found, np.where(hit, np.cos(x), 0), rtol=1e-5)
    inlined = inline_calls(curta.make_jaxpr(grad)(x, i.astype(places)))
    assert "scatter" not in str(simplify(inlined.jaxpr, host()))
