"""What to do with the cotangents of a pullback; see `curta.vjp` and its `with_refs`."""

from curta.api.pullback import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)
