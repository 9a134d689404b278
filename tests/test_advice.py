"""Advice that is given without asking: once, with a remedy, and not when nothing is."""

import functools
import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta._base import advisor
from curta.config import captured_constants_warn_bytes, config
from curta.errors import AdviceWarning

THREES = range(3, 12)


@pytest.fixture(autouse=True)
def fresh():
    """Each test gets all advice, like a new process."""
    advisor.forget()
    with curta.advice("warn"):
        yield
    advisor.forget()


def told(program, *args):
    """The advice that a program gets, with the file that it is about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program(*args)
    found = [w for w in caught if w.category is AdviceWarning]
    assert all(w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


# ---- tracing


def test_the_sixth_shape():
    @curta.jit
    def scaled(x):
        return x * 2

    def program():
        for n in THREES:
            scaled(jnp.ones(n))

    (text,) = told(program)
    assert "scaled, defined at" in text and "test_advice.py" in text
    assert "for the 6th time" in text and "at x, now f32[8] and before f32[7]" in text
    assert "Pad arrays to a few sizes" in text


def test_the_sixth_static_value():
    scaled = curta.jit(lambda x, n: x * n, static_argnums=1)
    (text,) = told(lambda: [scaled(1.0, n) for n in THREES])
    assert "static args" in text and "Pass n as an argument that is not static" in text


def test_the_sixth_shape_and_static_value():
    """Each has its remedy, and what does not change has none."""
    scaled = curta.jit(lambda s, x, rate: x * rate, static_argnames=("s", "rate"))
    (text,) = told(lambda: [scaled("a", jnp.ones(n), rate=n) for n in THREES])
    assert "Pad arrays" in text and "Pass rate as" in text and "dtype" not in text


def test_the_sixth_structure():
    total = curta.jit(lambda xs: sum(xs))
    (text,) = told(lambda: [total([1.0] * n) for n in THREES])
    assert "input pytree" in text and "same keys and lengths" in text


def test_the_sixth_function_of_the_same_code():
    def program():
        for rate in THREES:
            curta.jit(lambda x: x * rate)(1.0)  # noqa: B023

    (text,) = told(program)
    assert "was compiled 6 times" in text and "pass rate as arguments" in text


def test_the_sixth_transformed_function_of_the_same_code():
    def program():
        for n in THREES:
            slope = curta.grad(lambda x: x**2)
            curta.jit(functools.partial(slope))(float(n))

    (text,) = told(program)
    assert "<lambda>, defined at" in text and "was compiled 6 times" in text


def test_functions_that_a_decorator_wraps_are_not_the_same():
    def wrapped(f):
        @functools.wraps(f)
        def call(x):
            return f(x)

        return curta.jit(call)

    functions = [
        lambda x: x + 1, lambda x: x + 2, lambda x: x + 3, lambda x: x + 4,
        lambda x: x + 5, lambda x: x + 6, lambda x: x + 7, lambda x: x + 8,
    ]  # fmt: skip
    assert told(lambda: [wrapped(f)(1.0) for f in functions]) == []


def test_five_shapes_are_nothing_to_speak_of():
    f = curta.jit(lambda x: x * 2)
    assert told(lambda: [f(jnp.ones(n)) for n in range(2, 7)]) == []


def test_functions_within_a_program_may_have_many_types():
    inner = curta.jit(lambda x: x.sum())
    outer = curta.jit(lambda: [inner(jnp.ones(n)) for n in THREES])
    assert told(outer) == []


def test_functions_of_curta_may_have_many_types():
    assert told(lambda: [jnp.median(jnp.ones(n)) for n in THREES]) == []


# ---- constants, Python, float64


def test_large_constants():
    table = jnp.ones((4200, 4200))
    (text,) = told(curta.jit(lambda i: table[i, i]), 3)
    assert "70,560,000 bytes" in text and "pass them as arguments" in text
    assert "the largest of type float32[4200,4200]" in text
    with captured_constants_warn_bytes(-1):
        assert told(curta.jit(lambda i: table[i, 0]), 3) == []


def test_a_loop_that_runs_python():
    x = jnp.ones(100, jnp.int4)
    (text,) = told(lambda: lax.fori_loop(0, 2, lambda _, y: y + y, x))
    assert "add of int4[100], int4[100] has no compiled code" in text
    assert "test_advice.py" in text and "another dtype" in text
    assert told(lambda: x + x) == []  # once, and not in a loop


def test_callbacks_are_meant():
    def body(_, x):
        curta.debug.callback(lambda v: None, x)
        return x + 1

    assert told(lambda: lax.fori_loop(0, 3, body, 1.0)) == []


def test_float64_that_becomes_float32():
    x = np.ones((3, 2))
    (text,) = told(lambda: [jnp.asarray(x), jnp.array(x), curta.jit(abs)(x)])
    assert "of shape (3, 2), became an array of float32" in text
    assert "JAX_ENABLE_X64=1" in text and "astype" in text


def test_float64_of_arguments():
    (text,) = told(curta.jit(lambda x: x - 1), np.ones(5))
    assert "became an array of float32" in text


def test_float64_that_is_meant_or_kept():
    def program():
        jnp.array([1.0, 2.0]), jnp.linspace(0, 1, 3), jnp.float32(np.float64(1))
        jnp.asarray(np.ones(3), jnp.float32), jnp.asarray(np.ones(3, np.float32))
        curta.jit(lambda x: x * 2)(np.float64(3.0))
        with curta.enable_x64(True):
            jnp.asarray(np.ones(3))

    assert told(program) == []


# ---- the setting


def test_each_kind_is_silenced_by_itself():
    x = np.ones(3)
    with curta.advice("float64=ignore"):
        assert told(jnp.asarray, x) == []
    with curta.advice("ignore,constants=warn"):
        assert told(jnp.asarray, x) == []
    assert len(told(jnp.asarray, x)) == 1


def test_advice_that_is_raised_is_raised_each_time():
    with curta.advice("float64=raise"):
        for _ in range(2):
            with pytest.raises(AdviceWarning, match="float64=ignore silences"):
                jnp.asarray(np.ones(3))


@pytest.mark.parametrize("value", ["loud", "float32=warn", "float64=", "=warn=raise"])
def test_settings_that_make_no_sense(value):
    with pytest.raises(ValueError, match="is not an advice setting"):
        config.update("curta_advice", value)


def test_filters_that_make_errors_of_warnings_end_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.asarray(np.ones(3)).dtype == "float32"


def test_what_was_told_before_is_raised_where_that_is_asked_for():
    told(jnp.asarray, np.ones(3))
    with curta.advice("float64=raise"), pytest.raises(AdviceWarning):
        jnp.asarray(np.ones(3))


# ---- keys


def test_a_key_that_is_used_twice():
    @curta.jit
    def draw(key):
        x = curta.random.normal(key, (3,))
        return x + curta.random.uniform(key, (3,))

    (text,) = told(draw, curta.random.key(0))
    assert "draw, defined at" in text and "uses a random key twice" in text
    assert "first used at" in text and "random.split(key)" in text
    assert told(draw, curta.random.key(1)) == []  # the compiled program is free of it


def test_a_key_that_is_used_twice_in_a_function_within():
    @curta.jit
    def inner(key):
        return curta.random.normal(key) + curta.random.normal(key)

    @curta.jit
    def outer(key):
        return inner(key) * 2

    (text,) = told(outer, curta.random.key(0))
    assert "inner, defined at" in text


@pytest.mark.parametrize("again", ["fold_in", "split", "loop", "branches"])
def test_keys_that_are_used_once(again):
    def draw(key):
        if again == "fold_in":
            keys = [curta.random.fold_in(key, i) for i in range(3)]
            return sum(curta.random.normal(k) for k in keys)
        if again == "split":
            key, other = curta.random.split(key)
            return curta.random.normal(key) + curta.random.normal(other)
        if again == "branches":
            draws = [lambda k: curta.random.normal(k), lambda k: k.shape and 0.0 or 1.0]
            return lax.cond(True, draws[0], draws[1], key)
        keys = curta.random.split(key, 4)
        return lax.scan(lambda c, k: (c + curta.random.normal(k), c), 0.0, keys)[0]

    assert told(curta.jit(draw), curta.random.key(0)) == []


def test_keys_used_twice_as_an_error():
    twice = curta.jit(lambda k: curta.random.normal(k) + curta.random.normal(k))
    with curta.advice("keys=raise"), pytest.raises(AdviceWarning, match="twice"):
        twice(curta.random.key(0))
    with curta.advice("keys=ignore"):
        assert told(twice, curta.random.key(0)) == []


# ---- many pieces of advice


def test_the_first_of_a_kind_is_a_warning_and_others_are_listed_at_the_end():
    def program():
        curta.jit(lambda k: curta.random.normal(k) + curta.random.normal(k))(
            curta.random.key(0)
        )
        draws = [
            curta.jit(lambda k: curta.random.uniform(k) + curta.random.uniform(k)),
            curta.jit(lambda k: curta.random.bits(k) + curta.random.bits(k)),
        ]
        for draw in draws:
            draw(curta.random.key(0))
        jnp.asarray(np.ones(3))

    texts = told(program)
    assert len(texts) == 2  # keys, float64
    (later,) = told(advisor._list_later)
    assert later.startswith("2 more pieces of advice:") and later.count("keys: ") == 2
    assert told(advisor._list_later) == []
