"""Pages as programs and notebooks: prose becomes comments or Markdown cells."""

import doctest
import json
import re
from typing import Any, NamedTuple

FENCE = re.compile(r"^( *)```(\{?\.?(\w+)[^\n]*)\n(.*?)^\1``` *$", re.DOTALL | re.M)
RUNNABLE = {"pycon", "python"}
_parser = doctest.DocTestParser()


class Cell(NamedTuple):
    """Prose, or code with what it prints; `fails` if its point is an exception."""

    is_code: bool
    text: str
    output: str = ""
    fails: bool = False


def cells(markdown: str) -> list[Cell]:
    """Return the cells of a page. A cell of code ends where something is printed."""
    found: list[Cell] = []
    position = 0
    for fence in FENCE.finditer(markdown):
        if fence[3] not in RUNNABLE or ".signature" in fence[2]:
            continue
        _add_prose(found, markdown[position : fence.start()])
        position = fence.end()
        body = re.sub(rf"^{fence[1]}", "", fence[4], flags=re.M)
        if ">>> " in body:
            found += code_cells(body)
        elif fence[3] == "python":
            found.append(Cell(True, body.strip("\n")))
    _add_prose(found, markdown[position:])
    return found


def _add_prose(found: list[Cell], text: str) -> None:
    if text.strip():
        found.append(Cell(False, text.strip("\n")))


def code_cells(body: str) -> list[Cell]:
    found, lines = [], []
    for example in _parser.get_examples(body):
        lines.append(example.source.rstrip("\n"))
        if example.want:
            fails = example.exc_msg is not None
            want = "" if fails else example.want.replace("<BLANKLINE>", "")
            found.append(Cell(True, "\n".join(lines), want, fails))
            lines = []
    if lines:
        found.append(Cell(True, "\n".join(lines)))
    return found


def has_code(markdown: str) -> bool:
    return any(cell.is_code for cell in cells(markdown))


def script(markdown: str) -> str:
    """The page as a Python program: prose in comments, without outputs."""
    parts = []
    for cell in cells(markdown):
        if not cell.is_code:
            rows = cell.text.split("\n")
            parts.append("\n".join(f"# {row}".rstrip() for row in rows))
        elif cell.fails:
            body = cell.text.replace("\n", "\n    ")
            parts.append(
                f"try:\n    {body}\nexcept Exception as error:\n"
                "    print(type(error).__name__, error)"
            )
        else:
            parts.append(cell.text)
    return "\n\n".join(parts) + "\n"


def notebook(markdown: str) -> str:
    """The page as a Jupyter notebook, with the outputs that the page shows."""
    made = []
    for number, cell in enumerate(cells(markdown)):
        source = cell.text.splitlines(keepends=True)
        row: dict[str, Any] = {"id": f"c{number}", "metadata": {}, "source": source}
        if not cell.is_code:
            made.append({"cell_type": "markdown", **row})
            continue
        if cell.fails:
            row["metadata"] = {"tags": ["raises-exception"]}
        lines = cell.output.splitlines(keepends=True)
        stream = {"output_type": "stream", "name": "stdout", "text": lines}
        outputs = [stream] if lines else []
        row |= {"execution_count": None, "outputs": outputs}
        made.append({"cell_type": "code", **row})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1) + "\n"
