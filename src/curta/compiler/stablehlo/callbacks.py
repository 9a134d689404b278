"""Calls of Python functions while a program runs.

For CPUs they are custom calls, as JAX's own runtime knows them; for other platforms the
operands are sent to the host and the results received from it, which any plugin can do.
Either way `Program.callbacks` has what is to be called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.compiler.stablehlo.attributes import RawAttribute, layouts
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, ordered_effects, rule
from curta.compiler.stablehlo.shardings import uses_shardy
from curta.compiler.stablehlo.types import TOKEN
from curta.control.callback import Computing, Debugging
from curta.core.avals import ShapedArray
from curta.primitives.checks import Check
from curta.primitives.effects import DceSink

#: The handler that calls Python, as JAX names it.
PYTHON_TARGET = "xla_ffi_python_cpu_callback"


class Callback(NamedTuple):
    """What a program calls: `run` takes arrays and gives a list of arrays.

    `sends` and `receives` are the numbers of the channels of operands and results,
    where these are sent; a program that has none sends a number that is not read, and
    receives one if something is to come after it. Custom calls have a `number` instead.
    """

    run: Callable[..., Sequence[Any]]
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]
    sends: Sequence[int] = ()
    receives: Sequence[int] = ()
    number: int | None = None


@rule(Debugging)
def _debugging(b: BlockBuilder, op: Debugging, *xs: HloValue) -> Sequence[HloValue]:
    ordered = bool(ordered_effects(op.effects))  # then JAX does not say where
    return _called(b, op, xs, effect=True, is_placed=not ordered)


@rule(Computing)
def _computing(b: BlockBuilder, op: Computing, *xs: HloValue) -> Sequence[HloValue]:
    manual = b.manual
    if manual and manual.axes != {*manual.mesh.axis_names}:
        raise NotImplementedError(
            "callbacks are only supported in spmd computations when all mesh axes are"
            " partitioned manually (no partial automatic sharding): map over all axes"
            f" of {manual.mesh}, or call {op.name} outside of shard_map."
        )
    return _called(b, op, xs, effect=bool(op.effects))


@rule(Check)
def _check(b: BlockBuilder, op: Check, *xs: HloValue) -> Sequence[HloValue]:
    """The host raises it."""
    if op.debug:
        return []
    op.refuse_programs(b.line)
    return _called(b, op, xs, effect=True)


def _called(
    b: BlockBuilder,
    op: Any,
    xs: Sequence[HloValue],
    *,
    effect: bool,
    is_placed: bool = True,
) -> Sequence[HloValue]:
    effects = ordered_effects(op.effects)
    token = b.tokens[effects[0]] if effects else None
    if {*b.program.platforms} == {"cpu"}:
        token, results = _custom_call(
            b, op, xs, token, effect=effect, is_placed=is_placed
        )
    elif "cpu" in b.program.platforms:
        raise NotImplementedError("multi-platform lowering for python_callback")
    else:
        token, results = _messages(b, op, xs, token)
    if effects:
        assert token is not None
        b.tokens[effects[0]] = token
    return results


# ------------------------------------------------------------------ custom calls


def _custom_call(
    b: BlockBuilder,
    op: Any,
    xs: Sequence[HloValue],
    token: HloValue | None,
    *,
    effect: bool,
    is_placed: bool,
) -> tuple[HloValue | None, Sequence[HloValue]]:
    number = next(b.program.call_numbers)
    b.program.callbacks.append(Callback(op.eval, b.ins, b.outs, number=number))
    before = [] if token is None else [token]
    tokens: list[Sequence[int]] = [()] * len(before)
    attributes: dict[str, Any] = {
        "call_target_name": PYTHON_TARGET,
        "backend_config": "",
        "mhlo.backend_config": {"index": RawAttribute(f"{number} : ui64")},
        "operand_layouts": layouts([*tokens, *[range(a.ndim) for a in b.ins]]),
        "result_layouts": layouts([*tokens, *[range(a.ndim) for a in b.outs]]),
    }
    if effect:
        attributes["has_side_effect"] = True
    if is_placed:
        ranks = [*[0] * len(before), *[a.ndim for a in b.outs]]
        key, sharding = _one_device(b, ranks or [0])
        attributes[key] = sharding
    types = [*[TOKEN] * len(before), *b.out_types]
    result = b.emit("stablehlo.custom_call", [*before, *xs], types, **attributes)
    return (result[0] if before else None), result[len(before) :]


def _one_device(b: BlockBuilder, ranks: Sequence[int]) -> tuple[str, Any]:
    """Where a function is called: on the first device, or on each under `shard_map`.

    It is said of each result, the ranks of which are given.
    """
    if not uses_shardy():
        return "mhlo.sharding", "{manual}" if b.manual else "{maximal device=0}"
    mesh = b.program.meshes.name((), only=None if b.manual else 0)
    dims = [", ".join(["{}"] * rank) if b.manual else "" for rank in ranks]
    each = ", ".join(f"<@{mesh}, [{d}]>" for d in dims)
    return "sdy.sharding", RawAttribute(f"#sdy.sharding_per_value<[{each}]>")


# ---------------------------------------------------------------------- messages

_TO_HOST, _FROM_HOST = 2, 3  # kinds of channels


def _messages(
    b: BlockBuilder, op: Any, xs: Sequence[HloValue], token: HloValue | None
) -> tuple[HloValue, Sequence[HloValue]]:
    waits = token is not None
    token = b.op("create_token", [], TOKEN) if token is None else token
    sends, receives, results = [], [], []
    for x in xs or [b.constant(np.zeros(1, np.float32))]:
        sends.append(b.program.new_channel())
        channel = _channel(b, sends[-1], _TO_HOST, [0])
        (token,) = b.emit("stablehlo.send", [x, token], [TOKEN], **channel)
    wanted = [(t, a.ndim) for t, a in zip(b.out_types, b.outs, strict=True)]
    for type_, rank in wanted or [("tensor<f32>", 0)] * waits:
        receives.append(b.program.new_channel())
        x, token = b.emit(
            "stablehlo.recv",
            [token],
            [type_, TOKEN],
            **_channel(b, receives[-1], _FROM_HOST, [rank, 0]),
        )
        results.append(x)
    b.program.callbacks.append(Callback(op.eval, b.ins, b.outs, sends, receives))
    return token, results[: len(b.outs)]


def _channel(
    b: BlockBuilder, number: int, kind: int, ranks: Sequence[int]
) -> dict[str, Any]:
    key, sharding = _one_device(b, ranks)
    return {
        "channel_handle": RawAttribute(
            f"#stablehlo.channel_handle<handle = {number}, type = {kind}>"
        ),
        "is_host_transfer": True,
        "mhlo.frontend_attributes": {
            "_xla_host_transfer_handler_name": "pjrt_rendezvous",
            "_xla_host_transfer_rendezvous": str(number),
        },
        key: sharding,
    }


# ------------------------------------------------------------------------- sinks


@rule(DceSink)
def _sink(b: BlockBuilder, op: DceSink, x: HloValue) -> Sequence[HloValue]:
    if op.prevent_mlir_dce:
        b.emit(
            "stablehlo.custom_call",
            [x],
            [],
            call_target_name="dce_sink",
            backend_config="",
            has_side_effect=True,
        )
    return []
