"""Taylor mode: derivatives up to a given order in one pass.

`jet` propagates truncated power series through a function, at a cost that grows with a
power of the order, where nested `jvp` doubles it with every order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from curta import dtypes, lax, tree_util
from curta._base.on_demand import Listing, listed
from curta.api.arguments import as_result, check_callable
from curta.core.flat import FlatFunction
from curta.core.trace import Tracer, typeof
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.structure import zeros
from curta.transforms.jet import jet as series_of

__all__ = ["fact", "jet", "zero_series"]
__dir__: Listing = listed(__all__)


class ZeroSeries:
    """Stands for a series without terms in JAX; `jet` returns zeros instead."""


zero_series: Final = ZeroSeries()


def fact(n: Any) -> Any:
    """n! as a float.

    >>> from curta.experimental.jet import fact
    >>> round(float(fact(4)))
    24
    """
    return lax.exp(lax.lgamma(n + 1.0))


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """Output of `fun`, and its derivatives along curves through `primals`.

    With `x(t)` of the derivatives `series` at `x(0) = primals`, these are the
    derivatives of `fun(x(t))` at 0. In effect it is Faà di Bruno's formula.

    Args:
      fun: function of arrays to a pytree of arrays.
      primals: the arguments. Integers with terms other than zeros count as floats.
      series: for each argument a sequence of its first, second, ... derivative;
        numbers stand for arrays of the argument's shape.
      factorial_scaled: whether terms are derivatives; else they are the coefficients
        of powers of t, in and out.

    Returns:
      The output, and for each array in it the list of terms.

    Raises:
      ValueError: if series have several lengths, or arguments are trees.

    >>> from curta.experimental.jet import jet
    >>> import curta.numpy as jnp
    >>> y, derivatives = jet(lambda x: x**3, (2.0,), ([1.0, 0.0, 0.0],))
    >>> float(y), [float(d) for d in derivatives]
    (8.0, [12.0, 12.0, 6.0])
    """
    check_callable(fun)
    for what, given in (("primals", primals), ("series", series)):
        if not np.iterable(given):
            raise TypeError(f"jet takes {what} as a sequence, got {given}")
    lengths = {len(terms) for terms in series}
    if len(lengths) != 1:
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    if len(series) != len(primals):
        raise ValueError(
            f"jet takes a series for each argument, got {len(series)} of them for"
            f" {len(primals)} arguments"
        )
    (order,) = lengths
    _check_arrays(primals, series)
    factors = [
        math.factorial(k) if factorial_scaled else 1 for k in range(1, order + 1)
    ]
    flat = FlatFunction(fun, tree_util.tree_structure((tuple(primals), {})))
    primals = [_varying(x, s) for x, s in zip(primals, series, strict=True)]
    terms = [_scaled(x, s, factors) for x, s in zip(primals, series, strict=True)]
    outs, out_terms = series_of(flat, primals, terms, order)
    results = [
        [zeros(typeof(x)) for _ in range(order)]
        if s is None
        else [c if f == 1 else c * f for c, f in zip(s, factors, strict=True)]
        for x, s in zip(outs, out_terms, strict=True)
    ]
    unflatten = flat.out_tree.unflatten
    return unflatten(list(map(as_result, outs))), unflatten(
        [list(map(as_result, s)) for s in results]
    )


def _varying(x: Any, terms: Sequence[Any]) -> Any:
    """The argument; one of integers as floats, unless it is constant."""
    aval = typeof(x)
    constant = not any(isinstance(c, Tracer) or np.any(c) for c in terms)
    if constant or dtypes.issubdtype(aval.dtype, np.inexact):
        return x
    dtype = dtypes.to_inexact_dtype(aval.dtype)
    return ConvertElementType(dtype, aval.weak_type)(x)


def _scaled(x: Any, terms: Sequence[Any], factors: Sequence[int]) -> list[Any] | None:
    """The coefficients of powers of t, as arrays like x; None for integers."""
    aval = typeof(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact) or not len(terms):
        return None
    return [_like(aval, c) / f for c, f in zip(terms, factors, strict=True)]


def _like(aval: Any, term: Any) -> Any:
    """A term with the dtype and shape of its argument."""
    term, known = as_result(term), typeof(term)
    if known.dtype != aval.dtype:
        term = ConvertElementType(aval.dtype, aval.weak_type and known.weak_type)(term)
    return term if known.shape == aval.shape else lax.broadcast(term, aval.shape)


def _check_arrays(primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> None:
    leaf = tree_util.tree_structure(0)
    for i, (x, terms) in enumerate(zip(primals, series, strict=True)):
        if tree_util.tree_structure(x) != leaf:
            raise ValueError(f"primal value at position {i} is not an array")
        for j, term in enumerate(terms):
            if tree_util.tree_structure(term) != leaf:
                raise ValueError(f"term {j} for argument {i} is not an array")
            if np.shape(term) not in ((), np.shape(x)):
                raise ValueError(
                    f"term {j} for argument {i} has shape {np.shape(term)}, and the"
                    f" argument has shape {np.shape(x)}"
                )
            if _is_complex(term) and not _is_complex(x):
                raise TypeError(
                    f"term {j} for argument {i} is complex, and the argument has dtype"
                    f" {typeof(x).dtype}: make it complex, too"
                )


def _is_complex(x: Any) -> bool:
    return dtypes.issubdtype(typeof(x).dtype, np.complexfloating)
