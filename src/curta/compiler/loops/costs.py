"""Estimated costs of loops, in simple scalar operations."""

from __future__ import annotations

import math

from curta.compiler.callee import UNKNOWN
from curta.compiler.loops.element_types import computed_dtype
from curta.compiler.loops.functions import LONG
from curta.compiler.loops.nodes import (
    Block,
    Call,
    Copy,
    Expr,
    For,
    If,
    Instr,
    Kernel,
    Load,
    LoopNest,
    While,
    blocks_in,
)

STORE = 32  # of a store in a region, whose instructions depend on each other
_CALL = 64  # overhead of calling a program


def compute_size(expr: Expr) -> int:
    """The bytes of a lane while computing (half floats widen)."""
    return int(computed_dtype(expr.dtype).itemsize)


_SLOW = frozenset(["div", "sdiv", "udiv", "srem", "urem", "sqrt"])


def weight(expr: Expr) -> int:
    """The cost of an expression without its operands."""
    if isinstance(expr, Load):
        return 1
    if not isinstance(expr, Instr):
        return 0
    if expr.name.startswith("math."):
        return 400 if expr.name.removeprefix("math.") in LONG else 20
    return 4 if expr.name in _SLOW else 1


def cost(nest: LoopNest) -> int:
    """The cost of one index of a nest, in simple scalar operations."""
    return 1 + sum(weight(e) for e in nest.body)


def kernel_cost(kernel: Kernel) -> int:
    """The cost of a kernel, in simple scalar operations."""
    inner = sum(cost(s) * math.prod(v.extent for v in s.dims) for s in kernel.nests)
    return inner * math.prod(v.extent for v in kernel.dims)


def block_cost(block: Block, iterations: int = UNKNOWN) -> int:
    """The cost of a block of a region, in simple scalar operations.

    `iterations` is the trip count assumed for a while loop.
    """
    total = 0
    for statement in block:
        if isinstance(statement, LoopNest):
            (x, *_) = statement.stores
            copied = isinstance(x.value, Load) and x.buffer.in_memory
            total += STORE * len(statement.stores) * (statement.ordered or not copied)
            continue
        if isinstance(statement, Copy):
            total += statement.to.size
        if isinstance(statement, Call):
            total += (_CALL + statement.program.cost) // statement.every
        inner = [block_cost(b, iterations) for b in blocks_in(statement)]
        if isinstance(statement, If):
            total += max(inner)
        elif isinstance(statement, (For, While)):
            count = statement.var.extent if isinstance(statement, For) else iterations
            total += count * (1 + sum(inner))
    return total
