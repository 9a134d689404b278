"""Processes that run two programs, which all have compiled, in another order."""

import numpy as np
from tests.multiprocess.programs.saying import say

import curta
import curta.numpy as jnp
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


@curta.jit
def one(x):
    return jnp.sum(x)


@curta.jit
def two(x):
    return jnp.sum(x * 2)


def main() -> None:
    curta.distributed.initialize()
    mesh = curta.make_mesh((curta.device_count(),), ("x",), axis_types=(AxisType.Auto,))
    x = curta.device_put(np.arange(12.0), NamedSharding(mesh, P("x")))
    say(f"{float(one(x))} {float(two(x))}")
    order = (one, two) if curta.process_index() == 0 else (two, one)
    say(str([float(f(x)) for f in order]))


if __name__ == "__main__":
    main()
