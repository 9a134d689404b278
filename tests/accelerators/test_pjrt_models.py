"""Tier B: training steps of models, compiled for absent GPUs and TPUs."""

import functools
import importlib.util
from pathlib import Path

import pytest
from tests.accelerators import targets
from tests.accelerators.modules import lower

import curta
import curta.numpy as jnp
from curta.runtime.pjrt.options import compile_options

DIGITS = Path(__file__).parents[2] / "examples" / "digits.py"


def digits_step():
    """The demo's training step."""
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("digits", DIGITS)
    digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    key = curta.random.key(0)
    params = digits.init_params(key)
    images, labels = jnp.zeros((64, 64)), jnp.zeros(64, jnp.int32)
    args = params, digits.init_adam(params), key, images, labels, 0.5
    return digits.train_step, args


# Powers of two: without a GPU to try them on, XLA finds no tiles for some other sizes.
WIDTH, HEADS, WORDS, LENGTH = 64, 4, 64, 16


def block(x, w):
    """Attention to what came before, then a layer of its own for each word."""
    q, k, v = (
        (x @ w[name]).reshape(LENGTH, HEADS, WIDTH // HEADS)
        for name in ("query", "key", "value")
    )
    mixed = curta.nn.dot_product_attention(q, k, v, is_causal=True)
    x = curta.nn.standardize(x + mixed.reshape(LENGTH, WIDTH))
    return curta.nn.standardize(x + curta.nn.gelu(x @ w["up"]) @ w["down"])


def transformer_loss(params, text):
    x, _ = curta.lax.scan(
        lambda x, w: (block(x, w), None), params["words"][text], params["blocks"]
    )
    scores = curta.nn.log_softmax(x @ params["words"].T)
    return -scores[jnp.arange(LENGTH), jnp.roll(text, -1)].mean()


@curta.jit
def transformer_step(params, texts):
    losses = curta.vmap(curta.checkpoint(transformer_loss), in_axes=(None, 0))
    loss, grads = curta.value_and_grad(lambda p: losses(p, texts).mean())(params)
    return loss, curta.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def transformer():
    shapes = {"query": (WIDTH,), "key": (WIDTH,), "value": (WIDTH,)}
    shapes |= {"up": (4 * WIDTH,)}
    weights = {name: jnp.ones((3, WIDTH, *s)) / WIDTH for name, s in shapes.items()}
    weights["down"] = jnp.ones((3, 4 * WIDTH, WIDTH)) / WIDTH
    params = {"words": jnp.ones((WORDS, WIDTH)), "blocks": weights}
    return transformer_step, (params, jnp.zeros((8, LENGTH), jnp.int32))


@pytest.mark.parametrize("name", targets.NAMES)
@pytest.mark.parametrize("model", [digits_step, transformer], ids=lambda m: m.__name__)
def test_training_step_is_compiled(model, name):
    topology = targets.topology(name)
    step, args = model()
    closed = step.trace(*args).jaxpr
    text = lower(closed, [name])
    topology.compile(text, compile_options(devices=[0])).close()


@pytest.mark.parametrize("name", targets.NAMES)
def test_data_parallel_step_is_compiled(name):
    topology = targets.topology(name)
    step, (params, texts) = transformer()
    mesh = curta.sharding.AbstractMesh((4,), ("data",))
    spec = curta.sharding.PartitionSpec
    place = functools.partial(curta.sharding.NamedSharding, mesh)
    split = curta.jit(step, in_shardings=(place(spec()), place(spec("data"))))
    text = split.lower(params, texts).as_text()
    assert "num_partitions = 4" in text
    options = compile_options(partitions=4, devices=[0, 1, 2, 3])
    topology.compile(text, options).close()
