"""Messages point at the cause: the user's line, name, axis, key or setting."""

from __future__ import annotations

import pickle
import re
import traceback

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta._base import uncaught
from curta.config import traceback_filtering
from curta.errors import AdviceWarning, KeyReuseError, OutOfMemoryError

X = jnp.ones(6)
IMAGES, KERNELS = jnp.ones((8, 32, 32, 3)), jnp.ones((3, 3, 3, 16))
HUGE = 1 << 20  # squared, more bytes than there can be
HERE = re.escape(__file__)


# Compiled here, as pytest rewrites the assertions of its files.
ASSERTIONS = """
def asserting(x):
    assert x > 0
    return x

def asserting_two(x):
    assert (
        x > 0 and x < 9
    ), "positive"
    return x
"""
exec(compile(ASSERTIONS, "assertions.py", "exec"), program := {"curta": curta})


@curta.jit
def branching(x):
    return 1 if x > 0 else 2


class Model:
    @curta.jit
    def step(self, x):
        return x


def donated(both):
    numbers = (0, 1) if both else (0,)
    x = jnp.ones(4)
    return curta.jit(lambda a, b: (a + 1, b["x"] + 1), donate_argnums=numbers)(
        x, {"x": x}
    )


def pmean(x):
    return lax.pmean(x, "bach")


MISTAKES = {
    "sizes for a dtype": (
        lambda: X.view(3, 2),
        NotImplementedError,
        ["view takes a dtype, got 3, 2.", "use x.reshape(3, 2)"],
    ),
    "shape for a dtype": (
        lambda: X.view((2, 3)),
        TypeError,
        ["view takes a dtype, got (2, 3).", "use x.reshape(2, 3)"],
    ),
    "axis in scope": (
        lambda: curta.vmap(pmean, axis_name="batch")(X),
        NameError,
        ["unbound axis name: bach", "In scope: 'batch'.", "Did you mean 'batch'?"],
    ),
    "axis without scope": (
        lambda: lax.psum(X, "i"),
        NameError,
        ["No axis is in scope"],
    ),
    "keys of dicts": (
        lambda: curta.tree.map(jnp.add, {"a": {"c": 1}}, {"a": {"d": 1}}),
        ValueError,
        ["tree_map tree['a']", "has 'c' and only the full pytree has 'd'"],
    ),
    "keys of a carry": (
        lambda: lax.fori_loop(0, 3, lambda i, c: {"b": c["a"]}, {"a": 1}),
        TypeError,
        ["only the former has 'a' and only the latter has 'b'"],
    ),
    "truth": (
        lambda: branching(1.0),
        curta.errors.TracerBoolConversionError,
        ["curta.numpy.where", "docs/errors.md#tracerboolconversionerror"],
    ),
    "assertion": (
        lambda: curta.jit(program["asserting"])(1.0),
        curta.errors.TracerBoolConversionError,
        ["curta.experimental.checkify.check"],
    ),
    "assertion with a message": (
        lambda: curta.jit(program["asserting_two"])(1.0),
        curta.errors.TracerBoolConversionError,
        ["curta.experimental.checkify.check"],
    ),
    "layouts": (
        lambda: lax.conv(IMAGES, KERNELS, (1, 1), "SAME"),
        ValueError,
        [
            "lhs of shape (8, 32, 32, 3) was read as NCHW",
            "rhs of shape (3, 3, 3, 16) as OIHW",
            "dimension_numbers=('NHWC', 'HWIO', 'NHWC')",
        ],
    ),
    "donated twice": (
        lambda: donated(True),
        curta.errors.JaxRuntimeError,
        ["Attempt to donate the same buffer twice", "`a` and `b['x']` are one array"],
    ),
    "donated and read": (
        lambda: donated(False),
        curta.errors.JaxRuntimeError,
        ["also used by the same call", "`a` and `b['x']` are one array"],
    ),
    "method": (
        lambda: Model().step(1.0),
        TypeError,
        [
            "Model.step at",
            "at path self",
            "register_dataclass",
            "curta.jit(self._step)",
        ],
    ),
    "setting": (
        lambda: curta.config.update("jax_debug_nan", True),
        AttributeError,
        ["Unrecognized config option: jax_debug_nan.", "'jax_debug_nans'"],
    ),
    "pair with has_aux": (
        lambda: curta.grad(lambda x: x, has_aux=True)(1.0),
        TypeError,
        ["two-element tuple, but got float32[].", "returns a pair"],
    ),
    "index by a loop's counter": (
        lambda: lax.fori_loop(0, 3, lambda i, c: c + [1, 2, 3][i], 0),
        curta.errors.TracerIntegerConversionError,
        ["for fori_loop. It is an argument of the function"],
    ),
    "fields of a format": (
        lambda: curta.debug.print("{} {}", X),
        IndexError,
        ["'{} {}' has more fields than the 1 positional arguments"],
    ),
    "mode of an index": (
        lambda: X.at[10].get(mode="error"),
        ValueError,
        ["Unknown gather mode", "'fill', 'drop', 'clip', 'promise_in_bounds'"],
    ),
    "value of a setting": (
        lambda: curta.config.update("jax_enable_x64", "maybe"),
        ValueError,
        ["jax_enable_x64: invalid truth value 'maybe'"],
    ),
    "cotangents by key": (
        lambda: curta.vjp(lambda x: {"a": x}, 1.0)[1]({"b": 1.0}),
        ValueError,
        ["only the former has 'a' and only the latter has 'b'"],
    ),
    "tangents by key": (
        lambda: curta.jvp(lambda d: d["a"], ({"a": 1.0},), ({"b": 1.0},)),
        TypeError,
        ["at [0]", "only the former has 'a' and only the latter has 'b'"],
    ),
    "carry of another kind": (
        lambda: lax.while_loop(lambda x: x < 3, lambda x: (x, x), 0.0),
        TypeError,
        ["carry x is a float32[] array but the corresponding"],
    ),
    "parts of a split": (
        lambda: jnp.split(jnp.ones(5), 2),
        ValueError,
        ["5 elements in 2 parts leave 1", "array_split"],
    ),
    "symbolic length": (
        lambda: exported(lambda x: x.reshape(len(x), -1)),
        TypeError,
        ["first dimension is symbolic: b", "x.reshape(x.shape[0], -1)"],
    ),
}


