"""The package as type checkers see it; tools/check_types.py runs pyright itself."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import get_overloads

import pytest
from beartype import beartype
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import Float, Int, TypeCheckError, jaxtyped

import curta
import curta.numpy as jnp
from tools import array_interface, check_types

PUBLIC = ["curta", "curta.interpreters", "curta.state", "curta.nn.initializers"]
# Submodules that packages are made of, which their `dir` shows.
PARTS = {
    *("arguments", "densities", "earray", "extended_types", "flat_derivatives"),
    *("flat_trees", "hijax", "kernel_density", "law", "promotion", "ranking"),
    *("scalars", "slopes", "version"),
}


def public_modules():
    """The modules that are reached by public names from those of PUBLIC."""
    found, left = {}, [importlib.import_module(name) for name in PUBLIC]
    while left:
        module = left.pop()
        if module.__name__ not in found and module.__name__.startswith("curta"):
            found[module.__name__] = module
            names = [n for n in dir(module) if n[0] != "_" and n not in PARTS]
            members = [getattr(module, n) for n in names]
            left += [m for m in members if isinstance(m, ModuleType)]
    return sorted(found.items())


def declared(body):
    """The names that a type checker takes as public, by the statements of a module."""
    for node in body:
        if isinstance(node, ast.If | ast.With | ast.Try):
            yield from declared([*node.body, *getattr(node, "orelse", [])])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield from importlib.import_module(node.module).__all__
        elif isinstance(node, ast.ImportFrom):
            yield from (a.name for a in node.names if a.asname == a.name)


def undeclared():
    """The public names that a type checker does not see, by module."""
    missing = {}
    for name, module in public_modules():
        tree = ast.parse(inspect.getsource(module))
        seen = {*declared(tree.body)}
        if listed := getattr(module, "__all__", None):
            imported = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
            seen |= {*listed} & {a.asname or a.name for n in imported for a in n.names}
        public = {n for n in dir(module) if not n.startswith("_")}
        wanted = public & {*listed} if listed else public
        if left := sorted(wanted - PARTS - seen):
            missing[name] = left
    return missing


def test_public_names_are_public_for_type_checkers():
    # In a process of its own: what other tests import are attributes of packages too.
    program = "from tests.test_types import undeclared; print(undeclared())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.stdout.split() == ["{}"]


def test_the_interface_of_arrays_is_up_to_date():
    assert array_interface.FILE.read_text() == array_interface.text()


def test_cells_keep_their_lines():
    page = "# Title\n\n>>> x = 1\n>>> x\n1\n\ntext\n\n>>> 1 / 0\n"
    page += "Traceback (most recent call last):\n    ...\n"
    page += "ZeroDivisionError: division by zero\n\n>>> y = 2\n"
    lines = check_types.program(page).splitlines()
    assert lines[2:4] == ["x = 1", "x"] and lines[13] == "y = 2"
    assert "1 / 0" not in lines


def test_transformations_declare_what_they_keep():
    for function in (curta.grad, curta.value_and_grad, curta.jit, curta.jacfwd):
        for overload in get_overloads(inspect.unwrap(function)):
            assert "P, R" in overload.__annotations__["return"] or (
                "Callable[P, " in overload.__annotations__["return"]
            )


def test_annotations_of_arrays_are_checked_at_run_time():
    @jaxtyped(typechecker=beartype)
    def product(
        x: Float[curta.Array, "rows inner"], y: Float[curta.Array, "inner columns"]
    ) -> Float[curta.Array, "rows columns"]:
        return x @ y

    assert product(jnp.ones((2, 3)), jnp.ones((3, 4))).shape == (2, 4)
    with pytest.raises(TypeCheckError, match="inner"):
        product(jnp.ones((2, 3)), jnp.ones((2, 4)))
    with pytest.raises(TypeCheckError):  # while it is traced, too
        curta.jit(product)(jnp.ones((2, 3)), jnp.ones((2, 4)))
    assert curta.vmap(product)(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).ndim == 3

    @beartype
    def index(x: Int[curta.Array, " n"]) -> curta.Array:
        return x

    with pytest.raises(BeartypeCallHintParamViolation):
        index(jnp.ones(3))


def test_importing_loads_nothing_for_type_checkers():
    code = "import curta, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "curta.core.array_interface" not in run.stdout.split()
    assert (Path(curta.__file__).parent / "core/array_interface.pyi").exists()
