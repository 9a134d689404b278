"""Which updates may happen in the memory of their operand, without a copy.

They may if nobody needs the operand as it was: it is a temporary, or an argument that
the program was told to overwrite, and all that reads it is the update itself. If that
update is of a single element, it may also read other elements, which it does first.
"""

from __future__ import annotations

import math

from curta.compiler.graph.values import Values
from curta.core.jaxpr import Eqn, Var
from curta.primitives.indexing.windows import WindowUpdate


def may_overwrite(eqn: Eqn, values: Values, free: set[Var]) -> bool:
    """Whether the update may overwrite its operand; `free` are arguments it may."""
    assert isinstance(eqn.op, WindowUpdate)
    operand = eqn.invars[0]
    if not isinstance(operand, Var) or operand in values.returned:
        return False
    if operand not in free and operand not in values.materialised:
        return False
    shape = eqn.op.update_shape(*[v.aval for v in eqn.invars])
    return _feeds_only(operand, eqn, math.prod(shape) == 1, values)


def _feeds_only(var: Var, update: Eqn, single: bool, values: Values) -> bool:
    for consumer in values.uses.get(var, ()):
        if consumer is update:
            if not single and var in update.invars[1:]:
                return False
            continue
        inlined = not any(
            v in values.materialised or v in values.returned for v in consumer.outvars
        )
        if not single or not inlined:
            return False
        if not all(_feeds_only(v, update, True, values) for v in consumer.outvars):
            return False
    return True
