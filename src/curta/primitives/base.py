"""Abstract bases of the elementwise ops, and the dtypes they take."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray, dtype_name
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.structure import (
    BroadcastInDim,
    add_any,
    broadcast_batch,
    exact_scalar,
    move_dim,
    reshape,
    unbroadcast,
    zero_like_output,
)

Family = tuple[type, ...]

FLOAT: Family = (np.floating,)
INEXACT: Family = (np.floating, np.complexfloating)
INT: Family = (np.integer,)
REAL: Family = (np.integer, np.floating)
NUMBER: Family = (np.integer, np.floating, np.complexfloating)
ORDERED: Family = (np.integer, np.floating, np.bool_)
ANY: Family = (np.integer, np.floating, np.complexfloating, np.bool_)
BOOL_OR_INT: Family = (np.integer, np.bool_)

# The kinds of sample operands (tests/conformance/samples.py) for a family.
_SAMPLE_KINDS = {
    FLOAT: "float",
    INEXACT: "inexact",
    INT: "int",
    REAL: "real",
    NUMBER: "number",
    ORDERED: "ordered",
    ANY: "any",
    BOOL_OR_INT: "bool_or_int",
}


class Elementwise(Op):
    """One output element from the operand elements at the same index.

    Operands have equal rank (or rank 0) and equal dimensions (or 1). A subclass
    says which dtypes it `accepts` and gives `eval` (or the `ufunc` that is it),
    `scalar` (the compiled element; by default the builder's `method`, or the math
    function of the op's name) and, where it can be differentiated, `tangent` (what one
    operand's tangent contributes).
    """

    makes_nan: ClassVar[bool] = True
    method: ClassVar[str | None] = None
    """The method of the scalar builder that gives an element, if not `math`."""
    arity: ClassVar[int] = 1
    accepts: ClassVar[Family] = ANY
    ufunc: ClassVar[Any]
    domain: ClassVar[dict[str, Any]] = {}

    def out_dtype(self, *dtypes: Any) -> Any:
        """The dtype of the output; raises TypeError for dtypes the op refuses."""
        if len(dtypes) == 1:
            check_dtype(self.name, dtypes[0], self.accepts)
        else:
            for i, dtype in enumerate(dtypes):
                check_dtype(self.name, dtype, self.accepts, f" at position {i}")
            check_same_dtypes(self.name, dtypes)
        return dtypes[0]

    def eval(self, *args: Any) -> Any:
        out, dtype = self.ufunc(*args), args[0].dtype
        return wrapped(out, dtype) if dtype.kind == "V" else out

    def scalar(self, b: Any, *xs: Any) -> Any:
        """The output element as a scalar expression made by builder `b`."""
        if self.method is not None:
            return getattr(b, self.method)(*xs)
        return b.math(self.name, *xs)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        """What operand i's tangent `t` contributes to the output's tangent.

        None where the derivative is zero.
        """
        self._missing("jvp")

    @classmethod
    def samples(cls) -> Iterator[Any]:
        op, kind, domain = cls(), _SAMPLE_KINDS[cls.accepts], cls.domain
        for shape in (2, 3), (), (0, 2):
            yield op, [(shape, kind, domain)] * cls.arity
        if cls.arity > 1:
            yield op, [((2, 1), kind, domain), ((1, 3), kind, domain)]
            yield op, [((2,), kind, domain), ((), kind, domain)]

    # ---- shared rules

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        shape = avals[0].shape
        if any(a.shape != shape for a in avals):
            shape = broadcast_shapes(self.name, [a.shape for a in avals])
        dtype = self.out_dtype(*[a.dtype for a in avals])
        return ShapedArray(shape, dtype, all(a.weak_type for a in avals))

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        return self.scalar(b, *[o.at(aligned_index(o, index)) for o in operands])

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        shape = typeof(out).shape
        parts = [
            self.tangent(i, t, out, *primals)
            for i, t in enumerate(tangents)
            if type(t) is not Zero
        ]
        parts = [broadcast_to(p, shape) for p in parts if p is not None]
        return out, functools.reduce(add_any, parts) if parts else zero_like_output(out)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        shapes = [typeof(x).shape for x in args]
        shape, dim = next((s, d) for s, d in zip(shapes, dims) if d is not None)
        if all(not s or (s == shape and d == dim) for s, d in zip(shapes, dims)):
            return self(*args), dim
        fronted = [_batch_in_front(x, d) for x, d in zip(args, dims)]
        rank = max(typeof(x).ndim for x in fronted)
        aligned = [
            x if d is None else _append_dims(x, rank) for x, d in zip(fronted, dims)
        ]
        return self(*aligned), 0


class LinearElementwise(Elementwise):
    """An elementwise op linear in the operands that `transpose` finds unknown.

    A subclass gives `cotangent(i, ct, *args)`, before the sum over broadcast dims.
    """

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        """The cotangent of linear operand i, in the shape of the output."""
        self._missing("transpose")

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        result: list[Any] = []
        for i, x in enumerate(args):
            if is_linear(x):
                ct = self.cotangent(i, cotangent, *args)
                result.append(unbroadcast(ct, x.aval))
            else:
                result.append(None)
        return result


class FlatElementwise(Elementwise):
    """An elementwise op whose derivative is zero where it exists."""

    makes_nan: ClassVar[bool] = False

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return None


# ---- dtypes

# How far the highest bit of integers that are parts of a byte is from that of a byte.
_UNUSED_BITS = {
    np.dtype(getattr(ml_dtypes, f"{kind}{bits}")): 8 - bits
    for kind in ("int", "uint")
    for bits in (2, 4)
}


def is_part_of_byte(dtype: Any) -> bool:
    """Whether elements are integers smaller than a byte."""
    return dtype in _UNUSED_BITS


def wrapped(x: Any, operand: Any = None) -> Any:
    """`x` with integers smaller than a byte wrapped around, which NumPy does not.

    Of operands of such a dtype, some of NumPy's functions make integers of a byte.
    """
    if operand in _UNUSED_BITS and x.dtype != operand and x.dtype.kind in "iu":
        return x.astype(operand)
    if x.dtype.kind != "V" or x.dtype not in _UNUSED_BITS:
        return x
    x = np.asarray(x)
    unused = _UNUSED_BITS[x.dtype]
    byte = np.uint8 if x.dtype.name.startswith("u") else np.int8
    return ((x.view(byte) << unused) >> unused).view(x.dtype)


def check_dtype(name: str, dtype: Any, accepts: Family, where_given: str = "") -> None:
    """Raise TypeError unless `dtype` lies below one of the scalar types `accepts`."""
    if any(dtypes.issubdtype(dtype, t) for t in accepts):
        return
    if dtype == dtypes.float0:
        where = f"with a float0{where_given}" if where_given else "with a float0 array"
        raise TypeError(
            f"Called {name} {where}. float0s do not support any operations by design:"
            " they are the tangents of integers and booleans, which hold nothing."
            " Perhaps a gradient was taken with respect to an integer argument; to go"
            " on with zeros, use np.zeros(x.shape, float)."
        )
    types = ", ".join(t.__name__ for t in accepts)
    raise TypeError(
        f"{name} does not accept dtype {dtype_name(dtype)}{where_given}."
        f" Accepted dtypes{where_given} are subtypes of {types}."
    )


def check_same_dtypes(name: str, given: Sequence[Any]) -> None:
    """Raise TypeError unless all dtypes are equal."""
    first = given[0]
    if all(d is first or d == first for d in given):
        return
    tip = _NUMPY_NAMES.get(name, "")
    if tip:
        tip = (
            f" (Tip: jnp.{tip} is a similar function that does automatic type"
            " promotion on inputs)."
        )
    listing = ", ".join(map(dtype_name, given))
    raise TypeError(
        f"lax.{name} requires arguments to have the same dtypes, got {listing}.{tip}"
    )


# The curta.numpy functions that promote, for the ops that do not.
_NUMPY_NAMES = {
    "add": "add",
    "and": "bitwise_and",
    "atan2": "arctan2",
    "concatenate": "concatenate",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "nextafter": "nextafter",
    "or": "bitwise_or",
    "pow": "power",
    "rem": "remainder",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "shift_right_logical": "right_shift",
    "stack": "stack",
    "sub": "subtract",
    "xor": "bitwise_xor",
}


# ---- constants of the dtype of an example


def const(example: Any, value: Any) -> Any:
    """The scalar `value` in the dtype of `example`, weak if that is a weak scalar."""
    return scalar_of(typeof(example), value)


def full_like(example: Any, value: Any) -> Any:
    """An array of the aval of `example` with every element `value`."""
    aval, scalar = typeof(example), scalar_like(example, value)
    return BroadcastInDim(aval.shape, ())(scalar) if aval.shape else scalar


def scalar_like(example: Any, value: Any) -> Any:
    """The scalar `value` in the dtype of `example`, weak where that is weak."""
    aval = typeof(example)
    return scalar_of(aval.update(shape=()) if aval.shape else aval, value)


def scalar_of(aval: ShapedArray, value: Any) -> Any:
    """A scalar in the dtype of `aval`; a Python scalar if the aval is that of one."""
    if aval.weak_type and not aval.shape:
        kind = dtypes.scalar_type_of(aval.dtype)
        if dtypes.python_scalar_dtype(kind(value), kind) == aval.dtype:
            return kind(value)
    return exact_scalar(value, dtypes.physical_dtype(aval.dtype))


# ---- shapes


def aligned_index(operand: Any, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The output index, with 0 where the operand is broadcast."""
    shape = operand.aval.shape
    if not shape:
        return ()
    return tuple(i if d != 1 else 0 for i, d in zip(index, shape, strict=True))


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of operands of equal rank, or rank 0."""
    ranked = [s for s in shapes if s]
    listing = ", ".join(map(str, ranked))
    if len({len(s) for s in ranked}) > 1:
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got"
            f" { {len(s) for s in ranked} }: their shapes are {listing}. Reshape them,"
            " or use the curta.numpy function, which broadcasts."
        )
    out = []
    for sizes in zip(*ranked, strict=True):
        distinct = {d for d in sizes if d != 1}
        if len(distinct) > 1:
            raise TypeError(
                f"{name} got incompatible shapes for broadcasting: {listing}."
            )
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x`, of rank 0 or the rank of `shape`, repeated along its dims of size 1."""
    own = typeof(x).shape
    if own == shape:
        return x
    kept = tuple(i for i, (d, e) in enumerate(zip(own, shape)) if d == e)
    squeezed = reshape(x, tuple(own[i] for i in kept))
    return BroadcastInDim(shape, kept)(squeezed)


def _batch_in_front(x: Any, dim: int | None) -> Any:
    """`x` with its batch dim first, of size 1 if it has none; scalars as they are."""
    if not typeof(x).shape:
        return x
    return broadcast_batch(x, 1, 0) if dim is None else move_dim(x, dim, 0)


def _append_dims(x: Any, rank: int) -> Any:
    """`x` with dims of size 1 at its end, up to `rank`."""
    shape = typeof(x).shape
    if len(shape) == rank:
        return x
    kept = tuple(range(len(shape)))
    return BroadcastInDim((*shape, *[1] * (rank - len(shape))), kept)(x)
