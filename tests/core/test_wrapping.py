"""Wrappers of callables that are not functions."""

import pytest

import curta
import curta.numpy as jnp


class Doubled:
    """An object whose attributes are not those of a function."""

    def __init__(self):
        self.__name__, self.__qualname__, self.__annotations__ = 3, None, 5

    def __call__(self, x):
        return 2 * x


@pytest.mark.parametrize(
    "transform",
    [
        curta.grad, curta.value_and_grad, curta.jacfwd, curta.jacrev, curta.hessian,
        curta.checkpoint, curta.custom_gradient,
    ],
)  # fmt: skip
def test_any_callable_can_be_transformed(transform):
    assert callable(transform(Doubled()))


def test_it_is_called():
    assert curta.grad(Doubled())(1.0) == 2
    assert curta.vmap(Doubled())(jnp.arange(3)).tolist() == [0, 2, 4]
    assert curta.checkpoint(Doubled()).__wrapped__(1) == 2
