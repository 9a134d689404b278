"""Where messages send readers: pages of the documentation.

`tests/test_errors.py` checks that each page and section exists.
"""

from __future__ import annotations

_ROOT = "docs/"


def page(name: str, section: str = "") -> str:
    """Return the address of a page, or of a section by its anchor.

    >>> page("sharp_bits", "arrays-are-immutable")
    'docs/sharp_bits.md#arrays-are-immutable'
    """
    return f"{_ROOT}{name}.md{'#' * bool(section)}{section}"
