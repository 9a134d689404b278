"""Rules that hold for every source file, read from the syntax trees.

import-linter (`make lint`) checks the layers.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Container, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "curta"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAX_FILE = 550  # "about 500"
MAX_FUNCTION = 50
MOST_CLASSES_ASKED = 37
MOST_SHARED_NAMES = 13
LEAST_TESTED_SHARE = 0.92  # of the compiler's modules

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@functools.lru_cache(maxsize=1)
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a file, found once for all rules."""
    return [*ast.walk(tree)]


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in nodes_of(tree) if isinstance(node, Function))


def length_of_code(function: Function) -> int:
    """Lines of a function from its `def` on, the docstring left out."""
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def test_the_compiler_seldom_asks_for_the_class_of_an_op():
    """Ops say what passes must know; rules are found in tables. It may only fall."""
    asked = re.compile(r"isinstance\((\w+\.)*op\b")
    found = [
        f"{name_of(path)}: {line.strip()}"
        for path in SOURCES
        if path.is_relative_to(PACKAGE / "compiler")
        for line in path.read_text().splitlines()
        if asked.search(line)
    ]
    assert len(found) <= MOST_CLASSES_ASKED, found


# Imports for type checkers that close a circle; none is to be added.
CLOSING = {
    ("library.fourier_code", "library.fourier"),
    ("library.sort_code", "library.sort"),
    ("llvm.half", "llvm.instructions"),
    ("llvm.types", "llvm.instructions"),
    ("stablehlo.dims", "stablehlo.lowering"),
    ("stablehlo.shardings", "stablehlo.lowering"),
}


def test_class_names_stand_for_one_thing():
    """Few names are defined twice, many of them by JAX; the number may only fall."""
    files = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                files[node.name].append(name_of(path))
    shared = {name: where for name, where in files.items() if len(where) > 1}
    assert len(shared) <= MOST_SHARED_NAMES, shared


def test_modules_of_the_compiler_import_in_no_circle():
    paths = [p for p in SOURCES if p.is_relative_to(PACKAGE / "compiler")]
    names = {module_of(p): p for p in paths}
    imports = {name: imported_modules(path, names) for name, path in names.items()}
    prefix = "curta.compiler."
    for one, other in CLOSING:
        imports[prefix + one].remove(prefix + other)
    TopologicalSorter(imports).prepare()  # raises CycleError, with the circle


def test_modules_of_the_compiler_have_tests():
    """A module has a test if a test imports it by name; the share may only rise.

    The code generator for StableHLO has its own suite, which compares whole programs.
    """
    compiler = PACKAGE / "compiler"
    names = {
        module_of(path)
        for path in SOURCES
        if path.is_relative_to(compiler) and path.name != "__init__.py"
        and not path.is_relative_to(compiler / "stablehlo")
    }  # fmt: skip
    suites = {"accelerators", "browser", "multiprocess", "stress"}
    tested = set()
    for path in Path(__file__).parent.rglob("*.py"):
        if suites.isdisjoint(path.parts) and "curta.compiler" in path.read_text():
            tested |= imported_modules(path, names)
    share = len(tested) / len(names)
    assert share >= LEAST_TESTED_SHARE, sorted(names - tested)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported_modules(path: Path, names: Container[str]) -> set[str]:
    """The modules of these names that one imports, for type checkers alone too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in names else node.module for name in inner}
    return {name for name in found if name in names}


def last_name(node: ast.AST) -> str:
    """`cache` of `functools.cache`, `lru_cache` of `lru_cache(4096)`."""
    return ast.unparse(node).partition("(")[0].rpartition(".")[2]


# What remembered functions may give: values that nobody changes, of which equal ones
# are as good as one; and allocators, where a second one costs memory.
VALUES = {
    *("bool", "int", "float", "str", "None", "tuple", "frozenset", "dict", "Any"),
    *("ClosedJaxpr", "Jaxpr", "ShapedArray", "NamedSharding", "SingleDeviceSharding"),
    *(
        "DType",
        "Node",
        "Tiling",
        "ProductPlan",
        "_MatmulPlan",
        "_Plan",
        "ModuleSource",
        "Allocator",
    ),
    *("LibraryCall", "RawAttribute", "HostMesh", "HostLayout", "Factors", "slice"),
    "ProductPlan",
    "R",  # whatever a decorated function gives
}


# What a module may rebind, under a lock.
REBOUND = {"compiler/machine_code/cache.py": {"_writes"}}


def imported(tree: ast.AST) -> set[str]:
    """The names from `curta._base.once`."""
    froms = [n for n in nodes_of(tree) if isinstance(n, ast.ImportFrom)]
    return {a.name for n in froms if n.module == "curta._base.once" for a in n.names}


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def assigns_only(node: ast.stmt, names: set[str]) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    named = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return bool(named) and all(isinstance(n, ast.Name) and n.id in names for n in named)


def is_import(node: ast.stmt) -> bool:
    """An import, imports that only a type checker sees, or under a context manager."""
    checked = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    if checked or isinstance(node, ast.With):
        return all(map(is_import, node.body))
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_other_name(node: ast.stmt) -> bool:
    """`P = _PartitionSpec`: for type checkers `import ... as P` is not public."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)


