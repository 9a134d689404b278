"""Jaxprs: straight-line programs over ops, the one graph IR of Curta."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import late
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.op import Op, may_have_effects
from curta.core.primitive import Primitive, primitive_of
from curta.core.source_info import UNKNOWN, Replay, SourceInfo
from curta.core.trace import base_trace, typeof

jaxpr_html: Any = late("curta.core.jaxpr_html")


class Var:
    """A variable of one jaxpr, bound once. Compared by identity.

    >>> import curta
    >>> jaxpr = curta.make_jaxpr(lambda x: x + 1)(2.0).jaxpr
    >>> jaxpr.invars[0].aval
    ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval: ShapedArray = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """A result that nothing reads, in jaxprs that say so; `make_jaxpr` need not.

    >>> import curta
    >>> from curta.extend.core import DropVar
    >>> DropVar(curta.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ()


class Literal:
    """A scalar constant written where it is used.

    >>> import curta
    >>> [eqn] = curta.make_jaxpr(lambda x: x + 1)(2.0).eqns
    >>> eqn.invars[1].val
    1.0
    """

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray | None = None):
        self.val: Any = val
        self.aval: ShapedArray = typeof(val) if aval is None else aval

    @property
    def operand(self) -> Any:
        """The value as ops take it."""
        return as_operand(self.val, self.aval)

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short(short_dtypes=True)}"


def as_operand(x: Any, aval: ShapedArray) -> Any:
    """A constant as ops take it, of 64 bits too where settings would narrow it."""
    if not isinstance(x, (np.ndarray, np.generic, int, float, complex)):
        return x
    if typeof(x).dtype == aval.dtype or np.asarray(x).dtype != aval.dtype:
        return x
    return base_trace().array(np.asarray(x), aval)


Atom = Var | Literal


def bound_consts(jaxpr: Jaxpr, consts: Sequence[Any]) -> dict[Var, Any]:
    """The constants of a jaxpr by variable, as its ops take them."""
    pairs = zip(jaxpr.constvars, consts, strict=True)
    return {v: as_operand(x, v.aval) for v, x in pairs}


@dataclass(frozen=True, eq=False)
class Eqn:
    """`outvars = op(invars)`, with the user's line that made it.

    >>> import curta
    >>> [eqn] = curta.make_jaxpr(lambda x: x.sum())(curta.numpy.ones(3)).eqns
    >>> eqn.primitive.name, eqn.params["axes"]
    ('reduce_sum', (0,))
    """

    op: Op
    invars: tuple[Atom, ...]
    outvars: tuple[Var, ...]
    source_info: SourceInfo = UNKNOWN

    @property
    def primitive(self) -> Primitive:
        """The op apart from its parameters: what `lax.add_p` and the like are."""
        return primitive_of(type(self.op))  # type: ignore[arg-type]

    @property
    def params(self) -> dict[str, Any]:
        """The op's parameters by name."""
        return self.op.params()

    @property
    def effects(self) -> frozenset[Effect]:
        """What the eqn does besides computing its outputs."""
        return self.op.effects

    def replace(self, **changes: Any) -> Eqn:
        """This eqn with some fields replaced."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        return _printer[1](self)


@dataclass(frozen=True)
class DebugInfo:
    """What errors and dumps say of a traced function.

    >>> import curta
    >>> def f(x):
    ...     return x
    >>> curta.make_jaxpr(f)(1.0).jaxpr.debug_info.name
    'f'
    """

    traced_for: str = "jit"
    name: str = "<unknown>"
    location: str = ""
    arg_names: tuple[str, ...] = ()
    result_paths: tuple[str, ...] = ()

    def function(self) -> str:
        """The function's name and line."""
        return f"{self.name} at {self.location}" if self.location else self.name


_NO_EFFECTS: frozenset[Effect] = frozenset()


