"""Derivatives of functions of pytrees by leaves: `jvp` and `linearize`.

Unlike the transformations of users, tangents may be `Zero`, and results say which
tangents are zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.linearized import FlatWithAux
from curta.core.avals import typed, untyped
from curta.core.flat import debug_info
from curta.core.jaxpr import Jaxpr, Var
from curta.core.source_info import Transforming
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.interpreters.flat_trees import FlatTree, flatten
from curta.primitives.structure import instantiate as instantiated
from curta.transforms.jvp import is_differentiable, jvp as jvp_flat
from curta.transforms.linearize import linearize as linearize_flat


def jvp(
    fun: Callable[..., Any],
    primals: Any,
    tangents: Any,
    has_aux: bool = False,
    instantiate: bool | Sequence[bool] = True,
    transform_stack: bool = True,
) -> Any:
    """The results of a function and their tangents, as flat trees.

    Args:
      fun: a function of pytrees.
      primals: a `FlatTree` of the tuple of its arguments, or that tuple.
      tangents: the tangents of the leaves, some of them `Zero`.
      has_aux: whether `fun` gives a pair whose second part is passed on.
      instantiate: whether zero tangents of results are arrays: for each, or all.
      transform_stack: whether the paths of ops say `jvp`.

    Returns:
      A `FlatTree` of results and one of tangents, and with `has_aux` what is passed on.

    Raises:
      ValueError: for another number of tangents or flags.
      TypeError: if `fun` gives no pair despite `has_aux`.

    >>> from curta.interpreters import ad
    >>> out, tangent = ad.jvp(lambda x, y: (x * y, y), (3.0, 2.0), (1.0, 0.0))
    >>> print(*out, *tangent)
    6.0 2.0 2.0 0.0
    """
    args = flatten(primals)
    dots = [*args.map2(_tangents(tangents), _seed)]
    flat = FlatWithAux(fun, args.tree, has_aux)
    scope: Any = Transforming("jvp") if transform_stack else contextlib.nullcontext()
    with scope:
        outs, out_dots = jvp_flat(flat, [*map(typed, args)], dots)
    count = len(outs) - flat.aux_count
    out = FlatTree([*map(untyped, outs[:count])], flat.out_tree)
    given = [instantiate] * count if isinstance(instantiate, bool) else [*instantiate]
    pairs = zip(out_dots[:count], given, strict=True)
    tangent = out.update([instantiated(t) if make else t for t, make in pairs])
    return out, tangent.map(_shown), *_aux(flat, outs[count:])


def linearize(
    traceable: Callable[..., Any],
    primals_ft: Any,
    has_aux: bool = False,
    is_vjp: bool = False,
    in_nzs: Sequence[bool] | None = None,
) -> tuple[Any, ...]:
    """The results of a function, and the linear map of its tangents as a jaxpr.

    Args:
      traceable: a function of pytrees.
      primals_ft: a `FlatTree` of the tuple of its arguments, or that tuple.
      has_aux: whether it gives a pair whose second part is passed on.
      is_vjp: whether the map is to be transposed, and nothing else.
      in_nzs: for each leaf whether its tangent may differ from zero. None (default) is
        all.

    Returns:
      A `FlatTree` of results; for each of its leaves whether the tangent is zero; the
      jaxpr, which takes the tangents of all arguments and gives those that are not
      zero; its constants; an empty list for residuals that keep a structure; and with
      `has_aux` what is passed on.

    Raises:
      ValueError: `in_nzs` has another length than the leaves.
      TypeError: if the function gives no pair despite `has_aux`.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> out, zeros, jaxpr, consts, _ = ad.linearize(lambda x, y: (x * y, 1.0), (3.0, 2.0))
    >>> zeros, curta.core.eval_jaxpr(jaxpr, consts, 1.0, 10.0)
    ([False, True], [Array(32., dtype=float32, weak_type=True)])
    """  # noqa: E501
    args = flatten(primals_ft)
    if in_nzs is not None and len(in_nzs) != len(args):
        raise ValueError(f"expected {len(args)} flags in_nzs, got {len(in_nzs)}")
    flat = FlatWithAux(traceable, args.tree, has_aux)
    info = debug_info("linearize", traceable)
    mode = "vjp" if is_vjp else "lin"
    lin = linearize_flat(flat, [*map(typed, args)], info, in_nzs, mode)
    count = len(lin.primals_out) - flat.aux_count
    out = FlatTree([*map(untyped, lin.primals_out[:count])], flat.out_tree)
    zeros = [not nonzero for nonzero in lin.out_nonzero[:count]]
    jaxpr = _of_all_tangents(flat.without_aux(lin), args, lin.in_nonzero)
    aux = _aux(flat, lin.primals_out[count:])
    return out, zeros, jaxpr, [*lin.jaxpr.consts], [], *aux


def _tangents(given: Any) -> list[Any]:
    """The leaves of tangents: a `Zero` is one, though it is a pytree of none."""
    if isinstance(given, FlatTree):
        return [*given]
    return tree_util.tree_leaves(given, is_leaf=lambda x: type(x) is Zero)


def _seed(primal: Any, tangent: Any) -> Any:
    """The tangent of an argument: zero where nothing can depend on it."""
    if type(tangent) is Zero:
        return tangent
    return typed(tangent) if is_differentiable(primal) else zero_tangent(typeof(primal))


def _shown(tangent: Any) -> Any:
    return tangent if type(tangent) is Zero else untyped(tangent)


def _aux(flat: FlatWithAux, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What is passed on, if there is anything."""
    if not flat.has_aux:
        return ()
    return (FlatTree(flat.aux(arrays), flat.aux_tree).unflatten(),)


def _of_all_tangents(jaxpr: Jaxpr, args: FlatTree, nonzero: Sequence[bool]) -> Jaxpr:
    """The jaxpr with inputs for the tangents that it does not read as well."""
    given = iter(jaxpr.invars)
    invars = [
        next(given) if n else Var(typeof(x).to_tangent_aval())
        for x, n in zip(args, nonzero, strict=True)
    ]
    return jaxpr.replace(invars=tuple(invars))
