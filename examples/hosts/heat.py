"""The heat equation on a square plate, cut into blocks: each host has one.

    python examples/hosts/heat.py                                   alone
    python -m curta.run -n 4 examples/hosts/heat.py --compare       four processes
    mpiexec -n 4 python examples/hosts/heat.py                      four, by MPI
    CURTA_SIMULATE_HOSTS=4 python examples/hosts/heat.py            four, simulated

The program is written for the whole plate. Only the sharding of the plate refers to
hosts. Hosts exchange the rows and columns at the borders of their blocks.
"""

import functools

import common
import matplotlib
import numpy as np

import curta as jax
import curta.numpy as jnp
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P

matplotlib.use("Agg")  # draw into files; no window system needed
import matplotlib.pyplot as plt

RATE = 0.2  # diffusivity times the time of a step, over the area of a cell


def mesh_of_all():
    """The devices of all processes as a grid, as square as can be."""
    count = jax.device_count()
    rows = next(n for n in range(int(count**0.5), 0, -1) if count % n == 0)
    auto = (AxisType.Auto, AxisType.Auto)
    return jax.make_mesh((count // rows, rows), ("rows", "columns"), auto)


def hot_rings(size):
    """The plate at the start, as a function of the part that is asked for."""

    def part(index):
        places = np.linspace(-1, 1, size)
        y, x = np.ix_(places[index[0]], places[index[1]])
        waves = np.cos(9 * np.hypot(x - 0.3, y)) + np.cos(9 * np.hypot(x, y - 0.3))
        return (waves > 0.7).astype(np.float32)

    return part


def step(plate):
    """One step in time; outside of the plate it is cold."""
    around = jnp.pad(plate, 1)
    above, below = around[:-2, 1:-1], around[2:, 1:-1]
    left, right = around[1:-1, :-2], around[1:-1, 2:]
    return plate + RATE * (above + below + left + right - 4 * plate)


def solve(size, steps, each, meter=iter):
    """The plate at the start and at the end, and its heat from time to time."""
    split = NamedSharding(mesh_of_all(), P("rows", "columns"))

    @functools.partial(jax.jit, in_shardings=split, out_shardings=(split, None))
    def advance(plate):
        plate = jax.lax.fori_loop(0, each, lambda _, x: step(x), plate)
        return plate, jnp.mean(plate)

    first = jax.make_array_from_callback((size, size), split, hot_rings(size))
    plate, heat = first, []
    for _ in meter(range(steps // each)):
        plate, mean = advance(plate)
        heat.append(float(mean))
    return first, plate, heat


def draw(path, plates, heat):
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4))
    for axis, plate, title in zip(axes, plates, ("at the start", "at the end")):
        axis.imshow(plate, cmap="inferno", vmin=0, vmax=1)
        axis.set_title(title)
        axis.axis("off")
    axes[2].plot(heat, color="tab:red")
    axes[2].set_title("mean temperature")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments=None):
    options = common.parser(__doc__, size=1024, steps=2000, each=50)
    options = options.parse_args(arguments)
    alone = common.start(options, "heat")
    meter = common.Meter(options.each)
    first, plate, heat = solve(options.size, options.steps, options.each, meter)
    plates = [common.gathered(x) for x in (first, plate)]
    meter.report(options, "heat", alone)
    if common.is_first():
        draw(options.out / "heat.png", plates, heat)
        print(f"  picture: {options.out}/heat.png")


if __name__ == "__main__":
    main()
