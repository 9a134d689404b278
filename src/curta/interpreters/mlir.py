"""How primitives that programs define are compiled: as functions of others.

JAX's rules write MLIR, a text form of programs; Curta compiles jaxprs, and what it
needs is a function, given by `lower_fun`.

>>> import curta, curta.numpy as jnp
>>> from curta.extend.core import Primitive
>>> from curta.interpreters import mlir
>>> cube = Primitive("cube")
>>> _ = cube.def_abstract_eval(lambda x: x)
>>> mlir.register_lowering(cube, mlir.lower_fun(lambda x: x**3, multiple_results=False))
>>> curta.jit(cube.bind)(2.0)
Array(8., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

from curta._base.on_demand import Listing, listed
from curta.api.callbacks import io_callback, pure_callback
from curta.control.platform import PLATFORM
from curta.core.primitive import Primitive
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.trace import typeof
from curta.core.user_op import NoMLIR, lowering_rules

__all__ = [
    "LoweringRule",
    "LoweringRuleContext",
    "Value",
    "emit_python_callback",
    "lower_fun",
    "register_lowering",
]
__dir__: Listing = listed(__all__)


def __getattr__(name: str) -> NoReturn:
    raise NoMLIR(
        f"There is no MLIR in curta, and no {name!r} in {__name__}."
        " See curta.interpreters.mlir.lower_fun."
    )


class _Nothing:
    """What has nothing more than its own attributes: the rest would be MLIR's."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NoMLIR(f"There is no MLIR in curta: {type(self).__name__} has no {name}.")


class Value(_Nothing):
    """An operand or result, as rules get and give them.

    >>> from curta.interpreters import mlir
    >>> hasattr(mlir.Value(1.0), "type")
    False
    """

    def __init__(self, held: Any) -> None:
        self.held = held


class ModuleContext(_Nothing):
    """The compiled program as a rule sees it: its platforms."""

    platforms: ClassVar[Any] = (PLATFORM,)

    def add_keepalive(self, keepalive: Any) -> None:
        """Do nothing: programs keep what they call."""


class LoweringRuleContext(_Nothing):
    """The first argument of rules: the avals, and what they know of the program."""

    avals_in: list[Any]

    def __init__(
        self, primitive: Primitive, avals_in: Sequence[Any], avals_out: Sequence[Any]
    ) -> None:
        self.primitive = primitive
        self.avals_in: list[Any] = [*avals_in]
        self.avals_out: list[Any] = [*avals_out]
        self.module_context: ModuleContext = ModuleContext()


class LoweringRule:
    """Says that a primitive is compiled as `fun(*args, **params)` is.

    >>> from curta.interpreters import mlir
    >>> rule = mlir.lower_fun(lambda x: [x, 2 * x])
    >>> isinstance(rule, mlir.LoweringRule), rule.results(3)
    (True, [3, 6])
    """

    fun: Callable[..., Any]
    multiple_results: bool

    def __init__(self, fun: Callable[..., Any], multiple_results: bool):
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx: Any, *args: Any, **params: Any) -> Any:
        """The results for `Value`s, as another rule asks for them."""
        if not all(isinstance(x, Value) for x in args):
            raise NotImplementedError(
                "A rule of lower_fun is called by rules, and there is no MLIR that it"
                " could write. Call the function itself."
            )
        return [Value(x) for x in self.results(*(x.held for x in args), **params)]

    def results(self, *args: Any, **params: Any) -> Sequence[Any]:
        """The results, as a sequence."""
        out = self.fun(*args, **params)
        return out if self.multiple_results else [out]


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The rule by which a primitive is compiled as `fun(*args, **params)` is.

    `fun` gives a sequence with `multiple_results`, else one array.

    >>> from curta.interpreters import mlir
    >>> rule = mlir.lower_fun(lambda x: x**3, multiple_results=False)
    >>> rule.results(2)
    [8]
    """
    return LoweringRule(fun, multiple_results)


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Any],
    token: Any,
    operands: Sequence[Value],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Value], Any, Any]:
    """The results of a Python function that the program calls, for a lowering rule.

    Args:
      ctx: what the rule is given.
      callback: function of NumPy arrays to a sequence of them.
      token: handed back as it is.
      operands: the values that the function is called with.
      operand_avals: their types.
      result_avals: the types of its results.
      has_side_effect: whether it is called even if the results are not used.
      returns_token: taken as JAX takes it; changes nothing.
      partitioned: must be False.
      sharding: taken as JAX takes it; changes nothing.

    Returns:
      The results, the `token`, and what a program has to keep: None.

    Raises:
      NotImplementedError: for callbacks `partitioned` over devices.

    >>> import curta, numpy as np
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import mlir
    >>> def rule(ctx, x):
    ...     results, _, _ = mlir.emit_python_callback(
    ...         ctx, lambda x: [np.hypot(x, 4)], None, [x], ctx.avals_in, ctx.avals_out,
    ...         has_side_effect=False)
    ...     return results
    >>> distance = Primitive("distance")
    >>> _ = distance.def_abstract_eval(lambda x: x)
    >>> mlir.register_lowering(distance, rule)
    >>> print(curta.jit(distance.bind)(3.0))
    5.0
    """
    if partitioned:
        raise NotImplementedError("callbacks partitioned over devices")
    shapes = [ShapeDtypeStruct(a.shape, a.dtype) for a in result_avals]
    call = io_callback if has_side_effect else pure_callback
    outs = call(callback, shapes, *(x.held for x in operands))
    return [Value(x) for x in outs], token, None


def register_lowering(
    prim: Primitive,
    rule: Callable[..., Any],
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> None:
    """Compile a primitive that the program has defined by `rule`.

    Most are made by `lower_fun`. Others, `rule(ctx, *values, **params)`, may use
    `emit_python_callback` and rules of `lower_fun`, and give a sequence of `Value`s. If
    they ask for more of MLIR, or are for another `platform` than the CPU, the primitive
    is run by its `def_impl` rule, outside of machine code.

    Args:
      prim: the primitive.
      rule: what `lower_fun` gives, or a function of a context and `Value`s.
      platform: the only one that it is for; all by default.
      inline: taken as JAX takes it; changes nothing.
      cacheable: taken as JAX takes it; changes nothing.

    Returns:
      None.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import mlir
    >>> cube = Primitive("cube")
    >>> _ = cube.def_abstract_eval(lambda x: x)
    >>> rule = mlir.lower_fun(lambda x: x**3, multiple_results=False)
    >>> mlir.register_lowering(cube, rule)
    >>> curta.jit(cube.bind)(2.0)
    Array(8., dtype=float32, weak_type=True)
    """
    if platform not in (None, "cpu"):
        return
    lowered = partial(_lowered, prim, rule)
    lowering_rules[prim] = rule.results if isinstance(rule, LoweringRule) else lowered


def _lowered(
    prim: Primitive, rule: Callable[..., Any], *args: Any, **params: Any
) -> list[Any]:
    """The results of a rule that gets a context and `Value`s."""
    avals = [typeof(x) for x in args]
    out = prim.with_params(**params).aval(*avals)
    ctx = LoweringRuleContext(prim, avals, out if prim.multiple_results else [out])
    results = [
        x[0] if isinstance(x, (tuple, list)) and len(x) == 1 else x
        for x in rule(ctx, *map(Value, args), **params)
    ]
    if not all(isinstance(x, Value) for x in results):
        raise NoMLIR(
            f"The lowering rule of {prim} returns an object that is not a Value:"
            f" {results}."
        )
    return [x.held for x in results]
