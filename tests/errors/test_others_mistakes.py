"""Trees, devices and settings: mistakes and answers."""

import pytest
from tests.errors.checks import check_message

import curta

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "tree map",
        lambda: curta.tree.map(lambda x, y: x, {"a": 1}, {"b": 1}),
        ValueError,
        "pytree structure error: different keys of dict",
        "only the prefix pytree tree_map tree has 'a' and only the full pytree has 'b'",
    ),
    (
        "tree map len",
        lambda: curta.tree.map(lambda x, y: x, (1, 2), (1, 2, 3)),
        ValueError,
        "pytree structure error: different lengths of",
        "different lengths of tuple at key path",
    ),
    (
        "tree unflatten",
        lambda: curta.tree.unflatten(curta.tree.structure((1, 2)), [1]),
        ValueError,
        "Too few leaves for PyTreeDef; expected 2, got",
        "expected 2, got 1",
    ),
    (
        "tree unflatten many",
        lambda: curta.tree.unflatten(curta.tree.structure((1, 2)), [1, 2, 3]),
        ValueError,
        "Too many leaves for PyTreeDef; expected 2.",
        "",
    ),
    (
        "tree dict keys",
        lambda: curta.tree.flatten({1: 0, "a": 1}),
        ValueError,
        "Comparator raised exception while sorting",
        "[1, 'a']",
    ),
    (
        "device put str",
        lambda: curta.device_put("a"),
        TypeError,
        "Argument 'a' of type <class 'str'> is not a",
        "",
    ),
    (
        "devices unknown",
        lambda: curta.devices("quantum"),
        RuntimeError,
        "Unknown",
        "cpu",
    ),
    (
        "config unknown",
        lambda: curta.config.update("jax_nope", 1),
        AttributeError,
        "Unrecognized config option: jax_nope",
        "",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)