def exported(fun):
    from curta import export

    (b,) = export.symbolic_shape("b")
    return export.export(curta.jit(fun))(curta.ShapeDtypeStruct((b, 2, 3), "float32"))


@pytest.mark.parametrize("name", MISTAKES)
def test_messages(name):
    mistake, kind, parts = MISTAKES[name]
    with pytest.raises(kind) as raised:
        mistake()
    text = str(raised.value)
    assert not [part for part in parts if part not in text], text


def test_another_symbolic_spelling_works():
    (aval,) = exported(lambda x: x.reshape(x.shape[0], -1)).out_avals
    assert str(aval.shape[0]) == "b" and aval.shape[1] == 6


def test_the_truth_of_a_branch_is_no_assertion():
    with pytest.raises(curta.errors.TracerBoolConversionError) as raised:
        branching(1.0)
    assert "checkify" not in str(raised.value)


# ---- memory


@curta.jit
def big_result(x):
    small = x + 1
    return small, jnp.ones((HUGE, HUGE)) * small


@curta.jit
def big_temporary(x):
    return jnp.cumsum(jnp.sort(jnp.full((HUGE, HUGE), x)), 0)[3, 5]


def line_of(function, text):
    source = function.__wrapped__.__code__
    lines = open(__file__).read().splitlines()[source.co_firstlineno - 1 :]
    return source.co_firstlineno + next(i for i, s in enumerate(lines) if text in s)


def test_out_of_memory_names_array_and_line():
    with pytest.raises(OutOfMemoryError, match=r"float32\[1048576,1048576\]") as raised:
        big_result(1.0)
    (note,) = [n for n in raised.value.__notes__ if "memory is for" in n]
    assert f"{__file__}:{line_of(big_result, 'jnp.ones')}" in note
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    with pytest.raises(OutOfMemoryError) as raised:
        big_temporary(1.0)
    (note,) = [n for n in raised.value.__notes__ if "memory is for" in n]
    assert "temporaries of jit(big_temporary); the largest is float32[" in note
    assert f"{__file__}:{line_of(big_temporary, 'jnp.sort')}" in note
    for mistake in (
        lambda: jnp.ones((HUGE, HUGE)),
        lambda: X[:1] + jnp.ones((HUGE, 1)) * 0 + jnp.ones((1, HUGE)),
    ):
        with pytest.raises(OutOfMemoryError) as raised:
            mistake()
        assert "an array of float32[1048576,1048576]." in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and again.shape == (HUGE, HUGE)


