"""`HiPrim`: a primitive that a program defines, with rules of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from curta import tree_util
from curta.control.accumulators import GradAccum, ValAccum
from curta.control.hi_op import HiOp, leaves_of
from curta.core.effects import Effect
from curta.core.jaxpr import Jaxpr
from curta.core.pretty import Printer, Settings
from curta.core.pretty_printer import render
from curta.core.refs import AbstractRef


class HiPrim:
    """A primitive on values of any types, with the rules by which it is transformed.

    An instance is one application. The `__init__` of a subclass sets `in_avals`, a
    tuple of a type (or pytree of types) for each operand, `out_aval`, the type (or
    pytree) of results, and `params`, a dict of hashable parameters, which become
    attributes; then it calls this class's. Rules:

    =================  ==============================================================
    `expand`           `(*args)`: what the primitive consists of
    `jvp`              `(primals, tangents) -> (out, out_tangent)`; `Zero` for zeros
    `vjp_fwd`          `(nzs_in, *args) -> (out, residuals)`, and more: `nzs_out`, and
                       structured residuals
    `vjp_bwd_retval`   `(residuals, out_ct) ->` a cotangent for each operand
    `vjp_bwd`          `(residuals, out_ct, *accums)`: adds to accumulators instead
    `lin`              `(nzs_in, *args) -> (out, residuals)`, as `vjp_fwd`
    `linearized`       `(residuals, *tangents) -> out_tangent`
    `transpose`        `(out_ct, *args)`; linear arguments are accumulators
    `batch`            `(axis_data, args, dims) -> (out, out_dims)`
    `dce`              `(used_outs, live_ins) -> (used_ins, produced_outs, prim)`
    =================  ==============================================================

    In forward mode it is `jvp` that is called, in `linearize` `lin` (or `jvp`, if that
    is not given), in reverse mode `vjp_fwd`. Some rules follow from others: see
    `linearize_from_jvp`, `vjp_from_jvp`, `vjp_from_lin` and `jvp_from_lin`. Under
    `checkpoint` the whole application is computed again.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> class Power(hijax.HiPrim):
    ...     def __init__(self, aval, *, n):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, dict(n=n)
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return x**self.n
    ...     def vjp_fwd(self, nzs_in, x):
    ...         return self(x), x
    ...     def vjp_bwd_retval(self, x, ct):
    ...         return (ct * self.n * x ** (self.n - 1),)
    >>> cube = Power(curta.typeof(2.0), n=3)
    >>> cube
    Power[n=3]
    >>> curta.make_jaxpr(cube)(2.0)
    { lambda ; a:f32[]. let b:f32[] = Power[n=3] a in (b,) }
    >>> curta.grad(curta.jit(cube))(2.0)
    Array(12., dtype=float32, weak_type=True)
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    effects: frozenset[Effect] = frozenset()
    skip_linearization_on_zero_tangents: bool = False

    differentiated_by_jvp: bool = False
    """Whether reverse mode transposes what `jvp` does, without rules of its own."""

    in_avals_flat: list[Any]
    out_avals_flat: list[Any]

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        self.in_avals_flat, self.in_tree = tree_util.tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree_util.tree_flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def __call__(self, *args: Any) -> Any:
        """Apply the primitive."""
        outs = HiOp(self)(*leaves_of(self.in_tree, args))
        return tree_util.tree_unflatten(self.out_tree, outs)

    # ---- rules

    def expand(self, *args: Any) -> Any:
        """Do what the primitive consists of."""
        raise NotImplementedError(f"subclass {type(self)} must implement `expand`")

    def check(self, *arg_tys: Any) -> None:
        """Raise TypeError for operands of types that it does not take."""

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """Return results and residuals; `nzs_in` says which operands vary."""
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_fwd`, or"
            " derive its reverse-mode rules from its jvp or lin rules by setting"
            " `vjp_fwd, vjp_bwd_retval = vjp_from_jvp` (or `= vjp_from_lin`)"
        )

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> Any:
        """Add the cotangents of the operands to accumulators."""
        args_grad, logs = self.vjp_bwd_retval_logs(res, outgrad)
        leaves, tree = tree_util.tree_flatten(arg_accums)
        for accum, ct in zip(leaves, tree.flatten_up_to(args_grad), strict=True):
            if isinstance(accum, GradAccum):
                accum.accum(ct)
        return logs

    def vjp_bwd_retval_logs(self, res: Any, outgrad: Any, /) -> tuple[Any, Any]:
        """Return the cotangents of the operands, and what the rule logs."""
        if not self.has_accumulating_vjp:
            return self.vjp_bwd_retval(res, outgrad), None
        accums = [
            ValAccum((a.inner_aval if isinstance(a, AbstractRef) else a).to_ct_aval())
            for a in self.in_avals_flat
        ]
        given = tree_util.tree_unflatten(self.in_tree, accums)
        logs = self.vjp_bwd(res, outgrad, *given)
        cts = [a.freeze() for a in accums]
        return tree_util.tree_unflatten(self.in_tree, cts), logs

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """Return the cotangents of the operands."""
        raise NotImplementedError(
            f"for grad support, subclass {type(self)} must implement `vjp_bwd` or"
            " `vjp_bwd_retval`, or derive its reverse-mode rules by setting `vjp_fwd,"
            " vjp_bwd_retval = vjp_from_jvp` (or `= vjp_from_lin`)"
        )

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """Return results and their tangents."""
        raise NotImplementedError(
            f"for jvp support, subclass {type(self)} must implement `jvp`"
        )

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """Return results and residuals of the linear map of tangents."""
        raise NotImplementedError(self._no_linearization())

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """Return the tangents of results."""
        raise NotImplementedError(self._no_linearization())

    def _no_linearization(self) -> str:
        return (
            f"for linearize support, subclass {type(self)} must implement `lin` and"
            " `linearized`, or derive them from its `jvp` rule by setting `lin,"
            " linearized = linearize_from_jvp`"
        )

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> Any:
        """Add the cotangents of linear operands to their accumulators."""
        raise NotImplementedError(
            f"for transpose support, subclass {type(self)} must implement `transpose`"
        )

    def batch(self, axis_data: Any, args: Any, dims: Any) -> tuple[Any, Any]:
        """Return the results of a batch, and along which dims the examples lie."""
        raise NotImplementedError(
            f"for vmap support, subclass {type(self)} must implement `batch`"
        )

    def dce(self, used_outs: Any, live_ins: Any) -> tuple[Any, Any, Any]:
        """Return which operands are read, which results given, and by what.

        The last is None where nothing is left to do.
        """
        used = leaves_of(self.out_tree, used_outs)
        if not any(used) and not self.effects:
            return False, False, None
        return True, True, self

    def remat(self, trace: Any, *args: Any) -> tuple[Any, Any, Any]:
        """Return results, residuals, and a function of these that gives results."""
        return self(*args), (), lambda _, *args: self(*args)

    def staging(self, trace: Any, source_info: Any, *args: Any) -> Any:
        """Record the application in a jaxpr; return what stands for its results."""
        outs = trace.process(HiOp(self), leaves_of(self.in_tree, args))
        return tree_util.tree_unflatten(self.out_tree, outs)

    def physicalize(self, ctx: Any, *args: Any) -> Any:
        """Apply the primitive on the types that values have in memory: as it is."""
        return self(*args)

    # ---- which rules there are

    @property
    def has_accumulating_vjp(self) -> bool:
        """Whether `vjp_bwd` is given, rather than `vjp_bwd_retval`."""
        return type(self).vjp_bwd is not HiPrim.vjp_bwd

    @property
    def has_linearization(self) -> bool:
        """Whether `lin` is given."""
        return type(self).lin is not HiPrim.lin

    # ---- description

    @property
    def printed_name(self) -> str:
        """The name in jaxprs."""
        return type(self).__name__

    def pp_params(self) -> dict[str, Any]:
        """Return the parameters that jaxprs show."""
        return {k: v for k, v in self.params.items() if not k.startswith("_")}

    def __repr__(self) -> str:
        printer = Printer(Jaxpr((), (), (), ()), Settings())
        shown = HiOp(self).printed_params(None)
        return type(self).__name__ + render(printer.params([*shown.items()])).rstrip()

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HiPrim) or type(self) is not type(other):
            return False
        same = self.params == other.params and self.effects == other.effects
        return same and self.in_avals_flat == other.in_avals_flat
