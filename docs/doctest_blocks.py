"""An extension of griffe: shows the examples of docstrings as code."""

import re
from typing import Any

import griffe

# An example begins with a prompt and ends at a blank line.
EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Puts fences around each example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            fenced = r"\1```pycon\n\g<0>\n\1```"
            obj.docstring.value = EXAMPLE.sub(fenced, obj.docstring.value)
