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


def test_the_list_only_shrinks(monkeypatch, tmp_path):
    path = tmp_path / "todo.txt"
    path.write_text("# list\n3 a.py\n1 b.py\n")
    monkeypatch.setattr(prose_lint, "TODO", path)
    assert prose_lint.todo() == {"a.py": 3, "b.py": 1}
    prose_lint.write_todo({"a.py": 1, "b.py": 0})
    assert prose_lint.todo() == {"a.py": 1}
