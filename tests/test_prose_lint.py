"""The prose lint searches pages, docstrings and messages, and skips code."""

from tools import prose_lint

PAGE = """# Title

Give `what is no array`, and
what is no axis.

    what is no code

```python
what is no code
```

>>> what is no code
what is no output
"""
MODULE = '''
"""Averages and their kin."""

def public(x):
    """Return x.

    >>> "texts"
    """
    # remembered
    raise ValueError(f"for what is no axis: {x}")

def _private():
    """Told anew."""
'''


def hits(texts):
    wanted = prose_lint.rules()
    return [
        (t.line, m[0].lower())
        for t in texts
        for rule in wanted
        for m in rule.pattern.finditer(t.text)
    ]


def test_pages_are_searched_outside_of_code():
    assert hits(prose_lint.of_page(PAGE)) == [(3, "what is no")]


def test_docstrings_of_public_names_and_messages_are_searched():
    assert hits(prose_lint.of_module(MODULE, True)) == [
        (2, "kin"),
        (10, "what is no"),
    ]
    assert hits(prose_lint.of_module(MODULE, False)) == [(10, "what is no")]


def test_the_words_of_jax_are_kept():
    kept = 'raise TypeError("JAX arrays are immutable")'
    changed = 'raise TypeError("JAX arrays cannot be read")'
    wanted = prose_lint.rules()

    def hits(source):
        (text,) = prose_lint.of_module(source, True)
        return [r.instead for r in wanted if r.pattern.search(text.text)]

    assert hits(kept) == [] and hits(changed) == ["array"]
