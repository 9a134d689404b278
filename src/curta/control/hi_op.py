"""`HiOp`: an application of a primitive that a program defines (`hijax.HiPrim`).

Recorded and transformed it is one op, by the rules of its primitive. Where it is
evaluated or lowered, what its `expand` does takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta.control.accumulators import GradAccum, NullAccum, ValAccum
from curta.core.effects import Effect
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.op import BatchDims, Batched, Op
from curta.core.refs import WRITTEN, AbstractRef, Ref, RefTracer
from curta.core.tangents import Zero, is_linear
from curta.core.trace import bind, current_trace
from curta.transforms.backward_logs import record
from curta.transforms.discharge import Flags
from curta.transforms.jaxprs import differentiation_mode


@dataclass(frozen=True)
class HiOp(Op):
    """A primitive of a program's own, on flat operands."""

    name: ClassVar[str] = "call_hi_primitive"
    is_high: ClassVar[bool] = True
    multiple_results: ClassVar[bool] = True
    places_outputs: ClassVar[bool] = True
    takes_refs: ClassVar[bool] = True
    rules_run_python: ClassVar[bool] = True
    always_pruned: ClassVar[bool] = True
    prim: Any

    @property
    def holds_functions(self) -> bool:  # type: ignore[override]
        """Whether parameters have no hash."""
        try:
            hash(self.prim)
        except TypeError:
            return True
        return False

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset(self.prim.effects)

    def accesses(self) -> Sequence[int]:
        """What it does to operands that are references: it may write to any."""
        return [WRITTEN] * len(self.prim.in_avals_flat)

    def __call__(self, *args: Any) -> Any:
        trace = current_trace()
        if trace.expands or any(_is_open(x, trace) for x in args):
            return self.inlined(*args)
        if trace.records:
            prim = self.prim
            out = prim.staging(
                trace, None, *tree_util.tree_unflatten(prim.in_tree, args)
            )
            return leaves_of(prim.out_tree, out)
        return bind(self, *args)

    def aval(self, *avals: Any) -> Any:
        self.prim.check(*tree_util.tree_unflatten(self.prim.in_tree, avals))
        return self.prim.out_avals_flat

    def inlined(self, *args: Any) -> Sequence[Any]:
        prim = self.prim
        out = prim.expand(*tree_util.tree_unflatten(prim.in_tree, args))
        return leaves_of(prim.out_tree, out)

    def eval(self, *args: Any) -> NoReturn:
        raise TypeError(
            f"{type(self.prim).__name__} reached the evaluation of NumPy arrays: a"
            " jaxpr with primitives of a program's own is to be lowered first"
            " (`curta.transforms.lowering.lower_jaxpr`)"
        )

    # ---- derivatives

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        prim = self.prim
        args = tree_util.tree_unflatten(prim.in_tree, primals)
        mode = differentiation_mode(current_trace())
        if mode == "vjp" and not prim.differentiated_by_jvp:
            return self._by_vjp(args, tangents)
        dots = tree_util.tree_unflatten(prim.in_tree, tangents)
        if mode == "lin" and prim.has_linearization:
            nonzero = tree_util.tree_unflatten(prim.in_tree, _nonzero(tangents))
            out, residuals, *rest = prim.lin(nonzero, *args)
            structured = rest[1:2] if len(rest) > 1 and rest[1] is not None else ()
            out_dots = prim.linearized(residuals, *structured, *dots)
        else:
            out, out_dots = prim.jvp(args, dots)
        flat_dots = prim.out_tree.flatten_up_to(out_dots)
        return leaves_of(prim.out_tree, out), flat_dots

    def _by_vjp(self, args: Any, tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Results by `vjp_fwd`, and tangents that only transposition evaluates."""
        prim = self.prim
        nonzero = _nonzero(tangents)
        given = tree_util.tree_unflatten(prim.in_tree, nonzero)
        out, residuals, *rest = prim.vjp_fwd(given, *args)
        structured = rest[1] if len(rest) > 1 else None
        if structured is not None:
            if not prim.has_accumulating_vjp:
                raise TypeError(
                    f"{type(prim).__name__} returned structured residuals from"
                    " `vjp_fwd`, which requires overriding `vjp_bwd(res, sres,"
                    " outgrad, *arg_accums)`"
                )
            residuals = (residuals, structured)
        flags = flat_flags(rest[0] if rest else True, prim.out_tree)
        leaves, tree = tree_util.tree_flatten(residuals)
        dots: Any = iter(())
        if any(flags):
            op = HiLinear(prim, nonzero, flags, tree, structured is not None)
            dots = iter(op(*leaves, *(t for t in tangents if type(t) is not Zero)))
        avals = prim.out_avals_flat
        return leaves_of(prim.out_tree, out), [
            next(dots) if f else Zero(a.to_tangent_aval())
            for a, f in zip(avals, flags, strict=True)
        ]

    @property
    def linear(self) -> bool:
        return True

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        prim = self.prim
        accums = [
            ValAccum(x.aval.to_cotangent_aval()) if is_linear(x) else x for x in args
        ]
        ct = tree_util.tree_unflatten(prim.out_tree, cotangent)
        log = prim.transpose(ct, *tree_util.tree_unflatten(prim.in_tree, accums))
        take_log(log, f"{type(prim).__name__}.transpose")
        return [x.freeze() if isinstance(x, GradAccum) else None for x in accums]

    # ---- batches

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        prim = self.prim
        given = tree_util.tree_unflatten(prim.in_tree, args)
        out, out_dims = prim.batch(axis, given, prim.in_tree.unflatten(dims))
        return leaves_of(prim.out_tree, out), prim.out_tree.flatten_up_to(out_dims)

    # ---- dead code

    def pruned(self, used: Flags) -> tuple[Op, Flags, Flags] | None:
        prim = self.prim
        live = tree_util.tree_unflatten(
            prim.in_tree, [isinstance(a, AbstractRef) for a in prim.in_avals_flat]
        )
        reads, gives, new = prim.dce(
            tree_util.tree_unflatten(prim.out_tree, used), live
        )
        if new is None or new is prim:
            return None
        return (
            HiOp(new),
            flat_flags(reads, prim.in_tree),
            flat_flags(gives, prim.out_tree),
        )

    # ---- other transformations: of what it consists of

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        return self.inlined(*args)

    # ---- description

    def params(self) -> dict[str, Any]:
        return {"_prim": self.prim}

    @property
    def printed_name(self) -> str:
        return str(self.prim.printed_name)

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {k: _shown(v) for k, v in self.prim.pp_params().items()}


@dataclass(frozen=True)
class HiLinear(Op):
    """The tangent map of a `HiOp`, known only by its transpose `vjp_bwd`.

    Operands are the leaves of the residuals, then the tangents `nz_in`; results are the
    tangents `nz_out`. With `has_sres` the residuals are a pair, whose second part are
    the structured ones.
    """

    name: ClassVar[str] = "call_hi_primitive_linearized"
    is_high: ClassVar[bool] = True
    multiple_results: ClassVar[bool] = True
    places_outputs: ClassVar[bool] = True
    takes_refs: ClassVar[bool] = True
    rules_run_python: ClassVar[bool] = True
    prim: Any
    nz_in: Flags
    nz_out: Flags
    residuals_tree: Any
    has_sres: bool

    @property
    def holds_functions(self) -> bool:  # type: ignore[override]
        """Whether parameters have no hash."""
        return HiOp(self.prim).holds_functions

    def accesses(self) -> Sequence[int]:
        """What it does to operands that are references: nothing before it is run."""
        return ()

    def aval(self, *avals: Any) -> Any:
        outs = zip(self.prim.out_avals_flat, self.nz_out, strict=True)
        return [a.to_tangent_aval() for a, f in outs if f]

    def inlined(self, *args: Any) -> NoReturn:
        self._refuse()

    def eval(self, *args: Any) -> NoReturn:
        self._refuse()

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> NoReturn:
        self._refuse()

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(
            "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
            f" {self.prim.printed_name} was differentiated by its rule `vjp_fwd`, which"
            " serves reverse mode alone: use grad or vjp, or define `jvp`."
        )

    @property
    def linear(self) -> bool:
        return True

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        prim, count = self.prim, self.residuals_tree.num_leaves
        residuals = tree_util.tree_unflatten(self.residuals_tree, args[:count])
        linear = iter(args[count:])
        accums = [
            ValAccum(a.to_ct_aval())
            if f and is_linear(next(linear))
            else NullAccum(a.to_ct_aval())
            for a, f in zip(prim.in_avals_flat, self.nz_in, strict=True)
        ]
        given = iter(cotangent)
        cts = [
            next(given) if f else Zero(a.to_ct_aval())
            for a, f in zip(prim.out_avals_flat, self.nz_out, strict=True)
        ]
        ct = tree_util.tree_unflatten(prim.out_tree, cts)
        parts = residuals if self.has_sres else (residuals,)
        log = prim.vjp_bwd(*parts, ct, *tree_util.tree_unflatten(prim.in_tree, accums))
        take_log(log, f"{type(prim).__name__}.vjp_bwd")
        pairs = zip(accums, self.nz_in, strict=True)
        return [None] * count + [
            a.freeze() if isinstance(a, ValAccum) else None for a, f in pairs if f
        ]

    @property
    def printed_name(self) -> str:
        return f"{self.prim.printed_name}.linearized"

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {"nz_in_flat": self.nz_in, "nz_out_flat": self.nz_out}
        return {**shown, "has_sres": True} if self.has_sres else shown


def _is_open(x: Any, trace: Any) -> bool:
    """Whether an operand is a reference whose array is known in this trace."""
    if not isinstance(x, Ref):
        return False
    return not trace.records or (x._trace is trace and type(x) is not RefTracer)


def _nonzero(tangents: Sequence[Any]) -> Flags:
    return tuple(type(t) is not Zero for t in tangents)


def leaves_of(tree: Any, value: Any) -> list[Any]:
    """Return the leaves of a value.

    Raises TypeError if its structure is another than `tree`.
    """
    leaves, structure = tree_util.tree_flatten(value)
    if structure != tree:
        raise TypeError(f"expected a value of structure {tree}, got {structure}")
    return leaves


def flat_flags(flags: Any, tree: Any) -> Flags:
    """Return a bool for each leaf of `tree`, from a prefix of it."""
    whole = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return tuple(map(bool, tree_util.broadcast_prefix(flags, whole)))


def take_log(log: Any, rule: str) -> None:
    """Record what a backward rule logs; TypeError for anything but a dict or None."""
    if log is not None and type(log) is not dict:
        raise TypeError(
            f"{rule} should return None or a dict of backward-pass log entries, got"
            f" {type(log).__name__}"
        )
    record(log, rule)


def _shown(value: Any) -> Any:
    """A parameter as a jaxpr shows it."""
    if isinstance(value, (Jaxpr, ClosedJaxpr, str)):
        return value
    if hasattr(value, "pp_params") or not callable(value):
        return value
    return getattr(value, "__name__", value)
