"""Rules of Taylor mode (transforms/jet.py): products, quotients, joined arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta.core.trace import typeof
from curta.primitives.structure import add_any, zeros

Series = Sequence[Any]


def product(op: Callable[[Any, Any], Any], k: int, x: Series, y: Series) -> Any:
    """Coefficient k of `op(x, y)`, linear in both: of the convolution of theirs."""
    return sum_of_products(op, [(x[i], y[k - i]) for i in range(k + 1)])


def sum_of_products(
    op: Callable[[Any, Any], Any], pairs: Sequence[tuple[Any, Any]]
) -> Any:
    """The sum of `op(x, y)` over the pairs without a None."""
    return total([op(x, y) for x, y in pairs if x is not None and y is not None])


def total(terms: Sequence[Any]) -> Any:
    """The sum of the terms that are not None; None if there are none."""
    present = [x for x in terms if x is not None]
    return functools.reduce(add_any, present) if present else None


def joined_terms(op: Callable[..., Any], k: int, series: Sequence[Series]) -> Any:
    """Coefficient k of `op(*xs)`, linear in all of them together."""
    terms = [s[k] for s in series]
    if all(x is None for x in terms):
        return None
    return op(
        *[
            zeros(typeof(s[0]).to_tangent_aval()) if x is None else x
            for x, s in zip(terms, series, strict=True)
        ]
    )
