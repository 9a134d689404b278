"""`scan` and `map`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.signatures import R, T
from curta.api.vmap import vmap
from curta.config import config
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.hi_types import is_high_value
from curta.core.trace import Tracer, concrete_or_none, typeof
from curta.core.tracebacks import api_boundary
from curta.errors import ConcretizationTypeError
from curta.lax.control_flow.checks import check_carry
from curta.lax.control_flow.forwarding import run_scan
from curta.lax.control_flow.tracing import (
    TracedFunction,
    args_tree,
    check_refs,
    flat_arrays,
    settled,
    traced,
)
from curta.lax.shape import (
    concatenate,
    index_in_dim,
    reshape,
    slice,
    stack,
)


@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[R, T]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[R, T]:
    """Apply `carry, y = f(carry, x)` along the leading axis of `xs`.

    Args:
      f: from carry and element to carry and output.
      init: the initial carry, a pytree of arrays.
      xs: a tree of arrays with one leading axis size, or None with `length`.
      length: the number of iterations; by default the size of the leading axis.
      reverse: go from the last element to the first.
      unroll: iterations per step of the compiled loop; True for all; 1 by default.
      _split_transpose: accepted, and without effect.

    Returns:
      The final carry, and the outputs stacked along a new leading axis.

    Raises:
      TypeError: if `f` is not callable or returns no pair, the carry changes its
        structure, shape or dtype, or an output is not an array.
      ValueError: for arrays without a leading axis, sizes that differ from one another
        or from `length`, neither `xs` nor `length`, and a negative `unroll`.

    >>> from curta import lax, numpy as jnp
    >>> lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(3))
    (Array(3, dtype=int32), Array([0, 0, 1], dtype=int32, weak_type=True))
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    return scan_for("scan", f, f, init, xs, length, reverse, unroll, _split_transpose)


def scan_for(
    user: str,
    shown: Callable[..., Any],
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    split_transpose: bool = False,
) -> tuple[Any, Any]:
    """`scan` for the function called `user`, to which `shown` was given as the body."""
    xs_leaves, xs_tree = flat_arrays(xs)
    length = _scan_length(xs_leaves, length)
    if config.jax_disable_jit:
        return _scan_in_python(f, init, xs_leaves, xs_tree, length, reverse)
    check_refs("scan", f, init, xs)
    leaves, tree = flat_arrays(init)
    in_tree = args_tree(init, xs)
    rows = [_row_aval(x, length) for x in xs_leaves]

    def trace(avals: Sequence[ShapedArray]) -> TracedFunction:
        return traced(user, f, in_tree, [*avals, *rows], shown)

    def carry_out(body: TracedFunction) -> Sequence[ShapedArray]:
        return body.out_avals[: _pair(body)[0].num_leaves]

    leaves, body = settled(leaves, trace, carry_out)
    carry_tree, y_tree = _pair(body)
    avals = [typeof(x) for x in leaves]
    check_carry("scan body", f, tree, carry_tree, avals, carry_out(body))
    consts = body.consts
    if unroll is True:
        unroll = max(length, 1)
    unroll = _static("unroll", "`int` or `bool`", unroll, operator.index)
    if unroll < 0:
        raise ValueError("`unroll` must be a `bool` or a non-negative `int`.")
    op = Scan(
        body.closed(consts, [typeof(c) for c in consts]),
        length,
        bool(reverse),
        len(consts),
        len(leaves),
        unroll,
        split_transpose,
    )
    outs = run_scan(op, [*consts, *leaves, *xs_leaves])
    return (
        tree_util.tree_unflatten(tree, outs[: len(leaves)]),
        tree_util.tree_unflatten(y_tree, outs[len(leaves) :]),
    )


def _pair(body: TracedFunction) -> tuple[Any, Any]:
    """The structures of the carry and of the output."""
    children = tree_util.treedef_children(body.out_tree)
    kind, _ = body.out_tree.node_data() or (None, None)
    if kind is None or not issubclass(kind, (tuple, list)) or len(children) != 2:
        shown = tree_util.tree_unflatten(body.out_tree, body.out_avals)
        raise TypeError(f"scan body output must be a pair, got {shown}.")
    return children[0], children[1]


