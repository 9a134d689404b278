"""A model trained with its data, or its weights, over all processes."""

import sys

import numpy as np
from tests.multiprocess.programs.saying import say

import curta
import curta.numpy as jnp
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


def loss(weights, x, y):
    hidden = jnp.tanh(x @ weights["in"])
    return jnp.mean((hidden @ weights["out"] - y) ** 2)


@curta.jit
def step(weights, x, y):
    value, gradient = curta.value_and_grad(loss)(weights, x, y)
    new = curta.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)
    return new, value


def train(mesh, how):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(16, 8)), random.normal(size=(16, 4))
    weights = {"in": random.normal(size=(8, 32)), "out": random.normal(size=(32, 4))}
    places = {"in": P(), "out": P(), "data": P("x")}
    if how == "weights":
        places = {"in": P(None, "x"), "out": P("x"), "data": P()}
    put = lambda a, name: curta.device_put(a, NamedSharding(mesh, places[name]))  # noqa: E731
    weights = {name: put(w, name) for name, w in weights.items()}
    x, y = put(x, "data"), put(y, "data")
    values = []
    for _ in range(5):
        weights, value = step(weights, x, y)
        values.append(float(value))
    return values


def main(how: str) -> None:
    curta.distributed.initialize()
    curta.config.update("jax_enable_x64", True)
    mesh = curta.make_mesh((curta.device_count(),), ("x",), axis_types=(AxisType.Auto,))
    values = train(mesh, how)
    own = curta.make_mesh(
        (1,), ("x",), axis_types=(AxisType.Auto,), devices=curta.local_devices()
    )
    alone = train(own, how)
    np.testing.assert_allclose(values, alone, rtol=1e-12)
    assert values[-1] < values[0]
    shown = " ".join(f"{v:.12g}" for v in values)
    say(f"processes {curta.process_count()} {shown}")


if __name__ == "__main__":
    main(sys.argv[1])
