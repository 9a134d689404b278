"""The exceptions: base classes, opening words, remedies."""

import pickle

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
        "See https://docs.jax.dev/en/latest/errors.html"
        "#jax.errors.TracerBoolConversionError\n",
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
    assert f"errors.html#jax.errors.{cls.__name__}\n" in text
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
    assert str(error).startswith("Encountered something.\nSee https://")
    assert "To fix it: " in str(error)


def test_other_bases():
    assert issubclass(errors.JaxRuntimeError, RuntimeError)
    assert issubclass(errors.JaxprTypeError, TypeError)
    assert issubclass(errors.TypePromotionError, ValueError)
    assert issubclass(errors.MissingRule, NotImplementedError)
