"""A small transformer learns to add, its batches and its matrices cut over hosts.

    python examples/hosts/transformer.py                             alone
    python -m curta.run -n 4 examples/hosts/transformer.py           four processes
    mpiexec -n 4 python examples/hosts/transformer.py                four, by MPI
    CURTA_SIMULATE_HOSTS=4 python examples/hosts/transformer.py      four, simulated

The hosts are a grid. Along "data" each has some lines of text; along "model" each has
some heads of the attention and some units of the hidden layers. `SPECS` says so, and
is all that is said of hosts: the sums between them follow.
"""

import common
import digits
import matplotlib
import numpy as np

import curta as jax
import curta.numpy as jnp
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P

matplotlib.use("Agg")  # draw into files; no window system needed
import matplotlib.pyplot as plt

LETTERS = "0123456789+="
PROMPT, LENGTH = 6, 9  # letters of 47+85= and of 47+85=231
WIDTH, HEADS, HIDDEN, LAYERS = 64, 4, 256, 2
RATE = 3e-3

# How the parameters are cut; those that are not named are on all hosts.
SPECS = {
    "query": P(None, "model"),
    "key": P(None, "model"),
    "value": P(None, "model"),
    "mix": P("model"),
    "up": P(None, "model"),
    "down": P("model"),
}


def sums(rng, count):
    """Lines like 47+85=231, the sum backward, as numbers of letters."""
    pairs = rng.integers(0, 100, (count, 2))
    lines = [f"{a:02d}+{b:02d}={f'{a + b:03d}'[::-1]}" for a, b in pairs]
    return np.array([[*map(LETTERS.index, line)] for line in lines], np.int32)


def init_params(key):
    heads = (WIDTH, HEADS, WIDTH // HEADS)
    shapes = dict.fromkeys(("query", "key", "value"), heads) | {
        "mix": (HEADS, WIDTH // HEADS, WIDTH),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    ends = {"letters": (len(LETTERS), WIDTH), "places": (LENGTH, WIDTH)}
    tree = {**ends, "layers": [shapes] * LAYERS, "last": (WIDTH, len(LETTERS))}
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: type(x) is tuple)
    keys = jax.random.split(key, len(leaves))
    values = [0.1 * jax.random.normal(k, s) for k, s in zip(keys, leaves)]
    return jax.tree.unflatten(structure, values)


def normed(x):
    x = x - jnp.mean(x, -1, keepdims=True)
    return x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


def attention(layer, x):
    x = normed(x)
    query, key, value = (
        jnp.einsum("btw,whd->bhtd", x, layer[n]) for n in ("query", "key", "value")
    )
    scores = jnp.einsum("bhtd,bhsd->bhts", query, key) / np.sqrt(WIDTH // HEADS)
    before = np.tri(x.shape[1], dtype=bool)
    weights = jax.nn.softmax(jnp.where(before, scores, -1e9))
    return jnp.einsum("bhts,bhsd,hdw->btw", weights, value, layer["mix"])


def logits(params, text):
    """Scores of the letter after each letter of some lines."""
    x = params["letters"][text] + params["places"][: text.shape[1]]
    for layer in params["layers"]:
        x = x + attention(layer, x)
        x = x + jax.nn.relu(normed(x) @ layer["up"]) @ layer["down"]
    return normed(x) @ params["last"]


def loss_and_hits(params, lines):
    """The loss of the digits of sums, and the share of them that are right."""
    scores = logits(params, lines[:, :-1])[:, PROMPT - 1 :]
    wanted = lines[:, PROMPT:]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), wanted[..., None], -1)
    return -jnp.mean(chosen), jnp.mean(jnp.argmax(scores, -1) == wanted)


@jax.jit
def train_step(params, state, lines):
    found, grads = jax.value_and_grad(loss_and_hits, has_aux=True)(params, lines)
    return *digits.adam(params, grads, state, RATE), *found


def train(key, steps, batch, meter=iter):
    """The loss of each step, and the share of digits that were right."""
    count = jax.device_count()
    shape = (count // 2, 2) if count % 2 == 0 else (count, 1)
    mesh = jax.make_mesh(shape, ("data", "model"), (AxisType.Auto, AxisType.Auto))

    def placed(path, x):
        spec = SPECS.get(getattr(path[-1], "key", ""), P())
        return jax.device_put(x, NamedSharding(mesh, spec))

    params = jax.tree_util.tree_map_with_path(placed, init_params(key))
    state = jax.tree_util.tree_map_with_path(placed, digits.init_adam(params))
    rng = np.random.default_rng(0)
    losses, hits = [], []
    for _ in meter(range(steps)):
        lines = jax.device_put(sums(rng, batch), NamedSharding(mesh, P("data")))
        params, state, loss, right = train_step(params, state, lines)
        losses.append(float(loss))
        hits.append(float(right))
    return losses, hits


def draw(path, losses, hits):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharex=True)
    axes[0].semilogy(losses, color="tab:blue")
    axes[0].set_ylabel("loss")
    axes[1].plot(100 * np.array(hits), color="tab:orange")
    axes[1].set_ylabel("digits of sums that are right, %")
    for axis in axes:
        axis.set_xlabel("step")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments=None):
    options = common.parser(__doc__, steps=600, batch=256).parse_args(arguments)
    alone = common.start(options, "transformer")
    meter = common.Meter()
    losses, hits = train(jax.random.key(0), options.steps, options.batch, meter)
    meter.report(options, "transformer", alone)
    if common.is_first():
        draw(options.out / "transformer.png", losses, hits)
        print(f"  digits of sums that are right: {100 * hits[-1]:.1f} %")
        print(f"  picture: {options.out}/transformer.png")


if __name__ == "__main__":
    main()
