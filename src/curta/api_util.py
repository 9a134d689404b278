"""Helpers for authors of transformations: functions of flat leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curta import tree_util
from curta._base.on_demand import Listing, listed
from curta.api.arguments import argnums_in_range, leaf_names
from curta.core.avals import ShapedArray
from curta.core.flat import debug_info as describe
from curta.core.jaxpr import DebugInfo
from curta.core.trace import typeof
from curta.extend.linear_util import (
    Store,
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)

__all__ = [
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]
__dir__: Listing = listed(__all__)


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> DebugInfo:
    """The description of `fun` and these arguments for error messages.

    Args:
      traced_for: the transformation, for example "jit".
      fun: the function that is traced.
      args, kwargs: its arguments, which give the names.

    Returns:
      The function's name and line, and a name for each leaf of the arguments.

    >>> from curta.api_util import debug_info
    >>> debug_info("jit", lambda x: x, (1.0,), {}).arg_names
    ('x',)
    """
    return describe(traced_for, fun, leaf_names(fun, args, kwargs))


@transformation_with_aux2
def flatten_fun(
    f: Callable[..., Any], store: Store, in_tree: Any, *leaves: Any
) -> list[Any]:
    """`f` of the leaves of `(args, kwargs)`; the side value is the output tree.

    Args:
      f: the function, from `wrap_init`.
      store: put there by the decorator, for the side value.
      in_tree: the structure of `(args, kwargs)`.
      leaves: those of the arguments, when it is called.

    Returns:
      Two values, for a call with `f` and `in_tree`: the function of the leaves, to a
      list of the output's leaves, and a function that gives the output's tree after the
      call, once (else a StoreException).

    Raises:
      ValueError: when it is called, for another number of leaves.

    >>> from curta import tree
    >>> from curta.api_util import flatten_fun
    >>> from curta.extend.linear_util import wrap_init
    >>> leaves, in_tree = tree.flatten(((1, 2), {"key": 3}))
    >>> fun, out_tree = flatten_fun(wrap_init(lambda x, y, key: [x, (y, key)]), in_tree)
    >>> fun.call_wrapped(*leaves), out_tree()
    ([1, 2, 3], PyTreeDef([*, (*, *)]))
    """
    args, kwargs = tree_util.tree_unflatten(in_tree, leaves)
    outs, out_tree = tree_util.tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return outs


@transformation_with_aux2
def flatten_fun_nokwargs(
    f: Callable[..., Any], store: Store, in_tree: Any, *leaves: Any
) -> list[Any]:
    """`f` of the leaves of its arguments; the side value is the output tree.

    Args:
      f: the function, from `wrap_init`.
      store: put there by the decorator, for the side value.
      in_tree: the structure of the positional arguments.
      leaves: those of the arguments, when it is called.

    Returns:
      Two values, for a call with `f` and `in_tree`: the function of the leaves, to a
      list of the output's leaves, and a function that gives the output's tree after the
      call, once (else a StoreException).

    Raises:
      ValueError: when it is called, for another number of leaves.

    >>> from curta import tree
    >>> from curta.api_util import flatten_fun_nokwargs
    >>> from curta.extend.linear_util import wrap_init
    >>> leaves, in_tree = tree.flatten(((1, 2), 3))
    >>> fun, out_tree = flatten_fun_nokwargs(wrap_init(lambda x, y: (y, x)), in_tree)
    >>> fun.call_wrapped(*leaves), out_tree()
    ([3, 1, 2], PyTreeDef((*, (*, *))))
    """
    args = tree_util.tree_unflatten(in_tree, leaves)
    outs, out_tree = tree_util.tree_flatten(f(*args))
    store.store(out_tree)
    return outs


@transformation2
def _with_fixed(
    f: Callable[..., Any], argnums: tuple[int, ...], args: Sequence[Any], *chosen: Any
) -> Any:
    full = list(args)
    for argnum, x in zip(argnums, chosen, strict=True):
        full[argnum] = x
    return f(*full)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """`f` as a function of the arguments at `dyn_argnums`, and those arguments.

    Args:
      f: the function, from `wrap_init`.
      dyn_argnums: the argnums of the arguments that are left; negative ones count back.
      args: all arguments.
      require_static_args_hashable: whether the others must be hashable.

    Returns:
      The function of the arguments that are left, and a tuple of these.

    Raises:
      ValueError: for others that are not hashable, and argnums out of range.

    >>> from curta.api_util import argnums_partial
    >>> from curta.extend.linear_util import wrap_init
    >>> fun, (y,) = argnums_partial(wrap_init(lambda x, y: (x, y)), 1, (1, 2))
    >>> fun.call_wrapped(10 * y)
    (1, 20)
    """
    argnums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    argnums = argnums_in_range(argnums, len(args))
    for i, x in enumerate(args):
        if require_static_args_hashable and i not in argnums:
            try:
                hash(x)
            except TypeError:
                raise ValueError(
                    "Non-hashable static arguments are not supported, as this can lead"
                    f" to unexpected cache-misses. Static argument (index {i}) of type"
                    f" {type(x)} for function {f.__name__} is non-hashable."
                ) from None
    return _with_fixed(f, argnums, tuple(args)), tuple(args[i] for i in argnums)


def flatten_axes(name: str, treedef: Any, axis_tree: Any) -> list[Any]:
    """The entries of a prefix tree of axes, one for each leaf of `treedef`.

    Args:
      name: what the axes are called in an error.
      treedef: the structure of the whole tree.
      axis_tree: a prefix of it with axes as leaves; None is a leaf.

    Returns:
      A list with as many entries as `treedef` has leaves.

    Raises:
      ValueError: if it is not a prefix.

    >>> from curta import tree
    >>> from curta.api_util import flatten_axes
    >>> flatten_axes("in_axes", tree.structure(((1, 2), 3)), (0, None))
    [0, 0, None]
    """
    whole = tree_util.tree_unflatten(treedef, range(treedef.num_leaves))
    try:
        return tree_util.broadcast_prefix(axis_tree, whole, lambda x: x is None)
    except ValueError:
        errors = tree_util.prefix_errors(axis_tree, whole, is_leaf=lambda x: x is None)
        details = "\n\n".join(str(error(name)) for error in errors)
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value;"
            f"\n  Mismatch details ({len(errors)} found):\n  {details}"
        ) from None


def donation_vector(
    donate_argnums: Iterable[int], donate_argnames: Iterable[str], in_tree: Any
) -> tuple[bool, ...]:
    """For each leaf of `(args, kwargs)`, whether it is donated.

    Args:
      donate_argnums: the positions of donated arguments.
      donate_argnames: the names of donated keyword arguments.
      in_tree: the structure of `(args, kwargs)`.

    Returns:
      A tuple of bools, those of the keywords last, by the order of the names.

    Raises:
      TypeError: if the structure is not a pair.

    >>> from curta import tree
    >>> from curta.api_util import donation_vector
    >>> donation_vector((1,), ("w",), tree.structure(((1, [2, 3]), {"w": 4})))
    (False, True, True, True)
    """
    whole = tree_util.tree_unflatten(in_tree, range(in_tree.num_leaves))
    args, kwargs = whole
    numbers, names = set(donate_argnums), set(donate_argnames)
    marked = [(i in numbers, x) for i, x in enumerate(args)]
    marked += [(key in names, kwargs[key]) for key in sorted(kwargs)]
    return tuple(flag for flag, x in marked for _ in tree_util.tree_leaves(x))


def rebase_donate_argnums(
    donate_argnums: Iterable[int], static_argnums: Iterable[int]
) -> tuple[int, ...]:
    """The donated argnums among the arguments that are not static.

    >>> from curta.api_util import rebase_donate_argnums
    >>> rebase_donate_argnums((3, 4), (0, 1))
    (1, 2)
    """
    static, donated = set(static_argnums), set(donate_argnums)
    if both := sorted(static & donated):
        raise ValueError(
            f"static_argnums and donate_argnums cannot intersect, but both have {both}"
        )
    return tuple(i - sum(s < i for s in static) for i in sorted(donated))


def shaped_abstractify(x: Any) -> ShapedArray:
    """The aval of an array or scalar.

    >>> from curta.api_util import shaped_abstractify
    >>> shaped_abstractify(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return typeof(x)


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """`f` of the elements of several sequences of one length, as a list.

    Raises ValueError where the lengths differ.

    >>> from curta.api_util import safe_map
    >>> safe_map(max, [1, 5], [3, 2])
    [3, 5]
    """
    columns = [list(arg) for arg in args]
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"length mismatch: {lengths}")
    return [f(*row) for row in zip(*columns)]
