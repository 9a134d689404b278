"""Loops and branches as operations: traced once, differentiated and batched."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import check_callable
from curta.config import config
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr, Var
from curta.core.stage import stage
from curta.core.trace import Tracer, concrete_or_none, is_array_like, typeof
from curta.lax.control_flow_checks import check_carry, check_same_outputs, same_type
from curta.lax.conversion import convert_element_type
from curta.lax.selection import clamp
from curta.lax.shape import index_in_dim, stack


class _Traced:
    """A function of trees, traced: its jaxpr, output tree and closed-over values."""

    def __init__(
        self, what: str, fun: Callable[..., Any], in_tree: Any, avals: Sequence[Any]
    ):
        flat = FlatFunction(fun, in_tree)
        closed = stage(flat, avals, debug_info(what, fun))
        self.jaxpr = closed.jaxpr
        self.consts = closed.consts
        self.out_tree = flat.out_tree
        self.out_avals = closed.out_avals

    def closed(self, consts: Sequence[Any], avals: Sequence[ShapedArray]) -> Any:
        """The jaxpr with `consts`, of which its own are some, as leading inputs."""
        own = {id(c): v for c, v in zip(self.consts, self.jaxpr.constvars, strict=True)}
        leading = [own.get(id(c)) or Var(a) for c, a in zip(consts, avals, strict=True)]
        invars = [*leading, *self.jaxpr.invars]
        return ClosedJaxpr(self.jaxpr.replace(constvars=(), invars=invars))


def _args_tree(*args: Any) -> Any:
    return tree_util.tree_structure((args, {}))


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    leaves, treedef = tree_util.tree_flatten(tree)
    return [_array(x) for x in leaves], treedef


def _array(x: Any) -> Any:
    if not is_array_like(x):
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type")
    return x


# ---- branches


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = None,
    linear: Any = None,
) -> Any:
    """`true_fun(*operands)` if `pred` else `false_fun(*operands)`.

    Args:
      pred: a boolean scalar (a number counts as true unless it is zero).
      true_fun, false_fun: functions of the operands, with outputs of one structure
        and of the same types.

    Raises:
      TypeError: if `pred` is no scalar, or the outputs differ in type.

    >>> from curta import lax
    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
    Array(6, dtype=int32, weak_type=True)
    """
    check_callable(true_fun)
    check_callable(false_fun)
    if operand is not None:
        if operands:
            raise TypeError(
                "if 'operand' keyword is passed then no positional operands can be"
                f" passed, got operand={operand} and positional operands {operands}"
            )
        operands = (operand,)
    aval = _predicate(pred)
    if config.jax_disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    if aval.dtype != np.bool_:
        pred = pred != 0
    index = convert_element_type(pred, np.int32)
    names = ("true_fun", "false_fun")
    return _branch("cond", index, (false_fun, true_fun), names[::-1], operands)


def _predicate(pred: Any) -> ShapedArray:
    if not is_array_like(pred):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}.")
    aval = typeof(pred)
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {aval.shape}.")
    if not (aval.dtype == np.bool_ or dtypes.issubdtype(aval.dtype, np.number)):
        raise TypeError(f"Pred type must be either boolean or number, got {pred}")
    return aval


def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = None,
) -> Any:
    """`branches[index](*operands)`, the index clamped into range.

    Raises:
      ValueError: for no branches. TypeError: if `index` is no integer scalar, or the
        branches' outputs differ in type.

    >>> from curta import lax
    >>> lax.switch(1, [lambda x: x, lambda x: 10 * x], 2)
    Array(20, dtype=int32, weak_type=True)
    """
    if not all(callable(b) for b in branches):
        raise TypeError(
            "lax.switch: branches argument should be a sequence of callables."
        )
    if operand is not None:
        operands = (operand,)
    aval = typeof(index)
    if aval.shape:
        raise TypeError(
            f"Branch index must be scalar, got {index} of shape {aval.shape}."
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            f"Index type must be an integer, got {index} as {aval.dtype.name}"
        )
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.jax_disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    index = convert_element_type(index, np.int32)
    index = clamp(np.int32(0), index, np.int32(len(branches) - 1))
    names = [f"branch {i}" for i in range(len(branches))]
    return _branch("switch", index, branches, names, operands)


def _branch(
    what: str,
    index: Any,
    funs: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: Sequence[Any],
) -> Any:
    leaves, _ = _flatten(operands)
    avals = [typeof(x) for x in leaves]
    in_tree = _args_tree(*operands)
    traced = [_Traced(what, f, in_tree, avals) for f in funs]
    order = range(len(funs)) if what == "switch" else range(len(funs) - 1, -1, -1)
    check_same_outputs(
        what,
        [names[i] for i in order],
        [funs[i] for i in order],
        [traced[i].out_tree for i in order],
        [traced[i].out_avals for i in order],
    )
    consts = list({id(c): c for t in traced for c in t.consts}.values())
    const_avals = [typeof(c) for c in consts]
    branches = [t.closed(consts, const_avals) for t in traced]
    outs = Cond(_same_weak_types(branches))(index, *consts, *leaves)
    return tree_util.tree_unflatten(traced[0].out_tree, outs)


def _same_weak_types(branches: Sequence[ClosedJaxpr]) -> tuple[ClosedJaxpr, ...]:
    """The branches with outputs weakly typed only where all of them are."""
    weak = [
        all(a.weak_type for a in avals)
        for avals in zip(*(b.out_avals for b in branches), strict=True)
    ]
    return tuple(_strengthened(b, weak) for b in branches)


def _strengthened(closed: ClosedJaxpr, weak: Sequence[bool]) -> ClosedJaxpr:
    if all(a.weak_type == w for a, w in zip(closed.out_avals, weak, strict=True)):
        return closed
    outvars = [
        v if v.aval.weak_type == w else type(v)(v.aval.strip_weak_type())
        for v, w in zip(closed.jaxpr.outvars, weak, strict=True)
        if isinstance(v, Var)
    ]
    if len(outvars) < len(weak):
        return closed
    renamed = dict(zip(closed.jaxpr.outvars, outvars, strict=True))
    made = {v for e in closed.eqns for v in e.outvars}
    if not all(v in made for v in renamed):
        return closed
    eqns = [
        e.replace(
            invars=tuple(renamed.get(v, v) for v in e.invars),
            outvars=tuple(renamed.get(v, v) for v in e.outvars),
        )
        for e in closed.eqns
    ]
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)


# ---- while


def while_loop(
    cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any
) -> Any:
    """`val = init_val; while cond_fun(val): val = body_fun(val); return val`.

    Args:
      cond_fun: from the carry to a boolean scalar.
      body_fun: from the carry to a carry of the same structure and types.
      init_val: the initial carry, a tree of arrays.

    >>> from curta import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    check_callable(cond_fun)
    check_callable(body_fun)
    if config.jax_disable_jit:
        value = init_val
        while cond_fun(value):
            value = body_fun(value)
        return value
    leaves, tree = _flatten(init_val)
    in_tree = _args_tree(init_val)

    def trace(avals: Sequence[ShapedArray]) -> _Traced:
        return _Traced("while_loop", body_fun, in_tree, avals)

    leaves, body = _settled(leaves, trace, lambda t: t.out_avals, tree)
    avals = [typeof(x) for x in leaves]
    condition = _Traced("while_loop", cond_fun, in_tree, avals)
    _check_condition(condition)
    check_carry("while_loop body", body_fun, tree, body.out_tree, avals, body.out_avals)
    op = While(
        condition.closed(condition.consts, [typeof(c) for c in condition.consts]),
        body.closed(body.consts, [typeof(c) for c in body.consts]),
        len(condition.consts),
        len(body.consts),
    )
    outs = op(*condition.consts, *body.consts, *leaves)
    return tree_util.tree_unflatten(tree, outs)


