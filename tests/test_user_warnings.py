"""Warnings name the line of the user that led to them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import advisor, lax, random


@curta.numpy_rank_promotion("warn")
def promoted():
    return jnp.ones((2, 3)) + jnp.ones(3)


LEADING = {
    "zeros": lambda: jnp.zeros(3, np.float64),
    "array": lambda: jnp.array([1], "int64"),
    "arange": lambda: jnp.arange(3, dtype="int64"),
    "sum": lambda: jnp.ones(3).sum(dtype="float64"),
    "cumsum": lambda: jnp.cumsum(jnp.ones(3), dtype="float64"),
    "normal": lambda: random.normal(random.key(0), (3,), dtype="float64"),
    "float64": lambda: jnp.float64(3),
    "traced": lambda: curta.jit(lambda x: x.astype("float64"))(1.0),
    "mapped": lambda: curta.vmap(lambda x: x.astype("float64"))(jnp.ones(2)),
    "promoted": promoted,
    "scattered": lambda: jnp.zeros(3, "int32").at[0].set(1.5),
    "real": lambda: lax.convert_element_type(jnp.array(1j), "float32"),
    "advice": lambda: jnp.asarray(np.ones(3)),
}


@pytest.mark.parametrize("name", LEADING)
def test_they_point_at_the_users_line(name):
    advisor.forget()  # an earlier test may have been told
    with curta.advice("warn"), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        LEADING[name]()
    assert given and {w.filename for w in given} == {__file__}
