"""Partial evaluation, for those who write transformations.

Results of known arguments are computed; the rest is recorded as a jaxpr.

>>> import curta, curta.numpy as jnp
>>> from curta.extend import linear_util
>>> from curta.interpreters import partial_eval as pe
>>> f = linear_util.wrap_init(lambda x, y: (jnp.sin(x), jnp.sin(x) * y))
>>> unknown = pe.PartialVal.unknown(curta.typeof(1.0))
>>> jaxpr, out, residuals = pe.trace_to_jaxpr_nounits(f, [pe.PartialVal.known(0.0), unknown])
>>> out[0].is_known(), out[1].is_known(), len(residuals)
(True, False, 1)
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from curta._base.on_demand import Listing, listed
from curta.core.avals import ShapedArray
from curta.core.flat import debug_info as describe
from curta.core.hi_types import lower_types
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, as_closed, jaxpr_as_fun
from curta.core.stage import JitTracer as DynamicJaxprTracer, stage
from curta.core.trace import current_trace, typeof, use_trace
from curta.extend.linear_util import WrappedFun
from curta.interpreters.flat_trees import FlatTree, flatten
from curta.transforms.dce import dce_jaxpr as _without_dead_code
from curta.transforms.lowering import lower_jaxpr as _lower_jaxpr
from curta.transforms.partial_eval import PartialTrace, prune, split_jaxpr

__all__ = [
    "DynamicJaxprTracer",
    "PartialVal",
    "abstract_eval_fun",
    "close_jaxpr",
    "convert_constvars_jaxpr",
    "dce_jaxpr",
    "lower_jaxpr",
    "lower_jaxpr2",
    "move_binders_to_back",
    "partial_eval_jaxpr_nounits",
    "prune_closed_jaxpr_outputs",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]
__dir__: Listing = listed(__all__)

AnyJaxpr = TypeVar("AnyJaxpr", Jaxpr, ClosedJaxpr)


class PartialVal(tuple[Any, Any]):
    """`(None, value)` if the value is known, `(aval, None)` if it is unknown.

    >>> import curta
    >>> from curta.interpreters import partial_eval
    >>> partial_eval.PartialVal.known(3).is_known()
    True
    >>> partial_eval.PartialVal.unknown(curta.typeof(1.0)).is_known()
    False
    """

    __slots__ = ()

    def __new__(cls, pair: tuple[Any, Any]) -> PartialVal:
        return tuple.__new__(cls, pair)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value that is known."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """A value whose aval alone is known."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Return True if the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None if it is not known."""
        return self[1] if self.is_known() else None

    def get_aval(self) -> ShapedArray:
        """The aval of the value, known or not."""
        result: ShapedArray = typeof(self[1]) if self.is_known() else self[0]
        return result


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | list[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """`(jaxpr, out_pvals, residuals)` of a function of flat arguments.

    The jaxpr takes the residuals and the unknown arguments, and gives the results that
    are not known: those that depend on unknown arguments, and those to `instantiate`.

    Args:
      fun: the function, from `wrap_init`, of arrays to a list of arrays.
      pvals: for each argument its value, or its aval if that is not known.
      instantiate: whether a result is in the jaxpr though it is known: for each, or
        all.

    Returns:
      The jaxpr, for each result its value or aval, and the residuals.

    Raises:
      ValueError: for a list of another length.

    >>> import curta
    >>> from curta.extend import linear_util
    >>> from curta.interpreters.partial_eval import PartialVal, trace_to_jaxpr_nounits
    >>> info = linear_util.DebugInfo("example", "f")
    >>> fun = linear_util.wrap_init(lambda x, y: [x * 2.0, y * 2.0], debug_info=info)
    >>> given = [PartialVal.known(3.0), PartialVal.unknown(curta.typeof(1.0))]
    >>> jaxpr, outs, residuals = trace_to_jaxpr_nounits(fun, given)
    >>> [out.is_known() for out in outs], len(jaxpr.eqns), residuals
    ([True, False], 1, [Array(2., dtype=float32, weak_type=True)])
    """
    partial = PartialTrace(current_trace(), fun.debug_info)
    with use_trace(partial):
        args = [
            p.get_known() if p.is_known() else partial.unknown(p.get_aval())
            for p in pvals
        ]
        outs = list(fun.call_wrapped(*args))
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(outs)
    unknown = [
        wanted or partial.is_unknown(x)
        for x, wanted in zip(outs, instantiate, strict=True)
    ]
    recorded = prune(
        partial.recorder.jaxpr([x for x, u in zip(outs, unknown, strict=True) if u])
    )
    out_pvals = [
        PartialVal.unknown(typeof(x)) if u else PartialVal.known(x)
        for x, u in zip(outs, unknown, strict=True)
    ]
    jaxpr = recorded.jaxpr
    jaxpr = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
    return jaxpr, out_pvals, list(recorded.consts)


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[ShapedArray]
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """`(jaxpr, out_avals, consts)` of a function of flat arguments.

    >>> import curta
    >>> from curta.extend import linear_util
    >>> from curta.interpreters import partial_eval as pe
    >>> f = linear_util.wrap_init(lambda x: [x + x])
    >>> pe.trace_to_jaxpr_dynamic(f, [curta.typeof(1.0)])[0]
    { lambda ; a:f32[]. let b:f32[] = add a a in (b,) }
    """
    closed = stage(fun.call_wrapped, in_avals, fun.debug_info)
    return closed.jaxpr, list(closed.out_avals), list(closed.consts)


def dce_jaxpr(
    jaxpr: AnyJaxpr,
    used_outputs: Sequence[bool],
    instantiate: bool | list[bool] = False,
) -> tuple[AnyJaxpr, list[bool]]:
    """The jaxpr of the used outputs alone, and which inputs it has kept.

    Inputs that nothing needs go, but for those to `instantiate`.

    Args:
      jaxpr: a jaxpr, or a closed one.
      used_outputs: whether each output is wanted.
      instantiate: whether an input is kept though nothing needs it: for each, or all.

    Returns:
      The jaxpr, of the same class, and a list of bools: which inputs it has.

    Raises:
      ValueError: for lists of another length.

    >>> import curta
    >>> from curta.interpreters import partial_eval
    >>> jaxpr = curta.make_jaxpr(lambda x, y: (x + 1, y + 1))(1.0, 2.0).jaxpr
    >>> used, inputs = partial_eval.dce_jaxpr(jaxpr, [False, True])
    >>> len(used.eqns), inputs
    (1, [False, True])
    """
    if isinstance(jaxpr, ClosedJaxpr):
        inner, inputs = dce_jaxpr(jaxpr.jaxpr, used_outputs, instantiate)
        return jaxpr.replace(jaxpr=inner), inputs
    result: Jaxpr = _without_dead_code(jaxpr, used_outputs, within=True)
    needed = {v for e in result.eqns for v in e.invars} | {*result.outvars}
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.invars)
    kept = [
        keep or v in needed for v, keep in zip(jaxpr.invars, instantiate, strict=True)
    ]
    invars = tuple(v for v, keep in zip(jaxpr.invars, kept, strict=True) if keep)
    return result.replace(invars=invars), kept


