"""The reference: a page for every public name of every public namespace.

The namespaces are listed in docs/site.toml. An object with several names has its page
under the first of them; the others are short pages that link to it. Primitives
(`lax.add_p`, ...) share one page for each namespace.
"""

import functools
import importlib
import inspect
import pkgutil
import posixpath
import re
from collections import defaultdict
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tools.docsite.docstrings import markdown
from tools.docsite.pages import ROOT, Page, config, shortened
from tools.docsite.signatures import signature

SECTION = "Reference"
INDEX = "reference/index.md"
OUTSIDE = {"typing", "functools", "collections.abc", "dataclasses", "contextlib"}
MOST_NEIGHBORS = 14
A_TO_Z = "reference/a_to_z.md"
NAME_LISTS = ("jax_names.txt", "jax_names_added.txt")
LONGEST_SOURCE = 150  # lines
METHODS = ("__call__", "__getitem__", "__enter__")


class Name(NamedTuple):
    """A public name: its namespace, its value, and the topic it is listed under."""

    namespace: str
    name: str
    value: Any
    topic: str

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def path(self) -> str:
        if self.is_primitive:
            return f"{folder(self.namespace)}/primitives.md#{self.name}"
        return f"{folder(self.namespace)}/{self.name}.md"

    @property
    def is_primitive(self) -> bool:
        return self.name.endswith("_p") and not callable(self.target)

    @property
    def target(self) -> Any:
        return inspect.unwrap(self.value) if callable(self.value) else self.value

    @property
    def has_identity(self) -> bool:
        """True for functions and classes, False for numbers, tuples and other data."""
        return callable(self.value) and not self.is_primitive

    @property
    def line(self) -> str:
        """The first line of the docstring; for data, its value."""
        if not self.has_identity and not hasattr(self.value, "_func"):
            return f"`{shortened(clean(repr(self.value)), 60)}`"
        return (
            own_docstring(self.value)
            .partition("\n\n")[0]
            .replace("\n", " ")
            .replace("|", "\\|")
        )


def own_docstring(value: Any) -> str:
    """Return the docstring of an object, or the docstring of its class in Curta.

    Docstrings of other classes, and those that dataclasses generate, are left out.
    """
    text, kind = inspect.getdoc(value) or "", type(value)
    if inspect.isclass(value) or text != inspect.getdoc(kind):
        return text
    is_ours = kind.__module__.startswith("curta")
    return text if is_ours and not text.startswith(f"{kind.__name__}(") else ""


def clean(text: str) -> str:
    """Return a repr without addresses in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("`", "'").replace("\n", " ")


def folder(namespace: str) -> str:
    """The directory of a namespace: reference/numpy_fft for curta.numpy.fft."""
    inner = namespace.removeprefix("curta").strip(".").replace(".", "_")
    return f"reference/{inner or 'curta'}"


@functools.cache
def groups() -> dict[str, list[str]]:
    """The namespaces by group, with `.*` replaced by the submodules."""
    return {
        row["title"]: [n for name in row["namespaces"] for n in expanded(name)]
        for row in config()["reference"]
    }


def expanded(name: str) -> list[str]:
    if not name.endswith(".*"):
        return [name]
    module = importlib.import_module(name[:-2])
    found = []
    for info in pkgutil.walk_packages(module.__path__, module.__name__ + "."):
        if info.name.removeprefix("curta.") in jax_namespaces():
            if members(info.name):
                found.append(info.name)
    return sorted(found)


@functools.cache
def jax_namespaces() -> set[str]:
    """The namespaces of JAX's releases: other modules below a wildcard are internal."""
    lists = [ROOT / "tools" / name for name in NAME_LISTS]
    return {n for path in lists for n in re.findall(r"[\[:](.*)\]", path.read_text())}


