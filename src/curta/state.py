"""Saving pytrees of arrays to disk, and restoring them: each process its parts."""

from curta.api.state import (
    describe as describe,
    restore as restore,
    save as save,
    step as step,
)
