"""Simplification: named rewrites of single eqns, applied in one sweep.

A rewrite looks at an eqn (and at what its operands are made of) and gives what
its results are instead: an operand, a literal, or the result of other ops. None is
wrong for NaN, infinities or -0.0; each has a test.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from curta.compiler.graph.inline import called
from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.memo import has_hash
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import Div, Mul, Neg, Sub
from curta.primitives.elementwise.convert import ConvertElementType, Identity
from curta.primitives.elementwise.select import SelectN
from curta.primitives.host_collectives import HostCollective, communicates
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.shape import Squeeze
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, ReduceSum, Reshape, Transpose

Results = list[Atom]


class Context:
    """The eqns so far, and how rewrites add to them."""

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.definition: dict[Var, Eqn] = {}

    def lowering(self, atom: Atom) -> Eqn | None:
        """The eqn that defines a variable."""
        return self.definition.get(atom) if isinstance(atom, Var) else None

    def apply(self, op: Op, *args: Atom) -> Var:
        """A new eqn with one result."""
        out = Var(op.aval(*[a.aval for a in args]))
        self.add(Eqn(op, args, (out,)))
        return out

    def add(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        self.definition.update((v, eqn) for v in eqn.outvars)


Rewrite = Callable[[Eqn, Context], Results | None]


def simplify(jaxpr: Jaxpr, rewrites: dict[str, Rewrite] | None = None) -> Jaxpr:
    """The jaxpr after one sweep of the rewrites, and of the reuse of equal eqns."""
    rewrites = REWRITES if rewrites is None else rewrites
    context = Context()
    env: dict[Var, Atom] = {}
    known: dict[Any, tuple[Var, ...]] = {}
    for eqn in jaxpr.eqns:
        invars = tuple(called(v, env) for v in eqn.invars)
        if invars != eqn.invars:
            eqn = eqn.replace(invars=invars)
        results = _rewritten(eqn, context, rewrites)
        key = None if results is not None else _key(eqn)
        if key is not None:
            result = known.setdefault(key, eqn.outvars)
            if result is not eqn.outvars:
                results = list(result)
        if results is None:
            context.add(eqn)
        else:
            env.update(zip(eqn.outvars, results, strict=True))
    outvars = tuple(called(v, env) for v in jaxpr.outvars)
    return jaxpr.replace(eqns=tuple(context.eqns), outvars=outvars)


def _rewritten(
    eqn: Eqn, context: Context, rewrites: dict[str, Rewrite]
) -> Results | None:
    for rewrite in rewrites.values():
        results = rewrite(eqn, context)
        if results is not None:
            return results
    return None


def _key(eqn: Eqn) -> Any:
    """What equal eqns have in common; None if this one must stay as it is."""
    # Collectives that are equal on one host need not be so on another.
    if eqn.effects or communicates(eqn.op):
        return None
    key = (
        type(eqn.op),
        eqn.op,
        tuple(
            (repr(a.val), a.aval) if isinstance(a, Literal) else a for a in eqn.invars
        ),
    )
    return key if has_hash(key) else None


# --------------------------------------------------------------------- rewrites


def identity(eqn: Eqn, context: Context) -> Results | None:
    """copy x -> x; so are conversions, broadcasts and reshapes that change nothing."""
    same = (BroadcastInDim, Reshape, ConvertElementType, Transpose)
    if isinstance(eqn.op, Identity) and not eqn.effects:
        return [eqn.invars[0]]
    if not isinstance(eqn.op, same):
        return None
    (x,), (out,) = eqn.invars, eqn.outvars
    if isinstance(eqn.op, Transpose) and eqn.op.permutation != tuple(
        range(x.aval.ndim)
    ):
        return None
    if x.aval.shape != out.aval.shape or x.aval.dtype != out.aval.dtype:
        return None
    return [x]


def fold_scalars(eqn: Eqn, context: Context) -> Results | None:
    """An op on literals is the literal that its `eval` rule gives."""
    if not eqn.invars or eqn.op.multiple_results or eqn.effects:
        return None
    if eqn.op.runs_python or isinstance(eqn.op, HostCollective):
        return None
    aval = eqn.outvars[0].aval
    literal = all(isinstance(a, Literal) for a in eqn.invars)
    if not literal or aval.shape or not isinstance(aval.dtype, np.dtype):
        return None
    with np.errstate(all="ignore"):
        values = [as_numpy(a.val, a.aval) for a in eqn.invars]  # type: ignore[union-attr]
        (value,) = evaluate_op(eqn.op, values)
    return [Literal(value[()], aval)]


def fold_splats(eqn: Eqn, context: Context) -> Results | None:
    """An elementwise op on arrays of one literal each is an array of one literal."""
    if not isinstance(eqn.op, Elementwise):
        return None
    aval = eqn.outvars[0].aval
    numbers = [_splat(x, context) for x in eqn.invars]
    if not all(numbers) or not aval.shape or aval.placement is not None:
        return None
    scalar = Eqn(eqn.op, tuple(numbers), (Var(aval.update(shape=())),))  # type: ignore[arg-type]
    folded = fold_scalars(scalar, context)
    broadcast = BroadcastInDim(aval.shape, ())
    return folded and [context.apply(broadcast, *folded)]


def select_known(eqn: Eqn, context: Context) -> Results | None:
    """select_n of a literal, or an array of one literal -> the case that it names."""
    if not isinstance(eqn.op, SelectN):
        return None
    which, *cases = eqn.invars
    number = _splat(which, context)
    if number is None:
        return None
    return [cases[min(max(int(number.val), 0), len(cases) - 1)]]


def _splat(atom: Atom, context: Context) -> Literal | None:
    """The literal that all elements are, if that is known."""
    if not isinstance(atom, Literal):
        eqn = context.lowering(atom)
        if eqn is None or not isinstance(eqn.op, BroadcastInDim):
            return None
        (atom,) = eqn.invars
    return atom if isinstance(atom, Literal) and not atom.aval.shape else None


def move_twice(eqn: Eqn, context: Context) -> Results | None:
    """reshape (reshape x) -> reshape x; the same for transposes and broadcasts."""
    if not isinstance(eqn.op, (Reshape, Transpose, BroadcastInDim)):
        return None
    before = context.lowering(eqn.invars[0])
    if before is None or type(before.op) is not type(eqn.op):
        return None
    (x,) = before.invars
    if isinstance(eqn.op, Reshape):
        return _reshaped(x, eqn.op.shape, context)
    if isinstance(eqn.op, Transpose):
        assert isinstance(before.op, Transpose)
        inner = before.op.permutation
        return [
            context.apply(Transpose(tuple(inner[p] for p in eqn.op.permutation)), x)
        ]
    assert isinstance(before.op, BroadcastInDim)
    dims = tuple(eqn.op.broadcast_dimensions[d] for d in before.op.broadcast_dimensions)
    return [context.apply(BroadcastInDim(eqn.op.shape, dims), x)]


def is_reshape(eqn: Eqn, context: Context) -> Results | None:
    """squeeze x -> reshape x; so is a broadcast that only adds dims of extent 1."""
    if not isinstance(eqn.op, (Squeeze, BroadcastInDim)):
        return None
    (x,), (out,) = eqn.invars, eqn.outvars
    if x.aval.size != out.aval.size or isinstance(x, Literal) or not x.aval.shape:
        return None
    if isinstance(eqn.op, BroadcastInDim):
        dims = eqn.op.broadcast_dimensions
        if list(dims) != sorted(dims):
            return None
    return _reshaped(x, out.aval.shape, context)


def _reshaped(x: Atom, shape: tuple[int, ...], context: Context) -> Results:
    before = context.lowering(x)
    while before is not None and isinstance(before.op, Reshape):
        (x,) = before.invars
        before = context.lowering(x)
    return [x if x.aval.shape == shape else context.apply(Reshape(shape), x)]


def neutral(eqn: Eqn, context: Context) -> Results | None:
    """x * 1 -> x, 1 * x -> x, x / 1 -> x, x - 0 -> x (but x + 0 is not -0.0)."""
    if not isinstance(eqn.op, (Mul, Div, Sub)):
        return None
    x, y = eqn.invars
    unit = 0 if isinstance(eqn.op, Sub) else 1
    for kept, other in ((x, y), (y, x))[: 2 if isinstance(eqn.op, Mul) else 1]:
        if _is_number(other, unit) and kept.aval.shape == eqn.outvars[0].aval.shape:
            return [kept]
    return None


def negated_twice(eqn: Eqn, context: Context) -> Results | None:
    """-(-x) -> x."""
    before = context.lowering(eqn.invars[0]) if isinstance(eqn.op, Neg) else None
    return [before.invars[0]] if before and isinstance(before.op, Neg) else None


def divided_by_power_of_two(eqn: Eqn, context: Context) -> Results | None:
    """x / 2**k -> x * 2**-k, which is exact and much faster."""
    if not isinstance(eqn.op, Div):
        return None
    x, y = eqn.invars
    dtype = y.aval.dtype
    if not isinstance(y, Literal) or dtype not in (np.float32, np.float64):
        return None
    mantissa, exponent = math.frexp(float(y.val))
    if abs(mantissa) != 0.5 or not -100 < exponent < 100:
        return None
    factor = Literal(dtype.type(1 / float(y.val)), y.aval)
    return [context.apply(Mul(), x, factor)]


def split_into_slices(eqn: Eqn, context: Context) -> Results | None:
    """split x -> slices of x."""
    if not isinstance(eqn.op, Split):
        return None
    (x,) = eqn.invars
    starts = itertools.accumulate(eqn.op.sizes, initial=0)
    pairs = zip(starts, eqn.op.sizes, strict=False)
    return [_slice(x, eqn.op.axis, start, size, context) for start, size in pairs]


def unstack_into_slices(eqn: Eqn, context: Context) -> Results | None:
    """unstack x -> slices of x, reshaped."""
    if not isinstance(eqn.op, Unstack):
        return None
    (x,), axis = eqn.invars, eqn.op.axis
    return [
        context.apply(Reshape(out.aval.shape), _slice(x, axis, i, 1, context))
        for i, out in enumerate(eqn.outvars)
    ]


def stack_into_concatenate(eqn: Eqn, context: Context) -> Results | None:
    """stack x y -> concatenate x y, reshaped."""
    if not isinstance(eqn.op, Stack):
        return None
    shape = list(eqn.outvars[0].aval.shape)
    shape[eqn.op.axis] = 1
    parts = [_reshaped(x, tuple(shape), context)[0] for x in eqn.invars]
    return [context.apply(Concatenate(eqn.op.axis), *parts)]


def _slice(x: Atom, axis: int, start: int, size: int, context: Context) -> Var:
    low, high = [0] * x.aval.ndim, list(x.aval.shape)
    low[axis], high[axis] = start, start + size
    return context.apply(Slice(tuple(low), tuple(high), None), x)


def transpose_into_dot(eqn: Eqn, context: Context) -> Results | None:
    """dot (transpose x) y -> dot x y, over other dims; the same for y."""
    if not isinstance(eqn.op, DotGeneral):
        return None
    contract, batch = map(list, eqn.op.dimension_numbers)
    args = list(eqn.invars)
    for side in (0, 1):
        before = context.lowering(args[side])
        if before is None or not isinstance(before.op, Transpose):
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


def transpose_of_dot(eqn: Eqn, context: Context) -> Results | None:
    """transpose (dot x y) -> dot y x, for matrices and batches of them."""
    before = context.lowering(eqn.invars[0]) if isinstance(eqn.op, Transpose) else None
    if before is None or not isinstance(before.op, DotGeneral):
        return None
    (contract, batch), aval = before.op.dimension_numbers, before.outvars[0].aval
    assert isinstance(eqn.op, Transpose)
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


def sum_of_one(eqn: Eqn, context: Context) -> Results | None:
    """reduce_sum x over dims of extent 1 -> reshape x."""
    if not isinstance(eqn.op, ReduceSum):
        return None
    (x,), (out,) = eqn.invars, eqn.outvars
    if x.aval.size != out.aval.size:
        return None
    return _reshaped(x, out.aval.shape, context)


def _is_number(atom: Atom, number: int) -> bool:
    """Whether it is the literal `number` (0 is not -0.0)."""
    if not isinstance(atom, Literal) or not isinstance(atom.aval.dtype, np.dtype):
        return False
    if atom.aval.dtype.kind not in "iuf" or atom.val != number:
        return False
    return math.copysign(1, float(atom.val)) > 0


REWRITES: Final[dict[str, Rewrite]] = {
    f.__name__: f
    for f in (
        identity,
        fold_scalars,
        fold_splats,
        select_known,
        is_reshape,
        move_twice,
        neutral,
        negated_twice,
        divided_by_power_of_two,
        split_into_slices,
        unstack_into_slices,
        stack_into_concatenate,
        transpose_into_dot,
        transpose_of_dot,
        sum_of_one,
    )
}
