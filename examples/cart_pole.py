"""Reinforcement learning: balance a pole in 1,024 environments at once.

**Problem.** A cart moves left or right so that the pole on it does not fall.

**Model.** The environment is a function of one state. A small network, the policy,
gives the probability of each action. Advantage actor-critic (A2C, Mnih et al., 2016)
improves it: the gradient of the log-probability of an action times its advantage.

**Method.** `vmap` maps the environment over 1,024 states. `scan` runs them for 32
steps, with the network's random draws, in one compiled program. Only the rewards leave
the program.

**To try.** Change the number of environments or the length of a rollout, and compare
the reward after the same number of steps.

    python examples/cart_pole.py [--updates 150] [--out examples/out]
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tqdm import tqdm

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
COUNT, STEPS, DISCOUNT, LONGEST = 1024, 32, 0.98, 500


def reset(key):
    return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)


def physics(state, push):
    """A fiftieth of a second of cart and pole (Barto, Sutton & Anderson, 1983)."""
    x, speed, angle, turning = state
    force = jnp.where(push == 1, 10.0, -10.0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    pull = (force + 0.05 * turning**2 * sine) / 1.1
    twist = (9.8 * sine - cosine * pull) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    acceleration = pull - 0.05 * twist * cosine / 1.1
    rates = jnp.stack([speed, acceleration, turning, twist])
    return state + 0.02 * rates


def step(state, age, push, key):
    """The next state and age, and whether it had fallen and was put up again."""
    state = physics(state, push)
    fallen = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 0.21)
    over = fallen | (age + 1 >= LONGEST)
    state = jnp.where(over, reset(key), state)
    return state, jnp.where(over, 0, age + 1), fallen, over


def init(key):
    layers = []
    for n_in, n_out, scale in ((4, 64, 1.0), (64, 64, 1.0), (64, 3, 0.1)):
        key, layer_key = jax.random.split(key)
        weights = scale * jax.random.normal(layer_key, (n_in, n_out)) / jnp.sqrt(n_in)
        layers.append((weights, jnp.zeros(n_out)))
    return layers


def network(layers, state):
    """Scores of the two pushes, and the reward that is still expected."""
    *hidden, (weights, biases) = layers
    for w, b in hidden:
        state = jnp.tanh(state @ w + b)
    out = state @ weights + biases
    return out[..., :2], out[..., 2]


def play(params, states, ages, key):
    """STEPS of all environments; what happened in each, (STEPS, COUNT) of it."""

    def one(carry, key):
        states, ages = carry
        push_key, *reset_keys = jax.random.split(key, COUNT + 1)
        pushes = jax.random.categorical(push_key, network(params, states)[0])
        given = states, ages, pushes, jnp.stack(reset_keys)
        new, ages, fallen, over = jax.vmap(step)(*given)
        return (new, ages), (states, pushes, fallen, over)

    return jax.lax.scan(one, (states, ages), jax.random.split(key, STEPS))


def loss(params, last, states, pushes, fallen, over):
    scores, values = network(params, states)

    def backwards(following, given):
        value, fallen, over = given
        # What would have come of one that was stopped is what was expected there.
        following = jnp.where(fallen, 0.0, jnp.where(over, value, following))
        reward = 1.0 + DISCOUNT * following
        return reward, reward

    rest = network(params, last)[1]
    given = jax.lax.stop_gradient((values, fallen, over))
    _, returns = jax.lax.scan(backwards, rest, given, reverse=True)
    returns = jax.lax.stop_gradient(returns)
    advantages = jax.lax.stop_gradient(returns - values)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
    chances = jax.nn.log_softmax(scores)
    chosen = jnp.take_along_axis(chances, pushes[..., None], axis=-1)[..., 0]
    entropy = -jnp.mean(jnp.sum(jnp.exp(chances) * chances, axis=-1))
    critic = jnp.mean((returns - values) ** 2) / 100
    return critic - jnp.mean(chosen * advantages) - 0.005 * entropy


@jax.jit
def update(params, mean, square, t, states, ages, key):
    """Play, and one step of Adam; the mean age at which poles fell."""
    (states, ages), history = play(params, states, ages, key)
    grads = jax.grad(loss)(params, states, *history)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, grads)

    def move(p, m, s):
        return p - 5e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(s / (1 - 0.99**t)) + 1e-8)

    falls = jnp.sum(history[2])
    length = COUNT * STEPS / jnp.maximum(falls, 1)
    return jax.tree.map(move, params, mean, square), mean, square, states, ages, length


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    init_key, reset_key, key = jax.random.split(jax.random.key(0), 3)
    params = init(init_key)
    mean = square = jax.tree.map(jnp.zeros_like, params)
    states = jax.vmap(reset)(jax.random.split(reset_key, COUNT))
    ages, lengths = jnp.zeros(COUNT, int), []
    for i in (meter := tqdm(range(options.updates), unit="update")):
        given = i + 1.0, states, ages, jax.random.fold_in(key, i)
        state = update(params, mean, square, *given)
        params, mean, square, states, ages, length = state
        lengths.append(float(length))
        meter.set_postfix(steps=f"{lengths[-1]:.0f}")
    print(f"{COUNT} environments, {options.updates * STEPS * COUNT:,} steps")
    print(f"steps for a fall: {lengths[0]:.0f} -> {lengths[-1]:.0f}")

    options.out.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(7, 4))
    axis.semilogy(lengths)
    axis.set(xlabel="update", ylabel="steps of an environment for a fall")
    figure.savefig(options.out / "cart_pole.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
