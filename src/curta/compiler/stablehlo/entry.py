"""A whole program: `@main`, with what is said of its arguments and results."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from curta._base.user_warnings import warn
from curta.compiler.stablehlo import rules
from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.ir import HloFunction
from curta.compiler.stablehlo.lowering import BlockBuilder, ModuleState, ordered_effects
from curta.compiler.stablehlo.placing import in_memory
from curta.compiler.stablehlo.shardings import physical_rank, sharding_attribute
from curta.compiler.stablehlo.sized import define_sized, variables_of
from curta.core.array_layout import Layout
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from curta.core.mesh import AbstractMesh
from curta.core.name_stack import EMPTY
from curta.core.op import Op
from curta.core.refs import WRITTEN, is_ref_type
from curta.core.sharding import MemorySpace, NamedSharding, Sharding
from curta.transforms.dce import dce_jaxpr, used_inputs, with_inputs
from curta.transforms.discharge import accesses, discharge_jaxpr

assert rules  # whose import fills the table


class MainAttributes(NamedTuple):
    """What is said of a program, and of its arguments and results by number."""

    name: str
    argument_names: Sequence[str] = ()
    result_names: Sequence[str] = ()
    donated: Sequence[bool] = ()
    in_shardings: Sequence[Sharding | None] = ()
    out_shardings: Sequence[Sharding | None] = ()
    in_layouts: Sequence[Any] = ()
    out_layouts: Sequence[Any] = ()
    keep_unused: bool = False
    platforms: Sequence[str] = ("cpu",)
    mesh: AbstractMesh | None = None
    targets: frozenset[str] = frozenset()
    """The handlers that are registered with the plugin, by name."""
    call_numbers: Iterator[int] | None = None
    """The numbers of custom calls of Python; from 0 on if not given."""
    solve: Callable[[Sequence[Any]], Any] | None = None
    """Where dims are symbolic: the values of their variables, from actual shapes."""


def lower_program(closed: ClosedJaxpr, entry: MainAttributes) -> ModuleState:
    """The module of a program: what no result needs is left out.

    So are arguments that nothing reads, unless they are to be kept.
    """
    closed, changed = _discharged(closed)
    closed = ClosedJaxpr(dce_jaxpr(closed.jaxpr, within=True), closed.consts)
    ins, outs = closed.in_avals, closed.out_avals
    entry = _with_results(entry, len(changed))
    kept = [
        i
        for i, used in enumerate(used_inputs(closed.jaxpr))
        if used or entry.keep_unused or any(map(is_symbolic_dim, ins[i].shape))
    ]
    in_shardings = _shardings(entry.in_shardings, ins)
    out_shardings = _shardings(entry.out_shardings, outs)
    variables = variables_of(ins)
    name = module_name(entry.name)
    program = ModuleState(name, entry.platforms, variables, entry.targets)
    if entry.call_numbers is not None:
        program.call_numbers = entry.call_numbers
    program.mesh = entry.mesh
    count = _device_count([*in_shardings, *out_shardings], closed.jaxpr)
    program.module.attributes["mhlo.num_partitions"] = RawAttribute(f"{count} : i32")
    position_of = {i: position for position, i in enumerate(kept)}
    closed = with_inputs(closed, [i in position_of for i in range(len(ins))])
    path = EMPTY.extend(f"jit({entry.name})")
    if variables:
        assert entry.solve is not None
        shapes = [a.shape for a in ins]
        function = define_sized(program, closed, path, kept, shapes, entry.solve)
    else:
        function = program.define(closed, "main", public=True, path=path)
    first = len(ordered_effects(closed.effects))
    before = len(program.numbers) - len(variables) + first
    attributes = function.argument_attributes[before:]
    for i, result in zip(kept, attributes, strict=True):
        _set_sharding(program, result, in_shardings[i], ins[i])
        _lay_out(result, entry.in_layouts, i)
    names = [entry.argument_names[i] for i in kept] if entry.argument_names else []
    function.argument_names = [""] * before + names if names else ()
    _donate(entry, kept, closed, attributes, out_shardings, count, first)
    _results_in_memories(program, function, out_shardings, first)
    results = function.result_attributes[first:]
    for k, i in enumerate(changed, first + len(outs) - len(changed)):
        if i in position_of:
            aliased = RawAttribute(f"{k} : i32")
            attributes[position_of[i]]["tf.aliasing_output"] = aliased
    for i, result in enumerate(results):
        if entry.result_names:
            result["jax.result_info"] = entry.result_names[i]
        _set_sharding(program, result, out_shardings[i], outs[i])
        _lay_out(result, entry.out_layouts, i)
    return program


def _discharged(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[int]]:
    """The program of arrays in place of references.

    Those that it changes, by number, are results after its own.
    """
    given = tuple(is_ref_type(a) for a in closed.in_avals)
    if not any(given):
        return closed, []
    does = accesses(closed.jaxpr)
    written = tuple(g and a == WRITTEN for g, a in zip(given, does, strict=True))
    result = discharge_jaxpr(closed, given, written)
    return result, [i for i, w in enumerate(written) if w]


def _with_results(entry: MainAttributes, count: int) -> MainAttributes:
    """What is said of a program that has more results."""
    names = [*entry.result_names, *[""] * count] if entry.result_names else ()
    where = [*entry.out_shardings, *[None] * count] if entry.out_shardings else ()
    order = [*entry.out_layouts, *[None] * count] if entry.out_layouts else ()
    return entry._replace(result_names=names, out_shardings=where, out_layouts=order)


def module_name(name: str) -> str:
    """The name of a module: what is no letter or digit becomes `_`."""
    return re.sub(r"[^\w.-]", "_", f"jit_{name}").rstrip("_")


def _shardings(
    given: Sequence[Sharding | None], avals: Sequence[ShapedArray]
) -> list[Sharding | None]:
    """Where values are: as is said, or as their types say."""
    result = list(given) or [None] * len(avals)
    return [s or _of_type(a) for s, a in zip(result, avals, strict=True)]


def _of_type(aval: ShapedArray) -> Sharding | None:
    where = aval.placement
    if where is None or not (where.entries or where.unreduced):
        return None
    if not where.mesh.are_all_axes_explicit:
        return None  # the compiler may split it further
    return NamedSharding(where.mesh, where.spec(aval.ndim))


def _device_count(shardings: Sequence[Sharding | None], jaxpr: Jaxpr) -> int:
    counts = [s.num_devices for s in shardings if s is not None]
    return max([*counts, *_counts_within(jaxpr)], default=1)


def _may_speak_of_devices(kind: type[Op]) -> bool:
    return kind.places_outputs or kind.holds_jaxprs


def _counts_within(jaxpr: Jaxpr) -> Iterator[int]:
    """Of how many devices the eqns of a jaxpr speak."""
    for eqn in jaxpr.eqns_of(_may_speak_of_devices):
        params = eqn.op.params()
        for value in params.values():
            if isinstance(value, Sharding):
                yield value.num_devices
        if "mesh" in params:
            yield params["mesh"].size
        for inner in jaxprs_in_params(params):
            yield from _counts_within(inner)


def _set_sharding(
    program: ModuleState,
    attributes: dict[str, Any],
    sharding: Sharding | None,
    aval: ShapedArray,
) -> None:
    if sharding is None:
        if aval.memory_space is not MemorySpace.Device:
            attributes["mhlo.memory_kind"] = aval.memory_space.kind
        return
    rank = physical_rank(aval)
    key, value = sharding_attribute(program.meshes, sharding, rank)
    attributes[key] = value
    if sharding.memory_kind not in _DEFAULT_KINDS:
        attributes["mhlo.memory_kind"] = sharding.memory_kind


def _lay_out(attributes: dict[str, Any], layouts: Sequence[Any], i: int) -> None:
    """Say how a value is stored, unless it is in row-major order."""
    mode = _layout_mode(layouts, i)
    if mode is not None:
        attributes["mhlo.layout_mode"] = mode


def _layout_mode(layouts: Sequence[Any], i: int) -> str | None:
    layout = layouts[i] if layouts else None
    if layout is Layout.AUTO:
        return "auto"
    if not isinstance(layout, Layout) or layout.is_row_major:
        return None
    return f"{{{','.join(map(str, reversed(layout.order)))}}}"


_DEFAULT_KINDS = (None, "device")


def _results_in_memories(
    program: ModuleState,
    function: HloFunction,
    shardings: Sequence[Sharding | None],
    first: int,
) -> None:
    """Move results that are to be in another memory than a device's own there."""
    kinds = [s.memory_kind if s else None for s in shardings]
    if all(kind in _DEFAULT_KINDS for kind in kinds):
        return
    b = BlockBuilder(program, function.body)
    end = function.body.operations.pop()
    b.location = end.location
    end.operands = [
        *end.operands[:first],
        *[
            x if kind in _DEFAULT_KINDS else in_memory(b, x, str(kind))
            for x, kind in zip(end.operands[first:], kinds, strict=True)
        ],
    ]
    function.body.operations.append(end)


