"""Results of ops that work along dims that are cut: a rule for each op.

The rules are in stencils, order, lookups and random_parts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from curta.core.jaxpr import Eqn
from curta.core.op import Op
from curta.partition.host_mesh import Split
from curta.partition.part import Part

Parts = Sequence[Part]
Splits = Sequence[Split]


@functools.singledispatch
def along_cut(
    op: Op, made_by: Any, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[Part] | None:
    """The results of an eqn on one host; None where no dim that matters is cut.

    Then the op is taken as others are, with those dims whole.
    """
    return None