# ---- rules: each gives what breaks it in a file, of which all are read once


def imports_stand_at_the_top(name: str, tree: ast.Module) -> list[str]:
    imports = [n for n in nodes_of(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    return [
        f"line {inner.lineno} in {function.name}"
        for function in functions(tree)
        for inner in imports
        if function.lineno <= inner.lineno <= function.end_lineno
    ]


def functions_are_short(name: str, tree: ast.Module) -> list[str]:
    lengths = (
        (function.name, length_of_code(function)) for function in functions(tree)
    )
    return [f"{name}: {n} lines" for name, n in lengths if n > MAX_FUNCTION]


def what_a_process_has_one_of_is_made_by_one_thread(
    name: str, tree: ast.Module
) -> list[str]:
    result = []
    for function in functions(tree):
        decorators = {*map(last_name, function.decorator_list)}
        if name != "_base/once.py" and decorators & {"cache", "lru_cache"}:
            if not ast.unparse(function.args):
                result.append(f"{function.name}: use curta._base.once.once")
            given = ast.walk(function.returns)
            kinds = {n.id for n in given if isinstance(n, ast.Name)}
            if kinds - VALUES:
                result.append(f"{function.name}: once, if it matters which one")
    return result


def what_threads_share_is_made_for_it(name: str, tree: ast.Module) -> list[str]:
    if name == "_base/once.py":
        return []
    nodes = nodes_of(tree)
    used = {n.id for n in nodes if isinstance(n, ast.Name)}
    used |= {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    used &= {"Lock", "RLock", "WeakValueDictionary"}
    rebound = {n for x in nodes if isinstance(x, ast.Global) for n in x.names}
    other = (used - imported(tree)) | (rebound - REBOUND.get(name, set()))
    return [f"{x}: use curta._base.once" for x in sorted(other)]


def package_files_only_reexport(name: str, tree: ast.Module) -> list[str]:
    if not name.endswith("__init__.py"):
        return []
    return [
        f"line {node.lineno}: only imports belong here"
        for node in tree.body
        if not (
            is_docstring(node)
            or is_import(node)
            or is_other_name(node)
            or assigns_only(node, {"__all__", "__version__", "__getattr__", "__dir__"})
        )
    ]


RULES = (
    imports_stand_at_the_top,
    functions_are_short,
    what_a_process_has_one_of_is_made_by_one_thread,
    what_threads_share_is_made_for_it,
    package_files_only_reexport,
)


def broken_rules(name: str, text: str) -> list[str]:
    tree = ast.parse(text)
    length = len(text.splitlines())
    result = [f"{length} lines"] if length > MAX_FILE else []
    for rule in RULES:
        result += [f"{rule.__name__}: {what}" for what in rule(name, tree)]
    return result


def test_rules_hold_for_every_file():
    broken = {
        name_of(path): broken_rules(name_of(path), path.read_text()) for path in SOURCES
    }
    assert {name: what for name, what in broken.items() if what} == {}


def test_typed():
    assert (PACKAGE / "py.typed").exists()


def test_variables_of_the_makefile_are_set_once():
    """A second default for a name that is taken would do nothing."""
    text = (PACKAGE.parents[1] / "Makefile").read_text()
    names = re.findall(r"^([A-Z_]+)\s*[:?+]?=", text, re.MULTILINE)
    assert len({*names}) == len(names) > 10
