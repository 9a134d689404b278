"""Memory savings of `checkpoint` in compiled gradients, and equal results.

A state is what a layer hands on to the next. A layer here needs three for its gradient,
with `checkpoint` it keeps one, and computes the others again when it is its turn.
"""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import checkpoint, checkpoint_policies, grad, jit, lax, value_and_grad
from curta.ad_checkpoint import checkpoint_name
from curta.compiler.host_target import host
from curta.compiler.llvm.instructions import Instructions
from curta.compiler.pipeline import compile_jaxpr, lower
from curta.compiler.support.threads import parallel_for_address
from curta.config import enable_compilation_cache

ROWS, WIDTH = 1024, 64
STATE = ROWS * WIDTH * 4


def products(w, x):
    return x + jnp.tanh(checkpoint_name(jnp.tanh(x @ w), "inner") @ w)


def elements(w, x):
    return jnp.sin(jnp.cos(x * w[0]) * w[1]) * jnp.exp(-x)


def chain(layer, count):
    def loss(ws, x):
        for i in range(count):
            x = layer(ws[i], x)
        return (x**2).sum()

    return loss


def nested(layer, count):
    """A checkpoint for each layer, and one for each run of the root of the layers."""
    few = round(count**0.5)

    @checkpoint
    def run(ws, x):
        for w in ws:
            x = checkpoint(layer)(w, x)
        return x

    def loss(ws, x):
        for i in range(0, count, few):
            x = run(ws[i : i + few], x)
        return (x**2).sum()

    return loss


def scanned(layer, count):
    def loss(ws, x):
        return (lax.scan(lambda x, w: (layer(w, x), None), x, ws)[0] ** 2).sum()

    return loss


def arguments(count):
    rng = np.random.default_rng(count)
    ws = 0.1 * rng.normal(size=(count, WIDTH, WIDTH))
    x = rng.normal(size=(ROWS, WIDTH))
    return jnp.asarray(ws, jnp.float32), jnp.asarray(x, jnp.float32)


def states(fun, count):
    """The temporaries of a gradient, in states; no machine code is made for them."""
    closed = curta.make_jaxpr(grad(fun))(*arguments(count))
    return lower(closed, host()).temporaries / STATE


@functools.cache
def states_without(layer, count):
    """The same of a chain without checkpoints."""
    return states(chain(layer, count), count)


LAYERS = [products, elements]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("count", [4, 16, 25])
def test_a_checkpoint_keeps_a_state_for_each_layer(layer, count):
    peak = states(chain(checkpoint(layer), count), count)
    assert peak <= count + 6
    assert states_without(layer, count) >= 3 * count


def test_compiled_programs_take_the_memory_of_the_plan():
    fun = chain(products, 4)
    analysis = jit(grad(fun)).lower(*arguments(4)).compile().memory_analysis()
    assert analysis.temp_size_in_bytes == states(fun, 4) * STATE


@pytest.mark.parametrize("layer", LAYERS)
def test_where_all_is_kept_there_is_nothing_in_the_way(layer):
    kept = checkpoint(layer, policy=checkpoint_policies.everything_saveable)
    assert states(chain(kept, 25), 25) <= states_without(layer, 25) + 1


@pytest.mark.parametrize("layer", LAYERS)
def test_nested_checkpoints_keep_twice_the_root(layer):
    assert states(nested(layer, 16), 16) <= 4 + 4 + 7
    assert states(nested(layer, 36), 36) <= 6 + 6 + 9


@pytest.mark.parametrize("layer", LAYERS)
def test_a_scan_keeps_its_carries(layer):
    # The rows that go in, and those whose cotangents add up.
    assert states(scanned(checkpoint(layer), 16), 16) <= 16 + 7
    assert states(scanned(layer, 16), 16) >= 3 * 16


@pytest.mark.parametrize(
    "policy, most",
    [
        (checkpoint_policies.nothing_saveable, 1),
        (checkpoint_policies.dots_with_no_batch_dims_saveable, 3),
        (checkpoint_policies.save_only_these_names("inner"), 2),
        (checkpoint_policies.save_only_these_names("other"), 1),
        (
            checkpoint_policies.save_and_offload_only_these_names(
                names_which_can_be_saved=[],
                names_which_can_be_offloaded=["inner"],
                offload_src="device",
                offload_dst="pinned_host",
            ),
            2,
        ),
        (checkpoint_policies.everything_saveable, 4),
    ],
)
def test_policies_say_what_is_kept(policy, most):
    few, many = (
        states(chain(checkpoint(products, policy=policy), n), n) for n in (8, 24)
    )
    # A gradient of a weight is a sixteenth of a state.
    assert most - 1 < (many - few) / 16 <= most + 1 / 8


def test_without_a_barrier_the_first_computation_is_used():
    free = checkpoint(products, prevent_cse=False)
    assert states(chain(free, 16), 16) == states_without(products, 16)


