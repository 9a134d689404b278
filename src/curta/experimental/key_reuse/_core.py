"""Looking at what functions do with random keys, without running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.api.tracing import make_jaxpr
from curta.control import primitives as known
from curta.core.effects import Effect, NamedEffect
from curta.core.key_use import (
    FORWARD as _FORWARD,
    Forward as Forward,
    KeyReuseSignature as KeyReuseSignature,
    Sink as Sink,
    Source as Source,
)
from curta.core.primitive import primitive_of
from curta.primitives.elementwise.convert import Identity
from curta.primitives.families import NonDifferentiable
from curta.transforms.key_use import jaxpr_key_use


class _OnKey(Identity, NonDifferentiable):
    """The key itself, in a jaxpr that says something of it."""

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({NamedEffect(self.name)})


class Consume(_OnKey):
    """Use up a key."""

    name: ClassVar[str] = "consume"
    key_signature: ClassVar[KeyReuseSignature | None] = KeyReuseSignature(
        Sink(0), Forward(0, 0)
    )


@dataclass(frozen=True, eq=False)
class AssertConsumed(_OnKey):
    """Assert which of the keys are consumed at this point, for the key checker."""

    name: ClassVar[str] = "assert_consumed_value"
    key_signature: ClassVar[KeyReuseSignature | None] = _FORWARD
    value: Any

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def check_keys(self, consumed: Sequence[Any]) -> None:
        if np.all(consumed[0] == self.value):
            return
        if np.all(self.value):
            raise AssertionError("Expected key to be consumed, which it is not.")
        if not np.any(self.value):
            raise AssertionError("Expected key to not be consumed, but it is.")
        raise AssertionError(f"Expected {self.value}, got {consumed[0]}.")


consume_p = primitive_of(Consume)
assert_consumed_value_p = primitive_of(AssertConsumed)


def consume(key: Any) -> Any:
    """Return the key, marked as consumed.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> def draw(key):
    ...     return random.normal(key_reuse.consume(key))
    >>> key_reuse.check_key_reuse(draw, random.key(0))
    Traceback (most recent call last):
        ...
    curta.errors.KeyReuseError: In jit, argument 0 is already consumed. ...
    """
    return Consume()(key)


def assert_unconsumed(key: Any) -> None:
    """Fail `check_key_reuse` if the key is already consumed.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> def draw(key):
    ...     key_reuse.assert_unconsumed(key)
    ...     return random.normal(key)
    >>> key_reuse.check_key_reuse(draw, random.key(0))
    """
    AssertConsumed(False)(key)


def assert_consumed(key: Any, value: Any = True) -> None:
    """Fail `check_key_reuse` unless the keys for which `value` is true are consumed.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> def draw(key):
    ...     x = random.normal(key)
    ...     key_reuse.assert_consumed(key)
    ...     return x
    >>> key_reuse.check_key_reuse(draw, random.key(0))
    """
    AssertConsumed(np.asarray(value))(key)


def jaxpr_type_signature(jaxpr: Any) -> KeyReuseSignature:
    """The use of keys in a jaxpr; KeyReuseError if it uses one twice."""
    return jaxpr_key_use(jaxpr)


def function_type_signature(fun: Callable[..., Any], *args: Any) -> KeyReuseSignature:
    """The use of keys in a function of these arguments, by leaf number.

    Raises KeyReuseError if it uses one twice.

    >>> import curta
    >>> from curta.experimental import key_reuse
    >>> key_reuse.function_type_signature(curta.random.split, curta.random.key(0))
    KeyReuseSignature(Sink(0), Source(0))
    """
    return jaxpr_key_use(make_jaxpr(fun)(*args).jaxpr)


def check_key_reuse(fun: Callable[..., Any], /, *args: Any) -> None:
    """Raise KeyReuseError if a function of these arguments uses a key twice.

    It is traced, not run.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> def draw(key):
    ...     return random.normal(key) + random.normal(key)
    >>> key_reuse.check_key_reuse(draw, random.key(0))
    Traceback (most recent call last):
        ...
    curta.errors.KeyReuseError: In jit, argument 0 is already consumed. ...
    """
    function_type_signature(fun, *args)


def check_key_reuse_jaxpr(jaxpr: Any) -> None:
    """Raise KeyReuseError if a jaxpr uses a key twice."""
    jaxpr_key_use(jaxpr)


key_reuse_signatures = {
    p: p.op_class.key_signature
    for p in [*(getattr(known, n) for n in known.__all__), consume_p]
    if getattr(p, "op_class", None) and p.op_class.key_signature is not None
}
