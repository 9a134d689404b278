"""The log messages of `jit`: each compilation, and the reason for each trace.

`jax_log_compiles` raises the messages on tracing and compiling from the level DEBUG to
WARNING; `jax_explain_cache_misses` says why a call had to be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from curta._base.advisor import advise
from curta._base.pages import page
from curta._base.user_warnings import warn
from curta.api.jit_options import Statics
from curta.config import TraceContext, config
from curta.core.avals import ShapedArray
from curta.core.compile_log import log, logger
from curta.core.flat import function_location, function_name
from curta.core.source_info import user_frame
from curta.core.trace import typeof

_seen_locations: set[str] = set()


class Signature(NamedTuple):
    """The key of a traced function in the cache."""

    in_tree: Any
    avals: tuple[ShapedArray, ...]
    static: Statics
    context: TraceContext
    axes: tuple[Any, ...] = ()


def log_compiling(name: str, avals: Sequence[ShapedArray]) -> None:
    """Say that a function is about to be compiled."""
    shapes = ", ".join(map(repr, avals))
    log(f"Compiling jit({name}) with global shapes and types [{shapes}].")


def warn_of_constants(name: str, consts: Sequence[Any]) -> None:
    """Warn if a function has closed over arrays of many bytes."""
    most = config.jax_captured_constants_warn_bytes
    sizes = [int(getattr(c, "nbytes", 0)) for c in consts]
    if not sizes or most < 0 or sum(sizes) < min(most, _MANY_BYTES):
        return
    largest = typeof(consts[sizes.index(max(sizes))]).str_short()
    if most <= sum(sizes):
        warn(
            "A large amount of constants were captured during lowering"
            f" ({sum(sizes):,} bytes total). If this is intentional, disable this"
            " warning by setting JAX_CAPTURED_CONSTANTS_WARN_BYTES=-1. They are"
            f" constants of jit({name}), the largest an array of type {largest}: pass"
            " them as arguments.",
        )
    else:
        advise(
            "constants",
            (name, largest),
            f"jit({name}) closes over arrays of {sum(sizes):,} bytes, which become part"
            f" of the compiled program, the largest of type {largest}: pass them as"
            " arguments.",
        )


_MANY_BYTES = 1 << 26


def explain_miss(
    fun: Callable[..., Any],
    names: Sequence[str],
    wanted: Signature,
    known: Iterable[Signature],
) -> None:
    """Log how `wanted` differs from the signatures that are known."""
    where = function_location(fun)
    subject = function_name(fun) + (f" defined at {where}" if where else "")
    other = closest_signature(names, wanted, known)
    if other is not None and (closest := differences(names, wanted, other)):
        lines = [
            f"for {subject}, all previously seen cache keys are different. Closest"
            " previous key:",
            *(f"  * key with {d}" for d in closest),
        ]
    else:
        lines = [f"never seen function:\n  {subject}"]
        if where in _seen_locations:
            lines.append(
                "  but seen another function defined on the same line; maybe the"
                " function is defined again in a loop: define it once, outside"
            )
    _seen_locations.add(where)
    logger.warning(
        "TRACING CACHE MISS at %s because:\n%s", user_frame(), "\n".join(lines)
    )


def closest_signature(
    names: Sequence[str], wanted: Signature, known: Iterable[Signature]
) -> Signature | None:
    """The signature that differs in the fewest respects, the latest of several."""
    candidates = list(known)[::-1]
    return min(
        candidates, key=lambda s: len(differences(names, wanted, s)), default=None
    )


def differences(names: Sequence[str], wanted: Signature, other: Signature) -> list[str]:
    """How a signature differs from another one: a text for each respect."""
    result = []
    if wanted.in_tree != other.in_tree:
        result.append(
            f"different input pytree:\n    now {wanted.in_tree} and before"
            f" {other.in_tree}"
        )
    elif wanted.avals != other.avals:
        result.append("different input types:" + _aval_lines(wanted, other, names))
    if wanted.static != other.static:
        result.append(_static_difference(wanted.static, other.static))
    if wanted.context is not other.context or wanted.axes != other.axes:
        named = wanted.context.names, wanted.context.values, other.context.values
        changed = [
            f"{name} now {a} and before {b}"
            for name, a, b in zip(*named, strict=True)
            if a != b
        ]
        result.append("different tracing context: " + "; ".join(changed))
    return result


def _aval_lines(wanted: Signature, other: Signature, names: Sequence[str]) -> str:
    lines = ""
    for name, now, before in zip(names, wanted.avals, other.avals):
        if now is before:
            continue
        weak = now.strip_weak_type() is before.strip_weak_type()
        lines += f"\n    * at {name}, now {_text(now, weak)} and before"
        lines += f" {_text(before, weak)}"
        if weak:
            lines += f"\n      (see {page('tutorials/arrays', 'dtypes')})"
    return lines


def _text(aval: ShapedArray, weak: bool) -> str:
    suffix = f"{{weak_type={aval.weak_type}}}" if weak else ""
    return aval.str_short(short_dtypes=True) + suffix


def _static_difference(now: Statics, before: Statics) -> str:
    if now.names or before.names:
        return (
            f"different value of static kwargs:\n    now {_named(now)} and before"
            f" {_named(before)}"
        )
    return (
        f"different value of static args:\n    now {_listed(now)} and before"
        f" {_listed(before)}"
    )


def _named(static: Statics) -> str:
    values = static.values[len(static.argnums) :]
    pairs = ", ".join(f"{n}: {v!r}" for n, v in zip(static.names, values))
    return f"{{{pairs}}}"


def _listed(static: Statics) -> str:
    return ", ".join(map(repr, static.values[: len(static.argnums)]))
