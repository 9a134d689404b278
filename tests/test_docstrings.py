"""Docstrings of public functions tell what goes in, what comes out and what raises.

A function with more than two parameters says of each what it is, what is returned, and
which mistakes raise which errors. Functions with fewer say it in a sentence.
"""

import builtins
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from curta import errors, numpy

MODULES = (
    "curta",
    "curta.debug",
    "curta.experimental.checkify",
    "curta.experimental.ode",
    "curta.experimental.sparse",
    "curta.experimental.sparse.linalg",
    "curta.image",
    "curta.lax",
    "curta.lax.linalg",
    "curta.nn",
    "curta.nn.initializers",
    "curta.numpy",
    "curta.numpy.fft",
    "curta.numpy.linalg",
    "curta.ops",
    "curta.profiler",
    "curta.random",
    "curta.scipy.cluster.vq",
    "curta.scipy.fft",
    "curta.scipy.linalg",
    "curta.scipy.ndimage",
    "curta.scipy.optimize",
    "curta.scipy.signal",
    "curta.scipy.sparse.linalg",
    "curta.scipy.special",
    "curta.scipy.stats",
    "curta.scipy.stats.bernoulli",
    "curta.scipy.stats.beta",
    "curta.scipy.stats.betabinom",
    "curta.scipy.stats.binom",
    "curta.scipy.stats.cauchy",
    "curta.scipy.stats.chi2",
    "curta.scipy.stats.expon",
    "curta.scipy.stats.gamma",
    "curta.scipy.stats.geom",
    "curta.scipy.stats.gumbel_l",
    "curta.scipy.stats.gumbel_r",
    "curta.scipy.stats.laplace",
    "curta.scipy.stats.logistic",
    "curta.scipy.stats.multinomial",
    "curta.scipy.stats.multivariate_normal",
    "curta.scipy.stats.nbinom",
    "curta.scipy.stats.norm",
    "curta.scipy.stats.pareto",
    "curta.scipy.stats.poisson",
    "curta.scipy.stats.t",
    "curta.scipy.stats.truncnorm",
    "curta.scipy.stats.uniform",
    "curta.tree",
    "curta.tree_util",
)

# Functions that raise nothing of their own, whatever they are given.
RAISES_NOTHING: set[str] = set()


def public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(module):
        found = getattr(module, name)
        if name.startswith("_") or not callable(found) or inspect.isclass(found):
            continue
        if getattr(found, "__module__", "curta").startswith("curta"):
            yield name, found


def parameters(function: Callable[..., Any]) -> list[str]:
    if isinstance(function, numpy.ufunc):  # whose others are there for NumPy's callers
        function = function._func
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # a function written in C
        return []


def section(doc: str, title: str) -> str:
    """The lines of a section, up to the next line that is not indented."""
    found = re.search(rf"^{title}:\n((?:(?: .*)?\n)*)", doc + "\n", re.MULTILINE)
    return found[1] if found else ""


def described(doc: str) -> set[str]:
    """The parameters that "Args:" names: `x: ...`, or `x, y: ...`."""
    text = textwrap.dedent(section(doc, "Args"))
    entries = re.findall(r"^(?! )(.*?): ", text, re.MULTILINE)
    return {name.strip(" *`") for entry in entries for name in entry.split(",")}


def raised(doc: str) -> set[str]:
    """The exceptions that "Raises:" names: `X: ...`, or `X, Y: ...`."""
    text = textwrap.dedent(section(doc, "Raises"))
    entries = re.findall(r"^(?! )(.*?): ", text, re.MULTILINE)
    return {name.strip() for entry in entries for name in entry.split(",")}


def is_exception(name: str, module: ModuleType) -> bool:
    places = (builtins, errors, module)
    found = next((getattr(m, name) for m in places if hasattr(m, name)), None)
    return isinstance(found, type) and issubclass(found, Exception)


def is_told_what_returns(doc: str) -> bool:
    return any(section(doc, title).strip() for title in ("Returns", "Yields"))


@pytest.mark.parametrize("module", MODULES)
def test_functions_of_several_parameters_tell_them(module):
    found, wrong = importlib.import_module(module), {}
    for name, function in public_functions(found):
        given = [p for p in parameters(function) if not p.startswith("_")]
        if len(given) <= 2 and not isinstance(function, numpy.ufunc):
            continue
        doc = inspect.getdoc(function) or ""
        missing = [p for p in given if p not in described(doc)]
        if missing:
            wrong[name] = f"Args does not name {', '.join(missing)}"
        elif others := described(doc) - {*parameters(function)}:
            wrong[name] = f"Args names {', '.join(others)}"
        elif not is_told_what_returns(doc):
            wrong[name] = "no Returns"
        elif re.match(r"\s*\w+: ", section(doc, "Returns")):
            wrong[name] = "Returns begins with a word that the site takes for a name"
        elif not raised(doc) and f"{module}.{name}" not in RAISES_NOTHING:
            wrong[name] = "no Raises"
        elif unknown := [x for x in raised(doc) if not is_exception(x, found)]:
            wrong[name] = f"Raises names {', '.join(unknown)}"
    assert wrong == {}
