"""Listeners that are told of events, as `curta.monitoring` shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[..., None]

LOWERING = "/jax/core/compile/jaxpr_to_mlir_module_duration"
"""What rewriting a jaxpr for the machine, or finding its code, is called."""

_events: list[Listener] = []
_durations: list[Listener] = []
_time_spans: list[Listener] = []
_scalars: list[Listener] = []


def record_event(event: str, **metadata: str | int) -> None:
    """Tell the listeners that something happened.

    >>> from curta import monitoring
    >>> monitoring.register_event_listener(lambda event, **m: print(event, m))
    >>> monitoring.record_event("/mine/began", step=3)
    /mine/began {'step': 3}
    >>> monitoring.clear_event_listeners()
    """
    _tell(_events, event, **metadata)


def record_event_duration_secs(
    event: str, duration: float, **metadata: str | int
) -> None:
    """Tell the listeners how long something took, in seconds.

    Args:
      event: its name, by custom a path: "/mine/load".
      duration: seconds.
      metadata: strings and numbers by name, which listeners get as keywords.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    >>> from curta import monitoring
    >>> show = lambda event, seconds, **data: print(event, seconds, data)
    >>> monitoring.register_event_duration_secs_listener(show)
    >>> monitoring.record_event_duration_secs("/load", 0.5, file="a")
    /load 0.5 {'file': 'a'}
    >>> monitoring.unregister_event_duration_listener(show)
    """
    _tell(_durations, event, duration, **metadata)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **metadata: str | int
) -> None:
    """Tell the listeners when something began and ended, in seconds.

    Args:
      event: its name, by custom a path: "/mine/load".
      start_time, end_time: seconds, as `time.time` gives them.
      metadata: strings and numbers by name, which listeners get as keywords.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    >>> from curta import monitoring
    >>> show = lambda event, start, end, **data: print(event, end - start)
    >>> monitoring.register_event_time_span_listener(show)
    >>> monitoring.record_event_time_span("/load", 10.0, 12.5)
    /load 2.5
    >>> monitoring.unregister_event_time_span_listener(show)
    """
    _tell(_time_spans, event, start_time, end_time, **metadata)


def record_scalar(event: str, value: float, **metadata: str | int) -> None:
    """Tell the listeners of a number.

    Args:
      event: its name, by custom a path: "/mine/loss".
      value: the number.
      metadata: strings and numbers by name, which listeners get as keywords.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    >>> from curta import monitoring
    >>> show = lambda event, value, **data: print(event, value)
    >>> monitoring.register_scalar_listener(show)
    >>> monitoring.record_scalar("/loss", 0.5)
    /loss 0.5
    >>> monitoring.unregister_scalar_listener(show)
    """
    _tell(_scalars, event, value, **metadata)


def _tell(listeners: list[Listener], *args: Any, **metadata: str | int) -> None:
    for listener in list(listeners):
        listener(*args, **metadata)


def register_event_listener(callback: Listener) -> None:
    """Let `callback(event, **metadata)` be called by `record_event`.

    >>> from curta import monitoring
    >>> show = lambda event, **data: print(event, data)
    >>> monitoring.register_event_listener(show)
    >>> monitoring.record_event("/saved", step=3)
    /saved {'step': 3}
    >>> monitoring.unregister_event_listener(show)
    """
    _events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Let `callback(event, duration, **metadata)` be called with durations.

    Those of tracing, of rewriting a jaxpr for the machine and of compiling it are
    "/jax/core/compile/jaxpr_trace_duration", ".../jaxpr_to_mlir_module_duration" and
    ".../backend_compile_duration", as in JAX.

    >>> import curta
    >>> from curta import monitoring
    >>> found = []
    >>> note = lambda event, seconds, **data: found.append(event)
    >>> monitoring.register_event_duration_secs_listener(note)
    >>> _ = curta.jit(lambda x: x + 1)(1)
    >>> monitoring.unregister_event_duration_listener(note)
    >>> "/jax/core/compile/jaxpr_trace_duration" in found
    True
    """
    _durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Let `callback(event, start, end, **metadata)` be called with time spans.

    >>> from curta import monitoring
    >>> show = lambda event, start, end, **data: print(event, start, end)
    >>> monitoring.register_event_time_span_listener(show)
    >>> monitoring.record_event_time_span("/load", 10.0, 12.5)
    /load 10.0 12.5
    >>> monitoring.unregister_event_time_span_listener(show)
    """
    _time_spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Let `callback(event, value, **metadata)` be called by `record_scalar`.

    >>> from curta import monitoring
    >>> show = lambda event, value, **data: print(event, value, data)
    >>> monitoring.register_scalar_listener(show)
    >>> monitoring.record_scalar("/loss", 0.5, step=3)
    /loss 0.5 {'step': 3}
    >>> monitoring.unregister_scalar_listener(show)
    """
    _scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Undo `register_event_listener`; AssertionError if it was not registered.

    >>> from curta import monitoring
    >>> show = lambda event, **data: print(event)
    >>> monitoring.register_event_listener(show)
    >>> monitoring.unregister_event_listener(show)
    >>> monitoring.record_event("/saved")
    """
    _remove(_events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Undo `register_event_duration_secs_listener`.

    >>> from curta import monitoring
    >>> show = lambda event, seconds, **data: print(event, seconds)
    >>> monitoring.register_event_duration_secs_listener(show)
    >>> monitoring.unregister_event_duration_listener(show)
    >>> monitoring.record_event_duration_secs("/load", 0.5)
    """
    _remove(_durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Undo `register_event_time_span_listener`.

    >>> from curta import monitoring
    >>> show = lambda event, start, end, **data: print(event)
    >>> monitoring.register_event_time_span_listener(show)
    >>> monitoring.unregister_event_time_span_listener(show)
    >>> monitoring.record_event_time_span("/load", 10.0, 12.5)
    """
    _remove(_time_spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Undo `register_scalar_listener`.

    >>> from curta import monitoring
    >>> show = lambda event, value, **data: print(event, value)
    >>> monitoring.register_scalar_listener(show)
    >>> monitoring.unregister_scalar_listener(show)
    >>> monitoring.record_scalar("/loss", 0.5)
    """
    _remove(_scalars, callback)


def _remove(listeners: list[Listener], callback: Listener) -> None:
    assert callback in listeners, f"{callback} is not among the listeners"
    listeners.remove(callback)


def clear_event_listeners() -> None:
    """Forget all listeners.

    >>> from curta import monitoring
    >>> monitoring.register_scalar_listener(lambda event, value, **data: print(value))
    >>> monitoring.clear_event_listeners()
    >>> monitoring.record_scalar("/loss", 0.5)
    """
    for listeners in _events, _durations, _time_spans, _scalars:
        listeners.clear()
