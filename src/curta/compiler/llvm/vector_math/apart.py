"""Long rules as functions of the module that are called, in double precision."""

from __future__ import annotations

from functools import wraps
from typing import Any

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import F64, Value
from curta.compiler.llvm.vector_math.common import P, Rule, by_parts, exact


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
        most = b.module.call_bytes // F64.size
        wide = F64.with_lanes(min(type_.lanes, most))
        function = f"{name}.{wide.suffix}"
        if not b.module.defines(function):
            f = b.module.function(function, [wide] * len(values), wide, exported=False)
            f.ret(inner(f, *f.arguments))  # type: ignore[arg-type, call-arg]

        def of_part(*parts: Value) -> Value:
            given = [b.convert(x, "f64") for x in parts]
            return b.convert(b.call(function, wide, *given), type_.kind)

        return by_parts(b, wide.lanes, of_part, *values)

    return emit