# ---- chained errors


def prepared(mistake):
    with traceback_filtering("auto"):
        with pytest.raises(Exception) as raised:
            mistake()
        return uncaught.prepare(raised.value)


def test_errors_answered_inside_are_not_shown():
    """NumPy's, and the package's own, which no line of the user's led to."""
    for mistake in (
        lambda: jnp.asarray({"a": 1}),
        lambda: jnp.ones((HUGE, HUGE)),
        lambda: curta.jit(lambda: jnp.asarray({"a": 1}))(),
    ):
        error = prepared(mistake)
        text = "".join(traceback.format_exception(error))
        assert text.count("Traceback") == 1, text
        assert "src/curta" not in text


def test_causes_of_the_user_are_shown_without_frames_between():
    def inner(x):
        raise ValueError("mine")

    def outer():
        try:
            curta.jit(inner)(1.0)
        except ValueError as error:
            raise RuntimeError("later") from error

    with traceback_filtering("auto"):
        try:
            outer()
        except RuntimeError as error:
            text = traceback.format_exc()
            assert isinstance(error.__cause__, ValueError)
    assert text.count("Traceback") == 2 and "src/curta" not in text


# ---- keys


def sampled(xs):
    key = curta.random.key(0)
    return lax.map(lambda x: x + curta.random.normal(key), xs)


def test_a_key_closed_over_by_a_loop_is_named_by_its_line():
    with curta.advice("keys=raise"), pytest.raises(AdviceWarning) as raised:
        curta.jit(lambda xs: sampled(xs))(X)
    text = str(raised.value)
    line = sampled.__code__.co_firstlineno + 2
    assert f"{__file__}:{line}:" in text
    assert "`curta.random.normal(key)` gets the same key in each iteration" in text
    assert "KeyReuseSignature" not in text and "lambda ;" not in text


@pytest.mark.parametrize("loop", ["scan", "while", "cond"])
def test_errors_of_keys_have_lines_and_no_programs(loop):
    key = curta.random.key(0)

    def loops(key):
        def draw(x):
            return x + curta.random.normal(key)

        if loop == "scan":
            return lax.scan(lambda c, x: (draw(c), None), 0.0, X)
        if loop == "while":
            return lax.while_loop(lambda x: x < 9, draw, 0.0)
        return lax.while_loop(lambda x: draw(x) < 9, lambda x: x + 1, 0.0)

    with curta.debug_key_reuse(True), pytest.raises(KeyReuseError) as raised:
        curta.jit(loops)(key)
    text = str(raised.value)
    assert re.search(rf"{HERE}:\d+:\d+ .*`curta.random.normal\(key\)`", text)
    assert "{ lambda" not in text and "Sink" not in text


# ---- NaN


@pytest.mark.parametrize("wrapped", [lambda f: f, curta.jit], ids=["eager", "jit"])
def test_nan_is_not_found_in_what_is_selected_from(wrapped):
    with curta.debug_nans(True):
        assert wrapped(jnp.std)(jnp.zeros(2)) == 0
        with pytest.raises(FloatingPointError, match=r"in mul at .*test_causes"):
            wrapped(curta.value_and_grad(jnp.std))(jnp.zeros(2))


# ---- saved states


def test_restoring_another_state_prints_no_elements(tmp_path):
    folder = tmp_path / "state"
    curta.state.save(folder, {"w": jnp.ones(1000), "b": jnp.ones(3)})
    with pytest.raises(ValueError, match=r"saved as float32\[1000\], but `like` has"):
        curta.state.restore(folder, like={"w": jnp.ones(999), "b": jnp.ones(3)})
    with pytest.raises(ValueError) as raised:
        curta.state.restore(folder, like={"w": np.ones(999), "b": jnp.ones(3)})
    assert "`like` has float64[999]" in str(raised.value)
    with pytest.raises(ValueError) as raised:
        curta.state.restore(folder, like=[jnp.ones(1)] * 9)
    assert "[4] and 4 more that was not saved" in str(raised.value)
