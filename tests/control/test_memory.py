"""Memory of gradients of loops, against the count on paper."""

import pytest

import curta.numpy as jnp
from curta import config, grad, jit, lax

F32 = 4  # bytes


def temporary_bytes(fun, *args):
    analysis = jit(fun).lower(*args).compile().memory_analysis()
    return analysis.temp_size_in_bytes


def test_a_scan_holds_its_residuals_and_no_more():
    """Of h -> sin(w·h) + x, the gradient for w needs h and w·h of every step."""
    steps, width = 10**5, 16

    def loss(w, h, xs):
        return lax.scan(lambda h, x: (jnp.sin(w * h) + x, None), h, xs)[0].sum()

    w, h = jnp.ones(width), jnp.ones(width)
    found = temporary_bytes(grad(loss), w, h, jnp.ones((steps, width)))
    residuals = 2 * steps * width * F32
    assert residuals <= found <= 1.01 * residuals


def test_a_recurrent_network_holds_its_states():
    """Of tanh(x·U + h·W): the states, from which the slopes of tanh follow."""
    steps, batch, width = 20000, 4, 32

    def loss(params, h, xs):
        def step(h, x):
            return jnp.tanh(x @ params["u"] + h @ params["w"]), None

        return jnp.sum(lax.scan(step, h, xs)[0])

    params = {"u": jnp.ones((width, width)), "w": jnp.ones((width, width))}
    xs, h = jnp.ones((steps, batch, width)), jnp.ones((batch, width))
    found = temporary_bytes(grad(loss), params, h, xs)
    states = steps * batch * width * F32
    assert 2 * states <= found <= 2.5 * states  # before each step and after it


def test_a_loop_without_gradient_holds_a_state():
    def run(h):
        return lax.fori_loop(0, 10**5, lambda i, h: jnp.cos(h) * 0.5, h)

    size = 1000
    assert temporary_bytes(run, jnp.ones(size)) <= 4 * size * F32


def test_filling_an_array_takes_no_second_one():
    def fill(x):
        return lax.fori_loop(1, 1000, lambda i, x: x.at[i].set(x[i - 1] + 1), x)

    x = jnp.ones((1000, 100))
    assert temporary_bytes(fill, x) <= 1.01 * x.nbytes  # what the loop works on


@pytest.mark.parametrize("rows", [8, 64])
def test_a_while_loop_holds_its_checkpoints(rows):
    """The states of twice the square root of the steps, if these are bounded."""
    size, before = 256, config.curta_while_checkpoints

    def loss(x, n):
        def step(carry):
            i, s = carry
            return i + 1, jnp.sin(s) * x

        return lax.while_loop(lambda c: c[0] < n, step, (0, x))[1].sum()

    config.update("curta_while_checkpoints", rows)
    try:
        found = temporary_bytes(grad(loss), jnp.ones(size), 1000)
    finally:
        config.update("curta_while_checkpoints", before)
    state = size * F32
    assert rows * state <= found <= (rows + 20) * 1.1 * state
