"""A net on a graph, by Jraph and Haiku."""

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def graph_net() -> Program:
    nodes, edges = 500, 3000
    graph = jraph.GraphsTuple(
        nodes=jnp.asarray(_RANDOM.normal(size=(nodes, 16)).astype(np.float32)),
        edges=jnp.asarray(_RANDOM.normal(size=(edges, 8)).astype(np.float32)),
        senders=jnp.asarray(_RANDOM.integers(0, nodes, edges)),
        receivers=jnp.asarray(_RANDOM.integers(0, nodes, edges)),
        n_node=jnp.array([nodes]),
        n_edge=jnp.array([edges]),
        globals=jnp.zeros((1, 4)),
    )
    labels = jnp.asarray(_RANDOM.integers(0, 4, nodes))

    def net(graph):
        def mlp(*sizes):
            return jraph.concatenated_args(hk.nets.MLP(sizes))

        for _ in range(2):
            graph = jraph.GraphNetwork(mlp(32, 8), mlp(32, 16), mlp(16, 4))(graph)
        return hk.Linear(4)(graph.nodes)

    transformed = hk.without_apply_rng(hk.transform(net))
    params = transformed.init(jax.random.key(0), graph)
    optimiser = optax.adam(1e-3)

    def loss(params):
        logits = transformed.apply(params, graph)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return each.mean()

    @jax.jit
    def step(state):
        params, moments, _ = state
        value, grads = jax.value_and_grad(loss)(params)
        updates, moments = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), moments, value

    state = params, optimiser.init(params), jnp.zeros(())
    return Program(state, step, lambda state: state[2])
