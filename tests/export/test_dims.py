"""Symbolic dims: arithmetic, what is known of them, and their text."""

import itertools
import math

import numpy as np
import pytest

import curta
from curta import core, export
from curta.errors import InconclusiveDimensionOperation


def dims(text, *constraints):
    return export.symbolic_shape(text, constraints=constraints)


def bounds(dim):
    return dim.scope.bounds(dim.poly)


@pytest.mark.parametrize(
    "text",
    [
        "b + a",
        "b - a",
        "a*b + a^2 + b + a",
        "2*a^2 - 3*a - 1",
        "- mod(a, 4) + 3",
        "a*floordiv(b, 8)*mod(b, 4)",
        "max(a, b)",
        "min(b, 2*a)",
    ],
)
def test_text_is_read_back(text):
    (dim,) = dims(text)
    assert str(dim) == text
    assert export.symbolic_shape(str(dim), scope=dim.scope) == (dim,)


def test_shapes_from_text():
    assert export.symbolic_shape("2, _, ...", like=(2, 3, 4)) == (2, 3, 4)
    assert export.symbolic_shape("(2, 3,)") == (2, 3)
    assert export.symbolic_shape(None, like=(5,)) == (5,)
    assert export.symbolic_shape("") == ()


@pytest.mark.parametrize(
    "text",
    ["2.5", "a + a a", "a ^ a", "a; a", "_", "...", ")(", "2a", "mod(a)", "a,, b"],
)
def test_malformed_text(text):
    with pytest.raises(ValueError, match="syntax error in symbolic shape"):
        export.symbolic_shape(text)


@pytest.mark.parametrize(
    "text, like, message",
    [
        ("3", (4,), "different size 3"),
        ("b, ...", None, "no 'like' shape was given"),
        ("b, c, _", (4, 5), "'like' shape has only 2 dimensions"),
        ("_", (None,), "unexpected placeholder"),
    ],
)
def test_text_that_does_not_fit(text, like, message):
    with pytest.raises(ValueError, match=message):
        export.symbolic_shape(text, like=like)


def test_values_agree_with_integers():
    a, b = dims("a, b")
    cases = [
        lambda a, b: 2 * a * b - a + 3,
        lambda a, b: (a + 3 * b) // (b + 1),
        lambda a, b: (7 - a) % (b + 2),
        lambda a, b: core.max_dim(a - 2 * b, 1) - core.min_dim(a, b * b),
        lambda a, b: divmod(3 * a + 5, 3)[0] * (a - b) ** 2,
        lambda a, b: (-a) // -2 + abs(a - b),
    ]
    for f, x, y in itertools.product(cases, (1, 2, 5, 9), (1, 3, 8)):
        assert f(a, b)._evaluate({"a": x, "b": y}) == f(x, y)


