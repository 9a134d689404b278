"""Which values get memory because their consumers repeat them."""

import numpy as np
import pytest
from tests.compiler.programs import staged

from curta import lax
from curta.compiler.host_target import host
from curta.compiler.rewrite.values import decide
from curta.primitives import elementwise as ops

COLUMN, SQUARE = np.ones((8, 1), np.float32), np.ones((8, 8), np.float32)
CONSUMERS = {
    "within an op": (lambda x, y: ops.add(ops.exp(x), y), True),
    "by an op": (lambda x, y: lax.broadcast_in_dim(ops.exp(x), (8, 8), (0, 1)), True),
    "of the same shape": (lambda x, y: ops.add(ops.exp(y), y), False),
    "chosen": (lambda x, y: lax.select(ops.gt(y, y), ops.exp(y), y), False),
    "turned": (lambda x, y: lax.transpose(ops.exp(y), (1, 0)), False),
    "from a table": (lambda x, y: lax.dynamic_slice(ops.exp(y), (3, 3), (2, 2)), True),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_what_is_repeated_has_memory(name):
    function, repeated = CONSUMERS[name]
    jaxpr = staged(lambda x, y: [function(x, y)], COLUMN, SQUARE).jaxpr
    eqn = next(e for e in jaxpr.eqns if e.op.name == "exp")
    reason = decide(jaxpr, host().tuning).materialised.get(eqn.outvars[0], "")
    assert ("repeated" in reason) == repeated, reason
