"""Derivatives by arrays that are sparse: their gradients store the same elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import curta.api.grad as dense_grad
from curta import tree_util
from curta.api import jacobian as dense_jacobian
from curta.api.arguments import differentiated_argnums
from curta.experimental.sparse.base import JAXSparse


def _flattened(
    transform: Callable[..., Any],
) -> Callable[..., Callable[..., Any]]:
    """A transformation that differentiates by the data of sparse arguments alone."""

    def apply(
        fun: Callable[..., Any],
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        **kwargs: Any,
    ) -> Callable[..., Any]:
        one, chosen = differentiated_argnums(argnums)
        transform(fun, chosen, has_aux=has_aux, **kwargs)  # checks them

        def call(*args: Any, **more: Any) -> Any:
            dense_grad.check_enough_arguments(args, argnums, chosen)
            datas = [_data(args[i]) for i in chosen]

            def of_data(*datas: Any) -> Any:
                full = list(args)
                for i, data in zip(chosen, datas):
                    full[i] = _with_data(args[i], data)
                return fun(*full, **more)

            data_argnums = tuple(range(len(chosen)))
            derivative = transform(of_data, data_argnums, has_aux=has_aux, **kwargs)(
                *datas
            )
            return derivative, [args[i] for i in chosen], one

        return call

    return apply


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _data(tree: Any) -> Any:
    return tree_util.tree_map(
        lambda x: x.data if _is_sparse(x) else x, tree, is_leaf=_is_sparse
    )


def _with_data(tree: Any, data: Any) -> Any:
    leaves, structure = tree_util.tree_flatten(tree, is_leaf=_is_sparse)
    result = tree_util.tree_leaves(data)
    made = [_same(x, d) if _is_sparse(x) else d for x, d in zip(leaves, result)]
    return tree_util.tree_unflatten(structure, made)


def _same(x: Any, data: Any) -> Any:
    """The sparse array `x` with other data."""
    buffers, known = x.tree_flatten()
    return type(x).tree_unflatten(known, (data, *buffers[1:]))


def _unpacked(derivative: Any, args: Sequence[Any], one: bool) -> Any:
    made = tuple(_with_data(arg, d) for arg, d in zip(args, derivative))
    return made[0] if one else made


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    **kwargs: Any,
) -> Callable[..., Any]:
    """`curta.value_and_grad` by sparse arguments.

    Args:
      fun: function of arrays, dense or sparse, to a scalar.
      argnums: the positional argument(s) to differentiate in; by default the first.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      **kwargs: further ones of `curta.value_and_grad`.

    Returns:
      A function of the same arguments that returns the value and the gradient, which
      stores what the argument does.

    Raises:
      TypeError: if `fun` is not callable; when the function is called, in the cases of
        `curta.value_and_grad`.

    >>> from curta.experimental import sparse
    >>> from curta import numpy as jnp
    >>> x = sparse.BCOO.fromdense(jnp.array([1.0, 0.0, 2.0]))
    >>> value, slope = sparse.value_and_grad(lambda x: (x @ x).sum())(x)
    >>> value, slope.data
    (Array(5., dtype=float32), Array([2., 4.], dtype=float32))
    """
    inner = _flattened(dense_grad.value_and_grad)(fun, argnums, has_aux, **kwargs)

    def call(*args: Any, **more: Any) -> Any:
        (value, derivative), sparse, one = inner(*args, **more)
        return value, _unpacked(derivative, sparse, one)

    return call


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    **kwargs: Any,
) -> Callable[..., Any]:
    """`curta.grad` by sparse arguments: gradients store what the arguments do.

    Args:
      fun, argnums, has_aux, **kwargs: as for `value_and_grad`.

    Returns:
      A function of the same arguments that returns the gradient, and with `has_aux` the
      auxiliary value.

    Raises:
      TypeError: where `value_and_grad` does.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([0.0, 3.0]))
    >>> sparse.grad(lambda x: (x * x).sum())(x).data
    Array([6.], dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    def call(*args: Any, **more: Any) -> Any:
        value, derivative = both(*args, **more)
        return (derivative, value[1]) if has_aux else derivative

    return call


def _jacobian(transform: Callable[..., Any]) -> Callable[..., Any]:
    def apply(
        fun: Callable[..., Any],
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        **kwargs: Any,
    ) -> Callable[..., Any]:
        inner = _flattened(transform)(fun, argnums, has_aux, **kwargs)

        def call(*args: Any, **more: Any) -> Any:
            derivative, sparse, one = inner(*args, **more)
            aux: Any = None
            if has_aux:
                derivative, aux = derivative
            if any(map(_is_sparse, sparse)):
                # The elements of the result come first: they are a batch.
                derivative = tuple(
                    _batched(arg, d) if _is_sparse(arg) else d
                    for arg, d in zip(sparse, derivative)
                )
            out = derivative[0] if one else derivative
            return (out, aux) if has_aux else out

        return call

    apply.__name__ = apply.__qualname__ = transform.__name__
    apply.__doc__ = _JACOBIAN.format(name=transform.__name__)
    return apply


_JACOBIAN = """As `curta.{name}`, by the stored elements of sparse arguments.

    The Jacobian by a sparse argument is sparse in the dims of that argument.

    Args:
      fun, argnums, has_aux, **kwargs: as for `curta.{name}`.

    Returns:
      A function of the same arguments that returns the Jacobian, of arguments that are
      sparse a `BCOO`.

    Raises:
      NotImplementedError: when the function is called, for arguments with batch dims.
      TypeError, ValueError: where `curta.{name}` does.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([1.0, 0.0, 3.0]))
    >>> rows = sparse.{name}(lambda x: x.todense() ** 2)(x)
    >>> print(rows.todense())
    [[2. 0. 0.]
     [0. 0. 0.]
     [0. 0. 6.]]
    """


def _batched(x: Any, derivative: Any) -> Any:
    """The derivative by the data of `x` as an array (*out, *x.shape)."""
    if not hasattr(x, "n_batch") or x.n_batch:
        raise NotImplementedError(
            "Jacobians by sparse arrays need BCOO without batch dimensions."
        )
    out = derivative.shape[: derivative.ndim - x.data.ndim]
    ones = (1,) * len(out)
    return x.made(
        (derivative, x.indices.reshape(ones + x.indices.shape)),
        shape=(*out, *x.shape),
        indices_sorted=x.indices_sorted,
        unique_indices=x.unique_indices,
    )


jacfwd: Callable[..., Any] = _jacobian(dense_jacobian.jacfwd)
jacrev: Callable[..., Any] = _jacobian(dense_jacobian.jacrev)
jacobian: Callable[..., Any] = jacrev
