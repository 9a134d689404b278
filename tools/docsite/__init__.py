"""The documentation site: `python -m tools.docsite` builds it into site/."""
