"""`Primitive`: an op without its parameters, as programs that read jaxprs know it.

JAX parts an eqn into `eqn.primitive` and `eqn.params`; here one `Op` is both. There is
one `Primitive` for each class of ops, so that `eqn.primitive is lax.add_p` holds and
`eqn.primitive.bind(*args, **eqn.params)` applies the op again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from curta._base.once import once
from curta.core.effects import Effect
from curta.core.op import PURPOSE, Op
from curta.core.trace import Trace, base_trace, set_identity, use_trace
from curta.core.user_op import (
    EffectfulRule,
    UserOp,
    abstract_eval_rules,
    impl_rules,
    new_op_class,
)

ParamDict = dict[str, Any]


class Primitive:
    """The identity of an operation: its `name`, and how to apply it.

    Made from a name it is an operation of the program's own, whose rules are given
    with `def_impl` and `def_abstract_eval`, and in `curta.interpreters`:

    >>> double = Primitive("double")
    >>> _ = double.def_impl(lambda x: 2 * x)
    >>> _ = double.def_abstract_eval(lambda x: x)
    >>> double.bind(3.0)
    Array(6., dtype=float32, weak_type=True)

    or, in a subclass, by methods `impl` and `abstract_eval`; the latter gives the aval
    and a set of effects.

    Those of the package are found by `primitive_of`:

    >>> from curta.core.primitive import primitive_of
    >>> import curta
    >>> eqn = curta.make_jaxpr(curta.lax.sin)(1.0).eqns[0]
    >>> eqn.primitive, eqn.primitive.bind(0.0, **eqn.params)
    (sin, Array(0., dtype=float32, weak_type=True))
    """

    op_class: type[Op]
    call_primitive: bool = False
    """Whether `bind` takes functions, `subfuns`, that it calls."""
    map_primitive: bool = False
    """Whether `bind` takes functions that it maps; none does any more."""
    is_effectful: Callable[[ParamDict], bool] | None = None
    """Whether it has effects with these parameters; None where it never has any."""

    def __init__(self, name: str | type[Op]):
        self.op_class = new_op_class(name, self) if isinstance(name, str) else name
        self.name: str = self.op_class.name
        if self.op_class.effects not in (Op.effects, UserOp.effects):
            self.is_effectful = self._has_effects
        if type(self) is not Primitive:
            self._take_methods()

    def _take_methods(self) -> None:
        """Take what a subclass defines for rules, as `abstract_eval` and `impl`."""
        kind: Any = type(self)
        own: Any = self
        if kind.impl is not Primitive.impl:
            self.def_impl(own.impl)
        if kind.abstract_eval is not Primitive.abstract_eval:
            abstract_eval_rules[self] = EffectfulRule(own.abstract_eval)
        if kind.multiple_results is not Primitive.multiple_results:
            self._own("multiple_results").multiple_results = kind.multiple_results

    @property
    def impl(self) -> Callable[..., Any]:
        """`impl(*args, **params)` evaluates the operation, whatever is traced.

        Raises NotImplementedError if no rule was given.

        >>> import curta
        >>> curta.jit(lambda: curta.lax.add_p.impl(1, 2) + 3)()
        Array(6, dtype=int32, weak_type=True)
        """
        return impl_rules.get(self, self._evaluated)

    @impl.setter
    def impl(self, rule: Callable[..., Any]) -> None:
        self.def_impl(rule)

    def _evaluated(self, *args: Any, **params: Any) -> Any:
        if issubclass(self.op_class, UserOp):
            raise NotImplementedError(f"{PURPOSE['eval']} for '{self}' not implemented")
        with use_trace(base_trace()):
            return self.with_params(**params)(*args)

    @property
    def abstract_eval(self) -> Callable[..., Any]:
        """`abstract_eval(*avals, **params)` is the aval (or avals) and the effects.

        Raises NotImplementedError if no rule was given.

        >>> import curta
        >>> curta.lax.sin_p.abstract_eval(curta.typeof(1.0), accuracy=None)
        (ShapedArray(float32[], weak_type=True), frozenset())
        """
        rule = abstract_eval_rules.get(self)
        return rule.with_effects if isinstance(rule, EffectfulRule) else self._typed

    @abstract_eval.setter
    def abstract_eval(self, rule: Callable[..., Any]) -> None:
        self.def_effectful_abstract_eval(rule)

    def _has_effects(self, params: ParamDict) -> bool:
        return bool(self.with_params(**params).effects)

    def _typed(self, *avals: Any, **params: Any) -> tuple[Any, frozenset[Effect]]:
        op = self.with_params(**params)
        return op.aval(*avals), op.effects

    @property
    def multiple_results(self) -> bool:
        """Whether the operation has a sequence of results."""
        return self.op_class.multiple_results

    @multiple_results.setter
    def multiple_results(self, several: bool) -> None:
        self._own("multiple_results").multiple_results = several

    def def_impl(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Let `rule(*arrays, **params)` evaluate the operation."""
        self._own("def_impl")
        impl_rules[self] = rule
        return rule

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Let `rule(*avals, **params)` give the aval (or avals) of the result."""
        self._own("def_abstract_eval")
        abstract_eval_rules[self] = rule
        return rule

    def def_effectful_abstract_eval(
        self, rule: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Let `rule(*avals, **params)` give the aval (or avals) and a set of effects.

        The operation stays in programs whether its results are used or not.
        """
        self._own("def_effectful_abstract_eval").has_effects = True
        abstract_eval_rules[self] = EffectfulRule(rule)
        return rule

    def _own(self, what: str) -> type[UserOp]:
        if not issubclass(self.op_class, UserOp):
            raise TypeError(
                f"{what} is for primitives made from a name: the rules of {self.name}"
                f" are those of the class {self.op_class.__name__}."
            )
        return self.op_class

    def with_params(self, **params: Any) -> Op:
        """The op with these parameters, named as in `eqn.params`.

        Raises TypeError for parameters that the op does not have, or does not get.
        """
        if hasattr(self.op_class, "of_params"):
            op: Op = self.op_class.of_params(params)
            return op
        if "subfuns" in params:
            return _op_of(self, *params["subfuns"])
        renamed = self.op_class.param_names
        fields: dict[str, Any] = {}
        for key, value in params.items():
            field = renamed.get(key, key)
            if field is not None:
                fields[field] = value
        kind: Any = self.op_class
        declared = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        known = {f.name for f in declared}
        if unknown := sorted(fields.keys() - known):
            raise TypeError(
                f"{self.name} has no parameters {unknown}; it takes {sorted(known)}."
            )
        needed = {f.name for f in declared if _has_no_default(f)}
        if missing := sorted(needed - fields.keys()):
            raise TypeError(f"{self.name} needs the parameters {missing} as well.")
        return self.op_class(**fields)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation under the current trace.

        Raises TypeError for the wrong number of arguments or other parameters.
        """
        op = self.with_params(**params)
        if op.arity not in (None, len(args)):
            raise TypeError(
                f"{self.name} takes {op.arity} positional arguments but {len(args)}"
                " were given"
            )
        return op(*args)

    def bind_with_trace(
        self, trace: Trace, args: Any, avals: Any, params: ParamDict
    ) -> Any:
        """As `bind`, under another trace than the current one."""
        with use_trace(trace):
            return self.bind(*args, **params)

    def get_bind_params(self, params: ParamDict) -> ParamDict:
        """The parameters with which `bind` repeats an eqn.

        Functions with derivatives of their own are there as `subfuns`: what has the
        function as `call_wrapped`, and the forward rule, if it is a `custom_jvp`.

        >>> import curta
        >>> eqn = curta.make_jaxpr(curta.lax.sin)(1.0).eqns[0]
        >>> eqn.primitive.bind(0.0, **eqn.primitive.get_bind_params(eqn.params))
        Array(0., dtype=float32, weak_type=True)
        """
        if issubclass(self.op_class, UserOp):
            return dict(params)
        op = self.with_params(**params)
        if not (functions := op.subfuns()):
            return dict(params)
        return {"subfuns": tuple(Subfun(op, f) for f in functions)}

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return primitive_of, (self.op_class,)


class Subfun:
    """A function that an op applies, in place of its jaxpr and rules."""

    call_wrapped: Callable[..., Any]
    op: Op

    def __init__(self, op: Op, function: Callable[..., Any]):
        self.op, self.call_wrapped = op, function


def _op_of(primitive: Primitive, *subfuns: Any) -> Op:
    """The op that `get_bind_params` has taken these functions from."""
    if not subfuns or not all(isinstance(f, Subfun) for f in subfuns):
        raise TypeError(
            f"{primitive} takes the subfuns of get_bind_params, not functions of"
            f" another kind: {subfuns}."
        )
    op: Op = subfuns[0].op
    return op


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    given = field.default, field.default_factory
    return field.init and all(d is missing for d in given)


@once
def primitive_of(op_class: type[Op]) -> Primitive:
    """The one primitive of a class of ops: its own, if it was made for one."""
    own: Primitive | None = vars(op_class).get("primitive")
    return own or Primitive(op_class)


set_identity(primitive_of)  # type: ignore[arg-type]
