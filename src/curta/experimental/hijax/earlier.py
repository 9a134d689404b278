"""Primitives as JAX 0.10 defines them: `HiPrimitive`, and `VJPHiPrimitive`."""

from __future__ import annotations

from typing import Any

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta.api.jvp import jvp
from curta.control.accumulators import GradAccum
from curta.core.avals import AbstractValue
from curta.core.effects import Effect
from curta.core.tangents import LinearArg
from curta.core.trace import typeof
from curta.experimental.hijax.batching import unmap_avals, vmap_rule
from curta.experimental.hijax.prim import HiPrim
from curta.primitives.structure import instantiate


class HiPrimitive:
    """A primitive with rules of its own, of JAX 0.10; later `HiPrim` takes its place.

    Subclasses give `to_lojax(*args, **params)`, what the primitive consists of, and
    `abstract_eval(*avals, **params)`, the types of its results and a set of effects.
    It is differentiated by `jvp(primals, tangents, **params)`, if that is given,
    otherwise as what it consists of; `multiple_results` says that the results are a
    sequence.

    >>> import curta
    >>> from curta.experimental.hijax.earlier import HiPrimitive
    >>> class Cube(HiPrimitive):
    ...     def abstract_eval(self, x):
    ...         return x, set()
    ...     def to_lojax(self, x):
    ...         return x * x * x
    ...     def jvp(self, primals, tangents):
    ...         (x,), (t,) = primals, tangents
    ...         return self.bind(x), 3 * x**2 * t
    >>> curta.grad(curta.jit(Cube("cube").bind))(2.0)
    Array(12., dtype=float32, weak_type=True)
    """

    multiple_results: bool = False

    def __init__(self, name: str):
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive."""
        return _Application(self, [*map(typeof, args)], params)(*args)

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether it is to be replaced by what it consists of: always."""
        return True

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """Do what the primitive consists of."""
        raise self._missing("to_lojax")

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, set[Effect]]:
        """Return the type of the result (or a sequence of them), and the effects."""
        raise self._missing("abstract_eval")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        """Return results and their tangents."""
        raise self._missing("jvp")

    def transpose(self, out_ct: Any, *args: Any, **params: Any) -> Any:
        """Return a cotangent, or None, for each operand."""
        raise self._missing("transpose")

    def _missing(self, rule: str) -> NotImplementedError:
        return NotImplementedError(
            f"The rule '{rule}' of {self.name} is asked for: {type(self).__name__} must"
            " define it."
        )

    def __repr__(self) -> str:
        return self.name


_HiPrimitive = HiPrimitive


class _Application(HiPrim):
    """A `HiPrimitive` applied to operands of certain types."""

    differentiated_by_jvp = True

    def __init__(self, prim: HiPrimitive, avals: Any, params: dict[str, Any]):
        out, effects = prim.abstract_eval(*avals, **params)
        self.in_avals = tuple(avals)
        self.out_aval = list(out) if prim.multiple_results else out
        self.params = {"_primitive": prim, "_given": _Params(params), **params}
        self.effects = frozenset(effects)
        self._prim, self._of = prim, params
        super().__init__()

    @property
    def printed_name(self) -> str:
        """The name in jaxprs."""
        return self._prim.name

    def _out(self, out: Any) -> Any:
        return list(out) if self._prim.multiple_results else out

    def expand(self, *args: Any) -> Any:
        return self._out(self._prim.to_lojax(*args, **self._of))

    def jvp(self, primals: Any, tangents: Any) -> Any:
        if type(self._prim).jvp is _HiPrimitive.jvp:
            return jvp(self.expand, primals, tuple(map(instantiate, tangents)))
        given = tuple(map(instantiate, tangents))
        out, out_dots = self._prim.jvp(primals, given, **self._of)
        return self._out(out), self._out(out_dots)

    def transpose(self, out_ct: Any, *args: Any) -> Any:
        shown = [LinearArg(x.aval) if isinstance(x, GradAccum) else x for x in args]
        cts = self._prim.transpose(out_ct, *shown, **self._of)
        for x, ct in zip(args, cts, strict=True):
            if isinstance(x, GradAccum):
                x.accum(ct)

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        out_dims = tree_util.tree_map(lambda _: 0, self.out_aval)
        return vmap_rule(axis_data, self.expand, dims, out_dims)(*args), out_dims


