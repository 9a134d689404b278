"""What must agree in structured control flow, and the errors where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import parameter_names
from curta.core.avals import ShapedArray
from curta.core.flat import function_location, function_name


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two avals agree in shape and dtype."""
    return a.shape == b.shape and a.dtype == b.dtype


def described(fun: Callable[..., Any]) -> str:
    """A function by name and place."""
    return f"{function_name(fun)} at {function_location(fun)}"


def _difference(a: ShapedArray, b: ShapedArray) -> str:
    parts = []
    if a.shape != b.shape:
        parts.append("shapes")
    if a.dtype != b.dtype:
        parts.append("dtypes")
    return f"so the {' and '.join(parts)} do not match"


def check_same_outputs(
    what: str,
    names: Sequence[str],
    funs: Sequence[Callable[..., Any]],
    trees: Sequence[Any],
    avals: Sequence[Sequence[ShapedArray]],
) -> None:
    """Raise TypeError unless all branches return the same structure and types."""
    for i in range(1, len(funs)):
        where = (
            f"{names[0]} is {described(funs[0])}\n{names[i]} is {described(funs[i])}"
        )
        if trees[i] != trees[0]:
            raise TypeError(
                f"{what} branch outputs must have the same pytree structure, but they"
                f" differ:\n\n{where}\n\n{names[0]} output has structure {trees[0]}"
                f" but {names[i]} output has structure {trees[i]}.\n\nRevise"
                f" {names[0]} and/or {names[i]} so that they have the same pytree"
                " structure."
            )
        wrong = [
            (a, b)
            for a, b in zip(avals[0], avals[i], strict=True)
            if not same_type(a, b)
        ]
        if wrong:
            listing = "\n\n".join(
                f"The output of {names[0]} has type {a.str_short()} but the"
                f" corresponding output of {names[i]} has type {b.str_short()},"
                f" {_difference(a, b)}."
                for a, b in wrong
            )
            raise TypeError(
                f"{what} branches must have equal output types but they differ.\n\n"
                f"{where}\n\n{listing}\n\nRevise {names[0]} and/or {names[i]} so that"
                " all output types match."
            )


def check_carry(
    what: str,
    fun: Callable[..., Any],
    in_tree: Any,
    out_tree: Any,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    argument: int = 0,
) -> None:
    """Raise TypeError unless the carry comes out as it went in."""
    names = parameter_names(fun)
    base = names[argument] if argument < len(names) else "carry"
    if in_tree != out_tree:
        raise TypeError(
            f"{what} function carry input and carry output must have the same pytree"
            f" structure, but they differ:\n\nThe input carry {base} has structure"
            f" {in_tree} but the carry output has structure {out_tree}.\n\nRevise the"
            " function so that the carry output has the same pytree structure as the"
            " carry input."
        )
    paths = tree_util.tree_leaves_with_path(
        tree_util.tree_unflatten(in_tree, [0] * in_tree.num_leaves)
    )
    wrong = []
    for (path, _), a, b in zip(paths, in_avals, out_avals, strict=True):
        if not same_type(a, b):
            kind = "carry component" if path else "carry"
            wrong.append(
                f"The input {kind} {base}{tree_util.keystr(path)} has type"
                f" {a.str_short()} but the corresponding output carry component has"
                f" type {b.str_short()}, {_difference(a, b)}."
            )
    if wrong:
        listing = "\n\n".join(wrong)
        raise TypeError(
            f"{what} function carry input and carry output must have equal types, but"
            f" they differ:\n\n{listing}\n\nRevise the function so that all output"
            " types match the corresponding input types."
        )
