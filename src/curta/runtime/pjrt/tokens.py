"""The order of ordered effects, from one call of a program to the next.

A program takes a token for each ordered effect before its arguments, and gives another
before its results, which is there once the program is done. What a call gives the next
one takes: so a plugin runs them one after the other, and nobody waits for them here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.control.callback import earlier
from curta.core.effects import Effect
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.buffers import DeviceBuffer

Tokens = Sequence[DeviceBuffer]
"""Those of one effect, for each device of a program."""


class _Last(threading.local):
    """By effect, the devices of this thread's last call with it, and what it gave.

    Threads have no order among them. A function that a program calls is in a thread of
    the plugin's, and may call programs itself: those do not wait for the one around.
    """

    def __init__(self) -> None:
        self.tokens: dict[Effect, tuple[Sequence[Any], Tokens]] = {}


_last = _Last()


def take_tokens(effect: Effect, devices: Sequence[Any]) -> Tokens:
    """What a program on these devices takes for an effect.

    Where the last one was on others it is awaited.
    """
    before, tokens = _last.tokens.get(effect, ((), ()))
    if [*before] == [*devices] and not _has_failed(tokens):
        return tokens
    wait_for_effect(effect)
    return fresh_tokens(devices)


def fresh_tokens(devices: Sequence[Any]) -> Tokens:
    """Tokens that nothing comes before."""
    return [d.client.put(np.zeros(0, np.bool_), d) for d in devices]


def give_tokens(effect: Effect, devices: Sequence[Any], tokens: Tokens) -> None:
    """Keep the tokens that a program returned for the next one on these devices."""
    _last.tokens[effect] = devices, tokens


def _has_failed(tokens: Tokens) -> bool:
    """Whether a program has failed, or its client is closed: what it gave is of no use.

    Who waits for its results, or for all effects, is told of it.
    """
    try:
        for token in tokens:
            if token.is_ready():
                token.block_until_ready()
    except JaxRuntimeError:
        return True
    return False


def wait_for_effect(effect: Effect) -> None:
    """Wait until this thread's programs with an ordered effect are done."""
    _, tokens = _last.tokens.pop(effect, ((), ()))
    for token in tokens:
        try:
            token.block_until_ready()
        except JaxRuntimeError:
            pass  # see `_has_failed`


earlier.append(wait_for_effect)