def _check_condition(condition: _Traced) -> None:
    if condition.out_tree != tree_util.tree_structure(0):
        raise TypeError(
            "cond_fun must return a boolean scalar, but got pytree"
            f" {condition.out_tree}."
        )
    (aval,) = condition.out_avals
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but got output type(s) [{aval}]."
        )


def _settled(
    leaves: list[Any],
    trace: Callable[[Sequence[ShapedArray]], _Traced],
    carry_out: Callable[[_Traced], Sequence[ShapedArray]],
    tree: Any,
) -> tuple[list[Any], _Traced]:
    """The carry, weakly typed parts converted to what the body makes of them."""
    avals = [typeof(x) for x in leaves]
    traced = trace(avals)
    outs = carry_out(traced)
    if len(outs) != len(leaves):
        return leaves, traced
    changed = [
        a.weak_type and not same_type(a, b) and a.shape == b.shape
        for a, b in zip(avals, outs, strict=True)
    ]
    if not any(changed):
        return leaves, traced
    leaves = [
        convert_element_type(x, dtypes.result_type(x, b)) if c else x
        for x, b, c in zip(leaves, outs, changed, strict=True)
    ]
    return leaves, trace([typeof(x) for x in leaves])


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[..., Any],
    init_val: Any,
    *,
    unroll: Any = None,
) -> Any:
    """`val = init_val; for i in range(lower, upper): val = body_fun(i, val)`.

    With static bounds it is a scan, which reverse mode can differentiate; with traced
    ones a while loop.

    Args:
      lower, upper: integer bounds.
      body_fun: from the index and the carry to a carry of the same types.
      init_val: the initial carry.
      unroll: iterations per step of the loop, for static bounds.

    >>> from curta import lax
    >>> lax.fori_loop(0, 4, lambda i, x: x + i, 0)
    Array(6, dtype=int32, weak_type=True)
    """
    check_callable(body_fun)
    bounds = [typeof(lower).dtype, typeof(upper).dtype]
    lower, upper, dtype = _bounds(lower, upper, bounds)
    if (
        config.jax_disable_jit
        and not isinstance(lower, Tracer)
        and not isinstance(upper, Tracer)
    ):
        value = init_val
        for i in range(int(lower), int(upper)):
            value = body_fun(convert_element_type(i, dtype), value)
        return value
    first, last = concrete_or_none(lower), concrete_or_none(upper)
    if first is not None and last is not None:
        length = max(int(last) - int(first), 0)

        def step(carry: Any, _: Any) -> Any:
            i, value = carry
            return (i + 1, body_fun(i, value)), None

        start = convert_element_type(lower, dtype) if length else lower
        (_, value), _ = scan(
            _named(step, body_fun), (start, init_val), None, length, unroll=unroll or 1
        )
        return value
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically"
            " known."
        )
    lower, upper = (
        b if typeof(b).dtype == dtype else convert_element_type(b, dtype)
        for b in (lower, upper)
    )

    def condition(carry: Any) -> Any:
        i, end, _ = carry
        return i < end

    def body(carry: Any) -> Any:
        i, end, value = carry
        return i + 1, end, body_fun(i, value)

    _, _, value = while_loop(
        condition, _named(body, body_fun), (lower, upper, init_val)
    )
    return value


