"""Checkpoints: save and restore pytrees of arrays, from one or several processes."""

from curta.api.state import (
    describe as describe,
    restore as restore,
    save as save,
    step as step,
)
