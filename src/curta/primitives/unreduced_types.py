"""Over which axes the result of an op is unreduced or reduced, given its operands.

An unreduced value is a sum whose terms devices hold. What is linear in it can be done
to each of the terms; a factor must then be the same on all devices, that is, reduced.
Transposition knows better what is meant (`Scope.guesses`), and is not refused.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.mesh_scope import scope
from curta.core.op import Op
from curta.errors import ShardingTypeError
from curta.primitives.base import Elementwise
from curta.primitives.cumulative import CumSum
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import Div, Mul, Neg, Sum
from curta.primitives.elementwise.convert import ConvertElementType, Identity
from curta.primitives.elementwise.select import SelectN
from curta.primitives.families import Linear
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import Gather
from curta.primitives.indexing.windows import WindowUpdate
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.structure import AddAny, ReduceSum

Axes = frozenset[Any]
_NO_AXES: Axes = frozenset()


def out_sums(op: Op, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    """The axes over which the results of `op` are unreduced, and reduced.

    Raises NotImplementedError where the sum would have to be taken first, and
    ShardingTypeError for operands that do not go together.
    """
    if not any(_unreduced(a) or _reduced(a) for a in avals):
        return _NO_AXES, _NO_AXES
    return _rule(op, avals)


def _unreduced(aval: ShapedArray) -> Axes:
    return aval.placement.unreduced if aval.placement is not None else _NO_AXES


def _reduced(aval: ShapedArray) -> Axes:
    return aval.placement.reduced if aval.placement is not None else _NO_AXES


def _common(op: Op, what: str, axes: Sequence[Axes]) -> Axes:
    kinds = {f for f in axes if f}
    if len(kinds) > 1:
        raise ShardingTypeError(
            f"All inputs of {op.name} should be {what} across the same mesh axes. Got"
            f" specs: {[set(k) for k in kinds]}"
        )
    return kinds.pop() if kinds else _NO_AXES


def _common_reduced(op: Op, avals: Sequence[ShapedArray]) -> Axes:
    """The axes over which operands are reduced, all of them but numbers."""
    result = _common(op, "reduced", [_reduced(a) for a in avals])
    if not result or scope().guesses:
        return result
    for a in avals:
        where = a.placement
        split = (
            () if where is None else (*where.varying, *where.spec(a.ndim).used_axes())
        )
        if result & {*split}:
            raise ShardingTypeError(
                "Inputs cannot be sharded/varying on the same axes that another input"
                " is reduced on. Reshard the input which is reduced to be sharded on"
                " the mesh axes it is reduced on via `jax.sharding.reshard(inp,"
                f" jax.P(...))`. Got input type: {a} and reduced spec: {set(result)}"
            )
        if a.ndim and not result <= _reduced(a) | _unreduced(a):
            raise ShardingTypeError(
                "Inputs cannot be replicated on the same axes that another input is"
                f" reduced on. Got input type: {a} and reduced spec: {set(result)}"
            )
    return result


@functools.singledispatch
def _rule(op: Op, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    """The rule for ops that are not known to be linear."""
    if any(map(_unreduced, avals)):
        raise NotImplementedError(
            f"unreduced rule for {op.name} is not implemented: it is not linear. Sum"
            " first, with jax.sharding.reshard, or psum in a shard_map."
        )
    return _NO_AXES, _common(op, "reduced", [_reduced(a) for a in avals])


@_rule.register
def _elementwise(op: Elementwise, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    _rule.dispatch(Op)(op, avals)
    return _NO_AXES, _common_reduced(op, avals)


@_rule.register(Linear)
@_rule.register(Neg)
@_rule.register(ReduceSum)
@_rule.register(CumSum)
@_rule.register(Identity)
@_rule.register(Split)
@_rule.register(Unstack)
@_rule.register(ConvertElementType)
@_rule.register(DynamicSlice)
@_rule.register(Gather)
def _linear(op: Op, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    """The rule for ops linear in the first operand; others are starts and sizes."""
    return _unreduced(avals[0]), _reduced(avals[0])


@_rule.register(Concatenate)
@_rule.register(Stack)
@_rule.register(AddAny)
@_rule.register(Sum)
def _sum(op: Op, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    unreduced = _common(op, "unreduced", [_unreduced(a) for a in avals])
    others = [i for i, a in enumerate(avals) if not _unreduced(a)]
    if unreduced and others:
        sides = ("rhs", "lhs") if others == [0] else ("lhs", "rhs")
        raise ShardingTypeError(
            f"{sides[0]} is unreduced while {sides[1]} is not. `{op.name}` operation"
            " does not allow this because there will be implicit communication. Please"
            f" reduce {sides[0]} via `reshard` before calling `{op.name}`."
        )
    return unreduced, _common_reduced(op, avals)


@_rule.register
def _product(op: Mul, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    x, y = avals
    if _unreduced(x) and _unreduced(y):
        raise ShardingTypeError(
            "lhs and rhs to `mul` cannot be unreduced since mul is bilinear. Got"
            f" lhs={x}, rhs={y}"
        )
    if not (_unreduced(x) or _unreduced(y)):
        return _NO_AXES, _common_reduced(op, avals)
    term, factor = (x, y) if _unreduced(x) else (y, x)
    if factor.ndim and _reduced(factor) != _unreduced(term) and not scope().guesses:
        side, other = ("RHS", "LHS") if term is x else ("LHS", "RHS")
        raise ShardingTypeError(
            f"{side} should be reduced along the same axes {other} is unreduced on. Got"
            f" lhs={x} and rhs={y}"
        )
    return _unreduced(term), (_reduced(x) | _reduced(y)) - _unreduced(term)


@_rule.register
def _quotient(op: Div, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    if _unreduced(avals[1]) or not _unreduced(avals[0]):
        return _elementwise(op, avals)
    return _unreduced(avals[0]), _NO_AXES


@_rule.register
def _select(op: SelectN, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    which, *cases = avals
    if _unreduced(which):
        _rule.dispatch(Op)(op, avals)
    return _beside_zeros(op, cases) if scope().guesses else _sum(op, cases)


@_rule.register(DynamicUpdateSlice)
@_rule.register(WindowUpdate)
def _update(op: Op, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    if not scope().guesses:
        return _rule.dispatch(Op)(op, avals)
    return _beside_zeros(op, avals)


def _beside_zeros(op: Op, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    """Cotangents put into zeros, or between them, which are anything."""
    unreduced = _common(op, "unreduced", [_unreduced(a) for a in avals])
    return unreduced, _common(op, "reduced", [_reduced(a) for a in avals])


@_rule.register
def _dot(op: DotGeneral, avals: Sequence[ShapedArray]) -> tuple[Axes, Axes]:
    x, y = avals
    if not (_unreduced(x) or _unreduced(y)):
        return _NO_AXES, _NO_AXES
    if scope().guesses:
        return _unreduced(x) | _unreduced(y), _NO_AXES
    raise ShardingTypeError(
        f"lhs or rhs passed to dot_general cannot be unreduced. Got lhs={x} and rhs={y}"
    )