def _named(fun: Callable[..., Any], like: Callable[..., Any]) -> Callable[..., Any]:
    fun.__name__ = getattr(like, "__name__", "body_fun")
    return fun


def _bounds(lower: Any, upper: Any, found: Sequence[Any]) -> tuple[Any, Any, Any]:
    for bound in (lower, upper):
        if typeof(bound).shape:
            raise TypeError(
                "lower and upper arguments to fori_loop must be scalars, got shapes"
                f" {typeof(lower).shape} and {typeof(upper).shape}"
            )
    integers = [dtypes.issubdtype(d, np.integer) for d in found]
    if isinstance(lower, int) and integers[1]:
        return lower, upper, found[1]
    if isinstance(upper, int) and integers[0]:
        return lower, upper, found[0]
    if found[0] != found[1]:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got"
            f" {found[0].name} and {found[1].name}"
        )
    return lower, upper, found[0]


# ---- scan


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Apply `carry, y = f(carry, x)` along the leading axis of `xs`.

    Args:
      f: from carry and element to carry and output.
      init: the initial carry.
      xs: a tree of arrays with one leading axis size, or None with `length`.
      length: the number of iterations.
      reverse: go from the last element to the first.
      unroll: iterations per step of the compiled loop; True for all.

    Returns:
      The final carry, and the outputs stacked along a new leading axis.

    >>> from curta import lax, numpy as jnp
    >>> lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(3))
    (Array(3, dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    check_callable(f)
    xs_leaves, xs_tree = _flatten(xs)
    length = _scan_length(xs_leaves, length)
    if config.jax_disable_jit:
        return _scan_in_python(f, init, xs_leaves, xs_tree, length, reverse)
    leaves, tree = _flatten(init)
    in_tree = _args_tree(init, xs)
    rows = [_row_aval(x) for x in xs_leaves]

    def trace(avals: Sequence[ShapedArray]) -> _Traced:
        return _Traced("scan", f, in_tree, [*avals, *rows])

    def carry_out(traced: _Traced) -> Sequence[ShapedArray]:
        return traced.out_avals[: _pair(traced.out_tree)[0].num_leaves]

    leaves, body = _settled(leaves, trace, carry_out, tree)
    carry_tree, y_tree = _pair(body.out_tree)
    avals = [typeof(x) for x in leaves]
    check_carry("scan body", f, tree, carry_tree, avals, carry_out(body))
    consts = body.consts
    if unroll is True:
        unroll = max(length, 1)
    op = Scan(
        body.closed(consts, [typeof(c) for c in consts]),
        length,
        bool(reverse),
        len(consts),
        len(leaves),
        int(unroll),
        _split_transpose,
    )
    outs = op(*consts, *leaves, *xs_leaves)
    return (
        tree_util.tree_unflatten(tree, outs[: len(leaves)]),
        tree_util.tree_unflatten(y_tree, outs[len(leaves) :]),
    )


def _pair(out_tree: Any) -> tuple[Any, Any]:
    children = tree_util.treedef_children(out_tree)
    shown = tree_util.tree_unflatten(out_tree, range(out_tree.num_leaves))
    if not isinstance(shown, (tuple, list)) or len(children) != 2:
        raise TypeError(f"scan body output must be a pair, got {out_tree}.")
    return children[0], children[1]


def _row_aval(x: Any) -> ShapedArray:
    aval = typeof(x)
    return aval.update(shape=aval.shape[1:])


def _scan_length(leaves: Sequence[Any], length: Any) -> int:
    for x in leaves:
        if not typeof(x).shape:
            raise ValueError(
                "scan got value with no leading axis to scan over:"
                f" {typeof(x).str_short()}."
            )
    sizes = [typeof(x).shape[0] for x in leaves]
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError as error:
            raise TypeError(
                "The `length` argument to `scan` expects a concrete `int` value. This"
                f" scan got: {length}."
            ) from error
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


def map(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` applied to each element along the leading axis, one after the other.

    With `batch_size`, that many elements at a time are computed together.

    >>> from curta import lax, numpy as jnp
    >>> lax.map(lambda x: x * x, jnp.arange(3))
    Array([0, 1, 4], dtype=int32)
    """
    if batch_size is not None:
        raise NotImplementedError("lax.map takes no batch_size yet: use vmap and scan")
    _, ys = scan(lambda _, x: ((), f(x)), (), xs)
    return ys
