"""Random programs over the instruction set, and their comparison with NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import curta
import curta.numpy
import curta.runtime.eager
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.support.threads import parallel_for_address
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr, DebugInfo
from curta.core.op import Op
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives import elementwise as ops
from curta.primitives.cumulative import CumMax, CumSum
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import ScatterAdd
from curta.primitives.indexing.numbers import ScatterDimensionNumbers
from curta.primitives.joining import Concatenate
from curta.primitives.reduction import ArgMax, ReduceMax, ReduceMin, ReduceProd
from curta.primitives.shape import Rev, Squeeze
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import (
    BroadcastInDim,
    ReduceSum,
    Reshape,
    Transpose,
)

FLOAT32, INT32 = np.dtype("float32"), np.dtype("int32")


def staged(fun: Any, *args: Any) -> ClosedJaxpr:
    """The jaxpr of a function from arrays to a list."""
    avals = [ShapedArray(x.shape, x.dtype) for x in args]
    return stage(fun, avals, DebugInfo())


def assert_compiles(closed: ClosedJaxpr, *args: Any, rtol: float = 2e-5) -> Any:
    """Compile, run and compare with the `eval` rules; the executable."""
    compiled = compile_jaxpr(closed)
    with np.errstate(all="ignore"):
        expected = evaluate(closed.jaxpr, closed.consts, args)
    for got, want in zip(compiled(*args), expected, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            finite = np.abs(want[np.isfinite(want)])
            scale = float(finite.max()) if finite.size else 1.0
            np.testing.assert_allclose(
                got, want, rtol=rtol, atol=rtol * max(scale, 1e-30)
            )
    return compiled


def native_program(fun: Any, *args: Any) -> Any:
    """A function, compiled for these arguments; no step of it may run in Python."""
    closed, out = curta.make_jaxpr(fun, return_shape=True)(*args)
    compiled = compile_jaxpr(closed, parallel_for=parallel_for_address)
    assert compiled.native is not None

    def run(*args: Any) -> Any:
        given = [curta.numpy.asarray(x)._storage() for x in curta.tree.leaves(args)]
        return curta.tree.unflatten(curta.tree.structure(out), compiled(*given))

    return run


def native(fun: Any, *args: Any) -> Any:
    """The results of a function, compiled once, without steps in Python."""
    return native_program(fun, *args)(*args)


class RandomProgram:
    """A function made of random ops on values of random shapes."""

    def __init__(self, seed: int, length: int = 12) -> None:
        self.random = random.Random(seed)
        self.length = length
        shapes = [(), (1,), (7,), (3, 5), (4, 1, 6), (2, 3, 4), (40, 33), (0, 3)]
        self.shapes = self.random.choices(shapes[:-1], k=self.random.randint(1, 3))
        if self.random.random() < 0.05:
            self.shapes = [(0, 3)]

    def arguments(self) -> list[Any]:
        """Arrays to call it with."""
        rng = np.random.default_rng(self.random.randint(0, 1 << 30))
        return [rng.uniform(-2, 2, s).astype(np.float32) for s in self.shapes]

    def __call__(self, *args: Any) -> list[Any]:
        values = list(args)
        for _ in range(self.length):
            values.append(self._step(values))
        count = self.random.randint(1, 3)
        return [values[-1], *self.random.sample(values, min(count, len(values)))]

    def _step(self, values: list[Any]) -> Any:
        recent = values[-6:]
        x = self.random.choice(recent)
        if typeof(x).dtype != FLOAT32:
            x = ConvertElementType(FLOAT32, False)(x)
        return self.random.choice(
            [self._unary, self._unary, self._binary, self._binary, self._reduce,
             self._move, self._move, self._normalise, self._index, self._combine]
        )(x, values)  # fmt: skip

    def _unary(self, x: Any, values: list[Any]) -> Any:
        op = self.random.choice(
            [ops.tanh, ops.neg, ops.Abs(), ops.Sign(), ops.logistic, ops.Floor(),
             lambda v: ops.exp(ops.neg(ops.Abs()(v)))]
        )  # fmt: skip
        return op(x)

    def _binary(self, x: Any, values: list[Any]) -> Any:
        shape = typeof(x).shape
        others = [
            v for v in values
            if typeof(v).shape in (shape, ()) and typeof(v).dtype == FLOAT32
        ]  # fmt: skip
        y = self.random.choice(others) if others else x
        if typeof(y).shape != shape:
            y = BroadcastInDim(shape, ())(y)
        op = self.random.choice([ops.add, ops.sub, ops.mul, ops.Max(), ops.Min()])
        return op(x, y) if self.random.random() < 0.5 else op(y, x)

    def _reduce(self, x: Any, values: list[Any]) -> Any:
        rank = len(typeof(x).shape)
        axes = tuple(i for i in range(rank) if self.random.random() < 0.5)
        if rank and self.random.random() < 0.1 and typeof(x).size:
            return ArgMax((self.random.randrange(rank),), INT32)(x)
        cls = self.random.choice([ReduceSum, ReduceMax, ReduceMin, ReduceProd])
        if cls is ReduceProd:
            x = ops.tanh(x)
        return cls(axes)(x)

    def _normalise(self, x: Any, values: list[Any]) -> Any:
        shape = typeof(x).shape
        if not shape:
            return ops.neg(x)
        axis = self.random.randrange(len(shape))
        kept = tuple(i for i in range(len(shape)) if i != axis)
        top = BroadcastInDim(shape, kept)(ReduceMax((axis,))(x))
        e = ops.exp(ops.sub(x, top))
        total = BroadcastInDim(shape, kept)(ReduceSum((axis,))(e))
        return ops.div(e, total)

    def _move(self, x: Any, values: list[Any]) -> Any:
        shape = typeof(x).shape
        rank = len(shape)
        if not rank:
            return BroadcastInDim((self.random.randint(1, 6),), ())(x)
        axis = self.random.randrange(rank)
        rest = shape[:axis] + shape[axis + 1 :]
        kept = tuple(i for i in range(rank))
        moves = [
            lambda: Transpose(tuple(self.random.sample(range(rank), rank)))(x),
            lambda: Reshape((int(np.prod(shape)),))(x),
            lambda: Rev((axis,))(x),
            lambda: BroadcastInDim((3, *shape), tuple(i + 1 for i in kept))(x),
            lambda: Concatenate(axis)(x, ops.neg(x)),
            lambda: Pad(((1, 2, 1),) + ((0, 0, 0),) * (rank - 1))(x, np.float32(0.5)),
            lambda: Pad(((0, 0, 0),) * (rank - 1) + ((-1, 1, 0),))(x, np.float32(2)),
        ]
        if shape[axis] == 1:
            moves.append(lambda: Squeeze((axis,))(x))
        if shape[axis] > 2:
            start = tuple(int(i == axis) for i in range(rank))
            stride = tuple(2 if i == axis else 1 for i in range(rank))
            moves.append(lambda: Slice(start, shape, stride)(x))
        if int(np.prod(shape)) > 4000:
            return ReduceSum((axis,))(x) if rest else ReduceSum((0,))(x)
        return self.random.choice(moves)()

    def _index(self, x: Any, values: list[Any]) -> Any:
        """Reads and updates at places that depend on data, and running sums."""
        shape = typeof(x).shape
        if not shape or 0 in shape:
            return ops.neg(x)
        axis = self.random.randrange(len(shape))
        sizes = tuple(max(1, d - 1) if i == axis else d for i, d in enumerate(shape))
        starts = [np.int32(0)] * len(shape)
        starts[axis] = self._place(x)
        window = DynamicSlice(sizes)(x, *starts)
        choice = self.random.random()
        if choice < 0.3:
            return window
        if choice < 0.6:
            return DynamicUpdateSlice()(x, ops.mul(window, window), *starts)
        if choice < 0.8:
            op = self.random.choice([CumSum, CumMax])
            return op(axis, self.random.random() < 0.5)(ops.tanh(x))
        rows = ScatterDimensionNumbers((), (0,), (0,))
        flat = Reshape((int(np.prod(shape)),))(x)
        places = Reshape((1,))(self._place(x))
        return ScatterAdd.of(FLOAT32, rows)(flat, places, ReduceMax((0,))(flat))

    def _place(self, x: Any) -> Any:
        """An integer that depends on data."""
        total = ReduceSum(tuple(range(len(typeof(x).shape))))(ops.Sign()(x))
        return ConvertElementType(INT32, False)(total)

    def _combine(self, x: Any, values: list[Any]) -> Any:
        """Choices between values, and products of matrices."""
        shape = typeof(x).shape
        if len(shape) == 2 and self.random.random() < 0.5:
            side = self.random.randrange(2)
            numbers = (((side,), (side,)), ((), ()))
            return DotGeneral(numbers)(ops.tanh(x), ops.tanh(x))
        positive = ops.gt(x, ops.neg(ops.tanh(x)))
        return ops.SelectN()(positive, ops.Abs()(x), ops.mul(x, x))


class InPython(Op):
    """An op without compiled code: the elements in reverse order along dim 0."""

    name = "in_python"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, *args: Any) -> Any:
        return args[0][::-1].copy()