@functools.cache
def releases() -> dict[str, str]:
    """The release of JAX that added a public name, for names after the first list."""
    found, namespace, release = {}, "", ""
    for line in (ROOT / "tools" / NAME_LISTS[1]).read_text().splitlines():
        if head := re.fullmatch(r"\[(.*):(.*)\]", line):
            release, namespace = head[1], ".".join(filter(None, ["curta", head[2]]))
        elif line and not line.startswith("#"):
            found |= {f"{namespace}.{name}": release for name in line.split()}
    return found


def namespaces() -> list[str]:
    return [name for names in groups().values() for name in names]


@functools.cache
def members(namespace: str) -> list[Name]:
    module = importlib.import_module(namespace)
    topics = config().get("topics", {}).get(namespace, {})
    names = getattr(module, "__all__", None) or dir(module)
    found = []
    for name in sorted({*names}, key=lambda n: (n.lower(), n)):
        if name.startswith("_") or name == "annotations":
            continue
        value = getattr(module, name)
        if isinstance(value, ModuleType) or is_imported_helper(value):
            continue
        found.append(Name(namespace, name, value, topic_of(name, value, topics)))
    return found


def is_imported_helper(value: Any) -> bool:
    home = getattr(value, "__module__", "") or ""
    return home in OUTSIDE and not isinstance(value, (int, float))


def topic_of(name: str, value: Any, topics: dict[str, Any]) -> str:
    target = inspect.unwrap(value) if callable(value) else value
    home = str(getattr(target, "__module__", None) or type(value).__module__)
    home = home.removeprefix("curta.")
    for title, row in topics.items():
        if name in row.get("names", ()):
            return title
    for title, row in topics.items():
        if home in row.get("modules", ()):
            return title
    return next(reversed(topics), "")


@functools.cache
def homes() -> dict[int, Name]:
    """The name under which each function or class has its page, by identity."""
    found: dict[int, Name] = {}
    for namespace in namespaces():
        for name in members(namespace):
            if not name.has_identity:
                continue
            known = found.get(id(name.value))
            own = getattr(name.value, "__name__", "") == name.name
            if known is None or (known.namespace == namespace and own):
                found[id(name.value)] = name
    return found


def home_of(name: Name) -> Name:
    return homes().get(id(name.value), name) if name.has_identity else name


@functools.cache
def by_full_name() -> dict[str, str]:
    """The path of the page of each public name, for links in prose."""
    names = {n.full: n.path for space in namespaces() for n in members(space)}
    return {space: f"{folder(space)}/index.md" for space in namespaces()} | names


def pages() -> list[Page]:
    found = [index(), a_to_z()]
    for namespace in namespaces():
        found.append(overview(namespace))
        primitives = [n for n in members(namespace) if n.is_primitive]
        if primitives:
            found.append(primitive_page(namespace, primitives))
        found += [page(n) for n in members(namespace) if not n.is_primitive]
    return found


def inside(path: str, text: str, kind: str, name: str, above: str = "") -> Page:
    trail = [("Reference", INDEX)]
    if above:
        trail.append((above, f"{folder(above)}/index.md"))
    return Page(path, text, SECTION, kind, name, above=trail)


def link(path: str, base: str) -> str:
    """The link from one page of the reference to another, both below docs/."""
    return posixpath.relpath(path, posixpath.dirname(base))


def first_line(namespace: str) -> str:
    text = inspect.getdoc(importlib.import_module(namespace)) or ""
    return text.partition("\n\n")[0].replace("\n", " ").rstrip(".")


def index() -> Page:
    spaces = namespaces()
    total = sum(len(members(n)) for n in spaces)
    parts = [
        "# Reference",
        f"{total:,} public names in {len(spaces)} namespaces. Search finds each by"
        f" name; [one page]({link(A_TO_Z, INDEX)}) lists all from A to Z;"
        " `help(curta.jit)` prints the same text.",
    ]
    for title, names in groups().items():
        parts.append(f"## {title}")
        rows = [
            f"| [`{n}`]({link(folder(n) + '/index.md', INDEX)}) | {first_line(n)} |"
            f" {len(members(n))} |"
            for n in names
        ]
        head = ["| namespace | contents | names |", "|---|---|---:|"]
        parts.append("\n".join(head + rows))
    return inside(INDEX, "\n\n".join(parts) + "\n", "list", "Reference")


