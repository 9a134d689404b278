"""What is raised when hosts do not come together."""

from __future__ import annotations

from curta.errors import JaxRuntimeError


class HostsError(JaxRuntimeError):
    """A collective that cannot be finished: hosts differ, wait in vain, or are gone."""
