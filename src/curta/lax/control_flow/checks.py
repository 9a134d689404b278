"""Checks that structures and types agree in structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import parameter_names
from curta.core.avals import ShapedArray
from curta.core.flat import function_location, function_name
from curta.core.hi_types import same_kind
from curta.core.placement import agree
from curta.tree_util import equality_errors, equality_errors_pytreedef


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Return True if two avals agree in shape, dtype and placement."""
    return same_kind(a, b) and agree(a.placement, b.placement)


def described(fun: Callable[..., Any]) -> str:
    """A function by name and line."""
    return f"{function_name(fun)} at {function_location(fun)}"


def _difference(a: ShapedArray, b: ShapedArray) -> str:
    if a.is_high or b.is_high:
        return "so the types do not match"
    parts = []
    if a.dtype != b.dtype:
        parts.append("the dtypes do not match")
    if a.shape != b.shape:
        parts.append("the shapes do not match")
    if a.vma != b.vma:
        parts.append("the varying manual axes do not match")
    elif a.memory_space is not b.memory_space:
        parts.append("the memory spaces do not match")
    elif not agree(a.placement, b.placement):
        parts.append("the shardings do not match")
    return f"so {', and '.join(parts)}"


def _casts(carries: Sequence[tuple[str, ShapedArray, ShapedArray]]) -> str:
    """What would make values vary over the same axes: casts of the first avals."""
    result = [
        f"applying `jax.lax.pcast(..., {tuple(sorted(b.vma - a.vma))}, to='varying')`"
        f" to {name}"
        for name, a, b in carries
        if not a.is_high and b.vma - a.vma
    ]
    if len(result) < 2:
        return "".join(f"\n\nThis might be fixed by {text}." for text in result)
    return "\n\nThis might be fixed by:\n" + ";\n".join(f"  * {t}" for t in result)


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
            differences = [
                f"{names[0]} output{_at(path)} is a {a} but {names[i]}"
                f" output{_at(path)} is a {b}, so {why}"
                for path, a, b, why in equality_errors_pytreedef(trees[0], trees[i])
            ]
            raise TypeError(
                f"{what} branch outputs must have the same pytree structure, but they"
                f" differ:\n\n{where}\n\n{_listed(differences)}\n\nRevise"
                f" {names[0]} and/or {names[i]} so that they have the same pytree"
                " structure."
            )
        if wrong := _different(trees[0], avals[0], avals[i]):
            differences = [
                f"the output of {names[0]}{_at(path)} has type {a.str_short()} but the"
                f" corresponding output of {names[i]} has type {b.str_short()},"
                f" {_difference(a, b)}"
                for path, a, b in wrong
            ]
            raise TypeError(
                f"{what} branches must have equal output types but they differ.\n\n"
                f"{where}\n\n{_listed(differences)}\n\nRevise {names[0]}"
                f" and/or {names[i]} so that all output types match."
                + _casts(
                    [
                        (f"the output of {name}{_at(path)}", x, y)
                        for path, a, b in wrong
                        for name, x, y in ((names[0], a, b), (names[i], b, a))
                    ]
                )
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
    component = _component(parameter_names(fun), argument)
    if in_tree != out_tree:
        differences = [
            f"{component(path)} is a {a} but the corresponding component of the carry"
            f" output is a {b}, so {why}"
            for path, a, b, why in equality_errors(
                in_tree.unflatten(in_avals), out_tree.unflatten(out_avals)
            )
        ]
        raise TypeError(
            f"{what} function carry input and carry output must have the same pytree"
            f" structure, but they differ:\n\n{_listed(differences)}\n\nRevise the"
            " function so that the carry output has the same pytree structure as the"
            " carry input."
        )
    wrong = [
        (component(path), a, b)
        for path, a, b in _different(in_tree, in_avals, out_avals)
    ]
    differences = [
        f"{name} has type {a.str_short()} but the corresponding output carry"
        f" component has type {b.str_short()}, {_difference(a, b)}"
        for name, a, b in wrong
    ]
    if differences:
        raise TypeError(
            f"{what} function carry input and carry output must have equal types, but"
            f" they differ:\n\n{_listed(differences)}\n\nRevise the function so that"
            " all output types match the corresponding input types."
            + _casts(
                [
                    (f"the initial carry value corresponding to {name}", a, b)
                    for name, a, b in wrong
                ]
            )
        )


def _component(names: Sequence[str], argument: int) -> Callable[[Any], str]:
    """How a part of the carry is called in messages, by its path."""
    if argument >= len(names):
        return lambda path: (
            f"the input carry at path {tree_util.keystr(path)}"
            if path
            else "the input carry"
        )
    name = names[argument]
    return lambda path: (
        f"the input carry component {name}{tree_util.keystr(path)}"
        if path
        else f"the input carry {name}"
    )


def _different(
    tree: Any, avals: Sequence[ShapedArray], others: Sequence[ShapedArray]
) -> list[tuple[Any, ShapedArray, ShapedArray]]:
    """The leaves that differ in type: where they are, and both types."""
    if all(map(same_type, avals, others)):
        return []
    filled = tree_util.tree_unflatten(tree, [0] * tree.num_leaves)
    paths = [path for path, _ in tree_util.tree_leaves_with_path(filled)]
    result = zip(paths, avals, others, strict=True)
    return [(path, a, b) for path, a, b in result if not same_type(a, b)]


def _at(path: Any) -> str:
    return f" at path {tree_util.keystr(path)}" if path else ""


def _listed(differences: Sequence[str]) -> str:
    """One difference as a sentence, several as a list."""
    if len(differences) == 1:
        (only,) = differences
        return f"{only[0].upper() if only.startswith('the') else only[0]}{only[1:]}."
    return ";\n".join(f"  * {d}" for d in differences) + "."
