"""The rule of Taylor mode (transforms/jet.py) for products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta.primitives.structure import add_any

# The coefficients of t, t², ... ; None if all are zero.
Terms = list[Any] | None


def product(
    op: Callable[[Any, Any], Any], primals: Sequence[Any], terms: Sequence[Terms]
) -> tuple[Any, Terms]:
    """The series of `op(x, y)`, linear in both: the convolution of theirs."""
    x, y = ([p, *(s or ())] for p, s in zip(primals, terms, strict=True))
    order = max(len(x), len(y))
    result = [
        _sum(
            [op(x[i], y[k - i]) for i in range(k + 1) if i < len(x) and k - i < len(y)]
        )
        for k in range(order)
    ]
    return result[0], result[1:]


def _sum(parts: Sequence[Any]) -> Any:
    return functools.reduce(add_any, parts)
