"""A hook of mkdocs: writes the reference of a namespace where a page asks for it.

A line `members of curta.nn` in a page becomes one entry for each public function and
class of that namespace, whichever file it is defined in.
"""

import importlib
import inspect
import re
from collections.abc import Iterator

REQUEST = re.compile(r"^members of (curta[\w.]*)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    return REQUEST.sub(lambda match: "\n\n".join(entries(match[1])), markdown)


def entries(namespace: str) -> Iterator[str]:
    module = importlib.import_module(namespace)
    seen = set()
    for name, value in sorted(vars(module).items()):
        target = inspect.unwrap(value) if callable(value) else value
        if name.startswith("_") or not (
            inspect.isfunction(target) or inspect.isclass(target)
        ):
            continue
        path = f"{target.__module__}.{target.__qualname__}"
        if path.startswith("curta.") and "<locals>" not in path and path not in seen:
            seen.add(path)
            yield f"::: {path}"