def close_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr without constants as a closed one; closed ones are left as they are.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> jaxpr = curta.make_jaxpr(lambda x: x + 1)(2.0).jaxpr
    >>> pe.close_jaxpr(jaxpr).consts
    []
    """
    return as_closed(jaxpr)


def convert_constvars_jaxpr(jaxpr: AnyJaxpr) -> AnyJaxpr:
    """The jaxpr with its constants as its first inputs; a closed one holds none then.

    >>> import curta, numpy as np
    >>> from curta.interpreters import partial_eval as pe
    >>> jaxpr = curta.make_jaxpr(lambda x: x + np.arange(2))(2).jaxpr
    >>> len(jaxpr.constvars), len(pe.convert_constvars_jaxpr(jaxpr).invars)
    (1, 2)
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return ClosedJaxpr(convert_constvars_jaxpr(jaxpr.jaxpr))
    return jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))


def move_binders_to_back(closed_jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> Any:
    """The jaxpr with some of its inputs behind the others, in their order.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> closed = curta.make_jaxpr(lambda x, y: x - y)(2, 3.0)
    >>> print(*pe.move_binders_to_back(closed, [True, False]).in_avals)
    ~float32[] ~int32[]
    """
    closed = as_closed(closed_jaxpr)
    invars = closed.jaxpr.invars
    moved = [*to_move] + [False] * (len(invars) - len(to_move))
    in_order = sorted(range(len(invars)), key=lambda i: moved[i])
    return closed.replace(invars=tuple(invars[i] for i in in_order))


def prune_closed_jaxpr_outputs(
    jaxpr: ClosedJaxpr, used_outputs: Sequence[bool]
) -> ClosedJaxpr:
    """The jaxpr with the used outputs alone; eqns that made others stay.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> closed = curta.make_jaxpr(lambda x: (x + 1, x + 2))(2)
    >>> print(*pe.prune_closed_jaxpr_outputs(closed, [False, True]).out_avals)
    ~int32[]
    """
    closed = as_closed(jaxpr)
    pairs = zip(closed.jaxpr.outvars, used_outputs, strict=True)
    return closed.replace(outvars=tuple(v for v, used in pairs if used))


def abstract_eval_fun(
    fun: Callable[..., Any], *avals: ShapedArray, debug_info: Any = None, **params: Any
) -> list[ShapedArray]:
    """The avals of the results of a function of flat arguments.

    Args:
      fun: a function of arrays to a sequence of arrays.
      avals: the avals of its arguments.
      debug_info: what errors say of it. None (default) is its name and line.
      params: keyword arguments that it is given.

    Returns:
      A list of avals.

    Raises:
      TypeError: a result is not an array.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> pe.abstract_eval_fun(lambda x, n: [x + n], curta.typeof(1.0), n=2)
    [ShapedArray(float32[], weak_type=True)]
    """
    described = debug_info or describe("abstract_eval_fun", fun)
    closed = stage(lambda *xs: list(fun(*xs, **params)), avals, described)
    return list(closed.out_avals)


def lower_jaxpr(hi_jaxpr: ClosedJaxpr, lo_avals: Any) -> tuple[ClosedJaxpr, FlatTree]:
    """As `lower_jaxpr2`, with the types of the arrays that the outputs consist of.

    Args:
      hi_jaxpr: a jaxpr.
      lo_avals: a `FlatTree`, or a pytree, of the types of the arrays that its inputs
        consist of; a list of `aval.lo_ty()` for each input and no keywords.

    Returns:
      The jaxpr of arrays, and for each output the list of the types of its arrays.

    Raises:
      TypeError: `lo_avals` are not the types of the inputs.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> closed = curta.make_jaxpr(lambda x: x + 1)(2)
    >>> low, outs = pe.lower_jaxpr(closed, ([[curta.typeof(2)]], {}))
    >>> low.eqns[0].primitive, outs.unflatten()
    (add, ([ShapedArray(int32[], weak_type=True)],))
    """
    low = _lower_jaxpr(hi_jaxpr)
    given = [*flatten(lo_avals)]
    if given != [*low.in_avals]:
        raise TypeError(
            f"lower_jaxpr was given inputs of the types {given}, and not of those that"
            f" the jaxpr takes: {[*low.in_avals]}"
        )
    return low, flatten(tuple(map(list, lower_types(hi_jaxpr.out_avals))))


def lower_jaxpr2(hi_jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with primitives and types of `hijax` replaced by arrays.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> closed = curta.make_jaxpr(lambda x: x + 1)(2)
    >>> pe.lower_jaxpr2(closed).eqns[0].primitive
    add
    """
    return _lower_jaxpr(hi_jaxpr)


def partial_eval_jaxpr_nounits(
    jaxpr: ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[ShapedArray]]:
    """A jaxpr cut into what known inputs determine and the rest.

    Args:
      jaxpr: the jaxpr.
      unknowns: whether each input is unknown.
      instantiate: whether an output counts as unknown though it is not: for each, or
        all.

    Returns:
      The jaxpr of the known inputs, which gives the known outputs and residuals; the
      jaxpr of the residuals and unknown inputs, which gives the unknown outputs;
      whether each output is unknown; and the avals of the residuals.

    Raises:
      ValueError: `unknowns` has another length than the inputs.

    >>> import curta
    >>> from curta.interpreters import partial_eval as pe
    >>> closed = curta.make_jaxpr(lambda x, y: (2 * x, (2 * x) * y))(1.0, 1.0)
    >>> cut = pe.partial_eval_jaxpr_nounits(closed, [False, True], False)
    >>> known, rest, flags, _ = cut
    >>> flags, len(known.out_avals), len(rest.in_avals)
    ([False, True], 2, 2)
    """
    forced = instantiate if isinstance(instantiate, bool) else tuple(instantiate)
    closed = as_closed(jaxpr)
    split = split_jaxpr(closed, tuple(unknowns), forced)
    count = split.out_unknown.count(False)

    def known(*args: Any) -> list[Any]:
        outs = jaxpr_as_fun(split.known)(*args)
        return [*outs[:count], *split.residuals(args, outs)]

    closed = stage(known, split.known.in_avals, closed.jaxpr.debug_info)
    residuals = list(closed.out_avals[count:])
    return closed, split.unknown, list(split.out_unknown), residuals