def test_parts_beside_each_other_are_computed_again_one_by_one():
    """Their cotangents are constants: only the order separates them."""

    def loss(ws, x):
        part = checkpoint(lambda w, x: elements(w, elements(w, x)).sum())
        return sum(part(ws[0], x * k) for k in range(8))

    w, x = arguments(1)
    closed = curta.make_jaxpr(grad(loss, argnums=1))(w, x)
    assert lower(closed, host()).temporaries <= 12 * STATE


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("make", [chain, nested, scanned])
def test_results_are_the_same(layer, make):
    """To the last bit, where products meet the sums that they fuse with in both."""
    ws, x = arguments(4)
    plain = scanned if make is scanned else chain
    expected = jit(value_and_grad(plain(layer, 4), (0, 1)))(ws, x)
    found = jit(value_and_grad(make(checkpoint(layer), 4), (0, 1)))(ws, x)
    for a, b in zip(*map(curta.tree.leaves, (found, expected)), strict=True):
        if layer is products:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * abs(b).max())


@pytest.mark.parametrize("layer", LAYERS)
def test_results_are_the_same_bits_with_and_without_threads(layer):
    ws, x = arguments(9)
    for loss in chain(checkpoint(layer), 9), nested(layer, 9):
        closed = curta.make_jaxpr(value_and_grad(loss, (0, 1)))(ws, x)
        alone = compile_jaxpr(closed)
        together = compile_jaxpr(closed, parallel_for=parallel_for_address)
        given = [np.asarray(v) for v in (ws, x)]
        for a, b in zip(alone(*given), together(*given), strict=True):
            assert a.tobytes() == b.tobytes()


def test_second_derivatives_and_batches():
    ws, x = arguments(2)
    ws, x = ws[:, :8, :8], x[:6, :8]

    def second(layer):
        slope = grad(chain(layer, 2), argnums=1)
        return jit(curta.vmap(grad(lambda x: jnp.sin(slope(ws, x)).sum())))(x[:, None])

    np.testing.assert_allclose(
        second(checkpoint(products)), second(products), rtol=1e-4, atol=1e-5
    )


def test_in_place_updates_wait_for_what_is_computed_again():
    """The state is updated in place; what came before is read behind the barrier."""

    def layer(x):
        return jnp.sin(x).at[3].set(x[5] * x[4])

    def loss(layer):
        def run(x):
            for _ in range(3):
                x = layer(x)
            y = x.at[0].set(1.0)
            return (y * x).sum()

        return jit(grad(run))

    x = jnp.linspace(0.0, 2.0, 5000)
    np.testing.assert_array_equal(loss(checkpoint(layer))(x), loss(layer)(x))


_RESIDENT = """
import curta, curta.numpy as jnp

def plain(w, x):
    return x + jnp.tanh(jnp.tanh(x @ w) @ w)

def peak():
    with open("/proc/self/status") as file:
        return next(int(l.split()[1]) for l in file if l.startswith("VmHWM"))

ws, x = [jnp.full((64, 64), 0.01)] * 24, jnp.ones((16384, 64))
for layer in curta.checkpoint(plain), plain:

    def loss(ws, x):
        for w in ws:
            x = layer(w, x)
        return (x**2).sum()

    step = curta.jit(curta.grad(loss))
    step([w[:, :] for w in ws], x[:1])  # what compiling takes is not counted
    step.lower(ws, x).compile()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is now the present size
    before = peak()
    curta.block_until_ready(step(ws, x))
    print((peak() - before) * 1024 / x.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_resident_memory():
    """The memory of the process, not the compiler's estimate."""
    env = {**os.environ, "CURTA_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _RESIDENT]
    found = subprocess.run(command, env=env, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    with_checkpoints, further = map(float, found.stdout.split())
    assert with_checkpoints <= 24 + 12
    assert with_checkpoints + further >= 60  # the arena of the first is used again


def test_elements_differ_only_by_products_that_fuse_with_sums(monkeypatch):
    def layer(w, x):
        return x * w[0] + w[1] * jnp.sin(x)

    def gradients():
        """Of the rows, with a checkpoint of each layer and without."""
        of = [jit(grad(chain(f, 6), 1)) for f in (layer, checkpoint(layer))]
        ws = jnp.linspace(0.3, 0.9, 12 * WIDTH).reshape(6, 2, WIDTH)
        x = jnp.linspace(-1.0, 1.0, 8 * WIDTH).reshape(8, WIDTH)
        return [np.asarray(f(ws, x)) for f in of]

    plain, again = gradients()
    np.testing.assert_allclose(plain, again, rtol=1e-6)
    monkeypatch.setattr(Instructions, "flags", "")
    with enable_compilation_cache(False):
        plain, again = gradients()
    assert (plain == again).all()
