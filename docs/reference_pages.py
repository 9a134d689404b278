"""A hook of mkdocs: the reference, a page for each function.

A line `members of curta.nn` in a page becomes its public functions and classes in
groups, each with its first line and a link to a page of its own. A group is what one
module of the source defines, under the first line of its docstring.
"""

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
# A search for words finds guides first, of which there are fewer.
LESS_WANTED = "---\nsearch:\n  boost: 0.3\n---\n\n"
REQUEST = re.compile(r"^members of (curta[\w.]*)$", re.MULTILINE)


class Entry(NamedTuple):
    """A public function or class of a namespace, and where it is defined."""

    name: str
    path: str
    module: str
    line: str


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for namespace in namespaces():
        for uri, text in member_pages(namespace):
            files.append(File.generated(config, uri, content=text))
    return files


def namespaces() -> list[str]:
    """Those of all pages; `curta` comes first, then the others by their names."""
    return sorted(chapters())


@functools.cache
def chapters() -> dict[str, str]:
    """The page, beside the folders of functions, that lists each namespace."""
    return {
        namespace: page.name
        for page in (DOCS / "reference").glob("*.md")
        for namespace in REQUEST.findall(page.read_text())
    }


@functools.cache
def pages_of_objects() -> dict[str, str]:
    """The one page of each object, that of the first namespace which has it."""
    found: dict[str, str] = {}
    for namespace in namespaces():
        for entry in entries(namespace):
            found.setdefault(entry.path, f"{folder_of(namespace)}/{entry.name}.md")
    return found


def on_page_markdown(markdown: str, **_: object) -> str:
    return REQUEST.sub(lambda match: overview(match[1]), markdown)


@functools.cache
def entries(namespace: str) -> list[Entry]:
    """What a namespace offers; of several names for one thing the first."""
    module, seen, found = importlib.import_module(namespace), set(), []
    for name in sorted(n for n in dir(module) if not n.startswith("_")):
        value = getattr(module, name)
        target = inspect.unwrap(value) if callable(value) else value
        if not (inspect.isfunction(target) or inspect.isclass(target)):
            continue
        path = f"{target.__module__}.{target.__qualname__}"
        if path.startswith("curta.") and "<locals>" not in path and path not in seen:
            seen.add(path)
            line = first_line(target)
            found.append(Entry(name, path, target.__module__, line))
    return found


def first_line(target: Any) -> str:
    text = inspect.getdoc(target) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def groups(namespace: str) -> dict[str, list[Entry]]:
    """The entries by the first line of the docstring of the module they are from."""
    found: dict[str, list[Entry]] = {}
    for entry in entries(namespace):
        title = first_line(importlib.import_module(entry.module)).rstrip(".")
        found.setdefault(title.replace("`", ""), []).append(entry)
    return dict(sorted(found.items()))


def folder_of(namespace: str) -> str:
    """Where the pages of a namespace are, beside the page of the namespace."""
    return namespace.removeprefix("curta").strip(".").replace(".", "_") or "curta"


def overview(namespace: str) -> str:
    """The groups of a namespace as tables of links."""
    parts = []
    for title, members in groups(namespace).items():
        rows = "\n".join(
            f"| [`{m.name}`]({pages_of_objects()[m.path]}) | {m.line} |"
            for m in members
        )
        parts.append(f"## {title}\n\n| name | what it is |\n|---|---|\n{rows}")
    return "\n\n".join(parts)


def member_pages(namespace: str) -> Iterator[tuple[str, str]]:
    """The page of each member of a namespace: its text, and what is near it."""
    for title, members in groups(namespace).items():
        for member in members:
            page = f"{folder_of(namespace)}/{member.name}.md"
            if pages_of_objects()[member.path] != page:
                continue
            others = ", ".join(
                f"[`{m.name}`](../{pages_of_objects()[m.path]})"
                for m in members
                if m is not member
            )
            near = f"\n\nSee also, under *{title}*: {others}." if others else ""
            uri = f"reference/{page}"
            heading = f"# {namespace}.{member.name}"
            above = f"[{namespace}](../{chapters()[namespace]}): {title}"
            text = f"{heading}\n\n{above}\n\n::: {member.path}{near}\n"
            yield uri, LESS_WANTED + text
