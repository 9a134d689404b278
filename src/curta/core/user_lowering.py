"""The jaxprs of ops that programs define, by their lowering rules."""

from __future__ import annotations

from collections.abc import Sequence

from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.user_op import NoMLIR, UserOp, lowering_rules


def lowered(op: UserOp, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr of the lowering rule of a user's primitive, if it has one.

    It is found once for an op: functions in it, callbacks for example, stay the same.
    """
    rule = lowering_rules.get(op.primitive)
    if rule is None:
        return None
    key = (rule, config.context, tuple(avals))
    if key not in op.bodies:
        try:
            op.bodies[key] = stage(op.lowered, avals)
        except NoMLIR:
            op.bodies[key] = None
    found: ClosedJaxpr | None = op.bodies[key]
    return found