def a_to_z() -> Page:
    """All public names in one list; names of several namespaces follow each other."""
    lines: dict[str, list[str]] = defaultdict(list)
    names = [n for s in namespaces() for n in members(s) if not n.is_primitive]
    for n in sorted(names, key=lambda n: (n.name.lower(), n.full)):
        where = n.namespace.removeprefix("curta").lstrip(".") or "curta"
        text = f"[`{n.name}`]({link(n.path, A_TO_Z)})&nbsp;<small>{where}</small>"
        lines[n.name[0].upper()].append(text)
    parts = ["# All names, A to Z"]
    for letter, entries in lines.items():
        parts += [f"## {letter}", " · ".join(entries)]
    return inside(A_TO_Z, "\n\n".join(parts) + "\n", "list", "All names")


def overview(namespace: str) -> Page:
    """The page of a namespace: its topics as tables, then all names from A to Z."""
    path = f"{folder(namespace)}/index.md"
    doc = inspect.getdoc(importlib.import_module(namespace)) or ""
    parts = [f"# {namespace}", markdown(doc)]
    by_topic = topics_of(namespace)
    for title, names in by_topic.items():
        if title:
            parts.append(f"## {title}")
        rows = [row(name, path) for name in names]
        parts.append("\n".join(["| name | description |", "|---|---|", *rows]))
    if len(by_topic) > 1:
        names = [n for n in members(namespace) if not n.is_primitive]
        parts += ["## A to Z", alphabet(names, path)]
    if any(n.is_primitive for n in members(namespace)):
        there = link(f"{folder(namespace)}/primitives.md", path)
        parts += ["## Primitives", f"[All primitives of this namespace]({there})."]
    return inside(path, "\n\n".join(parts) + "\n", "list", namespace)


def topics_of(namespace: str) -> dict[str, list[Name]]:
    found: dict[str, list[Name]] = defaultdict(list)
    for title in config().get("topics", {}).get(namespace, ()):
        found[title] = []
    for name in members(namespace):
        if not name.is_primitive:
            found[name.topic].append(name)
    return {title: names for title, names in found.items() if names}


def row(name: Name, base: str) -> str:
    home = home_of(name)
    line = name.line
    if home.full != name.full:
        line = f"Alias of `{home.full}`. {line}"
    return f"| [`{name.name}`]({link(name.path, base)}) | {line} |"


def alphabet(names: list[Name], base: str) -> str:
    lines: dict[str, list[str]] = defaultdict(list)
    for name in names:
        text = f"[`{name.name}`]({link(name.path, base)})"
        lines[name.name[0].upper()].append(text)
    return "\n".join(f"- **{letter}** " + " ".join(e) for letter, e in lines.items())


def primitive_page(namespace: str, names: list[Name]) -> Page:
    path = f"{folder(namespace)}/primitives.md"
    rows = []
    for n in names:
        doc = inspect.getdoc(type(n.value)) or ""
        text = doc.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f'| <a id="{n.name}"></a>`{n.name}` | {text} |')
    table = "\n".join(["| name | operation |", "|---|---|", *rows])
    text = (
        f"# Primitives of {namespace}\n\nThe operations that appear in jaxprs, for code"
        f" that reads or extends them.\n\n{table}\n"
    )
    return inside(path, text, "list", f"{namespace} primitives", namespace)


