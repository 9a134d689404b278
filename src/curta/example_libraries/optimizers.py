"""Optimizers as triples of functions: initialize, update, read the parameters.

`init_fn(params)` makes the state, `update_fn(step, grads, state)` the next one, and
`params_fn(state)` gives the parameters back; they and the gradients are pytrees.

>>> import curta
>>> from curta import numpy as jnp
>>> from curta.example_libraries import optimizers
>>> init, update, params = optimizers.sgd(0.1)
>>> state = init({"x": jnp.array(1.0)})
>>> for step in range(3):
...     grads = curta.grad(lambda p: p["x"] ** 2)(params(state))
...     state = update(step, grads, state)
>>> params(state)["x"].round(3)
Array(0.512, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import curta.numpy as jnp
from curta import tree, tree_util
from curta._base.on_demand import Listing, listed
from curta.example_libraries.schedules import (
    Schedule as Schedule,
    constant as constant,
    exponential_decay as exponential_decay,
    inverse_time_decay as inverse_time_decay,
    make_schedule as make_schedule,
    piecewise_constant as piecewise_constant,
    polynomial_decay as polynomial_decay,
)

__all__ = [
    "JoinPoint",
    "Optimizer",
    "OptimizerState",
    "Schedule",
    "adagrad",
    "adam",
    "adamax",
    "clip_grads",
    "constant",
    "exponential_decay",
    "inverse_time_decay",
    "l2_norm",
    "make_schedule",
    "momentum",
    "nesterov",
    "optimizer",
    "pack_optimizer_state",
    "piecewise_constant",
    "polynomial_decay",
    "rmsprop",
    "rmsprop_momentum",
    "sgd",
    "sm3",
    "unpack_optimizer_state",
]
__dir__: Listing = listed(__all__)


class OptimizerState(NamedTuple):
    """The states of the leaves, flattened, with the structures to restore them.

    >>> from curta.example_libraries import optimizers
    >>> init, _, _ = optimizers.sgd(0.5)
    >>> init({"w": 1.0}).packed_state
    [[1.0]]
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree_util.register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, tuple(s.subtree_defs))),
    lambda structures, state: OptimizerState(state[0], *structures),
)


