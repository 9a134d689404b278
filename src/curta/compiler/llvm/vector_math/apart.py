"""Long rules as functions of the module that are called, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from itertools import zip_longest
from typing import Any

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import F64, Value
from curta.compiler.llvm.vector_math.common import P, Rule, exact
from curta.config import config


def apart(rule: Rule[P]) -> Rule[P]:
    """Call a rule, which is written for doubles, once for every few lanes.

    Its code is there once, whatever calls it. Singles are widened, which spares the
    rule their cancellations.
    """
    name, inner = rule.__name__, exact(rule)

    @wraps(rule)
    def emit(b: Any, /, *args: P.args, **_: P.kwargs) -> Value:
        if not isinstance(b, Builder):  # a builder of tensors takes any number of lanes
            result: Value = b.apart(name, inner, args)
            return result
        values = [x for x in args if isinstance(x, Value)]
        type_ = values[0].type
        most = config.tuning.apart_registers * b.module.vector_bytes // F64.size
        wide = F64.with_lanes(min(type_.lanes, most))
        function = f"{name}.{wide.suffix}"
        if not b.module.defines(function):
            f = b.module.function(function, [wide] * len(values), wide, exported=False)
            f.ret(inner(f, *f.arguments))  # type: ignore[arg-type, call-arg]
        results = []
        last = type_.lanes - 1
        for start in range(0, type_.lanes, wide.lanes):
            lanes = [min(start + i, last) for i in range(wide.lanes)]
            parts = [b.shuffle(x, None, lanes) for x in values]
            given = [b.convert(x, "f64") for x in parts]
            results.append(b.convert(b.call(function, wide, *given), type_.kind))
        whole = _joined(b, results)
        if whole.lanes == type_.lanes:
            return whole
        return b.shuffle(whole, None, range(type_.lanes))

    return emit


def _joined(b: Builder, parts: Sequence[Value]) -> Value:
    """The lanes of vectors, one after the other, and maybe those of the last again."""
    if len(parts) == 1:
        return parts[0]
    pairs = zip_longest(parts[::2], parts[1::2], fillvalue=parts[-1])
    both = [b.shuffle(x, y, range(2 * x.lanes)) for x, y in pairs]
    return _joined(b, both)