class Jaxpr:
    """`lambda constvars; invars. let eqns in outvars`. Compared by identity.

    >>> import curta
    >>> jaxpr = curta.make_jaxpr(lambda x: x + 1)(2.0).jaxpr
    >>> len(jaxpr.invars), [eqn.primitive.name for eqn in jaxpr.eqns]
    (1, ['add'])
    """

    __slots__ = (
        "__weakref__",
        "_is_high",
        "constvars",
        "debug_info",
        "effects",
        "eqns",
        "invars",
        "memo",
        "outvars",
        "used_ops",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Eqn],
        debug_info: DebugInfo | None = None,
    ):
        self.constvars: tuple[Var, ...] = tuple(constvars)
        self.invars: tuple[Var, ...] = tuple(invars)
        self.outvars: Any = tuple(outvars)
        self.eqns: tuple[Eqn, ...] = tuple(eqns)
        self.debug_info: DebugInfo = debug_info or DebugInfo()
        # The classes of the ops: few, so that what most eqns have nothing to do with
        # is answered without a look at each.
        self.used_ops: set[type[Op]] = {type(e.op) for e in self.eqns}
        # Of all eqns together; kept, as jaxprs that hold this one ask often.
        self.effects: frozenset[Effect] = _NO_EFFECTS.union(
            *[e.op.effects for e in self.eqns_of(may_have_effects)]
        )
        self.memo: dict[Any, Any] = {}  # see core/memo.py
        self._is_high: bool | None = None

    @property
    def is_high(self) -> bool:
        """Whether it has variables, or ops, of types of a program's own."""
        if self._is_high is None:
            inputs = (*self.constvars, *self.invars)
            self._is_high = any(v.aval.is_high for v in inputs) or any(
                e.op.is_high or any(j.is_high for j in jaxprs_of(e.op))
                for e in self.eqns_of(may_be_high)
            )
        return self._is_high

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.constvars, self.invars, self.outvars, self.eqns, self.debug_info)
        return Jaxpr, parts

    def eqns_of(self, wanted: Callable[[type[Op]], bool]) -> Sequence[Eqn]:
        """The eqns of those classes of ops of which `wanted` is true."""
        kinds = {kind for kind in self.used_ops if wanted(kind)}
        return [e for e in self.eqns if type(e.op) in kinds] if kinds else ()

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """The avals of `invars`."""
        return tuple(v.aval for v in self.invars)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The avals of `outvars`."""
        return tuple(v.aval for v in self.outvars)

    def replace(self, **changes: Any) -> Jaxpr:
        """This jaxpr with some fields replaced."""
        fields = ("constvars", "invars", "outvars", "eqns", "debug_info")
        return Jaxpr(**{**{f: getattr(self, f) for f in fields}, **changes})

    def __str__(self) -> str:
        return _printer[0](self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        html: str = jaxpr_html.jaxpr_html(self)
        return html

    def pretty_print(self, **settings: Any) -> str:
        """The text of the jaxpr."""
        return _printer[0](self, **settings)


class ClosedJaxpr:
    """A jaxpr with the values of its constvars. Compared by identity.

    >>> import curta
    >>> closed = curta.make_jaxpr(lambda x: x + 1)(2.0)
    >>> closed.in_avals, closed.consts
    ((ShapedArray(float32[], weak_type=True),), [])
    """

    __slots__ = ("__weakref__", "consts", "jaxpr", "memo")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        assert len(jaxpr.constvars) == len(consts)
        self.jaxpr: Jaxpr = jaxpr
        self.consts: list[Any] = list(consts)
        self.memo: dict[Any, Any] = {}  # see core/memo.py

    def __reduce__(self) -> tuple[Any, ...]:
        return ClosedJaxpr, (self.jaxpr, self.consts)

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """The avals of the arguments."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The avals of the results."""
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        """The eqns of the jaxpr."""
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects of the jaxpr."""
        return self.jaxpr.effects

    @property
    def constvars(self) -> tuple[Var, ...]:
        """The variables of the constants."""
        return self.jaxpr.constvars

    @property
    def invars(self) -> tuple[Var, ...]:
        """The variables of the arguments."""
        return self.jaxpr.invars

    @property
    def outvars(self) -> tuple[Atom, ...]:
        """What the results are: variables and literals."""
        return self.jaxpr.outvars

    @property
    def debug_info(self) -> DebugInfo:
        """What errors and dumps say of the function."""
        return self.jaxpr.debug_info

    @property
    def is_high(self) -> bool:
        """Whether it has variables, or ops, of types of a program's own."""
        return self.jaxpr.is_high

    def replace(
        self,
        *,
        jaxpr: Jaxpr | None = None,
        consts: Sequence[Any] | None = None,
        **changes: Any,
    ) -> ClosedJaxpr:
        """This closed jaxpr with another jaxpr, other constants or other fields."""
        inner = self.jaxpr if jaxpr is None else jaxpr
        return ClosedJaxpr(
            inner.replace(**changes) if changes else inner,
            self.consts if consts is None else consts,
        )

    def map_jaxpr(self, change: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """This closed jaxpr with its jaxpr changed."""
        return self.replace(jaxpr=change(self.jaxpr))

    @property
    def literals(self) -> list[Any]:
        """The constants; JAX's older name."""
        return self.consts

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.jaxpr._repr_html_()

    def pretty_print(self, **settings: Any) -> str:
        """The text of the jaxpr."""
        return self.jaxpr.pretty_print(**settings)


_printer: list[Callable[..., str]] = []


def set_printer(of_jaxprs: Callable[..., str], of_eqns: Callable[[Eqn], str]) -> None:
    """Install the functions that give the text of jaxprs and eqns (core/pretty.py)."""
    _printer[:] = [of_jaxprs, of_eqns]


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Apply the jaxpr's ops one by one under the current trace.

    Args:
      jaxpr: what `ClosedJaxpr.jaxpr` is.
      consts: the values of its constants.
      args: the values of its arguments.

    Returns:
      A list of the results.

    Raises:
      ValueError: for another number of constants or arguments.

    >>> import curta
    >>> closed = curta.make_jaxpr(lambda x: x + 1)(2.0)
    >>> curta.core.eval_jaxpr(closed.jaxpr, closed.consts, 5.0)
    [Array(6., dtype=float32, weak_type=True)]
    """
    env = bound_consts(jaxpr, consts)
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return atom.operand if type(atom) is Literal else env[atom]  # type: ignore[index]

    replay = Replay()
    try:
        for eqn in jaxpr.eqns:
            replay.at(eqn.source_info)
            out = eqn.op(*[read(v) for v in eqn.invars])
            if eqn.op.multiple_results:
                env.update(zip(eqn.outvars, out, strict=True))
            else:
                env[eqn.outvars[0]] = out
    finally:
        replay.finish()
    return [read(v) for v in jaxpr.outvars]


def as_closed(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr that is closed, or one without constants, as a closed one.

    Raises ValueError for one with constants, whose values it does not hold.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr
    if jaxpr.constvars:
        raise ValueError(
            f"the jaxpr has {len(jaxpr.constvars)} constants, whose values are in the"
            " closed jaxpr: pass that, as make_jaxpr returns it"
        )
    return ClosedJaxpr(jaxpr)


def jaxpr_as_fun(closed: Jaxpr | ClosedJaxpr) -> Callable[..., list[Any]]:
    """The jaxpr as a function of its flat arguments.

    >>> import curta
    >>> from curta.extend.core import jaxpr_as_fun
    >>> closed = curta.make_jaxpr(lambda x: x + 1)(2.0)
    >>> jaxpr_as_fun(closed)(5.0)
    [Array(6., dtype=float32, weak_type=True)]
    """

    whole = as_closed(closed)

    def fun(*args: Any) -> list[Any]:
        return eval_jaxpr(whole.jaxpr, whole.consts, *args)

    return fun


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of the eqns.

    >>> import curta
    >>> from curta.extend.core import subjaxprs
    >>> closed = curta.make_jaxpr(curta.jit(lambda x: x + 1))(2.0)
    >>> [len(jaxpr.eqns) for jaxpr in subjaxprs(closed.jaxpr)]
    [1]
    """
    for eqn in jaxpr.eqns_of(holds_jaxprs):
        yield from jaxprs_of(eqn.op)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs among an op's parameters.

    >>> import curta
    >>> from curta.extend.core import jaxprs_in_params
    >>> [eqn] = curta.make_jaxpr(curta.jit(lambda x: x + 1))(2.0).eqns
    >>> [len(jaxpr.eqns) for jaxpr in jaxprs_in_params(eqn.params)]
    [1]
    """
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item


def may_be_high(kind: type[Op]) -> bool:
    """Whether ops of that class may have operands of types of a program's own."""
    return kind.is_high or kind.holds_jaxprs


def holds_jaxprs(kind: type[Op]) -> bool:
    """Whether parameters of ops of that class may be jaxprs."""
    return kind.holds_jaxprs


def jaxprs_of(op: Op) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of an op."""
    return jaxprs_in_params(op.params()) if op.holds_jaxprs else iter(())


def with_jaxprs(op: Any, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Any:
    """The op with each jaxpr that it holds changed; the op itself if it holds none."""
    changed: dict[str, Any] = {}
    for f in dataclasses.fields(op) if dataclasses.is_dataclass(op) else ():
        value = getattr(op, f.name)
        if isinstance(value, ClosedJaxpr):
            changed[f.name] = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], ClosedJaxpr):
            changed[f.name] = tuple(map(change, value))
    return dataclasses.replace(op, **changed) if changed else op
