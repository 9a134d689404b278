"""Simplification: named rewrites of single eqns.

None is wrong for NaN, infinities or -0.0; each has a test.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final

import numpy as np

from curta import dtypes
from curta.compiler.rewrite.joins import (
    joined_twice,
    reshaped,
    rows_into_columns,
    slice_of_a_part,
    split_into_slices,
    stack_into_concatenate,
    tile_into_broadcast,
    unstack_into_slices,
)
from curta.compiler.rewrite.library_op import LibraryOp
from curta.compiler.rewrite.rewriting import Context, Results, Rewriting, rewrites
from curta.compiler.rewrite.scatters import add_one_to_each_row
from curta.compiler.rewrite.whole_writes import scatter_of_all, update_of_all
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.primitives.base import Elementwise
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import Add, Div, Mul, Neg, Sub
from curta.primitives.elementwise.comparison import Eq
from curta.primitives.elementwise.convert import ConvertElementType, Identity
from curta.primitives.elementwise.powers import Pow, Sqrt
from curta.primitives.elementwise.select import SelectN
from curta.primitives.indexing.gather import Gather
from curta.primitives.shape import Iota, Squeeze
from curta.primitives.structure import BroadcastInDim, ReduceSum, Reshape, Transpose


@rewrites(Identity, BroadcastInDim, Reshape, ConvertElementType, Transpose)
def identity(eqn: Any, context: Context) -> Results | None:
    """copy x -> x; so are conversions, broadcasts and reshapes that change nothing."""
    (x,), (out,) = eqn.invars, eqn.outvars
    order = eqn.op.params().get("permutation", ())
    if list(order) != sorted(order) or eqn.effects:
        return None
    same = x.aval.shape == out.aval.shape and x.aval.dtype == out.aval.dtype
    return [x] if same else None


@rewrites()
def fold_scalars(eqn: Any, context: Context) -> Results | None:
    """An op on literals is the literal that its `eval` rule gives."""
    if not eqn.invars or eqn.op.multiple_results or eqn.effects:
        return None
    if eqn.op.runs_python or eqn.op.meets_hosts:
        return None
    aval = eqn.outvars[0].aval
    literal = all(isinstance(a, Literal) for a in eqn.invars)
    if not literal or aval.shape or not isinstance(aval.dtype, np.dtype):
        return None
    with np.errstate(all="ignore"):
        values = [as_numpy(a.val, a.aval) for a in eqn.invars]
        (value,) = evaluate_op(eqn.op, values)
    return [Literal(value[()], aval)]


@rewrites(Reshape)
def reshaped_twice(eqn: Any, context: Context) -> Results | None:
    """reshape (reshape x) -> reshape x."""
    if context.made_by(eqn.invars[0], Reshape) is None:
        return None
    return reshaped(eqn.invars[0], eqn.op.shape, context)


@rewrites(Transpose)
def transposed_twice(eqn: Any, context: Context) -> Results | None:
    """transpose (transpose x) -> transpose x."""
    before = context.made_by(eqn.invars[0], Transpose)
    if before is None:
        return None
    order = tuple(before.op.permutation[p] for p in eqn.op.permutation)
    return [context.apply(Transpose(order), *before.invars)]


@rewrites(BroadcastInDim)
def broadcast_twice(eqn: Any, context: Context) -> Results | None:
    """broadcast (broadcast x) -> broadcast x."""
    before = context.made_by(eqn.invars[0], BroadcastInDim)
    if before is None:
        return None
    outer = eqn.op.broadcast_dimensions
    dims = tuple(outer[d] for d in before.op.broadcast_dimensions)
    return [context.apply(BroadcastInDim(eqn.op.shape, dims), *before.invars)]


@rewrites(Elementwise)
def fold_splats(eqn: Any, context: Context) -> Results | None:
    """An elementwise op on arrays of one literal each is an array of one literal."""
    aval = eqn.outvars[0].aval
    numbers = [_splat(x, context) for x in eqn.invars]
    if not all(numbers) or not aval.shape:
        return None
    scalar = Eqn(eqn.op, tuple(numbers), (Var(aval.update(shape=())),))  # type: ignore[arg-type]
    folded = fold_scalars.run(scalar, context)
    broadcast = BroadcastInDim(aval.shape, ())
    return folded and [context.apply(broadcast, *folded)]


@rewrites(SelectN)
def select_known(eqn: Any, context: Context) -> Results | None:
    """select_n of a literal, or an array of one literal -> the case that it names."""
    which, *cases = eqn.invars
    number = _splat(which, context)
    if number is None:
        return None
    return [cases[min(max(int(number.val), 0), len(cases) - 1)]]


def _splat(atom: Atom, context: Context) -> Literal | None:
    """The literal that all elements are, if that is known."""
    if not isinstance(atom, Literal):
        eqn = context.made_by(atom, BroadcastInDim)
        if eqn is None:
            return None
        (atom,) = eqn.invars
    return atom if isinstance(atom, Literal) and not atom.aval.shape else None


@rewrites(Squeeze, BroadcastInDim)
def is_reshape(eqn: Any, context: Context) -> Results | None:
    """squeeze x -> reshape x; so is a broadcast that only adds dims of extent 1."""
    (x,), (out,) = eqn.invars, eqn.outvars
    if x.aval.size != out.aval.size or isinstance(x, Literal) or not x.aval.shape:
        return None
    dims = eqn.op.params().get("broadcast_dimensions", ())
    if list(dims) != sorted(dims):
        return None
    return reshaped(x, out.aval.shape, context)


@rewrites(Mul)
def times_one(eqn: Any, context: Context) -> Results | None:
    """x * 1 -> x, 1 * x -> x."""
    x, y = eqn.invars
    return _kept(eqn, x, y, 1) or _kept(eqn, y, x, 1)


@rewrites(Div)
def over_one(eqn: Any, context: Context) -> Results | None:
    """x / 1 -> x."""
    x, y = eqn.invars
    return _kept(eqn, x, y, 1)


@rewrites(Sub)
def less_zero(eqn: Any, context: Context) -> Results | None:
    """x - 0 -> x (but x + 0 is not -0.0)."""
    x, y = eqn.invars
    return _kept(eqn, x, y, 0)


def _kept(eqn: Any, x: Atom, other: Atom, unit: int) -> Results | None:
    """x, if the other is the unit and repeats nothing of it."""
    same = x.aval.shape == eqn.outvars[0].aval.shape
    return [x] if same and _is_number(other, unit) else None


@rewrites(Neg)
def negated_twice(eqn: Any, context: Context) -> Results | None:
    """-(-x) -> x."""
    before = context.made_by(eqn.invars[0], Neg)
    return [*before.invars] if before else None


@rewrites(Div)
def divided_by_power_of_two(eqn: Any, context: Context) -> Results | None:
    """x / 2**k -> x * 2**-k, which is exact and much faster."""
    x, y = eqn.invars
    dtype = y.aval.dtype
    if not isinstance(y, Literal) or dtype not in (np.float32, np.float64):
        return None
    mantissa, exponent = math.frexp(float(y.val))
    if abs(mantissa) != 0.5 or not -100 < exponent < 100:
        return None
    factor = Literal(dtype.type(1 / float(y.val)), y.aval)
    return [context.apply(Mul(), x, factor)]


@rewrites(Pow)
def power_of_a_half(eqn: Any, context: Context) -> Results | None:
    """x ** 0.5 -> sqrt x, but for -inf and -0.0; x ** -0.5 -> 1 over that.

    A power has neither a sign of zero nor NaN of -inf.
    """
    x, y = eqn.invars
    number, dtype = _splat(y, context), x.aval.dtype
    if number is None or number.aval.dtype != dtype or not x.aval.shape:
        return None
    floats = dtypes.issubdtype(dtype, np.floating)
    if not floats or float(number.val) not in (0.5, -0.5):
        return None

    def literal(value: float) -> Literal:
        return Literal(dtype.type(value), number.aval)

    root = context.apply(Add(), context.apply(Sqrt(), x), literal(0))
    infinite = context.apply(Eq(), x, literal(-math.inf))
    infinity = context.apply(BroadcastInDim(root.aval.shape, ()), literal(math.inf))
    root = context.apply(SelectN(), infinite, root, infinity)
    if float(number.val) < 0:
        root = context.apply(Div(), literal(1), root)
    return [root]


@rewrites(Pow)
def power_of_two(eqn: Any, context: Context) -> Results | None:
    """x ** 2 -> mul x x, of floats."""
    x, y = eqn.invars
    number = _splat(y, context)
    if number is None or number.aval.dtype != x.aval.dtype or number.val != 2:
        return None
    if not dtypes.issubdtype(x.aval.dtype, np.floating):
        return None
    return [context.apply(Mul(), x, x)]


@rewrites(DotGeneral)
def transpose_into_dot(eqn: Any, context: Context) -> Results | None:
    """dot (transpose x) y -> dot x y, over other dims; the same for y."""
    contract, batch = map(list, eqn.op.dimension_numbers)
    args = list(eqn.invars)
    for side in (0, 1):
        before = context.made_by(args[side], Transpose)
        if before is None:
            continue
        inner = before.op.permutation
        new_contract = tuple(inner[d] for d in contract[side])
        new_batch = tuple(inner[d] for d in batch[side])
        used = {*contract[side], *batch[side]}
        free = [inner[d] for d in range(len(inner)) if d not in used]
        if free == sorted(free):
            args[side] = before.invars[0]
            contract[side], batch[side] = new_contract, new_batch
    if tuple(args) == eqn.invars:
        return None
    dims = ((contract[0], contract[1]), (batch[0], batch[1]))
    op = dataclasses.replace(eqn.op, dimension_numbers=dims)
    return [context.apply(op, *args)]


@rewrites(Transpose)
def transpose_of_dot(eqn: Any, context: Context) -> Results | None:
    """transpose (dot x y) -> dot y x, for matrices and batches of them."""
    before = context.made_by(eqn.invars[0], DotGeneral)
    if before is None:
        return None
    (contract, batch), aval = before.op.dimension_numbers, before.outvars[0].aval
    count = len(batch[0])
    transposed = (*range(count), count + 1, count)
    free = [
        v.aval.ndim - len(c) - count
        for v, c in zip(before.invars, contract, strict=True)
    ]
    if aval.ndim != count + 2 or free != [1, 1] or eqn.op.permutation != transposed:
        return None
    numbers = contract[::-1], batch[::-1]
    op = dataclasses.replace(before.op, dimension_numbers=numbers)
    return [context.apply(op, *before.invars[::-1])]


@rewrites(ReduceSum)
def sum_of_one(eqn: Any, context: Context) -> Results | None:
    """reduce_sum x over dims of extent 1 -> reshape x."""
    (x,), (out,) = eqn.invars, eqn.outvars
    if x.aval.size != out.aval.size:
        return None
    return reshaped(x, out.aval.shape, context)


@rewrites(Gather)
def order_of_iota(eqn: Any, context: Context) -> Results | None:
    """iota taken in the order of rows (sorting.py) -> that order: `argsort`."""
    numbers, (x, index), out = eqn.op.dimension_numbers, eqn.invars, eqn.outvars[0].aval
    iota, order = context.made_by(x, Iota), context.made_by(index, Reshape)
    made = order and context.made_by(order.invars[0], LibraryOp)
    along = (out.ndim - 1,)
    if iota is None or not made or not made.op.orders_rows:
        return None
    if not (iota.op.dimension,) == numbers.start_index_map == along:
        return None
    if numbers.operand_batching_dims != (*range(out.ndim - 1),):
        return None
    (result,) = reshaped(order.invars[0], out.shape, context)
    same = result.aval.dtype == out.dtype
    return [result if same else context.apply(ConvertElementType(out.dtype), result)]


@rewrites(Scan)
def no_iterations(eqn: Any, context: Context) -> Results | None:
    """scan of no iterations -> its first carry, and arrays without elements."""
    op = eqn.op
    outs = [v.aval for v in eqn.outvars[op.num_carry :]]
    if op.length != 0 or op.effects:
        return None
    if not all(isinstance(a.dtype, np.dtype) for a in outs):
        return None
    _, carry, _ = op.parts(eqn.invars)
    zeros = (Literal(a.dtype.type(0), ShapedArray((), a.dtype)) for a in outs)
    empty = (BroadcastInDim(a.shape, ()) for a in outs)
    return [*carry, *map(context.apply, empty, zeros)]


def _is_number(atom: Atom, number: int) -> bool:
    """Whether it is the literal `number` (0 is not -0.0)."""
    if not isinstance(atom, Literal) or not isinstance(atom.aval.dtype, np.dtype):
        return False
    if atom.aval.dtype.kind not in "iuf" or atom.val != number:
        return False
    return math.copysign(1, float(atom.val)) > 0


simplify: Final = Rewriting(
    identity,
    fold_scalars,
    fold_splats,
    select_known,
    is_reshape,
    reshaped_twice,
    transposed_twice,
    broadcast_twice,
    times_one,
    over_one,
    less_zero,
    negated_twice,
    divided_by_power_of_two,
    power_of_a_half,
    power_of_two,
    split_into_slices,
    unstack_into_slices,
    stack_into_concatenate,
    tile_into_broadcast,
    joined_twice,
    rows_into_columns,
    slice_of_a_part,
    transpose_into_dot,
    transpose_of_dot,
    sum_of_one,
    order_of_iota,
    add_one_to_each_row,
    scatter_of_all,
    update_of_all,
    no_iterations,
)