class Optimizer(NamedTuple):
    """The three functions of an optimizer.

    >>> from curta.example_libraries import optimizers
    >>> sgd = optimizers.sgd(0.5)
    >>> sgd.params_fn(sgd.update_fn(0, 1.0, sgd.init_fn(2.0)))
    1.5
    """

    init_fn: Callable[[Any], OptimizerState]
    update_fn: Callable[[Any, Any, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Any]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Make an optimizer of arrays one of pytrees.

    >>> from curta.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def halving():
    ...     return lambda x: x, lambda i, g, x: x / 2, lambda x: x
    >>> init, update, params = halving()
    >>> params(update(0, [1.0], init([8.0])))
    [4.0]
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_tree(params: Any) -> OptimizerState:
            leaves, structure = tree.flatten(params)
            states = [tree.flatten(init(x)) for x in leaves]
            packed, inner = zip(*states) if states else ((), ())
            return OptimizerState(list(packed), structure, tuple(inner))

        def update_tree(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            packed, structure, inner = state
            leaves, given = tree.flatten(grads)
            if given != structure:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not"
                    " match the parameter tree structure with which it was initialized:"
                    f" parameter tree {structure} and grad tree {given}."
                )
            states = map(tree.unflatten, inner, packed)
            updated = [tree.flatten(update(i, g, s)) for g, s in zip(leaves, states)]
            for before, (_, after) in zip(inner, updated):
                if after != before:
                    raise TypeError(
                        "optimizer update function produced an output structure that"
                        f" did not match its input structure: input {before} and"
                        f" output {after}."
                    )
            return OptimizerState([flat for flat, _ in updated], structure, inner)

        def params_tree(state: OptimizerState) -> Any:
            packed, structure, inner = state
            states = map(tree.unflatten, inner, packed)
            return tree.unflatten(structure, [get_params(s) for s in states])

        return Optimizer(init_tree, update_tree, params_tree)

    return make


def _first(state: Any) -> Any:
    return state[0]


@optimizer
def sgd(step_size: Any) -> Any:
    """Stochastic gradient descent; `step_size` is a number or a schedule.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.sgd(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.2,  0.4], dtype=float32)
    """
    step_size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - step_size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum (B. Polyak, 1964).

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.momentum(0.1, 0.9)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.2,  0.4], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * velocity, velocity

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Y. Nesterov's momentum (1983).

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.nesterov(0.1, 0.9)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.38,  0.76], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * (mass * velocity + g), velocity

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adaptive subgradients (J. Duchi, E. Hazan and Y. Singer, 2011).

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.adagrad(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.01,  0.01], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + jnp.square(g)
        safe = jnp.where(squares > 0, squares, 1)
        inverse = jnp.where(squares > 0, 1 / jnp.sqrt(safe), 0.0)
        mean = (1 - momentum) * (g * inverse) + momentum * mean
        return x - step_size(i) * mean, squares, mean

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Gradients over the root of their mean square (G. Hinton, 2012).

    Args:
      step_size: a number, or a function from the step to one.
      gamma: how much of the mean square is kept from step to step.
      eps: added to it under the root.

    Returns:
      The triple `(init_fun, update_fun, get_params)`.

    Raises:
      TypeError: if the step size is not a number.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.rmsprop(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.3162,  0.3162], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + jnp.square(g) * (1 - gamma)
        return x - step_size(i) * g / jnp.sqrt(squares + eps), squares

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """`rmsprop` with momentum.

    Args:
      step_size: a number, or a function from the step to one.
      gamma: how much of the mean square is kept from step to step.
      eps: added to it under the root.
      momentum: how much of the last step is kept.

    Returns:
      The triple `(init_fun, update_fun, get_params)`.

    Raises:
      TypeError: if the step size is not a number.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.rmsprop_momentum(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.3162,  0.3162], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares * gamma + jnp.square(g) * (1 - gamma)
        step = step_size(i) * g / jnp.sqrt(squares + eps)
        velocity = momentum * velocity + step
        return x - velocity, squares, velocity

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adaptive moments (D. Kingma and J. Ba, 2015).

    Args:
      step_size: a number, or a function from the step to one.
      b1: how much of the mean of the gradients is kept from step to step.
      b2: how much of the mean of their squares is kept.
      eps: added to the root of the latter.

    Returns:
      The triple `(init_fun, update_fun, get_params)`.

    Raises:
      TypeError: if the step size is not a number.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.adam(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.1,  0.1], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        # Both begin at zero, towards which they are therefore biased.
        mean = m / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        square = v / (1 - jnp.asarray(b2, m.dtype) ** (i + 1))
        return x - step_size(i) * mean / (jnp.sqrt(square) + eps), m, v

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def adamax(
    step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Any:
    """Adam with the largest gradient for their mean square (ibid., section 7.1).

    Args:
      step_size: a number, or a function from the step to one.
      b1: how much of the mean of the gradients is kept from step to step.
      b2: how much of the largest gradient is kept.
      eps: added to the latter.

    Returns:
      The triple `(init_fun, update_fun, get_params)`.

    Raises:
      TypeError: if the step size is not a number.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.adamax(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.1,  0.1], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, largest = state
        m = (1 - b1) * g + b1 * m
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        unbiased = step_size(i) / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        return x - unbiased * m / (largest + eps), m, largest

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad with a vector for each axis (R. Anil et al., 2019).

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> init, update, params = optimizers.sm3(0.1)
    >>> state = update(0, jnp.array([2.0, -4.0]), init(jnp.zeros(2)))
    >>> params(state).round(4)
    Array([-0.01,  0.01], dtype=float32)
    """
    step_size = make_schedule(step_size)

    def init(x: Any) -> Any:
        wide = jnp.atleast_1d(x)
        lines = [jnp.zeros(size, wide.dtype) for size in wide.shape]
        return x, jnp.zeros_like(wide), lines

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, lines = state
        g = jnp.atleast_1d(g)
        wide = [
            line.reshape([-1 if a == axis else 1 for a in range(g.ndim)])
            for axis, line in enumerate(lines)
        ]
        squares = functools.reduce(jnp.minimum, wide) + jnp.square(g)
        safe = jnp.where(squares > 0, squares, 1)
        inverse = jnp.where(squares > 0, 1 / jnp.sqrt(safe), 0.0)
        mean = (1 - momentum) * (g * inverse) + momentum * mean
        axes = range(g.ndim)
        lines = [squares.max([a for a in axes if a != axis]) for axis in axes]
        return x - (step_size(i) * mean).reshape(jnp.shape(x)), mean, lines

    return init, update, _first


# --- gradients -----------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """The length of a pytree as one vector.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> optimizers.l2_norm({"a": jnp.array(3.0), "b": jnp.array(4.0)})
    Array(5., dtype=float32, weak_type=True)
    """
    leaves = tree_util.tree_leaves(tree)
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in leaves))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradients, shortened to `max_norm` if they are longer.

    >>> from curta import numpy as jnp
    >>> from curta.example_libraries import optimizers
    >>> optimizers.clip_grads(jnp.array([3.0, 4.0]), 1.0).round(4)
    Array([0.6, 0.8], dtype=float32)
    """
    norm = l2_norm(grad_tree)

    def clipped(g: Any) -> Any:
        return jnp.where(norm < max_norm, g, g * (max_norm / norm))

    return tree_util.tree_map(clipped, grad_tree)


# --- states as pytrees of pytrees ----------------------------------------------------


class JoinPoint:
    """Where the tree of parameters ends and the state of one of them begins.

    >>> from curta.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.1, 0.9)
    >>> tree = optimizers.unpack_optimizer_state(init({"w": 1.0}))
    >>> tree["w"].subtree
    (1.0, Array(0., dtype=float32, weak_type=True))
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as the tree of parameters, with a `JoinPoint` at each leaf.

    >>> from curta.example_libraries import optimizers
    >>> init, _, _ = optimizers.sgd(0.5)
    >>> list(optimizers.unpack_optimizer_state(init({"w": 1.0})))
    ['w']
    """
    packed, structure, inner = opt_state
    points: Sequence[Any] = [
        JoinPoint(state) for state in map(tree.unflatten, inner, packed)
    ]
    return tree.unflatten(structure, points)


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`.

    >>> from curta.example_libraries import optimizers
    >>> init, _, get_params = optimizers.sgd(0.5)
    >>> tree = optimizers.unpack_optimizer_state(init({"w": 1.0}))
    >>> get_params(optimizers.pack_optimizer_state(tree))
    {'w': 1.0}
    """
    points, structure = tree.flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise AssertionError("every leaf of the tree has to be a JoinPoint")
    states = [tree.flatten(point.subtree) for point in points]
    packed, inner = zip(*states) if states else ((), ())
    return OptimizerState(list(packed), structure, tuple(inner))
