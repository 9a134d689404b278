"""Handlers of XLA's typed interface that the user gives for a plugin's platform.

They are registered with the plugin before the next program is compiled for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from curta.runtime.pjrt.abi import GPU_CUSTOM_CALL_EXTENSION
from curta.runtime.pjrt.call_frames import register_handler
from curta.runtime.pjrt.handlers import capsule_address, register_stages
from curta.runtime.pjrt.library import Library


class _GivenHandler(NamedTuple):
    """The capsules of a handler's functions by stage, and who has registered it."""

    stages: Mapping[str, Any]
    known_to: list[Library]


# By the name of the plugin, then by that of the handler.
_given: dict[str, dict[str, _GivenHandler]] = {}


def give(platform: str, name: str, function: Any) -> None:
    """Have a handler registered with the plugin of a platform: a capsule, or several.

    Raises ValueError if it has another handler of this name.
    """
    stages = function if isinstance(function, Mapping) else {"execute": function}
    handlers = _given.setdefault(platform, {})
    if name in handlers and _addresses(handlers[name].stages) != _addresses(stages):
        raise ValueError(f"platform {platform!r} has another handler {name!r} already")
    handlers.setdefault(name, _GivenHandler(stages, []))


def _addresses(stages: Mapping[str, Any]) -> dict[str, int]:
    return {stage: capsule_address(capsule) for stage, capsule in stages.items()}


def is_given(name: str) -> bool:
    """Whether some plugin's platform has a handler of this name."""
    return any(name in handlers for handlers in _given.values())


def register_given(library: Library, platform: str) -> None:
    """Register what was given since the last time.

    `platform` is that of programs: cpu, cuda, ... Raises JaxRuntimeError if the plugin
    takes no handlers.
    """
    for name, (stages, known_to) in _given.get(library.name, {}).items():
        if library in known_to:
            continue
        register = library.extension_function(GPU_CUSTOM_CALL_EXTENSION)
        if register is not None:
            register_stages(library, register, name, stages)
        else:
            where = "Host" if platform == "cpu" else platform.upper()
            register_handler(library, name, capsule_address(stages["execute"]), where)
        known_to.append(library)
