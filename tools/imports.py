"""Check that each import is of a package that its folder's dependency groups name.

    python -m tools.imports

The table `tool.curta.imports` of pyproject.toml gives the groups of each folder and
file. Imports inside functions, `pytest.importorskip`, `importlib.import_module` and
`late` with a literal name, and programs in string literals count too. A package that
only comes with another package is not declared: the other one may drop it.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from tools.groups import ROOT, Declared

# Functions whose first argument is the name of a module.
BY_NAME = {"importorskip", "import_module", "__import__", "late"}
# Folders from which programs import modules without a package.
SEARCHED = tuple(
    ROOT / name for name in ("", "src", "docs", "examples", "examples/hosts")
)
HAS_IMPORT = re.compile(r"^\s*(import|from)\s", re.MULTILINE)


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the top-level module of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Call) and node.args:
            function, first = node.func, node.args[0]
            name = getattr(function, "attr", getattr(function, "id", None))
            if name in BY_NAME and isinstance(first, ast.Constant):
                yield node.lineno, str(first.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, name) for name in in_program(node.value))


def in_program(text: str) -> list[str]:
    """The modules that a string imports, if it is a program."""
    if not HAS_IMPORT.search(text):
        return []
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return []
    return [name for _, name in imported(tree)]


def is_local(module: str) -> bool:
    """Whether a module is a file or folder of this repository."""
    places = (folder / module for folder in SEARCHED)
    return any(p.with_suffix(".py").exists() or p.is_dir() for p in places)


def nearest(path: Path, table: dict[str, Any]) -> Any:
    """The entry of a table for a file or the nearest folder that has one, or None."""
    place = path.relative_to(ROOT)
    return next(
        (table[str(p)] for p in (place, *place.parents) if str(p) in table), None
    )


def foreign(path: Path, declared: Declared) -> Iterator[tuple[int, str]]:
    """The line and the module of imports that are of no file here, nor of Python."""
    exempt = nearest(path, declared.tool["not-installed"]) or {}
    for line, dotted in imported(ast.parse(path.read_text())):
        module = dotted.partition(".")[0]
        known = module in sys.stdlib_module_names or module in exempt
        if not known and not is_local(module):
            yield line, module


def faults_in(path: Path, declared: Declared) -> list[str]:
    """The imports of a file that its groups do not name."""
    members = nearest(path, declared.tool["imports"])
    if members is None:
        return [f"{path.relative_to(ROOT)} has no entry in tool.curta.imports"]
    allowed = declared.packages(members)
    names: dict[str, str] = declared.tool["packages-of-modules"]
    found = []
    for line, module in foreign(path, declared):
        package = canonicalize_name(names.get(module, module))
        if package not in allowed:
            where = f"{path.relative_to(ROOT)}:{line}"
            groups = ", ".join(members)
            found.append(f"{where} imports {module}: {package} is not in {groups}")
    return found


def modules_of(members: Iterable[str], declared: Declared) -> set[str]:
    """The modules that files with these groups, or fewer, import."""
    found = set()
    for path in sources():
        groups = {*(nearest(path, declared.tool["imports"]) or ())}
        if groups <= {*members}:
            found |= {module for _, module in foreign(path, declared)}
    return found


def sources() -> list[Path]:
    """The Python files of the folders in the table."""
    tops = {Path(name).parts[0] for name in Declared().tool["imports"]}
    found: set[Path] = set()
    for top in tops:
        place = ROOT / top
        found |= {place} if place.suffix else {*place.rglob("*.py")}
    hidden = {p for p in found if any(s[0] == "." for s in p.relative_to(ROOT).parts)}
    return sorted(found - hidden)


def check(declared: Declared) -> list[str]:
    """The faults of all files."""
    return [fault for path in sources() for fault in faults_in(path, declared)]


def main() -> None:
    """Print the faults, and exit with status 1 if there are any."""
    found = check(Declared())
    if found:
        raise SystemExit("\n".join(found))
    print(f"imports: {len(sources())} files import packages of their groups only")


if __name__ == "__main__":
    main()