def _row_aval(x: Any, length: int) -> ShapedArray:
    aval: Any = typeof(x)
    if aval.is_high:
        return aval.dec_rank(length, aval.leading_axis_spec())
    if aval.placement is not None and aval.sharding.spec.partitions[0] is not None:
        raise ValueError(
            "0th dimension of all xs should be replicated. Got"
            f" {aval.sharding.spec} for {aval.str_short()}"
        )
    row: ShapedArray = aval.without_dim(0)
    return row


def _scan_length(leaves: Sequence[Any], length: Any) -> int:
    others = [x for x in leaves if is_high_value(x)]
    leaves = [x for x in leaves if not is_high_value(x)]
    if others and not leaves and length is None:
        raise ValueError(
            "must provide `length` to `scan`, since the leading-axis size of non-array"
            " (hijax) types cannot be inferred"
        )
    for x in leaves:
        if not typeof(x).shape:
            raise ValueError(
                "scan got value with no leading axis to scan over:"
                f" {typeof(x).str_short()}."
            )
    sizes = [typeof(x).shape[0] for x in leaves]
    if length is not None:
        length = _static("length", "`int`", length, int)
        if not all(length == n for n in sizes):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading"
                f" axis sizes {sizes}."
            )
        return int(length)
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    if len(set(sizes)) > 1:
        listing = ", ".join(str(n) for n in sizes)
        raise ValueError(
            f"scan got values with different leading axis sizes: {listing}."
        )
    return sizes[0]


def _static(name: str, kinds: str, value: Any, as_int: Callable[[Any], int]) -> int:
    """An argument of scan that must be known while it is traced."""
    message = f"The `{name}` argument to `scan` expects a concrete {kinds} value."
    if isinstance(value, Tracer) and concrete_or_none(value) is None:
        hint = " For a number of steps that is data, use `while_loop` or `fori_loop`."
        raise ConcretizationTypeError(value, message + hint * (name == "length"))
    try:
        return as_int(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}. {message} This scan got: {value}.") from error


def _scan_in_python(
    f: Callable[..., Any],
    carry: Any,
    leaves: Sequence[Any],
    tree: Any,
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    ys = []
    for i in reversed(range(length)) if reverse else range(length):
        row = [index_in_dim(x, i, keepdims=False) for x in leaves]
        carry, y = f(carry, tree_util.tree_unflatten(tree, row))
        ys.append(y)
    if not ys:
        raise ValueError("zero-length scan is not supported in disable_jit() mode")
    ys = ys[::-1] if reverse else ys
    return carry, tree_util.tree_map(lambda *rows: stack(rows), *ys)


@api_boundary
def map(f: Callable[[Any], R], xs: Any, *, batch_size: int | None = None) -> R:
    """`f` applied to each element along the leading axis, one after the other.

    Args:
      f: function of a pytree of arrays to one of arrays.
      xs: a pytree of arrays with one leading axis size.
      batch_size: how many elements at a time are computed together, by `vmap`, and
        those that are left over at the end; 0 stands for all of them, None for one.

    Returns:
      The results, stacked along a new leading axis.

    Raises:
      TypeError: if `f` is not callable or a result is not an array.
      ValueError: for arrays without a leading axis, or sizes that differ.

    >>> from curta import lax, numpy as jnp
    >>> lax.map(lambda x: x * x, jnp.arange(3))
    Array([0, 1, 4], dtype=int32)
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    leaves, tree = flat_arrays(xs)
    size = _scan_length(leaves, None)
    batches = size // batch_size if batch_size else 0
    if batches == 0:
        return vmap(f)(xs)
    count = batches * batch_size
    whole = [_batches(_rows(x, 0, count), batch_size) for x in leaves]
    rest = [_rows(x, count, size) for x in leaves]
    _, ys = scan(lambda _, x: ((), vmap(f)(x)), (), tree.unflatten(whole))
    if count == size:
        return tree_util.tree_map(_flat, ys)
    last = vmap(f)(tree.unflatten(rest))
    return tree_util.tree_map(lambda y, r: concatenate([_flat(y), r], 0), ys, last)


def _rows(x: Any, start: int, limit: int) -> Any:
    size, *rest = typeof(x).shape
    if start == limit or limit - start == size:
        return x
    return slice(x, (start, *(0 for _ in rest)), (limit, *rest))


def _batches(x: Any, size: int) -> Any:
    """The elements of `x`, `size` at a time."""
    count, *rest = typeof(x).shape
    return reshape(x, (count // size, size, *rest))


def _flat(y: Any) -> Any:
    first, second, *rest = typeof(y).shape
    return reshape(y, (first * second, *rest))
