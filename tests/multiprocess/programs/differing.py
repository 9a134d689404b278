"""Processes that trace different programs."""

import numpy as np

import curta
import curta.numpy as jnp
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


def main() -> None:
    curta.distributed.initialize()
    mesh = curta.make_mesh((curta.device_count(),), ("x",), axis_types=(AxisType.Auto,))
    x = curta.device_put(np.arange(4.0), NamedSharding(mesh, P("x")))

    @curta.jit
    def step(x):
        y = jnp.sin(x)
        return jnp.sum(y * (1 + curta.process_index()))

    print(step(x))


if __name__ == "__main__":
    main()
