"""Which effects may occur in loops and branches: all of them may."""

from __future__ import annotations

from curta.core.effects import Effect


class EffectTypeSet:
    """Classes of effects."""

    def __init__(self) -> None:
        self._types: set[type[Effect]] = set()

    def add_type(self, effect_type: type[Effect]) -> None:
        """Take a class, and so its subclasses."""
        self._types.add(effect_type)

    def contains(self, effect: Effect) -> bool:
        """Whether the effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))


control_flow_allowed_effects: EffectTypeSet = EffectTypeSet()
"""What programs say about their effects. Any effect may occur in loops and branches."""
