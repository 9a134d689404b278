"""`cond`, `switch` and `platform_dependent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.signatures import R
from curta.config import config
from curta.control.cond import Cond
from curta.control.platform import PlatformIndex, Platforms
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Var
from curta.core.memo import kept_with_jaxpr
from curta.core.trace import Tracer, concrete_or_none, is_array_like, typeof
from curta.core.tracebacks import api_boundary
from curta.lax.control_flow.checks import check_same_outputs
from curta.lax.control_flow.forwarding import run_cond
from curta.lax.control_flow.tracing import (
    args_tree,
    check_refs,
    flat_arrays,
    traced,
)
from curta.lax.conversion import convert_element_type
from curta.lax.selection import clamp

_NOT_GIVEN: Any = object()


@api_boundary
def cond(
    pred: Any,
    true_fun: Callable[..., R],
    false_fun: Callable[..., R],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> R:
    """`true_fun(*operands)` if `pred` else `false_fun(*operands)`.

    Args:
      pred: a boolean scalar (a number counts as true unless it is zero).
      true_fun, false_fun: functions of the operands, with outputs of one structure
        and of the same types.
      *operands: pytrees of arrays.
      operand: the only operand, instead of `operands`.

    Returns:
      What the function returns.

    Raises:
      TypeError: if `pred` is not a scalar, a function is not callable, or the outputs
        differ in type.

    >>> from curta import lax
    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
    Array(6, dtype=int32, weak_type=True)
    """
    if not (callable(true_fun) and callable(false_fun)):
        if callable(false_fun) and len(operands) == 2 and callable(operands[1]):
            return _cond_of_each(pred, true_fun, false_fun, *operands)
        raise TypeError(
            "lax.cond: true_fun and false_fun arguments should be callable, got"
            f" {true_fun} and {false_fun}."
        )
    operands = _operands(operand, operands)
    aval = _predicate(pred)
    if config.jax_disable_jit and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    if aval.dtype != np.bool_:
        pred = pred != 0
    index = convert_element_type(pred, np.int32)
    names = ("true_fun", "false_fun")
    return _branch("cond", index, (false_fun, true_fun), names[::-1], operands)


def _cond_of_each(
    pred: Any,
    true_operand: Any,
    true_fun: Callable[..., Any],
    false_operand: Any,
    false_fun: Callable[..., Any],
) -> Any:
    """The older form of `cond`, in which each function has an operand of its own."""
    return cond(
        pred,
        lambda x, _: true_fun(x),
        lambda _, x: false_fun(x),
        true_operand,
        false_operand,
    )


def _operands(operand: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands, of which one may be given by keyword."""
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be"
            f" passed, got operand={operand} and positional operands {operands}"
        )
    return (operand,)


def _predicate(pred: Any) -> ShapedArray:
    if pred is None:
        raise TypeError("cond predicate is None")
    if isinstance(pred, Sequence):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}.")
    if not is_array_like(pred):
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.")
    aval = typeof(pred)
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {aval.shape}.")
    if not any(dtypes.issubdtype(aval.dtype, k) for k in _PREDICATES):
        raise TypeError(
            f"Pred type must be either boolean or number, got {aval.dtype.name}."
        )
    return aval


_PREDICATES = (np.bool_, np.integer, np.floating)


