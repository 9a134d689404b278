"""Model-predictive control: swing up a pole by gradients through the physics.

**Problem.** A cart on a rail has a hanging pole. Find forces that swing it up and hold
it there.

**Model.** The equations of motion of cart and pole, integrated in time.

**Method.** At each instant the controller simulates a plan of forces for the next 1.5
seconds and improves it by gradient descent through the simulation. It applies the first
force, shifts the plan and improves it again. `vmap` tries sixteen plans at once; the
best one counts.

**To try.** A heavier pole, a weaker motor (`MAX_FORCE`), or fewer plans.

    python examples/control.py [--steps 250] [--out examples/out]
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tqdm import tqdm

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
DT, HORIZON, PLANS = 0.03, 50, 16
CART, POLE, LENGTH, GRAVITY, MAX_FORCE = 1.0, 0.2, 0.5, 9.81, 8.0


def accelerate(state, force):
    """The derivative of (position, angle, speed, angular speed); angle 0 is upright."""
    _, angle, speed, turning = state
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (force + POLE * LENGTH * turning**2 * sine) / (CART + POLE)
    inertia = LENGTH * (4 / 3 - POLE * cosine**2 / (CART + POLE))
    turn = (GRAVITY * sine - cosine * push) / inertia
    move = push - POLE * LENGTH * turn * cosine / (CART + POLE)
    return jnp.array([speed, turning, move, turn])


def step(state, control):
    """One step of the midpoint method; `control` is squashed into a force."""
    force = MAX_FORCE * jnp.tanh(control)
    middle = state + DT / 2 * accelerate(state, force)
    return state + DT * accelerate(middle, force)


def cost(plan, state):
    """Of the states that the plan leads to: upright, in the middle, at rest."""

    def body(state, control):
        state = step(state, control)
        position, angle, speed, turning = state
        now = 3 * (1 - jnp.cos(angle)) + 0.5 * position**2 + 0.1 * control**2
        return state, now + 0.01 * turning**2 + 0.02 * speed**2

    state, costs = jax.lax.scan(body, state, plan)
    return jnp.sum(costs) + 20 * (1 - jnp.cos(state[1]))


def improve(plan, state, rounds=8):
    """Descend, by steps whose length is bounded."""

    def body(i, plan):
        slope = jax.grad(cost)(plan, state)
        size = jnp.sqrt(jnp.mean(slope**2)) + 1.0
        return plan - 0.3 * 0.8**i * slope / size

    plan = jax.lax.fori_loop(0, rounds, body, plan)
    return plan, cost(plan, state)


@jax.jit
def control(key, plan, state):
    """The state after one step with the best plan, that plan shifted, and its cost."""
    scale = jnp.linspace(0.0, 1.0, PLANS)[:, None]
    plans = plan + scale * jax.random.normal(key, (PLANS, HORIZON))
    plans, costs = jax.vmap(improve, (0, None))(plans, state)
    plan = plans[jnp.argmin(costs)]
    return step(state, plan[0]), jnp.append(plan[1:], 0.0), jnp.tanh(plan[0])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    state, plan = jnp.array([0.0, jnp.pi, 0.0, 0.0]), jnp.zeros(HORIZON)
    keys = jax.random.split(jax.random.key(0), options.steps)
    jax.block_until_ready(control(keys[0], plan, state))  # compiles
    states, forces, start = [state], [], time.perf_counter()
    for key in tqdm(keys, unit="step"):
        state, plan, force = control(key, plan, state)
        states.append(state)
        forces.append(MAX_FORCE * force)
    states, forces = jnp.stack(states), jnp.stack(forces)
    jax.block_until_ready(states)
    seconds = float(time.perf_counter() - start) / options.steps
    upright = jnp.cos(states[:, 1])
    print(f"a decision takes {1000 * seconds:.1f} ms; {1000 * DT:.0f} ms are there")
    print(f"height of the pole at the end: {float(upright[-1]):.3f} (1 is upright)")

    figure, axes = plt.subplots(1, 2, figsize=(12, 4))
    times = DT * jnp.arange(len(states))
    axes[0].plot(times, upright, label="height of the pole")
    axes[0].plot(times, states[:, 0], label="position of the cart, m")
    axes[0].plot(times[1:], forces / MAX_FORCE, linewidth=0.6, label="force / greatest")
    axes[0].set_xlabel("time, s")
    axes[0].legend()
    shown = states[::3]
    tips = shown[:, 0] + jnp.sin(shown[:, 1]), jnp.cos(shown[:, 1])
    for i, (x, tip_x, tip_y) in enumerate(zip(shown[:, 0], *tips)):
        shade = plt.cm.viridis(i / len(shown))
        axes[1].plot([x, tip_x], [0, tip_y], color=shade, linewidth=0.8)
    axes[1].set(aspect="equal", title="the pole, from early (blue) to late (yellow)")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "control.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
