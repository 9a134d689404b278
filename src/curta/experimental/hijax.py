"""Operations and types of a program's own, which are done where they are applied.

JAX keeps such operations in its jaxprs and replaces them later by what they consist of.
Here they are replaced at once: binding a `HiPrimitive` calls its `to_lojax`, which is
traced like any function, so that jaxprs know arrays alone.

A value of a `HiType` is therefore an ordinary object. Functions that are compiled or
differentiated can make and use it, and neither take nor return it: for that, its class
is registered as a pytree (`curta.tree_util.register_dataclass`).

>>> import curta
>>> from curta.experimental.hijax import HiPrimitive
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

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from curta.api.custom_derivatives import custom_jvp
from curta.core.avals import AbstractValue, ShapedArray
from curta.core.effects import Effect
from curta.core.refs import AbstractRef
from curta.core.tangents import Zero, is_linear as is_undefined_primal
from curta.core.trace import typeof
from curta.lazy_dataclass import dataclass
from curta.on_demand import Listing, listed, retired
from curta.primitives.structure import instantiate as instantiate_zeros

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "cur_qdd",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]
__dir__: Listing = listed(__all__)


class HiPrimitive:
    """An operation with rules of its own; see the module for an example.

    Subclasses give `to_lojax(*args, **params)`, what the operation is made of, and
    `abstract_eval(*avals, **params)`, the types of its results and a set of effects.
    With a rule `jvp(primals, tangents, **params)`, which gives results and their
    tangents, operations on arrays are differentiated by that, otherwise by what they
    are made of. `multiple_results` says that the results are a sequence.
    """

    multiple_results: bool = False

    def __init__(self, name: str):
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Do the operation."""
        rule = functools.partial(self.to_lojax, **params)
        if type(self).jvp is _HiPrimitive.jvp or not self._is_of_arrays(args, params):
            return rule(*args)
        fun = custom_jvp(rule)
        fun.defjvp(functools.partial(self.jvp, **params))
        return fun(*args)

    def _is_of_arrays(self, args: tuple[Any, ...], params: dict[str, Any]) -> bool:
        avals = [_type_of(x) for x in args]
        outs = self.abstract_eval(*avals, **params)[0]
        every = [*avals, *(outs if self.multiple_results else [outs])]
        return all(isinstance(a, ShapedArray) for a in every)

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """What the operation is made of."""
        raise self._missing("to_lojax")

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, set[Effect]]:
        """The type of the result (or a sequence of them), and the effects."""
        raise self._missing("abstract_eval")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        """Results and their tangents."""
        raise self._missing("jvp")

    def _missing(self, rule: str) -> NotImplementedError:
        return NotImplementedError(
            f"The rule '{rule}' of {self.name} is asked for: {type(self).__name__} must"
            " define it."
        )

    def __repr__(self) -> str:
        return self.name


_HiPrimitive = HiPrimitive


class HiType(AbstractValue):
    """The base of types of a program's own."""

    is_high = True
    has_qdd = False


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
    """What of the type of a value may change, as it is now.

    Values of a `MutableHiType` tell it by a method of that name.

    >>> from curta.experimental.hijax import cur_qdd
    >>> class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    ...     def cur_qdd(self):
    ...         return type(self.content)
    >>> cur_qdd(Box(1.0))
    <class 'float'>
    """
    return x.cur_qdd()


class aval_method:
    """A method of the values of a type, kept in the class of the type."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class aval_property:
    """A property of the values of a type, kept in the class of the type."""

    def __init__(self, fget: Callable[[Any], Any]):
        self.fget = fget


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Say which function gives the types of values of a class to `abstract_eval`.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> class Metres(float):
    ...     pass
    >>> hijax.register_hitype(Metres, lambda x: curta.typeof(float(x)))
    """
    _types[val_cls] = typeof_fn


_types: dict[type, Callable[[Any], AbstractValue]] = {}


def _type_of(x: Any) -> AbstractValue:
    return _types.get(type(x), typeof)(x)


class EffectTypeSet:
    """Classes of effects."""

    def __init__(self) -> None:
        self._types: set[type[Effect]] = set()

    def add_type(self, effect_type: type[Effect]) -> None:
        """Take a class, and so its subclasses."""
        self._types.add(effect_type)

    def contains(self, effect: Effect) -> bool:
        """Whether the effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))


control_flow_allowed_effects: EffectTypeSet = EffectTypeSet()
"""What programs say about their effects. Any effect may occur in loops and branches."""


__getattr__ = retired(__name__)