@dataclass(frozen=True)
class _Params:
    """The parameters, in one attribute."""

    of: dict[str, Any]

    def __hash__(self) -> int:
        return hash(tuple(self.of.items()))


class VJPHiPrimitive(HiPrim):
    """A `HiPrim` of JAX 0.10, which may say how it is batched by `batch_dim_rule`."""

    def batch_dim_rule(self, axis_data: Any, dims: Any) -> Any:
        """Return the batch dims of the results."""
        raise NotImplementedError(
            f"for vmap support, subclass {type(self)} must implement `batch` or"
            " `batch_dim_rule`"
        )

    def batch(self, axis_data: Any, args: Any, dims: Any) -> tuple[Any, Any]:
        out_dims = self.batch_dim_rule(axis_data, dims)
        return _Mapped(self, axis_data, dims, out_dims)(*args), out_dims


class _Mapped(VJPHiPrimitive):
    """A primitive applied to a batch, each of its rules mapped."""

    def __init__(self, prim: Any, axis_data: Any, dims: Any, out_dims: Any):
        self.in_avals = unmap_avals(axis_data, prim.in_avals, dims)
        self.out_aval = unmap_avals(axis_data, prim.out_aval, out_dims)
        self.effects = prim.effects
        key = axis_data, str(dims), str(out_dims)  # trees of dims have no hash
        self.params = {"prim": prim, "_key": key}
        self._rules, self._axis = prim, axis_data
        self._dims, self._out_dims = dims, out_dims
        super().__init__()

    def _mapped(self, rule: Any, dims: Any, out_dims: Any) -> Any:
        return vmap_rule(self._axis, rule, dims, out_dims)

    def expand(self, *args: Any) -> Any:
        return self._mapped(self._rules.expand, self._dims, self._out_dims)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        dims, out_dims = (self._dims, self._dims), (self._out_dims, self._out_dims)
        return self._mapped(self._rules.jvp, dims, out_dims)(primals, tangents)

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        def fwd(*given: Any) -> Any:
            return self._rules.vjp_fwd(nzs_in, *given)[:2]

        return self._mapped(fwd, self._dims, (self._out_dims, 0))(*args)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        def bwd(residuals: Any, ct: Any) -> Any:
            return self._rules.vjp_bwd_retval_logs(residuals, ct)[0]

        rule = vmap_rule(
            self._axis, bwd, (0, self._out_dims), self._dims, sum_match=True
        )
        return rule(res, outgrad)

    def batch_dim_rule(self, axis_data: Any, dims: Any) -> Any:
        def moved(outer: Any, inner: Any) -> Any:
            return outer if outer is None or inner is None else outer - (outer > inner)

        def shifted(outer: Any, inner: Any) -> Any:
            return outer if outer is None or inner is None else outer + (outer >= inner)

        given = tree_util.tree_map(moved, dims, self._dims, is_leaf=lambda x: x is None)
        out = self._rules.batch_dim_rule(axis_data, given)
        return tree_util.tree_map(
            shifted, out, self._out_dims, is_leaf=lambda x: x is None
        )


class MutableHiType(AbstractValue):
    """The base of types whose values change, and may change their type."""

    is_high = True
    has_qdd = True


@dataclass(frozen=True)
class AvalQDD:
    """A type together with what of it may change."""

    aval: AbstractValue
    qdd: Any


@dataclass(frozen=True)
class AvalMutableQDD:
    """A type, with what of it may change."""

    aval: AbstractValue
    mutable_qdd: Any


def cur_qdd(x: Any) -> Any:
    """Return the current mutable part of the type of a value.

    Values of a `MutableHiType` tell it by a method of that name.

    >>> from curta.experimental.hijax.earlier import cur_qdd
    >>> class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    ...     def cur_qdd(self):
    ...         return type(self.content)
    >>> cur_qdd(Box(1.0))
    <class 'float'>
    """
    return x.cur_qdd()
