"""The short forms in which MLIR writes operations of StableHLO, by name.

A form gives the text right of the `=`, or its lines where there are regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from string import Formatter
from typing import Any, Protocol

from curta.compiler.stablehlo.attributes import commas, dictionary, symbol, text
from curta.compiler.stablehlo.ir import HloBlock, HloValue, Operation


class FormPrinter(Protocol):
    """What a form needs of the printer."""

    def name(self, value: HloValue) -> str: ...
    def names(self, values: Any) -> str: ...
    def argument(self, value: HloValue) -> str: ...
    def rename(self, value: HloValue, name: str) -> None: ...
    def scope(self) -> Any: ...
    def block(self, block: HloBlock, indent: str) -> Iterable[str]: ...
    def location(self, loc: Any) -> str: ...


Form = Callable[[FormPrinter, Operation, str], "str | list[str]"]
FORMS: dict[str, Form] = {}


def _form(*names: str) -> Callable[[Form], Form]:
    def register(form: Form) -> Form:
        for name in names:
            FORMS[f"stablehlo.{name}" if "." not in name else name] = form
        return form

    return register


def _types(values: Iterable[HloValue]) -> str:
    return ", ".join([v.type for v in values])


def signature(op: Operation) -> str:
    """`(operand types) -> result types`."""
    operands, results = op.operands, op.results
    given = operands[0].type if len(operands) == 1 else _types(operands)
    gives = results[0].type if len(results) == 1 else f"({_types(results)})"
    return f"({given}) -> {gives}"


# -------------------------------------------------------------------- patterns

# What is right of the name: `xs` are the operands, `types` those of all operands and
# results, `type` that of the result; the other fields are attributes.
_PATTERNS = {
    **dict.fromkeys(
        (
            *("bitcast_convert", "dynamic_pad", "dynamic_reshape"),
            *("dynamic_update_slice", "is_finite", "real_dynamic_slice", "reshape"),
        ),
        " {xs} : {types}",
    ),
    "complex": " {xs} : {type}",
    "reduce_precision": (" {xs}, format = e{exponent_bits}m{mantissa_bits} : {type}"),
    "constant": " {value}",
    "broadcast_in_dim": " {xs}, dims = [{broadcast_dimensions}] : {types}",
    "dynamic_broadcast_in_dim": " {xs}, dims = [{broadcast_dimensions}] : {types}",
    "transpose": " {xs}, dims = [{permutation}] : {types}",
    "dynamic_slice": " {xs}, sizes = [{slice_sizes}] : {types}",
    "reverse": " {xs}, dims = [{dimensions}] : {type}",
    "iota": " dim = {iota_dimension} : {type}",
    "dynamic_iota": " {xs}, dim = {iota_dimension} : {types}",
    "get_dimension_size": " {xs}, dim = {dimension} : {types}",
    "concatenate": " {xs}, dim = {dimension} : {types}",
    "pad": (
        " {xs}, low = [{edge_padding_low}], high = [{edge_padding_high}],"
        " interior = [{interior_padding}] : {types}"
    ),
    "fft": " {xs}, type = {fft_type}, length = [{fft_length}] : {types}",
    "cholesky": " {xs}, lower = {lower} : {type}",
    "rng_bit_generator": " {xs}, algorithm = {rng_algorithm} : {types}",
    "rng": " {xs}, distribution = {rng_distribution} : {types}",
    "sdy.sharding_constraint": " {xs} {sharding} : {type}",
    "sdy.sharding_group": " {xs} group_id={group_id} : {operand_types}",
}

_FIELDS: dict[str, Callable[[FormPrinter, Operation], str]] = {
    "xs": lambda p, op: p.names(op.operands),
    "types": lambda p, op: signature(op),
    "type": lambda p, op: op.results[0].type,
    "operand_types": lambda p, op: _types(op.operands),
}


def _attribute(key: str) -> Callable[[FormPrinter, Operation], str]:
    def field(p: FormPrinter, op: Operation) -> str:
        value = op.attributes[key]
        if isinstance(value, (list, tuple)):
            return commas(value)
        return text(value) if isinstance(value, bool) else str(value)

    return field


def _by_pattern(pattern: str) -> Form:
    keys = [key for _, key, _, _ in Formatter().parse(pattern) if key]
    fields = [_FIELDS.get(key) or _attribute(key) for key in keys]
    template = "%s" + pattern.format_map(dict.fromkeys(keys, "%s"))

    def form(p: FormPrinter, op: Operation, indent: str) -> str:
        return template % (op.name, *[field(p, op) for field in fields])

    return form


for _name, _pattern in _PATTERNS.items():
    _form(_name)(_by_pattern(_pattern))


# ----------------------------------------------------------------- elementwise

# Those whose operands and results have one type, which is written once.
_SAME_TYPE = (
    *("abs", "add", "and", "atan2", "cbrt", "ceil", "cosine", "count_leading_zeros"),
    *("divide", "exponential", "exponential_minus_one", "floor", "log", "logistic"),
    *("log_plus_one", "maximum", "minimum", "multiply", "negate", "not", "or"),
    *("popcnt", "power", "remainder", "round_nearest_afz", "round_nearest_even"),
    *("rsqrt", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign"),
    *("sine", "sqrt", "subtract", "tan", "tanh", "xor", "after_all"),
    *("clamp", "optimization_barrier", "partition_id", "replica_id", "create_token"),
)


@_form(*_SAME_TYPE)
def _same_type(p: FormPrinter, op: Operation, indent: str) -> str:
    kind = op.results[0].type if op.results else ""
    for v in op.operands:
        if v.type != kind:
            kind = signature(op)
            break
    if op.name == "stablehlo.optimization_barrier":
        kind = _types(op.results)
    operands = f" {p.names(op.operands)}" if op.operands else ""
    return f"{op.name}{operands} : {kind}"


@_form("convert", "real", "imag")
def _between_types(p: FormPrinter, op: Operation, indent: str) -> str:
    kinds = op.operands[0].type, op.results[0].type
    if kinds[0] == kinds[1]:
        return f"{op.name} {p.names(op.operands)} : {kinds[0]}"
    return f"{op.name} {p.names(op.operands)} : ({kinds[0]}) -> {kinds[1]}"


@_form("compare")
def _compare(p: FormPrinter, op: Operation, indent: str) -> str:
    a = op.attributes
    kind = f", {a['compare_type']}" if a["compare_type"] else ""
    return (
        f"{op.name} {a['comparison_direction']}, {p.names(op.operands)}{kind} :"
        f" {signature(op)}"
    )


@_form("select")
def _select(p: FormPrinter, op: Operation, indent: str) -> str:
    which, first = op.operands[0].type, op.operands[1].type
    return f"{op.name} {p.names(op.operands)} : {which}, {first}"


@_form("slice")
def _slice(p: FormPrinter, op: Operation, indent: str) -> str:
    a = op.attributes
    bounds = zip(a["start_indices"], a["limit_indices"], a["strides"], strict=True)
    ranges = ", ".join(f"{i}:{j}" + f":{s}" * (s != 1) for i, j, s in bounds)
    return f"{op.name} {p.names(op.operands)} [{ranges}] : {signature(op)}"


# --------------------------------------------------- products, transforms, solves


@_form("dot_general")
def _dot_general(p: FormPrinter, op: Operation, indent: str) -> str:
    a = op.attributes
    parts = [f"{op.name} {p.names(op.operands)}"]
    for label, key in [("batching_dims", "batch"), ("contracting_dims", "contract")]:
        lhs, rhs = a[key]
        if lhs or key == "contract":
            parts.append(f"{label} = [{commas(lhs)}] x [{commas(rhs)}]")
    if a["precision"]:
        parts.append(f"precision = [{commas(a['precision'])}]")
    if a.get("algorithm"):
        parts.append(f"algorithm = {a['algorithm']}")
    return f"{', '.join(parts)} : {signature(op)}"


@_form("convolution")
def _convolution(p: FormPrinter, op: Operation, indent: str) -> str:
    a = op.attributes
    window = ", ".join(f"{key} = {value}" for key, value in a["window"])
    return (
        f"{op.name}({p.names(op.operands)}) dim_numbers = {a['dim_numbers']},"
        f" window = {{{window}}} {dictionary(a['rest'])} : {signature(op)}"
    )


# ------------------------------------------------------------ calls and regions


@_form("custom_call")
def _custom_call(p: FormPrinter, op: Operation, indent: str) -> str:
    rest = {k: v for k, v in op.attributes.items() if k != "call_target_name"}
    target = symbol(op.attributes["call_target_name"])
    extra = f" {dictionary(rest)}" if rest else ""
    return f"{op.name} {target}({p.names(op.operands)}){extra} : {signature(op)}"


@_form("composite")
def _composite(p: FormPrinter, op: Operation, indent: str) -> str:
    rest = {k: v for k, v in op.attributes.items() if k != "name"}
    name = text(op.attributes["name"])
    return (
        f"{op.name} {name} {p.names(op.operands)} {dictionary(rest)} : {signature(op)}"
    )


@_form("sdy.manual_computation")
def _manual_computation(p: FormPrinter, op: Operation, indent: str) -> list[str]:
    a, (region,) = op.attributes, op.regions
    axes = ", ".join([text(str(n)) for n in a["manual_axes"]])
    head = (
        f"{op.name}({p.names(op.operands)}) in_shardings=[{a['in_shardings']}]"
        f" out_shardings=[{a['out_shardings']}] manual_axes={{{axes}}}"
    )
    with p.scope():
        arguments = ", ".join([f"{p.argument(v)}: {v.type}" for v in region.arguments])
        lines = [f"{head} ({arguments}) {{", *p.block(region, indent + "  ")]
    return [*lines, f"{indent}}} : {signature(op)}"]


@_form("func.call")
def _call(p: FormPrinter, op: Operation, indent: str) -> str:
    # The dialect is left out right inside of a function, which four spaces tell.
    name = "call" if len(indent) == 4 else "func.call"
    callee = symbol(op.attributes["callee"])
    return f"{name} {callee}({p.names(op.operands)}) : {signature(op)}"


@_form("func.return", "return", "sdy.return")
def _return(p: FormPrinter, op: Operation, indent: str) -> str:
    name = op.name.removeprefix("func.")
    if not op.operands:
        return name
    return f"{name} {p.names(op.operands)} : {_types(op.operands)}"


@_form("while")
def _while(p: FormPrinter, op: Operation, indent: str) -> list[str]:
    condition, body = op.regions
    initial = [p.name(v) for v in op.operands]
    with p.scope():
        # Both regions have the same names for what the loop carries.
        for value in condition.arguments:
            p.argument(value)
        names = [p.name(v) for v in condition.arguments]
        for value, name in zip(body.arguments, names, strict=True):
            p.rename(value, name)
        pairs = ", ".join(f"{n} = {x}" for n, x in zip(names, initial, strict=True))
        types = f" : {_types(op.operands)}" if op.operands else ""
        extra = f" attributes {dictionary(op.attributes)}" if op.attributes else ""
        lines = [f"{op.name}({pairs}){types}{extra}", f"{indent}cond {{"]
        with p.scope():
            lines += p.block(condition, indent + "  ")
        lines.append(f"{indent}}} do {{")
        with p.scope():
            lines += p.block(body, indent + "  ")
    return [*lines, f"{indent}}}"]


@_form("reduce")
def _reduce(p: FormPrinter, op: Operation, indent: str) -> str | list[str]:
    count = len(op.operands) // 2
    pairs = zip(op.operands[:count], op.operands[count:], strict=True)
    inits = ", ".join(f"({p.name(x)} init: {p.name(i)})" for x, i in pairs)
    dims = commas(op.attributes["dimensions"])
    (region,) = op.regions
    short = _applied(region)
    if short:
        return (
            f"{op.name}{inits} applies {short} across dimensions = [{dims}] :"
            f" {signature(op)}"
        )
    lines = [f"{op.name}{inits} across dimensions = [{dims}] : {signature(op)}"]
    with p.scope():
        names = [f"{p.argument(v)}: {v.type}" for v in region.arguments]
        groups = zip(names[:count], names[count:], strict=True)
        arguments = " ".join(f"({x}, {y})" for x, y in groups)
        lines.append(f"{indent} reducer{arguments}  {{")
        lines += p.block(region, indent + "  ")
    return [*lines, f"{indent}}}"]


def _applied(region: HloBlock) -> str:
    """The name of the one operation of two arguments that the region is, or ""."""
    if len(region.arguments) != 2 or len(region.operations) != 2:
        return ""
    first, end = region.operations
    whole = list(first.operands) == region.arguments
    plain = len(first.results) == 1 and not first.attributes and not first.regions
    return first.name if whole and plain and end.operands[0] is first.results[0] else ""
