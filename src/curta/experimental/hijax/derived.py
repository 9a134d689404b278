"""Rules of a `HiPrim` that follow from others of its rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta.api.vjp import linear_transpose
from curta.control.hi_op import leaves_of
from curta.core.jaxpr import DebugInfo, Jaxpr, eval_jaxpr
from curta.core.tangents import Zero
from curta.core.trace import current_trace, use_trace
from curta.primitives.structure import instantiate
from curta.transforms.partial_eval import PartialTrace, prune


@tree_util.register_static
@dataclass(frozen=True)
class Static:
    """A residual that is not an array."""

    val: Any


@tree_util.register_static
@dataclass(frozen=True, eq=False)
class _LinearMap:
    """The jaxpr of a linear map, and which operands and results it has."""

    jaxpr: Jaxpr
    nonzero_in: tuple[bool, ...]
    nonzero_out: tuple[bool, ...]


@tree_util.register_pytree_node_class
class DerivedLinearization:
    """The residuals of `linearize_from_jvp`: a linear map with its constants."""

    def __init__(self, consts: Sequence[Any], linear: Any):
        self.consts = consts
        self.linear = linear

    def tree_flatten(self) -> tuple[Any, Any]:
        """Return the constants, and the map."""
        return (list(self.consts),), self.linear

    @classmethod
    def tree_unflatten(cls, linear: Any, children: Any) -> DerivedLinearization:
        """Return the map with these constants."""
        return cls(children[0], linear)


def _tangents(prim: Any, flags: Sequence[bool], given: Any) -> Any:
    """Return the tangents of operands; those with a flag are given."""
    leaves = [
        next(given) if f else Zero(a.to_tangent_aval())
        for a, f in zip(prim.in_avals_flat, flags, strict=True)
    ]
    return tree_util.tree_unflatten(prim.in_tree, leaves)


def _lin_from_jvp(self: Any, nzs_in: Any, *primals: Any) -> Any:
    nonzero = leaves_of(self.in_tree, nzs_in)
    partial = PartialTrace(current_trace(), DebugInfo("linearize_from_jvp"))
    unknown = (
        partial.unknown(a.to_tangent_aval())
        for a, f in zip(self.in_avals_flat, nonzero, strict=True)
        if f
    )
    with use_trace(partial):
        out, out_dots = self.jvp(primals, _tangents(self, nonzero, unknown))
    dots = self.out_tree.flatten_up_to(out_dots)
    flags = tuple(map(partial.is_unknown, dots))
    known = [(i, t) for i, t in enumerate(dots) if not flags[i] and not _is_zero(t)]
    if known:
        raise ValueError(
            f"{type(self).__name__}.jvp gave a tangent that does not depend on those of"
            f" the operands: number {known[0][0]} is {known[0][1]}"
        )
    recorded = prune(partial.recorder.jaxpr([t for t, f in zip(dots, flags) if f]))
    linear = _LinearMap(recorded.jaxpr, tuple(map(bool, nonzero)), flags)
    nonzero_out = tree_util.tree_unflatten(self.out_tree, flags)
    return out, DerivedLinearization(recorded.consts, linear), nonzero_out


def _is_zero(t: Any) -> bool:
    return type(t) is Zero or getattr(getattr(t, "dtype", None), "names", None) == (
        "float0",
    )


def _linearized_from_jvp(self: Any, residuals: Any, *tangents: Any) -> Any:
    linear = residuals.linear
    flat = self.in_tree.flatten_up_to(tangents)
    given = [instantiate(t) for t, f in zip(flat, linear.nonzero_in) if f]
    outs = iter(eval_jaxpr(linear.jaxpr, residuals.consts, *given))
    avals = zip(self.out_avals_flat, linear.nonzero_out, strict=True)
    dots = [next(outs) if f else Zero(a.to_tangent_aval()) for a, f in avals]
    return tree_util.tree_unflatten(self.out_tree, dots)


def jvp_from_lin(self: Any, primals: Any, tangents: Any) -> Any:
    """The rule `jvp` of a primitive that has `lin` and `linearized`.

    Args:
      self: the primitive: the function is set as the method `jvp` of its class.
      primals: a tuple of the operands.
      tangents: a tuple of their tangents, some of them `Zero`.

    Returns:
      The results and their tangents.

    Raises:
      TypeError: if `lin` was derived from `jvp` itself.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> class Double(hijax.HiPrim):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return 2 * x
    ...     def lin(self, nzs_in, x):
    ...         return self(x), ()
    ...     def linearized(self, residuals, t):
    ...         return 2 * t
    ...     jvp = hijax.jvp_from_lin
    >>> curta.jvp(Double(curta.typeof(1.0)), (1.0,), (3.0,))[1]
    6.0
    """
    if type(self).lin is _lin_from_jvp:
        raise TypeError(
            f"subclass {type(self)} can't set both `jvp = jvp_from_lin` and `lin,"
            " linearized = linearize_from_jvp`, since each would be defined in terms"
            " of the other"
        )
    flat = self.in_tree.flatten_up_to(tangents)
    nonzero = tree_util.tree_unflatten(
        self.in_tree, [type(t) is not Zero for t in flat]
    )
    out, residuals, *rest = self.lin(nonzero, *primals)
    structured = rest[1:2] if len(rest) > 1 else ()
    return out, self.linearized(residuals, *structured, *tangents)


def _vjp_fwd_from_jvp(self: Any, nzs_in: Any, *primals: Any) -> Any:
    return self(*primals), (primals, Static(_flags(self, nzs_in)))


def _vjp_fwd_from_lin(self: Any, nzs_in: Any, *primals: Any) -> Any:
    out, residuals, *rest = self.lin(nzs_in, *primals)
    return out, (residuals, Static(_flags(self, nzs_in))), *rest


def _flags(prim: Any, nzs_in: Any) -> tuple[bool, ...]:
    return tuple(map(bool, leaves_of(prim.in_tree, nzs_in)))


def _transpose_jvp(self: Any, res: Any, out_ct: Any) -> Any:
    primals, nonzero = res
    return _transposed(
        self, nonzero.val, lambda tangents: self.jvp(primals, tangents)[1], out_ct
    )


def _transpose_linearized(self: Any, res: Any, out_ct: Any) -> Any:
    residuals, nonzero = res
    return _transposed(
        self,
        nonzero.val,
        lambda tangents: self.linearized(residuals, *tangents),
        out_ct,
    )


def _transposed(
    prim: Any, nonzero: Sequence[bool], push: Callable[[Any], Any], out_ct: Any
) -> Any:
    """The cotangents of operands, by transposing the map of tangents `push`."""

    def tangent_map(*given: Any) -> Any:
        return _made(prim, push(_tangents(prim, nonzero, iter(given))))

    avals = [a.to_tangent_aval() for a in prim.in_avals_flat]
    types = [a for a, f in zip(avals, nonzero, strict=True) if f]
    cts = iter(linear_transpose(tangent_map, *types)(_made(prim, out_ct)))
    return _tangents(prim, nonzero, cts)


def _made(prim: Any, tangents: Any) -> Any:
    """Tangents of results, with arrays in place of symbolic zeros."""
    flat = map(instantiate, prim.out_tree.flatten_up_to(tangents))
    return tree_util.tree_unflatten(prim.out_tree, [*flat])


class _LinearizeFromJVP(NamedTuple):
    lin: Callable[..., Any]
    linearized: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _pair_called("linearize_from_jvp", "lin, linearized")


class _VJPFromJVP(NamedTuple):
    vjp_fwd: Callable[..., Any]
    vjp_bwd_retval: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _pair_called("vjp_from_jvp", "vjp_fwd, vjp_bwd_retval")


class _VJPFromLin(NamedTuple):
    vjp_fwd: Callable[..., Any]
    vjp_bwd_retval: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _pair_called("vjp_from_lin", "vjp_fwd, vjp_bwd_retval")


def _pair_called(name: str, rules: str) -> TypeError:
    return TypeError(
        f"`{name}` is a pair of rules, not a single rule; unpack it in the class body:"
        f" `{rules} = {name}`"
    )


linearize_from_jvp = _LinearizeFromJVP(_lin_from_jvp, _linearized_from_jvp)
"""The rules `lin` and `linearized` of a primitive that has `jvp`."""
vjp_from_jvp = _VJPFromJVP(_vjp_fwd_from_jvp, _transpose_jvp)
"""The rules `vjp_fwd` and `vjp_bwd_retval` of a primitive that has `jvp`."""
vjp_from_lin = _VJPFromLin(_vjp_fwd_from_lin, _transpose_linearized)
"""The rules `vjp_fwd` and `vjp_bwd_retval` of a primitive that has `lin`."""
