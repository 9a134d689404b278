"""`@main` of a program with symbolic dims: it finds and checks their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.dims import Ledger, Number, number
from curta.compiler.stablehlo.ir import HloBlock, HloFunction, HloValue
from curta.compiler.stablehlo.lowering import (
    BlockBuilder,
    ModuleState,
    mark,
    number_type,
    ordered_effects,
    rule,
)
from curta.compiler.stablehlo.types import TOKEN, tensor_type
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr
from curta.core.name_stack import NameStack
from curta.core.symbolic.value import DimAsValue


def variables_of(avals: Iterable[ShapedArray]) -> list[str]:
    """The names of the dimension variables in some types."""
    dims: list[Any] = [d for a in avals for d in a.shape if is_symbolic_dim(d)]
    return sorted({name for dim in dims for name in dim._get_vars()})


def define_sized(
    program: ModuleState,
    closed: ClosedJaxpr,
    path: NameStack,
    kept: Sequence[int],
    shapes: Sequence[Sequence[Any]],
    solve: Callable[[Sequence[Any]], Any],
) -> HloFunction:
    """`@main`, which calls the function of the jaxpr with the values of the variables.

    `kept` are those of all arguments, of these shapes, that the jaxpr takes.
    """
    program.module.attributes["jax.uses_shape_polymorphism"] = True
    variables = variables_of(closed.in_avals)
    given = program.numbers[: len(program.numbers) - len(variables)]
    tokens = [TOKEN] * len(ordered_effects(closed.effects))
    types = [*[number_type()] * len(given), *tokens]
    body = HloBlock([HloValue(t) for t in [*types, *map(tensor_type, closed.in_avals)]])
    main = program.new_function("main", body, [], public=True)
    inner = program.define(closed, "_wrapped_jax_export_main", path=path)
    main.set_results(inner.result_types)
    mark(main, given, len(tokens))
    b = BlockBuilder(program, body)
    b.location = path
    arguments = body.arguments
    ledger = Ledger()
    sizes = _sizes(b, ledger, dict(zip(kept, arguments[len(types) :])), shapes)
    solution = solve([SimpleNamespace(shape=shape) for shape in sizes])
    _check(b, ledger, solution.checks)
    result = [solution.values[name] for name in variables]
    outs = b.emit(
        "func.call",
        [
            *arguments[: len(given)],
            *[x.value for x in result],
            *arguments[len(given) :],
        ],
        inner.result_types,
        callee=inner.name,
    )
    b.emit("func.return", outs, [])
    return main


def _sizes(
    b: BlockBuilder,
    ledger: Ledger,
    arguments: dict[int, HloValue],
    shapes: Sequence[Sequence[Any]],
) -> list[list[Any]]:
    """The shapes of actual arguments: numbers in place of symbolic dims."""
    result = []
    for i, shape in enumerate(shapes):
        sizes: list[Any] = list(shape)
        for d, dim in enumerate(shape):
            if is_symbolic_dim(dim):
                operands = [arguments[i]]
                size = b.op("get_dimension_size", operands, "tensor<i32>", dimension=d)
                if number_type() != size.type:
                    size = b.op("convert", [size], number_type())
                sizes[d] = Number(b, size, ledger)
        result.append(sizes)
    return result


def _check(b: BlockBuilder, ledger: Ledger, checks: Sequence[Any]) -> None:
    """Write the conditions of a solution, with what is wrong where they do not hold."""
    for check in checks:
        ledger.noted.clear()
        assert check.holds()
        numbers: list[HloValue] = []

        def numbered(mark: re.Match[str], numbers: list[HloValue] = numbers) -> str:
            value = ledger.shown[int(mark[1])]
            if value not in numbers:
                numbers.append(value)
            return f"{{{numbers.index(value)}}}"

        message = ledger.MARK.sub(numbered, check.message)
        for condition in ledger.noted:
            b.emit(
                "stablehlo.custom_call",
                [condition, *numbers],
                [],
                call_target_name="shape_assertion",
                api_version=RawAttribute("2 : i32"),
                error_message=message,
                has_side_effect=True,
            )


@rule(DimAsValue)
def _as_value(b: BlockBuilder, op: DimAsValue) -> HloValue:
    result = number(b, op.dim, number_type())
    return (
        result if result.type == b.out_type else b.op("convert", [result], b.out_type)
    )