def test_constants_are_integers():
    a, b = dims("a, b")
    for found, expected in [(a + 2 - a, 2), (2 * a // a, 2), (0 * a, 0), (a % 1, 0)]:
        assert type(found) is int and found == expected
    assert (a * a - b * b) // (a + b) == a - b
    assert (3 * a + 5) // 3 == a + 1 and (3 * a + 5) % 3 == 2
    assert a + np.int64(2) - a == 2


def test_equality_and_hash():
    a, b, again = dims("a, b, a")
    assert a == again and hash(a) == hash(again)
    assert a != b and a != 1 and a != "a"
    assert len({a, b, again}) == 2
    (other,) = dims("a")
    assert a != other


def test_comparisons():
    a, b = dims("a, b")
    assert a >= 1 and a > 0 and 1 <= a and not a < 1
    assert 4 * a + b >= 5 and -a <= -1
    assert a >= (a + 1) // 2 and 4 * (a // 4) <= a
    assert core.max_dim(a, b) >= core.min_dim(a, b)
    for undecided in (lambda: a >= 2, lambda: a < b, lambda: bool(a - b)):
        with pytest.raises(InconclusiveDimensionOperation, match="inconclusive"):
            undecided()
    with pytest.raises(TypeError, match="compared with integers"):
        _ = a < "b"


def test_bounds():
    a, b = dims("a, b")
    assert bounds(a) == (1, math.inf)
    assert bounds(5 - a) == (-math.inf, 4)
    assert bounds(a % 5) == (0, 4)
    assert bounds(a % -5) == (-4, 0)
    assert bounds(-11 // (a + 1)) == (-6, -1)
    assert bounds(a - 2 * (a // 2)) == (0, 1)
    assert bounds(core.max_dim(15 - a, 0) // 3) == (0, 4)
    assert bounds(b - core.max_dim(b - a, 0)) == (1, math.inf)
    assert bounds((a - b) * (a - b) + (a - b) * 0) == bounds((a - b) ** 2)
    with pytest.raises(InconclusiveDimensionOperation, match="division by 0"):
        bounds(a // (a - 3))


def test_bounds_hold():
    a, b = dims("a, b")
    for num, den in itertools.product((a - 3, 7 - a, a * b, 2 * b), (-2, 3, a + 4)):
        for dim in (num // den, num % den, core.max_dim(num, den)):
            low, high = (dim, dim) if type(dim) is int else bounds(dim)
            for x, y in itertools.product((1, 5, 100), (1, 7)):
                value = dim if type(dim) is int else dim._evaluate({"a": x, "b": y})
                assert low <= value <= high


def test_constraints_bound():
    a, b, c = dims("a, b, c", "a + 2 <= b", "b <= a + 5", "a + b >= c")
    assert bounds(b) == (3, math.inf)
    assert bounds(b - a) == (2, 5)
    assert bounds(c - 2 * a - 5) == (-math.inf, 0)
    (d,) = dims("d", "2*d >= 5", "3*d <= 10")
    assert bounds(5 * d - 2) == (13, 13)


def test_equalities_rewrite():
    a, b, c, d = dims("a, b, c, d", "b == a", "c == a + b", "d == 5")
    assert b == a and c == 2 * a and d == 5
    (n,) = dims("n", "mod(n, 4) == 0")
    assert n % 4 == 0 and 4 * (n // 4) == n and n >= 3 * (n // 4) and n >= 4
    x, y = dims("x, y", "max(x, y) == y")
    assert core.max_dim(x, y) == y and x <= y


@pytest.mark.parametrize(
    "constraints, message",
    [
        (("a <= 0",), "Unsatisfiable"),
        (("a == a + 1",), "Unsatisfiable explicit constraint: a == a [+] 1"),
        (("a >= b + 1", "b >= 4", "a <= c + 2", "c <= 2"), "Unsatisfiable"),
        (("a != 0",), "must contain one of"),
        (("a + b == 3",), "Invalid equality constraint"),
        ("a >= 2", "should be a sequence of strings"),
        ((3,), "must be a string"),
    ],
)
def test_impossible_constraints(constraints, message):
    with pytest.raises(ValueError, match=message):
        export.SymbolicScope(constraints)


def test_scopes_do_not_mix():
    (a,), (b,) = dims("a", "a >= 5"), dims("b")
    for mix in (lambda: a + b, lambda: a < b, lambda: core.max_dim(a, b)):
        with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
            mix()
    with pytest.raises(ValueError, match="both a `scope` and `constraints`"):
        export.symbolic_shape("c", scope=a.scope, constraints=["c >= 2"])


def test_powers():
    (a,) = dims("a")
    assert a**0 == 1 and a**2 == a * a
    with pytest.raises(ValueError, match="negative powers"):
        _ = a**-1
    with pytest.raises(ValueError, match="non-integer powers"):
        _ = a**0.5


def test_no_value_outside_of_a_function():
    (a,) = dims("a")
    assert export.is_symbolic_dim(a) and not export.is_symbolic_dim(3)
    with pytest.raises(InconclusiveDimensionOperation, match="requires a constant"):
        int(a)
    with pytest.raises(curta.errors.UnexpectedTracerError, match="has no value"):
        curta.numpy.sin(a)


def test_powers_beyond_all_sizes_raise_at_once():
    for text in ("a^1000000", "2^1000", "max(a,b)^65", "a^99999999999"):
        with pytest.raises(ValueError, match="exponents are at most 64"):
            export.symbolic_shape(text)
    a, b = export.symbolic_shape("a, b")
    with pytest.raises(ValueError, match="exponents are at most 64"):
        a**1000
    terms = sum(export.symbolic_shape(", ".join(f"d{i}" for i in range(20))))
    with pytest.raises(ValueError, match="too long"):
        terms**20
    assert str(export.symbolic_shape("a^64")) == "(a^64,)"
    assert (a + b) ** 2 == a * a + 2 * a * b + b * b


def test_shifts_of_dims():
    (a,) = export.symbolic_shape("a")
    assert a >> 2 == a // 4
    assert a << 3 == 8 * a
    with pytest.raises(ValueError, match="negative shift count"):
        a >> -1
