"""Check prose against the vocabulary in tools/prose.toml.

    python tools/prose_lint.py [PATH ...]

Three kinds of text are checked: Markdown pages, docstrings of public namespaces, tools,
tests and benchmarks, and string literals in `raise` and warning calls. Code in fences,
doctests and backticks is skipped, and so is Markdown between `<!-- prose: off -->`
and `<!-- prose: on -->`.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
MODULES = ("src/curta", "benchmarks", "examples", "tests", "tools")
# Directories of src/curta with private docstrings: only their messages are checked.
INTERNAL = {
    *("compiler", "control", "core", "hosts", "partition", "primitives"),
    *("runtime", "transforms", "command_line"),
}
WARNERS = {"warn", "warn_explicit", "advise", "error", "exit"}
CODE = re.compile(r"``[^`]*``|`[^`]*`|\]\([^)]*\)|<[^>]+>|https?://\S+")
OFF = re.compile(r"<!-- prose: off -->.*?(<!-- prose: on -->|\Z)", re.DOTALL)
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"^ *>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
INDENTED = re.compile(r"^ {4,}(?![-*\d]).*$", re.MULTILINE)


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    instead: str
    only_messages: bool


class Text(NamedTuple):
    """A paragraph of prose, and the line on which it starts."""

    line: int
    text: str
    is_message: bool = False


class Hit(NamedTuple):
    path: str
    line: int
    words: str
    instead: str


def rules() -> list[Rule]:
    table = tomllib.loads((ROOT / "tools/prose.toml").read_text())
    return [
        Rule(
            re.compile(r["pattern"], re.IGNORECASE),
            r["instead"],
            r.get("only_messages", False),
        )
        for r in table["rule"]
    ]


def known_words() -> re.Pattern[str]:
    """The opening words of JAX's messages, which are not rewritten."""
    words = tomllib.loads((ROOT / "tools/prose.toml").read_text())["words_of_jax"]
    return re.compile("|".join(map(re.escape, words)))


OF_JAX = known_words()


def blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with matches replaced by spaces; line numbers are kept."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def paragraphs(text: str, line: int) -> Iterator[Text]:
    """Yield the paragraphs of a text, without code."""
    start, words = line, []
    for number, row in enumerate(text.split("\n"), line):
        begins_item = re.match(r"\s*([-*#|]|\d+\.)\s", row)
        if (not row.strip() or begins_item) and words:
            yield Text(start, " ".join(words))
            words = []
        if row.strip():
            start = start if words else number
            words.append(row.strip().lstrip("-*# "))
    if words:
        yield Text(start, " ".join(words))


def of_page(source: str) -> Iterator[Text]:
    for pattern in (OFF, FENCE, EXAMPLE, INDENTED):
        source = blanked(pattern, source)
    yield from paragraphs(CODE.sub("X", source), 1)


def of_module(source: str, with_docstrings: bool) -> Iterator[Text]:
    tree = ast.parse(source)
    if with_docstrings:
        yield from of_docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or _warns(node):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    text = OF_JAX.sub("X", CODE.sub("X", part.value))
                    yield Text(part.lineno, text, True)


def of_docstrings(node: ast.AST) -> Iterator[Text]:
    """Yield docstrings of the public classes and functions in a module or class."""
    is_module = isinstance(node, ast.Module)
    if not is_module and getattr(node, "name", "").startswith("_"):
        return
    text = ast.get_docstring(node, clean=True)
    if text:
        text = blanked(FENCE, blanked(EXAMPLE, text))
        yield from paragraphs(CODE.sub("X", text), node.body[0].lineno)
    if is_module or isinstance(node, ast.ClassDef):
        for child in node.body:
            if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
                yield from of_docstrings(child)


def _warns(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in WARNERS


def texts_of(path: Path) -> Iterator[Text]:
    source = path.read_text()
    if path.suffix == ".md":
        return of_page(source)
    parts = path.relative_to(ROOT).parts
    return of_module(source, parts[0] != "src" or parts[2] not in INTERNAL)


def hits_of(path: Path, wanted: list[Rule]) -> list[Hit]:
    name = path.relative_to(ROOT).as_posix()
    return [
        Hit(name, text.line, match[0].strip(), rule.instead)
        for text in texts_of(path)
        for rule in wanted
        if text.is_message or not rule.only_messages
        for match in rule.pattern.finditer(text.text)
    ]


def files() -> list[Path]:
    pages = {p for pattern in PAGES for p in ROOT.glob(pattern)}
    found = pages | {p for name in MODULES for p in (ROOT / name).rglob("*.py")}
    return sorted(p for p in found if "out" not in p.relative_to(ROOT).parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files; all by default")
    wanted, chosen = rules(), parser.parse_args().paths or files()
    hits = [hit for path in chosen for hit in hits_of(path.resolve(), wanted)]
    for hit in hits:
        print(f'{hit.path}:{hit.line}: "{hit.words}": {hit.instead}')
    print(f"prose: {len(hits)} hits in {len(chosen)} files")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
