"""Affine index expressions against plain integers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from curta.compiler.loops.index import (
    Affine,
    LoopVar,
    Quotient,
    Remainder,
    as_index,
    row_major,
    unravel,
)

ROW, COLUMN = LoopVar("i", 6), LoopVar("j", 4)


def evaluate(index: Affine, env: dict[LoopVar, int]) -> int:
    total = index.const
    for atom, k in index.terms.items():
        if isinstance(atom, LoopVar):
            value = env[atom]
        elif isinstance(atom, Quotient):
            value = evaluate(atom.of, env) // atom.by
        else:
            assert isinstance(atom, Remainder)
            value = evaluate(atom.of, env) % atom.by
        total += k * value
    return total


def steps() -> Any:
    return st.lists(
        st.tuples(
            st.sampled_from(["add", "sub", "mul", "div", "mod", "addi", "addj"]),
            st.integers(1, 9),
        ),
        max_size=6,
    )


def apply(x: Any, i: Any, j: Any, name: str, k: int) -> Any:
    results = {
        "add": lambda: x + k,
        "sub": lambda: x - k,
        "mul": lambda: x * k,
        "div": lambda: x // k,
        "mod": lambda: x % k,
        "addi": lambda: x + i * k,
        "addj": lambda: x + k * j,
    }
    return results[name]()


@given(steps())
def test_arithmetic_is_that_of_integers(program: list[tuple[str, int]]) -> None:
    index = as_index(ROW)
    for name, k in program:
        index = apply(index, as_index(ROW), as_index(COLUMN), name, k)
    low, high = index.bounds
    for i in range(ROW.extent):
        for j in range(COLUMN.extent):
            want = i
            for name, k in program:
                want = apply(want, i, j, name, k)
            assert evaluate(index, {ROW: i, COLUMN: j}) == want
            assert low <= want <= high


def test_a_reshape_that_splits_a_dim_leaves_no_division() -> None:
    flat = LoopVar("f", 24)
    assert any(
        isinstance(a, Quotient)
        for i in unravel(as_index(flat), (6, 4))
        for a in i.terms
    )
    assert unravel(row_major((ROW, COLUMN), (6, 4)), (6, 4)) == (
        as_index(ROW),
        as_index(COLUMN),
    )
    assert unravel(row_major((ROW, COLUMN), (6, 4)), (3, 2, 4))[2] == as_index(COLUMN)


@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 3, 4)])
def test_a_reshape_of_what_lies_in_memory_leaves_no_division(shape) -> None:
    """Though no dim of the result is one of the operand."""
    offset = as_index(LoopVar("f", 8)) * 3 + LoopVar("g", 3) + 1
    assert row_major(unravel(offset, shape), shape) == offset


def test_equal_indices_are_equal() -> None:
    assert as_index(ROW) * 4 + COLUMN == as_index(COLUMN) + as_index(ROW) * 4
    assert hash(as_index(ROW) + 1) == hash(1 + as_index(ROW))
    assert as_index(ROW) - ROW == as_index(0)


def test_substitution_reaches_into_quotients() -> None:
    index = (as_index(ROW) * 4 + COLUMN + 1) // 8
    replaced = index.substitute(lambda atom: 2 if atom == ROW else None)
    assert replaced == (as_index(COLUMN) + 9) // 8
    assert replaced.bounds == (1, 1)


def test_products_of_variables_are_refused() -> None:
    with pytest.raises(TypeError, match="is not an affine sum"):
        as_index(ROW) * as_index(COLUMN)


def test_printed_form() -> None:
    assert str(as_index(ROW) * 4 + COLUMN - 1) == "4*i + j - 1"
