"""The arguments of distributions: in one float dtype, and told in docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array
from curta.core.trace import typeof
from curta.numpy.promotion import inexact_operands

_Fun = TypeVar("_Fun", bound=Callable[..., Any])


def standardise(
    name: str, x: Any, *shape: Any, loc: Any, scale: Any
) -> tuple[Array, ...]:
    """(x - loc) / scale, the shape parameters and the scale, in one float dtype."""
    x, *parameters, loc, scale = inexact_operands(name, x, *shape, loc, scale)
    return (lax.div(lax.sub(x, loc), scale), *parameters, scale)


def refuse_complex(comparison: Callable[[Any, Any], Any], x: Any) -> None:
    """Raise TypeError, as the comparison does, for numbers that have no order."""
    if typeof(x).dtype.kind == "c":
        comparison(x, x)


def no_less(x: Any, limit: float) -> Array:
    """`x`, or the limit where x is less: the derivative is 1, and 0 beyond it.

    At the limit the derivative is 1, unlike the derivative of a maximum. Infinite
    values beyond the limit do not reach the result.
    """
    return jnp.where(x < limit, limit, x)


def no_more(x: Any, limit: float) -> Array:
    """`x`, or the limit where x is greater; see `no_less`."""
    return jnp.where(x > limit, limit, x)


# ---- docstrings

_ARGUMENTS = {
    "x": "real numbers.",
    "k": "whole numbers.",
    "q": "probabilities in [0, 1].",
    "loc": "what is added to the number; 0 by default.",
    "loc, scale": "where the distribution lies and how wide it is; 0 and 1 by default.",
}
_COMPLEX = (
    "TypeError: for complex numbers, what is no array, and shapes that do not\n"
    "    broadcast."
)
_NO_ARRAY = "TypeError: for what is no array, and shapes that do not broadcast."


def documented(
    *arguments: str, takes_complex: bool = False, raises: str | None = None
) -> Callable[[_Fun], _Fun]:
    """Put the arguments, what is returned and what is raised into a docstring.

    They stand between the summary of a function and its example. Of arguments that
    many distributions have, the names are enough.
    """
    texts = [f"{a}: {_ARGUMENTS[a]}" if a in _ARGUMENTS else a for a in arguments]
    raises = raises or (_NO_ARRAY if takes_complex else _COMPLEX)
    shared = (
        "Args:\n  " + "\n  ".join(texts),
        "Returns:\n  Floats, of the shape to which the arguments broadcast.",
        f"Raises:\n  {raises}",
    )

    def add(fun: _Fun) -> _Fun:
        if fun.__doc__:  # there is none under python -OO
            summary, example = inspect.cleandoc(fun.__doc__).split("\n\n")
            fun.__doc__ = "\n\n".join((summary, *shared, example))
        return fun

    return add
