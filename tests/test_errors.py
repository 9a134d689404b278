"""The exceptions: base classes, opening words, remedies, pages."""

import inspect
import pathlib
import pickle
import re

import pytest

from curta import errors


class FakeTracer:
    def _error_repr(self):
        return "traced array with shape bool[]"

    def _origin_msg(self):
        return "\nThe error occurred while tracing the function f at F:1 for jit."

    def __str__(self):
        return "JitTracer(bool[10])"


CASES = {
    errors.ConcretizationTypeError: (
        TypeError,
        "Abstract tracer value encountered where concrete value is expected: "
        "traced array with shape bool[]\n"
        "\nThe error occurred while tracing the function f at F:1 for jit.\n",
    ),
    errors.TracerBoolConversionError: (
        errors.ConcretizationTypeError,
        "Attempted boolean conversion of traced array with shape bool[].\n"
        "The error occurred while tracing the function f at F:1 for jit.\n"
        "See docs/errors.md#tracerboolconversionerror\n",
    ),
    errors.TracerArrayConversionError: (
        TypeError,
        "The numpy.ndarray conversion method __array__() was called on traced array "
        "with shape bool[]\n",
    ),
    errors.TracerIntegerConversionError: (
        TypeError,
        "The __index__() method was called on traced array with shape bool[]\n",
    ),
    errors.NonConcreteBooleanIndexError: (
        IndexError,
        "Array boolean indices must be concrete; got JitTracer(bool[10])\n",
    ),
}


@pytest.mark.parametrize("cls", CASES, ids=lambda cls: cls.__name__)
def test_errors_about_tracers(cls):
    base, opening = CASES[cls]
    error = cls(FakeTracer())
    text = str(error)
    assert isinstance(error, base)
    assert text.startswith(opening)
    assert f"See docs/errors.md#{cls.__name__.lower()}\n" in text
    assert text.splitlines()[-1].startswith("To fix it: ")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert str(again) == text


def test_context_of_a_concretization():
    text = str(errors.ConcretizationTypeError(FakeTracer(), "It was an axis of sum."))
    assert "bool[]\nIt was an axis of sum.\nThe error occurred" in text


@pytest.mark.parametrize("cls", [errors.UnexpectedTracerError, errors.KeyReuseError])
def test_errors_with_a_message(cls):
    error = cls("Encountered something.")
    assert isinstance(error, TypeError)
    assert str(error).startswith("Encountered something.\nSee docs/errors.md#")
    assert "To fix it: " in str(error)


ROOT = pathlib.Path(__file__).parents[1]
CALL = re.compile(r"""\bpage\(\s*["']([\w/]+)["'](?:,\s*["']([\w-]+)["'])?\s*\)""")


def anchors(page):
    """The sections of a page, as links name them."""
    titles = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}


def test_each_documented_error_has_a_section():
    base = errors.JAXTypeError.__mro__[1]
    kinds = {k for k in vars(errors).values() if inspect.isclass(k)}
    kinds = {k for k in kinds if issubclass(k, base)} - {base}
    names = {
        k.__name__.lower() for k in kinds - {errors.JAXTypeError, errors.JAXIndexError}
    }
    assert names and names <= anchors("docs/errors.md")


def test_the_pages_of_messages_exist():
    source = ROOT / "src/curta"
    found = {m for p in source.rglob("*.py") for m in CALL.findall(p.read_text())}
    assert len(found) > 5
    for name, section in found:
        assert not section or section in anchors(f"docs/{name}.md"), (name, section)


def test_messages_name_no_pages_of_another_project():
    source = ROOT / "src/curta"
    for path in source.rglob("*.py"):
        assert "docs.jax.dev" not in path.read_text(), path


def test_other_bases():
    assert issubclass(errors.JaxRuntimeError, RuntimeError)
    assert issubclass(errors.JaxprTypeError, TypeError)
    assert issubclass(errors.TypePromotionError, ValueError)
    assert issubclass(errors.MissingRule, NotImplementedError)
