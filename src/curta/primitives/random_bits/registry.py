"""The generators there are, by name and by the dtype of their keys."""

from __future__ import annotations

from curta.dtypes import KeyDType
from curta.primitives.random_bits.counter_based import (
    Philox2x32,
    Philox4x32,
    Threefry4x32,
)
from curta.primitives.random_bits.implementations import (
    THREEFRY,
    KeyImplementation,
    Rbg,
    UnsafeRbg,
)

_BUILT_IN: tuple[KeyImplementation, ...] = (
    Philox2x32(),
    Philox4x32(),
    THREEFRY,
    Rbg(),
    UnsafeRbg(),
    Threefry4x32(),
)
_by_name = {impl.name: impl for impl in _BUILT_IN}
_by_dtype = {impl.dtype: impl for impl in _BUILT_IN}


def register(impl: KeyImplementation) -> None:
    """Let the dtype of its keys stand for a generator; it must be no other's."""
    assert impl.dtype not in _by_dtype, impl.tag
    _by_dtype[impl.dtype] = impl


def next_serial(tag: str) -> int:
    """A number that tells a new generator from others of its tag."""
    return sum(dtype.tag == tag for dtype in _by_dtype)


def implementation_names() -> tuple[str, ...]:
    """The names of the generators there are."""
    return tuple(_by_name)


def implementation_of(x: str | KeyDType) -> KeyImplementation:
    """The generator with a name or a key dtype."""
    return _by_name[x] if isinstance(x, str) else _by_dtype[x]
