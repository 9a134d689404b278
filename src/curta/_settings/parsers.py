"""Parse the values that users or environment variables give for settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any


def parse_boolean(value: Any) -> bool:
    """A switch: true and false in the words that shells use."""
    if not isinstance(value, str):
        return bool(value)
    if value.lower() in ("y", "yes", "t", "true", "on", "1"):
        return True
    if value.lower() in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"invalid truth value {value!r}; write true or false")


def parse_optional_text(value: Any) -> str | None:
    """Text or a path; None and the empty text are None."""
    return None if value is None or value == "" else os.fspath(value)


def parse_axes(value: Any) -> frozenset[Any]:
    """A set of axis names; text has them with commas between."""
    if isinstance(value, str):
        return frozenset(name.strip() for name in value.split(",") if name.strip())
    if not isinstance(value, (set, frozenset)):
        raise TypeError(
            f"Expected axis name(s) as set or frozenset, got {value} of type"
            f" {type(value)}"
        )
    return frozenset(value)


def parse_whole(value: Any) -> int:
    """A whole number."""
    try:
        return int(value)
    except ValueError as error:
        raise ValueError(f"expected a whole number, got {value!r}") from error


def parse_number(value: Any) -> float:
    """A number."""
    try:
        return float(value)
    except ValueError as error:
        raise ValueError(f"expected a number, got {value!r}") from error


def parse_positive(value: Any) -> int:
    """A whole number of at least 1."""
    number = parse_whole(value)
    if number < 1:
        raise ValueError(f"expected a number of at least 1, got {value!r}")
    return number


def parse_one_of(*allowed: str | None) -> Callable[[Any], str | None]:
    """A parser that lets only these values through."""

    def parse(value: Any) -> str | None:
        for candidate in allowed:
            if value == candidate:
                return candidate
        names = [a for a in allowed if a is not None]
        among = "" if None not in allowed else "None or "
        raise ValueError(f"new enum value must be {among}in {names}, got {value!r}")

    return parse


ADVICE = (
    *("constants", "float64", "keys", "memory", "python", "recompiling", "sizes"),
    "timing",
)
"""The kinds of advice; curta/_base/advisor.py gives it."""
_MODES = ("warn", "ignore", "raise")


def parse_advice(value: Any) -> tuple[tuple[str, str], ...]:
    """The action for each kind of advice.

    >>> parse_advice("ignore,float64=raise")[:2]
    (('constants', 'ignore'), ('float64', 'raise'))
    """
    if isinstance(value, tuple):  # parsed already
        return value
    modes = dict.fromkeys(ADVICE, "warn")
    for word in filter(None, (w.strip() for w in str(value).split(","))):
        kind, _, mode = word.rpartition("=")
        if mode not in _MODES or (kind and kind not in ADVICE):
            raise ValueError(
                f"{word!r} is not an advice setting: write one of {', '.join(_MODES)},"
                f" or KIND=MODE, where KIND is one of {', '.join(ADVICE)}"
            )
        modes.update(dict.fromkeys([kind] if kind else ADVICE, mode))
    return tuple(modes.items())


BACKENDS = {"llvm", "numpy"}
"""The backends that `curta_backend` may name, besides `pjrt:NAME`."""


def parse_backend(value: Any) -> str:
    """`llvm`, `numpy`, another that was registered, or `pjrt:` and a plugin's name.

    >>> parse_backend("pjrt:cuda")
    'pjrt:cuda'
    """
    if isinstance(value, str) and value.startswith("pjrt:") and value != "pjrt:":
        return value
    if value in BACKENDS:
        return str(value)
    raise ValueError(
        f"new enum value must be in {[*sorted(BACKENDS), 'pjrt:NAME']}, where NAME is"
        f" the name of a plugin, got {value!r}"
    )


def parse_never_text(value: Any) -> Any:
    """An object that only the program can make: no text stands for it."""
    if isinstance(value, str):
        raise ValueError(f"expected an object or None, got the text {value!r}")
    return value


_PLATFORMS = ("cpu", "cuda", "gpu", "rocm", "tpu")


def parse_device(value: Any) -> Any:
    """A device, the name of a platform, or None."""
    named = isinstance(value, str) and value in _PLATFORMS
    if value is None or named or hasattr(value, "platform"):
        return value
    raise ValueError(
        "jax.default_device must be passed either a Device object (e.g. "
        "`jax.devices('cpu')[0]`) or a platform name string like 'cpu' or 'gpu', got: "
        f"{value!r}"
    )


def parse_instead(refused: str, instead: str) -> Callable[[Any], str]:
    """A parser of what can only be 'ignore', as another setting does it."""

    def parse(value: Any) -> str:
        if value == refused:
            raise NotImplementedError(f"this check is made by {instead}: set that")
        if value != "ignore":
            raise ValueError(f"new enum value must be in ['ignore'], got {value!r}")
        return "ignore"

    return parse


def set_logging_level(value: str) -> None:
    """Let the package's logger take what is of this level or above."""
    logging.getLogger("curta").setLevel(value)


def set_debug_modules(value: str) -> None:
    """Show everything that the loggers of these modules take on stderr."""
    for name, handler in _debug_handlers.items():
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).setLevel(logging.NOTSET)
    _debug_handlers.clear()
    for name in filter(None, value.split(",")):
        handler = _debug_handlers[name] = logging.StreamHandler()
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)


_debug_handlers: dict[str, logging.Handler] = {}


def parse_plugin_options(value: Any) -> Any:
    """Options by name: a dict, or text `key:value;key:value`; none for None.

    >>> parse_plugin_options("a:1;b:x")
    {'a': '1', 'b': 'x'}
    """
    if not isinstance(value, str):
        return dict(value or {})
    pairs = [option.split(":") for option in value.split(";") if option]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            "Multiple ':' separators for option in jax_pjrt_client_create_options:"
            f" {value!r}. Should be in format 'key:value'"
        )
    return dict(pairs)
