"""Advice to programs: each piece once per process.

The setting `curta_advice` says what becomes of it: `warn`, `ignore` or `raise` for all
kinds, or for some, as `recompiling=raise,float64=ignore`. Advice is looked for where a
program is traced or compiled, or an array is copied in, so that calls cost nothing.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Hashable
from typing import Any

from curta._base.user_warnings import warn
from curta._settings.parsers import ADVICE
from curta.config import config
from curta.errors import AdviceWarning

_given: set[tuple[str, Hashable]] = set()


def mode_of(kind: str) -> str:
    """The action for a kind of advice: `warn`, `ignore` or `raise`."""
    assert kind in ADVICE, kind
    modes: dict[str, str] = dict(config.curta_advice)
    return modes[kind]


def advise(kind: str, subject: Hashable, text: str) -> None:
    """Give advice of a kind about a subject, once.

    The first of each kind is a warning. Further ones are counted, and listed together
    when the program ends.

    Raises:
        AdviceWarning: the setting `curta_advice` says so.
    """
    mode = mode_of(kind)
    if mode == "ignore" or (mode == "warn" and (kind, subject) in _given):
        return
    full = f"{text} (CURTA_ADVICE={kind}=ignore silences this, {kind}=raise raises it.)"
    if mode == "raise":
        raise AdviceWarning(full)
    first = all(kind != other for other, _ in _given)
    _given.add((kind, subject))
    if not first:
        if not _later:
            atexit.register(_list_later)
        _later.setdefault(kind, []).append(text.partition("\n")[0])
        return
    # Under `-W error` advice is not raised: it does not say that the program is wrong.
    with contextlib.suppress(AdviceWarning):
        warn(full, AdviceWarning, of_program=True)


_later: dict[str, list[str]] = {}
_LISTED = 5  # of each kind


def _list_later() -> None:
    """Give the advice that was not given when it was found, in one warning."""
    if not _later:
        return
    lines = []
    for kind, messages in _later.items():
        lines += [f"{kind}: {message}" for message in messages[:_LISTED]]
        if more := messages[_LISTED:]:
            lines.append(f"{kind}: {len(more)} more")
    count = sum(map(len, _later.values()))
    _later.clear()
    text = f"{count} more pieces of advice:\n  " + "\n  ".join(lines)
    with contextlib.suppress(AdviceWarning):
        warn(text, AdviceWarning, of_program=True)


def forget() -> None:
    """Give all advice once more."""
    _given.clear()
    _later.clear()


def advise_of_float64(x: Any) -> None:
    """Say once that an array of float64 becomes one of float32."""
    if config.jax_enable_x64 or not x.ndim:
        return
    if ("float64", None) in _given and mode_of("float64") != "raise":
        return
    advise(
        "float64",
        None,
        f"A NumPy array of float64, of shape {x.shape}, became an array of float32, as"
        " all will without jax_enable_x64. Set JAX_ENABLE_X64=1 for 64 bits, or convert"
        " by x.astype(numpy.float32) to say that you mean it.",
    )
