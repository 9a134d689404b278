"""`jax_debug_key_reuse` on concrete arrays: which keys are used up, and where.

This is kept beside the arrays, for as long as they live.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.jaxpr import ClosedJaxpr
from curta.core.key_use import KeyReuseSignature
from curta.core.source_info import SourceInfo, user_frame
from curta.errors import KeyReuseError
from curta.runtime.array import ArrayImpl
from curta.transforms.key_use import is_key, jaxpr_key_use, used_at


class _Use(NamedTuple):
    consumed: Any  # a mask
    location: SourceInfo | None


_FRESH = _Use(False, None)
_uses: dict[int, tuple[weakref.ref[ArrayImpl], _Use]] = {}


def use_of(x: ArrayImpl) -> _Use:
    """What is known of a key array."""
    result = _uses.get(id(x))
    return result[1] if result is not None and result[0]() is x else _FRESH


def _set_use(x: Any, use: _Use) -> None:
    if not (type(x) is ArrayImpl and is_key(x)):
        return
    number = id(x)

    def forget(reference: Any) -> None:
        if number in _uses and _uses[number][0] is reference:
            del _uses[number]

    _uses[number] = weakref.ref(x, forget), use


def check_keys(name: str, signature: KeyReuseSignature, args: Sequence[Any]) -> None:
    """Raise KeyReuseError if `name` would use a key a second time."""
    for sink in sorted(signature.sinks):
        x = args[sink.idx]
        if type(x) is not ArrayImpl or not is_key(x):
            continue
        use = use_of(x)
        if np.any(np.logical_and(use.consumed, sink.mask)):
            raise KeyReuseError(
                f"Previously-consumed key passed to {name} at index {sink.idx}"
                + used_at(use.location, user_frame())
            )


def record_keys(
    signature: KeyReuseSignature, args: Sequence[Any], outs: Sequence[Any]
) -> None:
    """Remember what was done to the keys among arguments and results."""
    location = user_frame()
    for sink in signature.sinks:
        x = args[sink.idx]
        if type(x) is ArrayImpl:
            consumed = np.logical_or(use_of(x).consumed, sink.mask)
            _set_use(x, _Use(consumed, location))
    forwarded = {f.out_idx: f.in_idx for f in signature.forwards}
    fresh = {s.idx for s in signature.sources}
    for i, x in enumerate(outs):
        if i in forwarded:
            given = args[forwarded[i]]
            use = use_of(given) if type(given) is ArrayImpl else _FRESH
            consumed = np.any(use.consumed) if np.ndim(use.consumed) else use.consumed
            _set_use(x, _Use(bool(consumed), use.location))
        else:
            _set_use(x, _FRESH if i in fresh else _Use(True, location))


def call_with_key_checks(
    compiled: Callable[[Sequence[Any]], Sequence[Any]],
    closed: ClosedJaxpr,
    args: Sequence[Any],
) -> Sequence[Any]:
    """What `compiled`, which runs `closed`, gives for `args`."""
    signature = jaxpr_key_use(closed.jaxpr)
    given = [*args, *closed.consts]
    check_keys("jit-compiled function", signature, given)
    outs = compiled(args)
    record_keys(signature, given, outs)
    return outs


ArrayImpl._consumed = property(lambda x: use_of(x).consumed)  # type: ignore[attr-defined]