@api_boundary
def switch(
    index: Any,
    branches: Sequence[Callable[..., R]],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> R:
    """`branches[index](*operands)`, the index clamped into range.

    Args:
      index: an integer scalar, which may be traced.
      branches: functions of the operands, whose results are alike in structure, shapes
        and dtypes.
      *operands: pytrees of arrays.
      operand: the only operand, instead of `operands`.

    Returns:
      What the branch returns.

    Raises:
      ValueError: for no branches.
      TypeError: if `index` is not an integer scalar, a branch is not callable, or the
        branches' outputs differ in type.

    >>> from curta import lax
    >>> lax.switch(1, [lambda x: x, lambda x: 10 * x], 2)
    Array(20, dtype=int32, weak_type=True)
    """
    if not all(callable(b) for b in branches):
        raise TypeError(
            "lax.switch: branches argument should be a sequence of callables."
        )
    operands = _operands(operand, operands)
    if np.ndim(index):
        raise TypeError(
            f"Branch index must be scalar, got {index} of shape {np.shape(index)}."
        )
    if not is_array_like(index):
        raise TypeError(f"Index type must be an integer, got {index}.")
    if type(index) is int and index.bit_length() > 31:
        index = min(max(index, 0), len(branches) - 1)
    aval = typeof(index)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            f"Index type must be an integer, got {index} as {aval.dtype.name}"
        )
    branches = tuple(branches)
    if not branches:
        raise ValueError(
            "Empty branch sequence: lax.switch takes one function or more."
        )
    if len(branches) == 1:
        return branches[0](*operands)
    if config.jax_disable_jit and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    index = convert_element_type(index, np.int32)
    index = clamp(np.int32(0), index, np.int32(len(branches) - 1))
    names = [f"branch {i}" for i in range(len(branches))]
    return _branch("switch", index, branches, names, operands)


def platform_dependent(
    *args: Any,
    default: Callable[..., Any] | None = None,
    **per_platform: Callable[..., Any],
) -> Any:
    """The branch for the platform on which the program runs, applied to `args`.

    All branches are traced, so they must return the same types; Curta compiles for
    `cpu`.

    Args:
      *args: trees of arrays.
      default: the branch for platforms that have none.
      **per_platform: branches by platform: `cpu`, `cuda`, `rocm`, `tpu`.

    Returns:
      What the branch returns.

    Raises:
      TypeError: if branches are not functions. ValueError: for `gpu`.
      NotImplementedError: if there is neither a branch for the platform nor a default.

    >>> from curta import lax, numpy as jnp
    >>> lax.platform_dependent(0.0, cpu=jnp.cos, default=jnp.sin)
    Array(1., dtype=float32, weak_type=True)
    """
    joined: dict[Any, tuple[str, ...]] = {}
    for platform, branch in per_platform.items():
        if not callable(branch):
            raise TypeError(
                f"lax.platform_dependent: the '{platform}' branch must be a callable."
            )
        if platform == "gpu":
            raise ValueError("Use 'cuda' or 'rocm' for lax.platform_dependent.")
        joined[branch] = (*joined.get(branch, ()), platform)
    if default is not None and not callable(default):
        raise TypeError(
            "lax.platform_dependent: the 'default' branch must be a callable."
        )
    branches = [*joined, default] if default is not None else list(joined)
    platforms = (*joined.values(), None) if default is not None else joined.values()
    op = PlatformIndex(tuple(platforms))
    if len(branches) == 1:
        op.eval()  # raises if it is for another platform
    index = op()
    if (known := concrete_or_none(index)) is not None:
        return branches[int(known)](*args)
    names = [f"branch {i}" for i in range(len(branches))]
    return _branch("switch", index, branches, names, args, tuple(platforms))


def _branch(
    what: str,
    index: Any,
    funs: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: Sequence[Any],
    platforms: Platforms | None = None,
) -> Any:
    check_refs(what, funs[-1], *operands)
    leaves, _ = flat_arrays(operands)
    avals = [typeof(x) for x in leaves]
    in_tree = args_tree(*operands)
    # The functions of `cond` are looked at in the order in which users give them.
    order = range(len(funs)) if what == "switch" else range(len(funs) - 1, -1, -1)
    result = {i: traced(what, funs[i], in_tree, avals) for i in order}
    parts = [result[i] for i in range(len(funs))]
    check_same_outputs(
        what,
        [names[i] for i in order],
        [funs[i] for i in order],
        [parts[i].out_tree for i in order],
        [parts[i].out_avals for i in order],
    )
    consts = list({id(c): c for t in parts for c in t.consts}.values())
    const_avals = [typeof(c) for c in consts]
    branches = tuple(t.closed(consts, const_avals) for t in parts)
    op = Cond(_same_weak_types(branches), platforms)
    outs = run_cond(op, [index, *consts, *leaves])
    return tree_util.tree_unflatten(parts[0].out_tree, outs)


@kept_with_jaxpr
def _same_weak_types(branches: tuple[ClosedJaxpr, ...]) -> tuple[ClosedJaxpr, ...]:
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
