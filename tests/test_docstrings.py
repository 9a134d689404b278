"""Docstrings of public functions tell what goes in, what comes out and what raises.

A function with more than two parameters says of each what it is, what is returned, and
which mistakes raise which errors, and shows an example. Functions with fewer, and
methods, say it in a sentence.
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
    "curta.ad",
    "curta.ad_checkpoint",
    "curta.api_util",
    "curta.checkpoint_policies",
    "curta.core",
    "curta.custom_batching",
    "curta.custom_derivatives",
    "curta.debug",
    "curta.distributed",
    "curta.dlpack",
    "curta.dtypes",
    "curta.errors",
    "curta.example_libraries.optimizers",
    "curta.example_libraries.stax",
    "curta.experimental",
    "curta.experimental.checkify",
    "curta.experimental.colocated_python",
    "curta.experimental.compilation_cache",
    "curta.experimental.compute_on",
    "curta.experimental.custom_partitioning",
    "curta.experimental.hijax",
    "curta.experimental.jax2tf",
    "curta.experimental.jet",
    "curta.experimental.key_reuse",
    "curta.experimental.layout",
    "curta.experimental.mesh_utils",
    "curta.experimental.multihost_utils",
    "curta.experimental.ode",
    "curta.experimental.pjit",
    "curta.experimental.random",
    "curta.experimental.rnn",
    "curta.experimental.serialize_executable",
    "curta.experimental.shard_alike",
    "curta.experimental.shard_map",
    "curta.experimental.sparse",
    "curta.experimental.sparse.linalg",
    "curta.experimental.topologies",
    "curta.experimental.xla_metadata",
    "curta.export",
    "curta.extend.backend",
    "curta.extend.core",
    "curta.extend.linear_util",
    "curta.extend.random",
    "curta.extend.sharding",
    "curta.extend.source_info_util",
    "curta.ffi",
    "curta.flatten_util",
    "curta.image",
    "curta.interpreters.ad",
    "curta.interpreters.batching",
    "curta.interpreters.mlir",
    "curta.interpreters.partial_eval",
    "curta.interpreters.pxla",
    "curta.interpreters.xla",
    "curta.lax",
    "curta.lax.linalg",
    "curta.memory",
    "curta.monitoring",
    "curta.nn",
    "curta.nn.initializers",
    "curta.numpy",
    "curta.numpy.fft",
    "curta.numpy.linalg",
    "curta.ops",
    "curta.profiler",
    "curta.random",
    "curta.ref",
    "curta.scipy.cluster.vq",
    "curta.scipy.fft",
    "curta.scipy.integrate",
    "curta.scipy.interpolate",
    "curta.scipy.linalg",
    "curta.scipy.ndimage",
    "curta.scipy.optimize",
    "curta.scipy.signal",
    "curta.scipy.sparse.linalg",
    "curta.scipy.spatial.transform",
    "curta.scipy.special",
    "curta.scipy.stats",
    "curta.scipy.stats.bernoulli",
    "curta.scipy.stats.beta",
    "curta.scipy.stats.betabinom",
    "curta.scipy.stats.binom",
    "curta.scipy.stats.cauchy",
    "curta.scipy.stats.chi2",
    "curta.scipy.stats.dirichlet",
    "curta.scipy.stats.expon",
    "curta.scipy.stats.gamma",
    "curta.scipy.stats.gennorm",
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
    "curta.scipy.stats.vonmises",
    "curta.scipy.stats.wrapcauchy",
    "curta.sharding",
    "curta.stages",
    "curta.state",
    "curta.test_util",
    "curta.tree",
    "curta.tree_util",
)

# Functions that raise nothing of their own, whatever they are given.
RAISES_NOTHING: set[str] = {
    "curta.api_util.debug_info",
    "curta.core.format_jaxpr",
    "curta.experimental.rnn.rnn_abstract_eval",
    "curta.experimental.rnn.rnn_bwd_abstract_eval",
    "curta.extend.linear_util.wrap_init",
    "curta.ffi.register_ffi_target",
    "curta.interpreters.ad.defbilinear",
    "curta.interpreters.mlir.register_lowering",
}


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
        elif ">>> " not in doc:
            wrong[name] = "no example"
    assert wrong == {}


@pytest.mark.parametrize("module", MODULES)
def test_what_goes_in_and_what_comes_out_are_told_together(module):
    wrong = [
        name
        for name, function in public_functions(importlib.import_module(module))
        if "Args:" in (doc := inspect.getdoc(function) or "")
        and not is_told_what_returns(doc)
    ]
    assert wrong == []


@pytest.mark.parametrize("module", MODULES)
def test_methods_of_public_classes_say_what_they_do(module):
    found = importlib.import_module(module)
    classes = [getattr(found, n) for n in dir(found) if not n.startswith("_")]
    wrong = [
        f"{kind.__name__}.{name}"
        for kind in classes
        if inspect.isclass(kind) and kind.__module__.startswith("curta")
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and not name.startswith("_")
        if not inspect.getdoc(getattr(kind, name))
    ]
    assert wrong == []
