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
from typing import Any

from curta.core.primitive import Primitive
from curta.core.user_op import lowering_rules
from curta.on_demand import listed

__all__ = ["LoweringRule", "LoweringRuleContext", "lower_fun", "register_lowering"]
__dir__ = listed(__all__)


class LoweringRuleContext:
    """The first argument of JAX's rules, for their annotations: nothing makes one."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "There is no MLIR in curta. See curta.interpreters.mlir.lower_fun."
        )


class LoweringRule:
    """Says that a primitive is compiled as `fun(*args, **params)` is.

    >>> from curta.interpreters import mlir
    >>> rule = mlir.lower_fun(lambda x: [x, 2 * x])
    >>> isinstance(rule, mlir.LoweringRule), rule.results(3)
    (True, [3, 6])
    """

    def __init__(self, fun: Callable[..., Any], multiple_results: bool):
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx: Any, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(
            "A rule of lower_fun is not called: curta compiles its function, and there"
            " is no MLIR. Call the function itself."
        )

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


def register_lowering(
    prim: Primitive,
    rule: Callable[..., Any],
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> None:
    """Compile a primitive that the program has defined by `rule`, one of `lower_fun`.

    A rule that writes MLIR itself is left aside, as are those for another `platform`
    than the CPU; the primitive is then run by its `def_impl` rule, outside of machine
    code.

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
    if platform in (None, "cpu") and isinstance(rule, LoweringRule):
        lowering_rules[prim] = rule.results
