"""Elements chosen by conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, overload

import numpy as np

from curta import lax
from curta.api.jit import jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    check_arraylike,
    check_but_strings,
    check_operands,
    ensure_arraylike,
)
from curta.numpy.constructors import array, asarray
from curta.numpy.creation import full_like
from curta.numpy.cumulative import cumsum
from curta.numpy.indexing import getitem
from curta.numpy.joining import stack
from curta.numpy.promotion import cast, promote_dtypes
from curta.numpy.searching import argmax, nonzero
from curta.numpy.selection import broadcast_all, select_where
from curta.numpy.vectorize import vectorize


@overload
def where(
    condition: ArrayLike,
    x: None = None,
    y: None = None,
    /,
    *,
    size: int | None = ...,
    fill_value: Any = ...,
) -> tuple[Array, ...]: ...


@overload
def where(
    condition: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    size: int | None = ...,
    fill_value: Any = ...,
) -> Array: ...


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where `condition` holds, else `y`; with one argument, `nonzero` of it.

    Args:
      condition: an array, taken for booleans.
      x, y: arrays or scalars that broadcast with `condition`; they promote to one
        dtype. None (default) for both gives `nonzero(condition)`.
      size: of `nonzero`: static int, the number of indices. None (default) for as many
        as there are.
      fill_value: of `nonzero`: the index for entries beyond the last. None (default)
        for 0.

    Returns:
      An array of the broadcast shape and the dtype of `x` and `y`; or a tuple of index
      vectors, as of `nonzero`.

    Raises:
      TypeError: `condition`, `x` or `y` is a list or a string; only one of `x` and `y`
        is given.
      ValueError: shapes do not broadcast; `size` or `fill_value` is given with `x` and
        `y`.
      ConcretizationTypeError: `condition` is traced, alone, and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.where(jnp.array([True, False]), 1.0, 2.0)
    Array([1., 2.], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        condition = ensure_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    check_but_strings("where", condition, x, y)
    check_operands("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    return select_where(condition, x, y)


def select(
    condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0
) -> Array:
    """The choice of the first condition that holds, or `default` if none does.

    Args:
      condlist: a sequence of boolean arrays.
      choicelist: as many arrays, which broadcast with the conditions; they promote to
        one dtype.
      default: an array or scalar where no condition holds. Default 0.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not a sequence, or holds lists or strings.
      ValueError: the sequences are empty or differ in length; shapes do not broadcast.

    >>> from curta import numpy as jnp
    >>> x = jnp.arange(3)
    >>> jnp.select([x < 1, x < 2], [x + 10, x + 20], 99)
    Array([10, 21, 99], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            "condlist must have length equal to choicelist"
            f" ({len(condlist)} vs {len(choicelist)})"
        )
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    choices = promote_dtypes(asarray(default), *map(asarray, choicelist))
    conditions = broadcast_all(asarray(False), *map(asarray, condlist))
    stacked = cast(stack(conditions), np.dtype(np.bool_))
    return lax.select_n(*broadcast_all(argmax(stacked, axis=0), *choices))


def piecewise(
    x: ArrayLike,
    condlist: Array | Sequence[ArrayLike],
    funclist: Sequence[Any],
    *args: Any,
    **kw: Any,
) -> Array:
    """Functions (or constants) applied where their conditions hold.

    The last condition that holds wins.

    Args:
      x: an array, of any shape and dtype.
      condlist: a sequence of n boolean arrays that broadcast with `x`, or one array of
        n along its first dim.
      funclist: n functions or constants, or n + 1: the last one is then the default
        elsewhere. Without it the default is 0.
      *args, **kw: further arguments of the functions, after their first, which is `x`.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: `x` is a list or a string.
      ValueError: the number of functions is neither the number of conditions nor one
        more; shapes do not broadcast.

    >>> from curta import numpy as jnp
    >>> x = jnp.array([-1.0, 2.0])
    >>> jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: 10 * x])
    Array([ 1., 20.], dtype=float32)
    """
    x = ensure_arraylike("piecewise", x)
    conditions = asarray(condlist, dtype=bool)
    if conditions.ndim == 0 or not isinstance(funclist, Sized):
        unsized = funclist if conditions.ndim else condlist
        raise TypeError(
            f"object of type {type(unsized).__name__!r} has no len(): piecewise takes"
            " as many functions as conditions, and perhaps a default"
        )
    count = conditions.shape[0]
    functions = list(funclist)
    if len(functions) == count:
        functions.append(0)
    elif len(functions) != count + 1:
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are"
            f" expected; got {len(functions)}"
        )
    functions = [functions[-1], *functions[:-1]]
    called = tuple(f if callable(f) else None for f in functions)
    constants = [f for f in functions if not callable(f)]
    return _piecewise(x, conditions, constants, called, *args, **kw)


@jit(static_argnames=("functions",))
def _piecewise(
    x: Any,
    conditions: Any,
    constants: Sequence[Any],
    functions: tuple[Callable[..., Any] | None, ...],
    *args: Any,
    **kw: Any,
) -> Any:
    """The functions, the default first, element by element."""
    none = full_like(getitem(conditions, np.s_[:1]), False)
    held = cumsum(lax.concatenate([none, conditions], 0), 0)
    last = argmax(held, 0)

    def branch(f: Callable[..., Any] | None) -> Callable[[Any], Any]:
        if f is None:
            value = next(remaining)
            return lambda x: array(value, dtype=x.dtype)
        return lambda x: cast(asarray(f(x, *args, **kw)), x.dtype)

    remaining = iter(constants)
    branches = [branch(f) for f in functions]
    return vectorize(lax.switch, excluded=(1,))(last, branches, x)