def page(name: Name) -> Page:
    home = home_of(name)
    if home.full != name.full:
        return alias(name, home)
    parts = [f"# {name.full}"]
    call = signature(name.full, name.value) if callable(name.value) else None
    if call and not is_plain_exception(name.value):
        parts.append(f"```{{.python .signature}}\n{call}\n```")
    if name.full in releases():
        parts.append(f"*New in JAX {releases()[name.full]}.*")
    kind = type(name.value).__name__
    if name.has_identity or hasattr(name.value, "_func"):
        parts.append(
            markdown(own_docstring(name.value) or f"An object of type `{kind}`.")
        )
    else:
        parts.append(constant(name))
    if inspect.isclass(name.target):
        parts += class_members(name.target, name.name)
    parts += neighbors(name)
    text = "\n\n".join(parts) + "\n"
    made = inside(name.path, text, "function", name.full, name.namespace)
    made.tail = source(name.target)
    return made


def is_plain_exception(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def alias(name: Name, home: Name) -> Page:
    there = link(home.path, name.path)
    text = f"# {name.full}\n\nAlias of [`{home.full}`]({there}).\n\n{home.line}\n"
    return inside(name.path, text, "function", name.full, name.namespace)


def constant(name: Name) -> str:
    value = clean(repr(name.value))
    kind = type(name.value).__name__
    doc = inspect.getdoc(name.value)
    own = doc if doc and doc != inspect.getdoc(type(name.value)) else ""
    shown = f"```python\n{shortened(value, 400)}\n```"
    return "\n\n".join(filter(None, [f"A constant of type `{kind}`.", shown, own]))


def class_members(kind: type, short: str) -> list[str]:
    """The public methods and properties that a class of the package defines."""
    parts = []
    for attribute, value in sorted(class_attributes(kind).items()):
        value = getattr(value, "__func__", value)
        if isinstance(value, property) or not callable(value):
            doc, head = inspect.getdoc(value), f"{short}.{attribute}"
            call = None
        else:
            doc, head = inspect.getdoc(value), f"{short}.{attribute}()"
            call = signature(f"{short}.{attribute}", value)
        if not doc:
            continue
        parts.append(f"### `{head}`")
        if call:
            parts.append(f"```{{.python .signature}}\n{call}\n```")
        parts.append(markdown(doc))
    return ["## Members", *parts] if parts else []


def class_attributes(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("curta"):
            found |= vars(base)
    wanted = (property, staticmethod, classmethod)
    return {
        name: value
        for name, value in found.items()
        if (not name.startswith("_") or name in METHODS)
        and (inspect.isfunction(value) or isinstance(value, wanted))
    }


def neighbors(name: Name) -> list[str]:
    """Links to members of the same topic, those from the same module first."""
    near = [
        n
        for n in members(name.namespace)
        if n.topic == name.topic and n.name != name.name and not n.is_primitive
    ]
    place = getattr(name.target, "__module__", None)
    same = [n for n in near if getattr(n.target, "__module__", None) == place]
    chosen = same[:MOST_NEIGHBORS] if same else near[:MOST_NEIGHBORS]
    if not chosen:
        return []
    links = ", ".join(f"[`{n.name}`]({link(n.path, name.path)})" for n in chosen)
    return [f"## See also\n\n{links}"]


def source(target: Any) -> str:
    """The source of an object, folded up."""
    try:
        lines, start = inspect.getsourcelines(target)
        path = Path(inspect.getsourcefile(target) or "").resolve()
    except (OSError, TypeError):
        return ""
    if not path.is_relative_to(ROOT / "src"):
        return ""
    shown = "".join(lines[:LONGEST_SOURCE])
    more = len(lines) - LONGEST_SOURCE
    code = highlight(shown, PythonLexer(), HtmlFormatter(cssclass="highlight"))
    rest = f"<p>and {more} more lines</p>" if more > 0 else ""
    place = f"{escape(str(path.relative_to(ROOT)))}, line {start}"
    return (
        f'<details class="source"><summary>Source: {place}</summary>{code}{rest}'
        "</details>"
    )
