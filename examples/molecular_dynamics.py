"""Molecular dynamics: atoms condense, moved by the gradient of an energy.

**Problem.** Simulate a gas of atoms in a periodic box while it is cooled.

**Model.** Atoms attract and repel each other by the Lennard-Jones potential. A
thermostat scales their velocities.

**Method.** `grad` of the energy gives the forces. The velocity Verlet method moves the
atoms, with `scan` over the steps. Without the thermostat the energy is constant, which
the program checks first.

**Result.** The cooled gas forms drops.

**To try.** More atoms (`--side 20`), or slower cooling.

    python examples/molecular_dynamics.py [--side 14] [--out examples/out]
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
DT = 0.004
SPACING = 1.8  # of the lattice at the start, in diameters of an atom


def pair_energy(square):
    """Lennard-Jones, from the square of the distance, shifted to 0 at distance 3."""
    inside = square < 9.0
    power = 1 / jnp.where(inside, square, 9.0) ** 3
    return jnp.where(inside, 4 * (power**2 - power) - 4 * (3.0**-12 - 3.0**-6), 0.0)


def potential(positions, box):
    gaps = positions[:, None] - positions[None]
    gaps = gaps - box * jnp.round(gaps / box)  # the nearest image
    square = jnp.sum(gaps**2, axis=-1) + 100.0 * jnp.eye(len(positions))
    return 0.5 * jnp.sum(pair_energy(square))


def temperature(velocities):
    return jnp.mean(velocities**2)


def step(state, target, box):
    """One velocity Verlet step; `target` 0 leaves the velocities as they are."""
    positions, velocities, forces = state
    velocities = velocities + DT / 2 * forces
    positions = (positions + DT * velocities) % box
    forces = -jax.grad(potential)(positions, box)
    velocities = velocities + DT / 2 * forces
    ratio = target / temperature(velocities)
    scale = jnp.where(target > 0, jnp.sqrt(1 + 0.01 * (ratio - 1)), 1.0)
    return positions, scale * velocities, forces


@jax.jit
def run(state, targets, box):
    """A step for each target; the energy after each."""

    def body(state, target):
        state = step(state, target, box)
        kinetic = 0.5 * jnp.sum(state[1] ** 2)
        return state, (potential(state[0], box) + kinetic, temperature(state[1]))

    return jax.lax.scan(body, state, targets)


def lattice(key, side):
    """Atoms on a square lattice with random velocities of temperature 1."""
    axis = (jnp.arange(side) + 0.5) * SPACING
    positions = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    velocities = jax.random.normal(key, positions.shape)
    return positions, velocities - velocities.mean(0)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", type=int, default=14)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    box = SPACING * options.side
    positions, velocities = lattice(jax.random.key(0), options.side)
    start = positions, velocities, -jax.grad(potential)(positions, box)
    free, (energies, _) = run(start, jnp.zeros(options.steps // 6), box)
    drift = float(jnp.abs(energies - energies[0]).max() / len(positions))
    print(f"{len(positions)} atoms; the energy of each drifts by {drift:.5f} at most")

    targets = jnp.linspace(1.0, 0.25, options.steps)
    began = time.perf_counter()
    cold, (energies, temperatures) = jax.block_until_ready(run(free, targets, box))
    rate = options.steps / (time.perf_counter() - began)
    print(f"{rate:,.0f} steps a second; temperature {float(temperatures[-1]):.2f}")

    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    for axis, state, name in zip(axes, (free, cold), ("hot: a gas", "cooled: drops")):
        axis.scatter(*state[0].T, s=30, c=jnp.sum(state[1] ** 2, axis=1), cmap="plasma")
        axis.set(xlim=(0, box), ylim=(0, box), aspect="equal", title=name)
    axes[2].plot(temperatures, label="temperature")
    axes[2].plot(energies / len(positions), label="energy of an atom")
    axes[2].set_xlabel("step")
    axes[2].legend()
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "molecular_dynamics.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
