"""What is said of names of axes that no map binds."""

from __future__ import annotations

from typing import Any

from curta._base.nearest import did_you_mean
from curta.core.trace import current_trace


def unbound_axis(name: Any, user: str) -> str:
    """Return the message for an axis name that is not in scope where `user` is called.

    >>> print(unbound_axis("batch", "psum"))
    Found an unbound axis name: batch. No axis is in scope: call psum under shard_map,
    or under vmap or pmap with axis_name='batch'.
    """
    known = [*current_trace().axis_sizes()]
    start = f"Found an unbound axis name: {name}."
    bind = (
        f"call {user} under shard_map, or under vmap or pmap with axis_name={name!r}."
    )
    if not known:
        return f"{start} No axis is in scope: {bind}"
    listed = ", ".join(map(repr, known))
    guess = did_you_mean(str(name), map(str, known))
    return f"{start} In scope: {listed}.{guess} To bind the name, {bind}"
