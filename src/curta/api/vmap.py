"""`vmap`: a function of one example as a function of a batch of them."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import check_callable, parameter_names
from curta.api.mapped_refs import batch_with_refs, check_refs
from curta.api.signatures import P, R
from curta.api.vmappable import (
    batch_vmappables,
    holds_vmappables,
    is_spec,
    is_vmappable,
    put_axis,
    specs,
)
from curta.config import config
from curta.core.flat import FlatFunction
from curta.core.hi_types import MappingSpec, is_high_value, is_value
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.partition_spec import entry_axes
from curta.core.placement import mesh_of
from curta.core.refs import Ref
from curta.core.source_info import Transforming
from curta.core.trace import is_array_like, typeof
from curta.core.tracebacks import api_boundary
from curta.core.wrapping import wraps
from curta.transforms.vmap import BatchAxis


def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[P, R]:
    """Map `fun` over an axis of its arguments, all examples computed together.

    Args:
      fun: function of pytrees of arrays.
      in_axes: which axis to map: an int, None (same for all examples), or a tuple with
        one entry per positional argument. An entry may be a tree that is a prefix of
        the argument. Keyword arguments are mapped along axis 0.
      out_axes: where the mapped axis goes in the outputs; a prefix of their tree.
      axis_name: a name by which collectives in `fun` refer to the axis.
      axis_size: the size of the axis, needed if nothing is mapped.
      spmd_axis_name: axes of a mesh over which the mapped axis is split in the
        sharding constraints and `shard_map` calls of `fun`.
      sum_match: sum a mapped output over the axis where `out_axes` is None, which
        is an error otherwise.

    Returns:
      A function of arguments with one more axis, whose results have one more axis.

    Raises:
      ValueError: if the mapped axes differ in size, or axes do not fit the arguments.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x, y: x @ y, in_axes=(0, None))(jnp.eye(2), jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    check_callable(fun)
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    _check_axes_type(in_axes)
    if type(out_axes) is not int and not _are_axes(out_axes):
        raise TypeError(
            "vmap out_axes must be an int, None, or (nested) container with those types"
            f" as leaves, but got {out_axes}."
        )

    spmd, axis_size = _names(spmd_axis_name), _given_size(axis_size)
    hash((axis_name, spmd))  # names are looked up: a list raises TypeError

    @api_boundary
    @wraps(fun)
    def vmap_fun(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries"
                " corresponding to the positional arguments passed to the function, but"
                f" got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        if holds_vmappables((args, kwargs)):
            axes = (in_axes, dict.fromkeys(kwargs, 0))
            return _vmap_vmappables(
                fun, args, kwargs, axes, out_axes, axis_name, axis_size, sum_match
            )
        leaves, in_tree = tree_util.tree_flatten((args, kwargs))
        dims = _prefix("in_axes", in_axes, args) + [0] * len(
            tree_util.tree_leaves(kwargs)
        )
        size = _axis_size(fun, args, kwargs, leaves, dims, axis_size)
        dims = [_nonnegative(x, d) for x, d in zip(leaves, dims, strict=True)]
        explicit = _explicit_axes(leaves, dims, spmd)
        over = None if explicit else spmd
        axis = BatchAxis(size, axis_name, spmd=over, explicit=explicit)
        check_refs(fun, args, kwargs, leaves)
        flat = FlatFunction(fun, in_tree)
        return _mapped(flat, axis, leaves, dims, out_axes, sum_match)

    return vmap_fun


def _mapped(
    flat: FlatFunction,
    axis: BatchAxis,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    out_axes: Any,
    sum_match: bool,
) -> Any:
    with Transforming("vmap"):
        outs, out_dims = batch_with_refs(_checked(flat), axis, leaves, dims)
    # Placeholders: a user's node may check the shapes of the arrays that it gets.
    out_tree = tree_util.tree_unflatten(flat.out_tree, [object() for _ in outs])
    wanted = _prefix("out_axes", out_axes, out_tree)
    placed: list[Any] = []
    for x, d, w in zip(outs, out_dims, wanted, strict=True):
        if w is None and d is not None and not sum_match:
            path = tree_util.tree_leaves_with_path(out_tree)[len(placed)][0]
            raise ValueError(
                f"at vmap out_axes{tree_util.keystr(path)}, got axis spec None but"
                f" output was batched on axis {d}"
            )
        placed.append(put_axis(x, d, w, axis.size, sum_match))
    return tree_util.tree_unflatten(flat.out_tree, placed)


def _vmap_vmappables(
    fun: Callable[..., Any],
    args: Any,
    kwargs: Any,
    axes: Any,
    out_axes: Any,
    name: Any,
    size: int | None,
    sum_match: bool,
) -> Any:
    result = specs(axes, (args, kwargs))
    leaves = tree_util.tree_leaves((args, kwargs), is_leaf=is_vmappable)
    arrays = [not is_vmappable(x) for x in leaves]
    if size is None:
        plain = [x for x, a in zip(leaves, arrays, strict=True) if a]
        dims = [d for d, a in zip(result, arrays, strict=True) if a]
        size = _axis_size(fun, args, kwargs, plain, dims, None)
    axis = BatchAxis(size, name)
    return batch_vmappables(fun, axis, args, kwargs, result, out_axes, sum_match)


def _names(given: Any) -> Any:
    return given if given is None or isinstance(given, tuple) else (given,)


def _given_size(size: Any) -> Any:
    if size is None or type(size) in (int, float):
        return size
    try:
        return int(operator.index(size))
    except TypeError:
        raise TypeError(f"vmap axis_size must be an int, but got {size!r}.") from None


def _check_axes_type(axes: Any) -> None:
    if is_spec(axes):
        return
    if not (isinstance(axes, (int, tuple)) or axes is None) or not _are_axes(axes):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to"
            f" the positional arguments passed to the function, but got {axes}."
        )


def _are_axes(tree: Any) -> bool:
    leaves = tree_util.tree_leaves(tree, is_leaf=is_spec)
    return all(type(x) is int or is_spec(x) for x in leaves)


def _checked(flat: FlatFunction) -> Callable[..., Sequence[Any]]:
    def run(*leaves: Any) -> Sequence[Any]:
        outs = flat(*leaves)
        for x in outs:
            if not is_value(x):
                raise TypeError(
                    f"Output from batched function {x!r} with type {type(x)} is not a"
                    " valid JAX type"
                )
        return outs

    return run


def _is_none(x: Any) -> bool:
    return x is None


def _prefix(what: str, axes: Any, full: Any) -> list[Any]:
    """One axis per leaf of `full`, from a tree of axes that is a prefix of it."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree_util.tree_leaves(full))
    try:
        return list(tree_util.broadcast_prefix(axes, full, is_leaf=_is_none))
    except ValueError:
        errors = tree_util.prefix_errors(axes, full, is_leaf=_is_none)
        detail = "".join(f"\n{error(f'vmap {what}')}" for error in errors)
        raise ValueError(
            f"vmap {what} specification must be a tree prefix of the corresponding"
            f" value; \n  Mismatch details ({len(errors)} found):{detail}"
        ) from None


def _nonnegative(x: Any, dim: Any) -> Any:
    if dim is None or isinstance(dim, MappingSpec):
        return dim
    return dim % len(typeof(x).shape)


def _axis_size(
    fun: Callable[..., Any],
    args: Any,
    kwargs: Any,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    given: int | None,
) -> int:
    if not leaves:
        if given is not None:
            return given
        raise ValueError(
            "vmap wrapped function must be passed at least one argument containing an"
            f" array or axis_size must be specified, got empty *args={args} and"
            f" **kwargs={kwargs}"
        )
    sizes: list[int | None] = []
    for x, d in zip(leaves, dims, strict=True):
        try:
            sizes.append(None if d is None else _size_along(x, d))
        except ValueError as error:
            name = _described_leaves(fun, args, kwargs)[len(sizes)]
            raise ValueError(f"{error}. It is {name}.") from None
    known = {s for s in sizes if s is not None} | ({given} - {None})
    if not known:
        raise ValueError(
            "vmap must have at least one non-None value in in_axes or axis_size must"
            " be specified"
        )
    if len(known) > 1:
        raise ValueError(_inconsistent(fun, args, kwargs, leaves, dims, sizes, given))
    (size,) = known
    assert size is not None
    return size


def _explicit_axes(
    leaves: Sequence[Any], dims: Sequence[int | None], spmd: tuple[Any, ...] | None
) -> tuple[Any, ...]:
    """The explicit axes over which what is mapped is split, along the mapped axes.

    Raises ValueError where these are not the same for all arguments, and where
    `spmd_axis_name` says others.
    """
    mapped = [
        (typeof(x), d) for x, d in zip(leaves, dims, strict=True) if type(d) is int
    ]
    in_scope = bool(get_abstract_mesh().explicit_axes)
    split = [
        a.placement.entries[d] if a.placement and a.placement.entries else None
        for a, d in mapped
        if in_scope or mesh_of(a.placement).explicit_axes
    ]
    specs = list(dict.fromkeys(split))
    if len(specs) > 1:
        raise ValueError(
            "Mapped away dimension of inputs passed to vmap should be sharded the same."
            f" Got inconsistent axis specs: {' vs '.join(map(str, specs))}"
        )
    axes = entry_axes(specs[0]) if specs else ()
    if spmd is not None and config.jax_remove_size_one_mesh_axis_from_type:
        spmd = tuple(n for n in spmd if get_abstract_mesh().shape[n] > 1)
    if axes and spmd is not None and spmd != tuple(axes):
        raise ValueError(
            "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type"
            f" is allowed. Got spmd_axis_name={spmd} and arrays sharded on"
            f" explicit_mesh_axis={tuple(axes)}"
        )
    return tuple(axes)


def _size_along(x: Any, dim: Any) -> int | None:
    if is_high_value(x):
        if isinstance(dim, MappingSpec):
            return None
        raise ValueError(
            "vmap was requested to map a value of non-array type"
            f" {typeof(x).str_short()} along axis {dim}, but non-array types can't be"
            " mapped along an integer axis. Instead pass a mapping spec (a MappingSpec"
            " instance) as this argument's in_axes entry, and pass axis_size explicitly"
        )
    if not is_array_like(x) and not isinstance(x, Ref):
        raise TypeError(
            f"Argument '{x}' of type {type(x)} is not a valid JAX type. vmap maps"
            " over arrays; close over other values."
        )
    shape = typeof(x).shape
    if not -len(shape) <= dim < len(shape):
        raise ValueError(
            f"vmap was requested to map its argument along axis {dim}, which implies"
            f" that its rank should be at least {dim + 1 if dim >= 0 else -dim}, but"
            f" is only {len(shape)} (its shape is {shape})"
        )
    size: int = shape[dim]
    return size


def _inconsistent(
    fun: Callable[..., Any],
    args: Any,
    kwargs: Any,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    sizes: Sequence[int | None],
    given: int | None,
) -> str:
    names = _described_leaves(fun, args, kwargs)
    lines = [] if given is None else [f"  * the `axis_size` argument was {given}"]
    for size, count in collections.Counter(
        s for s in sizes if s is not None
    ).most_common():
        first = sizes.index(size)
        where = f"axis {dims[first]} of {names[first]} of type"
        where += f" {typeof(leaves[first]).str_short()}"
        if count == 1:
            lines.append(f"  * one axis had size {size}: {where}")
        else:
            some = "some axes" if len(lines) else "most axes"
            lines.append(f"  * {some} ({count} of them) had size {size}, e.g. {where}")
    head = "vmap got inconsistent sizes for array axes to be mapped:\n"
    return head + ";\n".join(lines)


def _described_leaves(fun: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    names = parameter_names(fun)
    result = []
    for argnum, arg in enumerate(args):
        known = argnum < len(names)
        base = f"argument {names[argnum]}" if known else f"args[{argnum}]"
        paths = tree_util.tree_leaves_with_path(arg)
        result += [base + tree_util.keystr(path) for path, _ in paths]
    paths = tree_util.tree_leaves_with_path(kwargs)
    return result + [f"kwargs{tree_util.keystr(path)}" for path, _ in paths]
