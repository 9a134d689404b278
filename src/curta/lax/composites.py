"""Functions known by name, values kept in programs, arrays of any elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, tree
from curta.api.arguments import check_callable
from curta.api.out_sharding import takes_out_sharding
from curta.control.composite import Composite
from curta.core.array import Array
from curta.core.flat import debug_info
from curta.core.shapes import canonicalize_shape
from curta.core.stage import stage
from curta.core.trace import Tracer, typeof
from curta.core.wrapping import wraps
from curta.errors import UnexpectedTracerError
from curta.primitives.effects import AfterAll, CreateToken, DceSink, Empty


def composite(
    decomposition: Callable[..., Any], name: str, version: int = 0
) -> Callable[..., Any]:
    """A function with a name, which a compiler may replace by something better.

    It has no derivative: `custom_jvp` around it adds one.

    Args:
      decomposition: what it means. Positional arguments are arrays; those given by
        keyword are attributes, which may not be traced.
      name: what it is called, "my.softmax" say.
      version: counts changes of its meaning; 0 by default.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: if `decomposition` is not callable, or an argument is not an array.
      UnexpectedTracerError: when it is called, if `decomposition` closes over a traced
        value, or an attribute is one.
      ValueError: for a derivative.

    >>> import curta
    >>> from curta import lax
    >>> tangent = lax.composite(lambda x: lax.sin(x) / lax.cos(x), "my.tangent")
    >>> tangent(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    check_callable(decomposition)

    @wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        leaves, structure = tree.flatten(args)
        if any(isinstance(x, Tracer) for x in attributes.values()):
            raise _leak(name, "as an attribute in")
        result: list[Any] = []

        def run(*flat: Any) -> list[Any]:
            out = decomposition(*tree.unflatten(structure, flat), **attributes)
            outs, out_tree = tree.flatten(out)
            result.append(out_tree)
            return outs

        avals = [typeof(x) for x in leaves]
        closed = stage(run, avals, debug_info("composite", decomposition))
        if any(isinstance(c, Tracer) for c in closed.consts):
            raise _leak(name, "as a constant in")
        described = tuple(_described(k, v) for k, v in attributes.items())
        op = Composite(closed, name, described, version)
        return tree.unflatten(result[0], op(*leaves))

    return call


def _described(key: str, value: Any) -> Any:
    leaves, structure = tree.flatten(value)
    plain = [_Array(np.asarray(x)) if _is_known_array(x) else x for x in leaves]
    return key, tuple(plain), structure


def _is_known_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Array)) and not isinstance(x, Tracer)


class _Array:
    """A NumPy array that is compared and hashed by its elements."""

    def __init__(self, value: Any) -> None:
        self.val = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and np.array_equal(self.val, other.val)

    def __hash__(self) -> int:
        return hash((self.val.shape, self.val.dtype.str, self.val.tobytes()))

    def __repr__(self) -> str:
        return repr(self.val)


def _leak(name: str, where: str) -> UnexpectedTracerError:
    return UnexpectedTracerError(
        f"Found a JAX Tracer {where} the decomposition for the composite op '{name}'."
        " This means that the decomposition function closes over a value that is"
        " involved in a JAX transformation. Any values that aren't explicitly known at"
        " compile time must be explicitly passed as arguments to the composite.\n\n"
        "Note: If you are passing jax arrays as attributes, use numpy arrays instead."
    )


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Use `val`, a pytree of arrays, so that a program goes on computing it.

    >>> from curta import lax
    >>> lax.dce_sink(1.0)
    """
    tree.map(lambda x: DceSink(prevent_mlir_dce)(x), val)


def create_token(_: Any = None) -> Any:
    """A token: a value of no content, which comes after nothing.

    >>> from curta import lax
    >>> lax.create_token().dtype
    Tok
    """
    return CreateToken()()


def after_all(*operands: Any) -> Any:
    """A token that comes after other tokens.

    Raises TypeError for arguments that are not tokens.

    >>> from curta import lax
    >>> lax.after_all(lax.create_token(), lax.create_token()).dtype
    Tok
    """
    return AfterAll()(*operands)


@takes_out_sharding
def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array of any elements: zeros.

    Args:
      shape: its shape.
      dtype: its dtype.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      TypeError: if sizes are not integers or a dtype is invalid.
      ValueError: if a size is negative.

    >>> from curta import lax
    >>> lax.empty((2,), "float32").shape
    (2,)
    """
    return Empty(canonicalize_shape(shape), dtypes.check_user_dtype(dtype, "empty"))()
