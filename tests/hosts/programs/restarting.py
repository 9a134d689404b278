"""A training that goes on from what was saved last: `restarting.py FOLDER STEPS`."""

import os
import sys

import numpy as np

import curta
import curta.numpy as jnp
from curta import state
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


@curta.jit
def step(weights, x, y):
    def loss(weights):
        return jnp.mean((jnp.tanh(x @ weights["in"]) @ weights["out"] - y) ** 2)

    value, gradient = curta.value_and_grad(loss)(weights)
    return curta.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), value


def main(folder: str, steps: int) -> None:
    curta.distributed.initialize(heartbeat_timeout_seconds=5)
    count = curta.device_count()
    mesh = curta.make_mesh((count,), ("x",), axis_types=(AxisType.Auto,))
    cut = NamedSharding(mesh, P("x"))
    places = {"in": NamedSharding(mesh, P(None, "x")), "out": cut}
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(16, n)).astype("f4") for n in (8, 4))
    x, y = curta.device_put(x, cut), curta.device_put(y, cut)
    if os.path.exists(os.path.join(folder, "index.json")):
        weights, first = state.restore(folder, places), state.step(folder) or 0
    else:
        shapes, first = {"in": (8, 32), "out": (32, 4)}, 0
        weights = {
            name: curta.device_put(random.normal(size=shape).astype("f4"), places[name])
            for name, shape in shapes.items()
        }
    for i in range(first, steps):
        if i % 5 == 0:
            state.save(folder, weights, step=i)
        weights, value = step(weights, x, y)
        sys.stdout.write(f"step {i} {float(value):.9g}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