def _donate(
    entry: MainAttributes,
    kept: Sequence[int],
    closed: ClosedJaxpr,
    attributes: Sequence[dict[str, Any]],
    out_shardings: Sequence[Sharding | None],
    count: int,
    first: int,
) -> None:
    """Say which results take the memory of arguments that are donated.

    A result of the same type that is stored alike takes it, or one of as many elements
    if the compiler finds that it can.
    """
    donated = [bool(entry.donated and entry.donated[i]) for i in kept]
    if not any(donated):
        return
    avals, outs = closed.in_avals, closed.out_avals
    waiting: dict[Any, deque[int]] = defaultdict(deque)
    for i, aval in enumerate(avals):
        if donated[i]:
            mode = _layout_mode(entry.in_layouts, kept[i])
            waiting[aval.shape, aval.dtype, mode].append(i)
    rest: dict[int, int] = defaultdict(int)
    for k, aval in enumerate(outs):
        result = waiting[aval.shape, aval.dtype, _layout_mode(entry.out_layouts, k)]
        if not result:
            rest[aval.size] += 1
            continue
        i = result.popleft()
        if count > 1 and out_shardings[k] is None:
            attributes[i]["jax.buffer_donor"] = True
        else:
            attributes[i]["tf.aliasing_output"] = RawAttribute(f"{k + first} : i32")
    unused = []
    for i in sorted(i for indices in waiting.values() for i in indices):
        if rest[avals[i].size]:
            rest[avals[i].size] -= 1
            attributes[i]["jax.buffer_donor"] = True
        else:
            unused.append(avals[i].str_short())
    if unused:
        warn(
            f"Some donated buffers were not usable: {', '.join(unused)}. No result has"
            " as many elements.",
        )
