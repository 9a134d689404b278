"""The short forms in which MLIR writes operations of StableHLO, by name.

A form gives the text right of the `=`, or its lines where there are regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from curta.compiler.stablehlo.attributes import commas, dictionary, symbol, text
from curta.compiler.stablehlo.ir import Block, Operation, Value


class Printer(Protocol):
    """What a form needs of the printer."""

    def name(self, value: Value) -> str: ...
    def names(self, values: Any) -> str: ...
    def argument(self, value: Value) -> str: ...
    def rename(self, value: Value, name: str) -> None: ...
    def scope(self) -> Any: ...
    def block(self, block: Block, indent: str) -> Iterable[str]: ...
    def location(self, loc: Any) -> str: ...


Form = Callable[[Printer, Operation, str], "str | list[str]"]
FORMS: dict[str, Form] = {}


def _form(*names: str) -> Callable[[Form], Form]:
    def register(form: Form) -> Form:
        for name in names:
            FORMS[f"stablehlo.{name}" if "." not in name else name] = form
        return form

    return register


def _types(values: Iterable[Value]) -> str:
    return ", ".join([v.type for v in values])


def _signature(op: Operation) -> str:
    results = _types(op.results)
    if len(op.results) != 1:
        results = f"({results})"
    return f"({_types(op.operands)}) -> {results}"


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
def _same_type(p: Printer, op: Operation, indent: str) -> str:
    kind = op.results[0].type if op.results else ""
    for v in op.operands:
        if v.type != kind:
            kind = _signature(op)
            break
    if op.name == "stablehlo.optimization_barrier":
        kind = _types(op.results)
    operands = f" {p.names(op.operands)}" if op.operands else ""
    return f"{op.name}{operands} : {kind}"


@_form("convert", "real", "imag")
def _between_types(p: Printer, op: Operation, indent: str) -> str:
    kinds = op.operands[0].type, op.results[0].type
    if kinds[0] == kinds[1]:
        return f"{op.name} {p.names(op.operands)} : {kinds[0]}"
    return f"{op.name} {p.names(op.operands)} : ({kinds[0]}) -> {kinds[1]}"


@_form("complex")
def _complex(p: Printer, op: Operation, indent: str) -> str:
    return f"{op.name} {p.names(op.operands)} : {op.results[0].type}"


@_form("compare")
def _compare(p: Printer, op: Operation, indent: str) -> str:
    a = op.attributes
    kind = f", {a['compare_type']}" if a["compare_type"] else ""
    return (
        f"{op.name} {a['comparison_direction']}, {p.names(op.operands)}{kind} :"
        f" {_signature(op)}"
    )


@_form("select")
def _select(p: Printer, op: Operation, indent: str) -> str:
    which, first = op.operands[0].type, op.operands[1].type
    return f"{op.name} {p.names(op.operands)} : {which}, {first}"


@_form("reduce_precision")
def _reduce_precision(p: Printer, op: Operation, indent: str) -> str:
    a = op.attributes
    kind = f"e{a['exponent_bits']}m{a['mantissa_bits']}"
    return f"{op.name} {p.names(op.operands)}, format = {kind} : {op.results[0].type}"


@_form("constant")
def _constant(p: Printer, op: Operation, indent: str) -> str:
    return f"{op.name} {op.attributes['value']}"


# ----------------------------------------------------------------------- shape


def _with_dims(key: str, label: str) -> Form:
    def form(p: Printer, op: Operation, indent: str) -> str:
        dims = commas(op.attributes[key])
        return (
            f"{op.name} {p.names(op.operands)}, {label} = [{dims}] : {_signature(op)}"
        )

    return form


_form("broadcast_in_dim")(_with_dims("broadcast_dimensions", "dims"))
_form("dynamic_broadcast_in_dim")(_with_dims("broadcast_dimensions", "dims"))
_form("transpose")(_with_dims("permutation", "dims"))
_form("dynamic_slice")(_with_dims("slice_sizes", "sizes"))


@_form(
    *("bitcast_convert", "dynamic_pad", "dynamic_reshape", "dynamic_update_slice"),
    *("is_finite", "real_dynamic_slice", "reshape"),
)
def _operands_alone(p: Printer, op: Operation, indent: str) -> str:
    return f"{op.name} {p.names(op.operands)} : {_signature(op)}"


@_form("reverse")
def _reverse(p: Printer, op: Operation, indent: str) -> str:
    dims = commas(op.attributes["dimensions"])
    return f"{op.name} {p.names(op.operands)}, dims = [{dims}] : {op.results[0].type}"


@_form("iota")
def _iota(p: Printer, op: Operation, indent: str) -> str:
    return f"{op.name} dim = {op.attributes['iota_dimension']} : {op.results[0].type}"


@_form("dynamic_iota")
def _dynamic_iota(p: Printer, op: Operation, indent: str) -> str:
    dim = op.attributes["iota_dimension"]
    return f"{op.name} {p.names(op.operands)}, dim = {dim} : {_signature(op)}"


@_form("get_dimension_size")
def _get_dimension_size(p: Printer, op: Operation, indent: str) -> str:
    dim = op.attributes["dimension"]
    return f"{op.name} {p.names(op.operands)}, dim = {dim} : {_signature(op)}"


@_form("concatenate")
def _concatenate(p: Printer, op: Operation, indent: str) -> str:
    dim = op.attributes["dimension"]
    return f"{op.name} {p.names(op.operands)}, dim = {dim} : {_signature(op)}"


@_form("slice")
def _slice(p: Printer, op: Operation, indent: str) -> str:
    a = op.attributes
    bounds = zip(a["start_indices"], a["limit_indices"], a["strides"], strict=True)
    ranges = ", ".join(f"{i}:{j}" + f":{s}" * (s != 1) for i, j, s in bounds)
    return f"{op.name} {p.names(op.operands)} [{ranges}] : {_signature(op)}"


@_form("pad")
def _pad(p: Printer, op: Operation, indent: str) -> str:
    a = op.attributes
    sizes = ", ".join(
        f"{label} = [{commas(a[key])}]"
        for label, key in [
            ("low", "edge_padding_low"),
            ("high", "edge_padding_high"),
            ("interior", "interior_padding"),
        ]
    )
    return f"{op.name} {p.names(op.operands)}, {sizes} : {_signature(op)}"


# --------------------------------------------------- products, transforms, solves


@_form("dot_general")
def _dot_general(p: Printer, op: Operation, indent: str) -> str:
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
    return f"{', '.join(parts)} : {_signature(op)}"


@_form("convolution")
def _convolution(p: Printer, op: Operation, indent: str) -> str:
    a = op.attributes
    window = ", ".join(f"{key} = {value}" for key, value in a["window"])
    return (
        f"{op.name}({p.names(op.operands)}) dim_numbers = {a['dim_numbers']},"
        f" window = {{{window}}} {dictionary(a['rest'])} : {_signature(op)}"
    )


@_form("fft")
def _fft(p: Printer, op: Operation, indent: str) -> str:
    a = op.attributes
    lengths = commas(a["fft_length"])
    return (
        f"{op.name} {p.names(op.operands)}, type = {a['fft_type']},"
        f" length = [{lengths}] : {_signature(op)}"
    )


@_form("cholesky")
def _cholesky(p: Printer, op: Operation, indent: str) -> str:
    lower = text(op.attributes["lower"])
    return f"{op.name} {p.names(op.operands)}, lower = {lower} : {op.results[0].type}"


@_form("rng_bit_generator")
def _rng_bit_generator(p: Printer, op: Operation, indent: str) -> str:
    algorithm = op.attributes["rng_algorithm"]
    return (
        f"{op.name} {p.names(op.operands)}, algorithm = {algorithm} : {_signature(op)}"
    )


@_form("rng")
def _rng(p: Printer, op: Operation, indent: str) -> str:
    how = op.attributes["rng_distribution"]
    return f"{op.name} {p.names(op.operands)}, distribution = {how} : {_signature(op)}"


# ------------------------------------------------------------ calls and regions


@_form("custom_call")
def _custom_call(p: Printer, op: Operation, indent: str) -> str:
    rest = {k: v for k, v in op.attributes.items() if k != "call_target_name"}
    target = symbol(op.attributes["call_target_name"])
    extra = f" {dictionary(rest)}" if rest else ""
    return f"{op.name} {target}({p.names(op.operands)}){extra} : {_signature(op)}"


@_form("composite")
def _composite(p: Printer, op: Operation, indent: str) -> str:
    rest = {k: v for k, v in op.attributes.items() if k != "name"}
    name = text(op.attributes["name"])
    return (
        f"{op.name} {name} {p.names(op.operands)} {dictionary(rest)} : {_signature(op)}"
    )


@_form("sdy.sharding_constraint")
def _sharding_constraint(p: Printer, op: Operation, indent: str) -> str:
    sharding = op.attributes["sharding"]
    return f"{op.name} {p.names(op.operands)} {sharding} : {op.results[0].type}"


@_form("sdy.sharding_group")
def _sharding_group(p: Printer, op: Operation, indent: str) -> str:
    group = op.attributes["group_id"]
    return f"{op.name} {p.names(op.operands)} group_id={group} : {_types(op.operands)}"


@_form("sdy.manual_computation")
def _manual_computation(p: Printer, op: Operation, indent: str) -> list[str]:
    a, (region,) = op.attributes, op.regions
    axes = ", ".join([text(str(n)) for n in a["manual_axes"]])
    head = (
        f"{op.name}({p.names(op.operands)}) in_shardings=[{a['in_shardings']}]"
        f" out_shardings=[{a['out_shardings']}] manual_axes={{{axes}}}"
    )
    with p.scope():
        arguments = ", ".join([f"{p.argument(v)}: {v.type}" for v in region.arguments])
        lines = [f"{head} ({arguments}) {{", *p.block(region, indent + "  ")]
    return [*lines, f"{indent}}} : {_signature(op)}"]


@_form("func.call")
def _call(p: Printer, op: Operation, indent: str) -> str:
    # The dialect is left out right inside of a function, which four spaces tell.
    name = "call" if len(indent) == 4 else "func.call"
    callee = symbol(op.attributes["callee"])
    return f"{name} {callee}({p.names(op.operands)}) : {_signature(op)}"


@_form("func.return")
def _function_return(p: Printer, op: Operation, indent: str) -> str:
    return _return("return", p, op)


@_form("return")
def _region_return(p: Printer, op: Operation, indent: str) -> str:
    return _return(op.name, p, op)


@_form("sdy.return")
def _manual_return(p: Printer, op: Operation, indent: str) -> str:
    return _return(op.name, p, op)


def _return(name: str, p: Printer, op: Operation) -> str:
    if not op.operands:
        return name
    return f"{name} {p.names(op.operands)} : {_types(op.operands)}"


@_form("while")
def _while(p: Printer, op: Operation, indent: str) -> list[str]:
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
def _reduce(p: Printer, op: Operation, indent: str) -> str | list[str]:
    count = len(op.operands) // 2
    pairs = zip(op.operands[:count], op.operands[count:], strict=True)
    inits = ", ".join(f"({p.name(x)} init: {p.name(i)})" for x, i in pairs)
    dims = commas(op.attributes["dimensions"])
    (region,) = op.regions
    short = _applied(region)
    if short:
        return (
            f"{op.name}{inits} applies {short} across dimensions = [{dims}] :"
            f" {_signature(op)}"
        )
    lines = [f"{op.name}{inits} across dimensions = [{dims}] : {_signature(op)}"]
    with p.scope():
        names = [f"{p.argument(v)}: {v.type}" for v in region.arguments]
        groups = zip(names[:count], names[count:], strict=True)
        arguments = " ".join(f"({x}, {y})" for x, y in groups)
        lines.append(f"{indent} reducer{arguments}  {{")
        lines += p.block(region, indent + "  ")
    return [*lines, f"{indent}}}"]


def _applied(region: Block) -> str:
    """The name of the one operation of two arguments that the region is, or ""."""
    if len(region.arguments) != 2 or len(region.operations) != 2:
        return ""
    first, end = region.operations
    whole = list(first.operands) == region.arguments
    plain = len(first.results) == 1 and not first.attributes and not first.regions
    return first.name if whole and plain and end.operands[0] is first.results[0] else ""
