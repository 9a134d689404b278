"""Messages for mistakes in programs written for other libraries."""

import sys
import traceback
import types

import pytest

import curta
import curta.numpy as jnp
from curta._base import uncaught
from curta._base.substitutes import OF_ARRAYS, OF_MODULES
from curta.scipy import optimize

REMEDIES = OF_MODULES["curta.numpy"]


def notes(program):
    with pytest.raises(Exception) as info:
        program()
    return getattr(uncaught.prepare(info.value), "__notes__", [])


def run(text):
    return lambda: exec(text, {})


def test_names_of_numpy_that_are_not_there():
    with pytest.raises(AttributeError, match=r"attribute 'random'\. .*random\.key"):
        _ = jnp.random
    with pytest.raises(AttributeError, match="attribute 'no_such'$"):
        _ = jnp.no_such
    assert not hasattr(jnp, "ma")
    for name in REMEDIES:
        assert not hasattr(jnp, name), name


@pytest.mark.parametrize(
    "text", ["from curta.numpy import ma", "import curta.numpy.ma"]
)
def test_imports_of_them(text):
    (note,) = notes(run(text))
    assert note == REMEDIES["ma"]


def test_imports_of_what_is_unknown_get_no_note():
    assert not notes(run("from curta.numpy import no_such"))
    assert not notes(run("import no_such_package.of_others"))


def test_imports_of_scipy():
    for text in ("from curta.scipy.optimize import curve_fit", "optimize.curve_fit"):
        (note,) = notes(lambda text=text: exec(text, {"optimize": optimize}))
        assert "Where SciPy has scipy.optimize.curve_fit" in note


def test_gradients_by_integers_say_what_they_are():
    grad = curta.grad(lambda x: x.sum() * 2.0, allow_int=True)
    (note,) = notes(lambda: grad(jnp.arange(3)) + 1)
    assert note.startswith("float0 is the type of gradients by integers")


def test_names_that_are_in_no_module():
    for module, names in OF_MODULES.items():
        for name in names:
            assert not hasattr(sys.modules[module], name), (module, name)
    assert "Flax" in notes(lambda: curta.nn.Dense)[0]
    assert ".at[index]" in notes(lambda: curta.ops.index_update)[0]
    with pytest.raises(AttributeError, match="Optax"):
        _ = curta.optim


def test_attributes_of_arrays_and_tracers():
    for program in (lambda: jnp.ones(3).fill(1), lambda: curta.jit(run_fill)(1.0)):
        assert "Arrays do not change: x = jnp.full_like(x, value)." in notes(program)
    assert not notes(lambda: jnp.ones(3).no_such)
    for name in OF_ARRAYS:
        assert not hasattr(jnp.ones(3), name), name


@pytest.mark.parametrize(
    "program, remedy",
    [
        (lambda x: x.at[0] + 1, ".set(value)"),
        (lambda x: x.at(0), ".set(value)"),
        (lambda x: curta.jit(lambda x: f"{x:.2f}")(x), "curta.debug.print"),
        (lambda x: {x: 1}, "x.item()"),
        (lambda x: curta.random.key(0) + 1, "curta.random.split"),
        (lambda x: jnp.array([2**31]), "jax_enable_x64"),
        (lambda x: (x.delete(), x + 1), "donate_argnums"),
        (lambda x: optimize.minimize(jnp.sum, x, bounds=[]), "value_and_grad"),
        (lambda x: optimize.minimize(jnp.sum, x), "value_and_grad"),
    ],
)
def test_messages_that_say_no_remedy(program, remedy):
    assert remedy in notes(lambda: program(jnp.ones(3)))[0]


def test_errors_of_einsum_name_the_operands_and_hide_the_library():
    text = r"in einsum 'ij,jk' of \(3, 2\), \(3, 2\)"
    with pytest.raises(ValueError, match=text) as info:
        jnp.einsum("ij,jk", jnp.ones((3, 2)), jnp.ones((3, 2)))
    frames = traceback.extract_tb(info.value.__traceback__)
    assert not any("opt_einsum" in frame.filename for frame in frames)


def run_fill(x):
    x.fill(1)


def test_jax_itself_beside_curta(monkeypatch):
    """Where a library has imported it, as the library's frames tell."""
    jax = types.ModuleType("jax")
    library = {"__name__": "library", "jax": jax}
    exec("def call(f):\n    return f()", library)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.delitem(sys.modules, "curta.as_jax", raising=False)
    failing = lambda: [][0]  # noqa: E731
    (note,) = notes(lambda: library["call"](failing))
    assert "import curta.as_jax" in note
    assert not notes(failing)
    del library["jax"]
    assert not notes(lambda: library["call"](failing))
