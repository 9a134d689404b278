"""Warnings name the line of the user that led to them."""

from __future__ import annotations

import dataclasses
import functools
import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, random
from curta._base import advisor, user_warnings
from curta.errors import AdviceWarning


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


COMMAND = """
def f(x):
    jnp.zeros(3, "float64")
    return jnp.sin(x)
jaxpr = curta.make_jaxpr(f)(1.0)
"""


def test_lines_of_a_command_are_the_users():
    names = {"curta": curta, "jnp": jnp}
    with pytest.warns(UserWarning, match="float64") as given:
        exec(compile(COMMAND, "<string>", "exec"), names)
    assert [(w.filename, w.lineno) for w in given] == [("<string>", 3)]
    assert "<string>:4" in names["jaxpr"].pretty_print(source_info=True)


class Checked:
    """Warns from a method that `dataclasses` has another one call."""

    def __post_init__(self):
        user_warnings.warn("not so")


def test_generated_methods_are_nobodys_lines(monkeypatch):
    monkeypatch.setattr(user_warnings, "_BETWEEN", (*user_warnings._BETWEEN, __file__))
    made = dataclasses.make_dataclass("Made", ["x"], bases=(Checked,))
    with pytest.warns(UserWarning, match="not so") as given:
        made(1)
    assert given[0].filename != "<string>"


REAL = {
    "sum": lambda z: jnp.sum(z, dtype=float),
    "prod": lambda z: jnp.prod(z, dtype=int),
    "mean": lambda z: jnp.mean(z, dtype=float),
    "cumsum": lambda z: jnp.cumsum(z, dtype=float),
    "linspace": lambda z: jnp.linspace(0, z[0], 3, dtype=float),
    "full": lambda z: jnp.full(3, z[0], dtype=float),
    "set": lambda z: jnp.zeros(3).at[0].set(z[0]),
}


@pytest.mark.filterwarnings("ignore:scatter inputs")
@pytest.mark.parametrize("name", REAL)
def test_imaginary_parts_are_not_lost_without_a_word(name):
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary") as given:
        REAL[name](jnp.ones(3, "complex64"))
    assert {w.filename for w in given} == {__file__}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_numbers_without_a_real_part_are_true():
    for number in (1j, np.complex64(1j)):
        assert lax.convert_element_type(number, bool)
        assert jnp.full(2, number, bool).all() and jnp.asarray(number, dtype=bool)
    assert not lax.convert_element_type(jnp.array(1j), bool)  # as in JAX


def test_advice_names_the_program_though_a_library_called():
    library = {}
    name = "/lib/python3/site-packages/library/module.py"
    exec(compile("def call(f):\n    return f()", name, "exec"), library)
    for category, named in ((AdviceWarning, __file__), (UserWarning, name)):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            library["call"](
                functools.partial(
                    user_warnings.warn, "", category, category is AdviceWarning
                )
            )
        assert [w.filename for w in given] == [named]
