"""Markers for cotangents of a pullback; see `with_refs` of `curta.vjp`."""

from curta.api.pullback import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)
