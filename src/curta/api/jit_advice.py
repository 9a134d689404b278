"""Advice about functions: traced again and again, or using random keys twice."""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from curta._base.advisor import advise, mode_of
from curta.api.jit_cache import JitPlans
from curta.api.jit_log import Signature, closest_signature, differences
from curta.api.jit_options import Statics
from curta.config import config
from curta.core.array import Array
from curta.core.flat import function_location, function_name
from curta.core.jaxpr import Jaxpr
from curta.core.source_info import is_users
from curta.core.trace import current_trace
from curta.dtypes import KeyDType
from curta.errors import KeyReuseError
from curta.transforms.key_use import jaxpr_key_use

_MANY = 6  # traces
_DEPTH = 4

# By code object and the code of the functions that it closes over: how many closures
# were made and jitted.
_made: weakref.WeakKeyDictionary[types.CodeType, dict[object, int]] = (
    weakref.WeakKeyDictionary()
)


def advise_of_tracing(
    fun: Callable[..., Any],
    names: Sequence[str],
    signature: Signature,
    plans: JitPlans,
) -> None:
    """Say once of a function of the user that it is traced for the sixth time.

    Within programs that are being traced, functions may have as many types as they
    like: the program is compiled as a whole.
    """
    code = _code(fun)
    if code is None or not _may_change(code) or not current_trace().is_evaluating():
        return
    if mode_of("recompiling") == "ignore":
        return
    if plans.traces == _MANY:
        _advise_of_types(fun, names, signature, plans)
    elif plans.traces == 1:
        counts = _made.setdefault(code, {})
        key = _likeness(fun, _DEPTH)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == _MANY:
            _advise_of_functions(fun, code)


def _advise_of_types(
    fun: Callable[..., Any],
    names: Sequence[str],
    signature: Signature,
    plans: JitPlans,
) -> None:
    before = closest_signature(names, signature, plans.signatures())
    changed = differences(names, signature, before) if before else []
    what = "; ".join(changed) or "other arguments"
    reason = (
        f"{_subject(fun)}, is traced and compiled for the {_MANY}th time, because of"
        f" {what}."
    )
    remedies = _remedies(fun, signature, before) if before else ()
    advise("recompiling", function_location(fun), " ".join((reason, *remedies)))


def _remedies(
    fun: Callable[..., Any], now: Signature, before: Signature
) -> Iterator[str]:
    if now.in_tree != before.in_tree:
        yield "Give structures the same keys and lengths in all calls."
    elif now.avals != before.avals:
        pairs = [*zip(now.avals, before.avals)]
        if any(a.shape != b.shape for a, b in pairs):
            yield (
                "Pad arrays to a few sizes, or name the dims that change by"
                " jit(abstracted_axes=...)."
            )
        if any((a.dtype, a.weak_type) != (b.dtype, b.weak_type) for a, b in pairs):
            yield "Give numbers the same dtype in all calls: jnp.asarray(x, dtype)."
    if now.static != before.static:
        names = ", ".join(_changed_statics(fun, now.static, before.static))
        yield f"Pass {names or 'what changes'} as an argument that is not static."
    if now.context is not before.context:
        yield "Change settings once, before the first call."


def _changed_statics(
    fun: Callable[..., Any], now: Statics, before: Statics
) -> Iterator[str]:
    """The names of static arguments with another value."""
    if (now.argnums, now.names) != (before.argnums, before.names):
        return
    code = _code(fun)
    positional = code.co_varnames[: code.co_argcount] if code else ()
    keys = [
        positional[n] if n < len(positional) else f"argument {n}" for n in now.argnums
    ]
    for name, a, b in zip((*keys, *now.names), now.values, before.values):
        if a is not b and a != b:
            yield name


def _advise_of_functions(fun: Callable[..., Any], code: types.CodeType) -> None:
    free = ", ".join(code.co_freevars)
    closes = f", and closing over {free}," if free else ","
    remedy = f" and pass {free} as arguments" if free else ""
    advise(
        "recompiling",
        function_location(fun),
        f"{_subject(fun)}{closes} was compiled {_MANY} times, because a new function"
        " object was created each time. Define it and call jit once, outside of the"
        f" loop{remedy}.",
    )


def advise_of_keys(fun: Callable[..., Any], jaxpr: Jaxpr) -> None:
    """Say once of a line in a function of the user that it uses a random key again.

    Only the jaxpr is looked at, and only if there are keys in it: of those that are
    plain integers nothing is known.
    """
    inputs = (*jaxpr.constvars, *jaxpr.invars)
    variables = itertools.chain(inputs, *[eqn.outvars for eqn in jaxpr.eqns])
    if not any(_is_key(v.aval) for v in variables):
        return
    code = _code(fun)
    if code is None or not _may_change(code) or mode_of("keys") == "ignore":
        return
    if config.jax_debug_key_reuse:  # which raises an error when the program runs
        return
    try:
        jaxpr_key_use(jaxpr)
    except KeyReuseError as error:
        advise(
            "keys",
            error.finding,
            f"{_subject(fun)}, uses a random key twice, so that its draws are not"
            f" independent. {error.finding}",
        )


def _subject(fun: Callable[..., Any]) -> str:
    return f"{function_name(fun)}, defined at {function_location(fun)}"


def _code(fun: Any) -> types.CodeType | None:
    """The code of a program's function: that of `f` for `partial(grad(f), 1)`."""
    code = getattr(fun, "__code__", None)
    if isinstance(code, types.CodeType) and is_users(code):
        return code
    is_partial = isinstance(fun, functools.partial)
    inner = fun.func if is_partial else getattr(fun, "__wrapped__", None)
    return None if inner is None else _code(inner)


def _may_change(code: types.CodeType) -> bool:
    """Return True if the code is the program's own, not of an installed library."""
    return "site-packages" not in code.co_filename


def _likeness(value: Any, depth: int) -> object:
    """Equal for functions that do the same, but for the values they close over.

    A decorator's inner function is the same code for all that it decorates; those are
    told apart by the code of the functions in their closures.
    """
    kind = type(value)
    if isinstance(value, Array | np.ndarray):
        return kind
    if isinstance(value, functools.partial) and depth:
        parts = [value.func, *value.args, *value.keywords.values()]
        return tuple(_likeness(x, depth - 1) for x in parts)
    if isinstance(value, types.MethodType) and depth:
        return _likeness(value.__func__, depth), type(value.__self__)
    if isinstance(value, types.FunctionType) and depth:
        cells = [_contents(cell) for cell in value.__closure__ or ()]
        inner = tuple(_likeness(x, depth - 1) for x in cells)
        return value.__code__, inner
    wrapped = getattr(value, "__wrapped__", None) if depth else None
    return kind if wrapped is None else _likeness(wrapped, depth - 1)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _is_key(aval: Any) -> bool:
    return type(getattr(aval, "dtype", None)) is KeyDType
