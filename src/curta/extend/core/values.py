"""Primitives that make values, which no function of `curta.lax` shows."""

from curta.core.primitive import Primitive, primitive_of
from curta.primitives.effects import Empty2

empty2_p: Primitive = primitive_of(Empty2)
