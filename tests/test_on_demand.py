"""Submodules that `import curta` leaves out are there when they are named."""

import importlib
import subprocess
import sys
from functools import cache

import pytest
from tests.runtime.test_threads import needs_fork

import curta
from curta._base.on_demand import late as later

LATE = ("debug", "experimental", "extend", "image", "profiler", "scipy")


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@cache
def loaded_by_import() -> list[str]:
    return python("import curta, sys; print(*sys.modules)").split()


def test_import_leaves_out_what_few_programs_need():
    loaded = loaded_by_import()
    assert "curta.numpy" in loaded
    assert not [name for name in LATE if f"curta.{name}" in loaded]


def test_programs_on_the_cpu_load_nothing_of_plugins():
    code = "import curta, sys; curta.jit(abs)(1.0); print(*sys.modules)"
    parts = "curta.compiler.stablehlo", "curta.runtime.pjrt."
    loaded = [name for name in python(code).split() if name.startswith(parts)]
    assert loaded == ["curta.runtime.pjrt.presence"]  # looks whether there is one


IN_FORKS = """
import curta, os

def in_a_fork(code):
    child = os.fork()
    if child == 0:
        try:
            exec(code)
        except BaseException as error:
            print(code, repr(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)

for name in {names}:
    in_a_fork(f"assert curta.{{name}}.__name__ == 'curta.{{name}}'")
    in_a_fork(f"from curta import {{name}}; assert {{name}}.__name__")
"""


@needs_fork
def test_late_submodules_are_imported_when_they_are_named():
    assert python(IN_FORKS.format(names=LATE)) == ""
    assert {*LATE} <= {*dir(curta)}


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'curta' has no attribute 'nmpy'"):
        _ = curta.nmpy


def test_import_leaves_out_what_others_wrote_and_few_programs_need():
    loaded = loaded_by_import()
    late = {"opt_einsum", "pathlib", "json", "socket", "difflib", "numpy.polynomial"}
    needed = python("import logging, sys; print(*sys.modules)").split()
    assert not late & {*loaded} - {*needed}  # Python 3.15 imports pathlib for it


def test_a_late_module_is_the_module():
    difflib = later("difflib")
    assert difflib.ndiff is sys.modules["difflib"].ndiff
    with pytest.raises(AttributeError, match="nothing"):
        _ = difflib.nothing
    with pytest.raises(ModuleNotFoundError):
        _ = later("not_there").name


@pytest.mark.parametrize(
    "module, shown, hidden",
    [
        ("curta", "numpy", "runtime"),
        ("curta.numpy", "linalg", "promotion"),
        ("curta.lax", "linalg", "aliases"),
        ("curta.lax.linalg", "qr", "np"),
        ("curta.random", "normal", "samplers"),
        ("curta.tree", "map", "kinds"),
        ("curta.ops", "segment_sum", "lax"),
        ("curta.errors", "MissingRule", "Any"),
        ("curta.interpreters.ad", "defjvp", "functools"),
        ("curta.nn.initializers", "he_normal", "math"),
        ("curta.extend.core", "primitives", "environment"),
        ("curta.checkpoint_policies", "dots_saveable", "dataclass"),
        ("curta.scipy.special", "erf", "arguments"),
        ("curta.scipy.stats.norm", "pdf", "np"),
        ("curta.scipy.fft", "dct", "annotations"),
        ("curta.experimental.ode", "odeint", "lax"),
        ("curta.experimental.random", "stateful_rng", "Any"),
        ("curta.experimental.sparse", "linalg", "densify"),
        ("curta.experimental.sparse.linalg", "spsolve", "lax"),
        ("curta.example_libraries.stax", "Conv", "np"),
        ("curta.interpreters.mlir", "lower_fun", "Any"),
    ],
)
def test_modules_list_what_is_for_programs(module, shown, hidden):
    found = importlib.import_module(module)
    assert shown in dir(found) and hidden not in dir(found)
    assert hasattr(found, hidden)
    for name in getattr(found, "__all__", ()):
        assert hasattr(found, name)
