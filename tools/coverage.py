"""Write docs/coverage.md: which public names of JAX Curta has, by release.

    python tools/coverage.py            # write the page
    python tools/coverage.py --check    # fail if the page is not up to date

The names of the oldest release are in jax_names.txt, next to this file, those that each
later one added in jax_names_added.txt; the ones that it removed are in
`api_version.GONE`. A name is *present* when Curta has it under that version and it is
more than a `raise`. It is *tested* when a test or an example in a docstring mentions
it, or, for a primitive, when the conformance tests cover its class.
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
from curta._settings.api_version import DEFAULT, GONE, RELEASES, jax_api_version

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "coverage.md"
XLA = "part of XLA's own interface"
TRACES = "JAX's traces, which are made otherwise here"
REASONS = {
    "experimental.layout": "layouts are not part of types",
    "extend.backend": XLA,
    "interpreters.partial_eval": TRACES,
    "profiler": XLA,
}
MISSING = object()


def namespaces(file: str = "jax_names.txt") -> Iterator[tuple[str, list[str]]]:
    """The namespaces of a list (without the leading `jax.`) with their names."""
    text = (HERE / file).read_text()
    for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        title, body = section.split("]\n", 1)
        yield title, body.split()


def names_of(version: str) -> dict[str, list[str]]:
    """The namespaces of a version's release with their names."""
    releases = [*RELEASES.values()]
    until = releases.index(RELEASES[version])
    out = {title: [*names] for title, names in namespaces()}
    for title, names in namespaces("jax_names_added.txt"):
        release, namespace = title.split(":")
        if releases.index(release) <= until:
            out.setdefault(namespace, []).extend(names)
    versions = [*RELEASES]
    for namespace, names in out.items():
        for name in [*names]:
            row = GONE.get(f"{full(namespace)}.{name}")
            if row and versions.index(row.removed) <= versions.index(version):
                names.remove(name)
    return out


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
    """Whether `value` is a function whose body is only a `raise`."""
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


def missing_of(namespace: str, names: list[str]) -> list[str]:
    """The names that are missing under the version followed, or stubs."""
    found = {name: lookup(namespace, name) for name in names}
    return [n for n, v in found.items() if v is MISSING or is_stub(v)]


def totals() -> str:
    """A table with a line for each release: its names, and how many are present."""
    lines = []
    for version, release in RELEASES.items():
        with jax_api_version(version):
            every = names_of(version)
            count = sum(map(len, every.values()))
            present = count - sum(len(missing_of(*item)) for item in every.items())
        lines.append(
            f"| JAX {release} | {count} | {present} | {100 * present / count:.1f} % |"
        )
    return "| release | names | present | |\n|---|---|---|---|\n" + "\n".join(lines)


def rows() -> Iterator[tuple[str, list[str], list[str], list[str]]]:
    """Of each namespace its names, those that are missing, and those not tested."""
    for namespace, names in names_of(DEFAULT).items():
        missing = missing_of(namespace, names)
        untested = [n for n in names if n not in missing and not is_tested(n)]
        yield namespace, names, missing, untested


def reason_of(namespace: str, name: str) -> str:
    """The reason for a missing name, or the reason for its namespace."""
    whole = f"{namespace}.{name}" if namespace else name
    return REASONS.get(whole, REASONS.get(namespace, ""))


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page() -> str:
    table, details = [], []
    for namespace, names, missing, untested in rows():
        title = full(namespace)
        have = len(names) - len(missing)
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
        "Written by `make coverage` from lists of the public names of JAX: those of\n"
        "0.10.2 in `tools/jax_names.txt`, those added later in\n"
        "`tools/jax_names_added.txt`. *Present*: Curta has the name under that\n"
        "version ([which JAX](which_jax.md)), and it is not a stub. *Tested*: a test\n"
        "or a docstring's example mentions it, or, for a primitive, the conformance\n"
        "tests cover it. The functions of `numpy`, `lax`, `nn`, `random`, `scipy`,\n"
        "`image` and `ops` have rows in `tests/functions` besides, by which they are\n"
        "compared with NumPy and SciPy, batched, compiled and differentiated.\n\n"
        f"{totals()}\n\n"
        f"## JAX {RELEASES[DEFAULT]}\n\n"
        "| namespace | names | present | tested | |\n|---|---|---|---|---|\n"
        + "\n".join(table)
        + "\n\n## Missing or untested\n\n"
        + "\n".join(details)
    )


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE} is not up to date")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
