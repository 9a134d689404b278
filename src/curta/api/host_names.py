"""Older names of what `platforms.py` says of processes."""

from __future__ import annotations

from curta._base.user_warnings import warn
from curta.api.platforms import process_count, process_index, process_indices


def _renamed(old: str, new: str) -> None:
    warn(
        f"jax.{old} has been renamed to jax.{new}. This alias will eventually be"
        " removed; please update your code.",
    )


def host_id(backend: str | None = None) -> int:
    """The older name of `process_index`.

    >>> import curta
    >>> curta.host_id()
    0
    """
    _renamed("host_id", "process_index")
    return process_index(backend)


def host_count(backend: str | None = None) -> int:
    """The older name of `process_count`.

    >>> import curta
    >>> curta.host_count()
    1
    """
    _renamed("host_count", "process_count")
    return process_count(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """The older name of `process_indices`.

    >>> import curta
    >>> curta.host_ids()
    [0]
    """
    _renamed("host_ids", "process_indices")
    return process_indices(backend)
