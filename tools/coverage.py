"""Write docs/coverage.md: which public names of JAX Curta has, by release.

    python tools/coverage.py            # write the page
    python tools/coverage.py --check    # fail if the page is not up to date

The names come from jax_names.txt beside this file, of the release that is followed by
default, and from jax_names_added.txt, of what later ones added. A name is *present*
when Curta has it and it is more than a `raise`; it is *tested* when a test or an
example in a docstring mentions it, or, for a primitive, when the conformance tests
cover its class.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any

import curta
from curta.api_version import DEFAULT, RELEASES

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "coverage.md"
XLA = "part of XLA's own interface"
TRACES = "JAX's traces, which are made otherwise here"
REASONS = {
    "custom_derivatives.remat_opt_p": TRACES,
    "experimental": "without documentation in JAX",
    "extend.backend": XLA,
    "extend.core": TRACES,
    "interpreters.ad": TRACES,
    "profiler": XLA,
}
MISSING = object()


def namespaces(file: str = "jax_names.txt") -> Iterator[tuple[str, list[str]]]:
    """The namespaces of a list (without the leading `jax.`) with their names."""
    text = (HERE / file).read_text()
    for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        title, body = section.split("]\n", 1)
        yield title, body.split()


def full(namespace: str) -> str:
    return ".".join(filter(None, ["curta", namespace]))


def lookup(namespace: str, name: str) -> Any:
    """The object of that name in Curta, or MISSING."""
    title = full(namespace)
    try:
        module = importlib.import_module(title)
    except ImportError:  # a namespace need not be a module
        module = reduce(
            lambda value, part: getattr(value, part, MISSING),
            namespace.split("."),
            curta,
        )
    return getattr(module, name, MISSING)


def is_stub(value: Any) -> bool:
    """Whether `value` is a function of which the whole body is a `raise`."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(value)))
        function = ast.parse(source).body[0]
    except (TypeError, OSError, SyntaxError):
        return False
    if not isinstance(function, ast.FunctionDef):
        return False
    body = [
        node
        for node in function.body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    refuses = value.__name__ in ("fromfile", "fromiter")  # as in JAX
    return len(body) == 1 and isinstance(body[0], ast.Raise) and not refuses


@cache
def mentioned() -> frozenset[str]:
    """Every identifier in the tests and in the examples of the documentation."""
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    for path in [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md")]:
        sources += re.findall(r"^ *(?:>>>|\.\.\.) (.*)", path.read_text(), re.MULTILINE)
    return frozenset(re.findall(r"[A-Za-z_]\w*", "\n".join(sources)))


def is_tested(name: str) -> bool:
    # Each primitive has samples, or a test of its own that the conformance tests name.
    return name.endswith("_p") or name in mentioned()


def rows() -> Iterator[tuple[str, list[str], list[str], list[str]]]:
    """Of each namespace its names, those that are missing, and those not tested."""
    for namespace, names in namespaces():
        found = {name: lookup(namespace, name) for name in names}
        missing = [n for n, v in found.items() if v is MISSING or is_stub(v)]
        untested = [n for n in names if n not in missing and not is_tested(n)]
        yield namespace, names, missing, untested


def added() -> str:
    """A section on what each later release added."""
    rows = []
    for title, names in namespaces("jax_names_added.txt"):
        release, namespace = title.split(":")
        found = {name: lookup(namespace, name) for name in names}
        missing = [n for n, v in found.items() if v is MISSING or is_stub(v)]
        have = listed([n for n in names if n not in missing])
        rows.append(f"| {release} | `{full(namespace)}` | {have} | {listed(missing)} |")
    return (
        "\n## What later releases added\n\n"
        "These names are there whichever version is followed ([which JAX](which_jax.md)"
        ").\n\n| release | namespace | present | missing |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def reason_of(namespace: str, name: str) -> str:
    """Why a name is missing; that of its namespace if it has none of its own."""
    whole = f"{namespace}.{name}" if namespace else name
    return REASONS.get(whole, REASONS.get(namespace, ""))


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page() -> str:
    table, details = [], []
    total = present = 0
    for namespace, names, missing, untested in rows():
        title = full(namespace)
        have = len(names) - len(missing)
        total, present = total + len(names), present + have
        table.append(
            f"| `{title}` | {len(names)} | {have} | {have - len(untested)} "
            f"| {100 * have / len(names):.0f} % |"
        )
        lines = []
        reasons = {name: reason_of(namespace, name) for name in missing}
        for reason in sorted(set(reasons.values())):
            same = [name for name in missing if reasons[name] == reason]
            why = f" ({reason})" if reason else ""
            lines.append(f"Missing{why}: {listed(same)}.")
        if untested:
            lines.append(f"Not named in a test: {listed(untested)}.")
        if lines:
            details.append(f"### `{title}`\n\n" + "\n\n".join(lines) + "\n")
    return (
        "# Coverage\n\n"
        f"Written by `make coverage` from the list of JAX {RELEASES[DEFAULT]}'s public"
        " names in\n`tools/jax_names.txt`, and for what came later, up to JAX"
        f" {[*RELEASES.values()][-1]}, from\n"
        "`tools/jax_names_added.txt`. *Present*: Curta has the name, and it is no"
        " stub.\n"
        "*Tested*: a test or a docstring's example mentions it, or, for a primitive,\n"
        "the conformance tests cover it. The functions of `numpy`, `lax`, `nn`,\n"
        "`random`, `scipy`, `image` and `ops` have rows in `tests/functions` besides,\n"
        "by which they are compared with NumPy and SciPy, batched, compiled and\n"
        "differentiated.\n\n"
        f"Present: {present} of {total} ({100 * present / total:.1f} %).\n\n"
        "| namespace | names | present | tested | |\n|---|---|---|---|---|\n"
        + "\n".join(table)
        + "\n\n## What is missing or untested\n\n"
        + "\n".join(details)
        + added()
    )


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE} is not up to date")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
