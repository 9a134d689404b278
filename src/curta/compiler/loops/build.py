"""The scalar builder: what an op's `lower` rule writes its element with.

Each method makes an expression of a fixed dtype. Here is what arithmetic means: the
wrap-around of integers, division by zero, shifts out of range, saturating conversions
are JAX's. Half-precision floats compute in float32 and round after every op, as NumPy
does. Complex values are pairs (complexes.py).

Equal expressions are the same object, so that a value that two consumers ask for is
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from curta.compiler.loops import (
    complex_exponentials,
    complexes,
    integers,
    known_indices,
)
from curta.compiler.loops.complex_inverses import FUNCTIONS as INVERSES
from curta.compiler.loops.complexes import ComplexExpr
from curta.compiler.loops.element_types import (
    BOOL,
    FLOAT32,
    HALVES,
    INT64,
    component,
    computed_dtype,
    is_float,
    is_native,
)
from curta.compiler.loops.functions import FUNCTIONS
from curta.compiler.loops.index import Affine, as_index, row_major, unravel
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    Expr,
    IndexValue,
    Instr,
    Load,
    Placeholder,
    is_within,
    known_index,
)
from curta.compiler.loops.value_bounds import limits
from curta.core.dim import SymbolicDim, is_symbolic_dim
from curta.dtypes import physical_dtype

Scalar = Any
"""An `Expr`, a `ComplexExpr`, or an index standing for an int64."""

_COMPLEX = complexes.FUNCTIONS | complex_exponentials.FUNCTIONS | INVERSES
_ROUNDING = frozenset({"floor", "ceil", "trunc", "round_even", "sqrt"})


class CannotLower(Exception):
    """Raised if the compiler has no code for a case; a more general path handles it."""


class CannotUseRegisters(CannotLower):
    """A loop or branch cannot be code in registers."""


class CannotLowerOp(CannotLower):
    """The op cannot be compiled for these dtypes; it runs its `eval` rule."""


class ScalarBuilder:
    """Makes expressions; one for all kernels of an executable."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Expr] = {}
        self._where: Expr | None = None
        self._count = 0

    def fresh(self) -> int:
        """A number not given before, for the names of buffers."""
        self._count += 1
        return self._count

    # ---------------------------------------------------------------- leaves

    def const(self, value: Any, dtype: Any) -> Scalar:
        """A constant of a dtype."""
        dtype = np.dtype(physical_dtype(dtype))
        if dtype.kind == "c":
            part = component(dtype)
            value = complex(value)
            re, im = self.const(value.real, part), self.const(value.imag, part)
            return ComplexExpr(re, im, dtype)
        element = np.asarray(value).astype(dtype)
        # By its bits: 0.0 is not -0.0, and words of keys may read as NaNs.
        bits = element.tobytes()
        return self._intern(("const", bits, dtype), Const, element.item(), dtype)

    def load(self, buffer: Buffer, offset: Affine, dtype: Any) -> Scalar:
        """The element at `offset`, under the conditions of `guarded`."""
        if dtype.kind == "c":
            part, first = component(dtype), offset * 2
            re, im = (self.load(buffer, first + i, part) for i in (0, 1))
            return ComplexExpr(re, im, dtype)
        load = partial(self.load, buffer, dtype=dtype)
        chosen = known_indices.chosen(self, offset, load)
        if chosen is not None:
            return chosen
        return self.load_where(buffer, offset, self._where, dtype)

    def load_where(
        self, buffer: Buffer, offset: Affine, where: Expr | None, dtype: Any
    ) -> Expr:
        """The element at `offset`, of a dtype that is not complex."""
        key = ("load", buffer, offset, where)
        result: Expr = self._intern(key, Load, buffer, offset, where, dtype)
        return result

    def placeholder(self, name: str, dtype: Any) -> Scalar:
        """An operand of a reduction's `combine`."""
        if dtype.kind == "c":
            part = component(dtype)
            re, im = (self.placeholder(f"{name}.{i}", part) for i in ("re", "im"))
            return ComplexExpr(re, im, dtype)
        return self._intern(("hole", name, dtype), Placeholder, name, dtype)

    def guarded(
        self, condition: Scalar, inside: Callable[[], Scalar], outside: Scalar
    ) -> Scalar:
        """`inside()` where the condition holds, `outside` elsewhere; None always does.

        Loads in `inside` access memory only if the condition holds.
        """
        if condition is None or isinstance(condition, Const):
            return inside() if condition is None or condition.value else outside
        return self.select(condition, self.under(condition, inside), outside)

    def under(self, condition: Expr | None, inside: Callable[[], Scalar]) -> Scalar:
        """`inside()`, whose loads touch memory only where the condition holds."""
        if condition is None:
            return inside()
        before = self._where
        self._where = condition if before is None else self.and_(before, condition)
        try:
            return inside()
        finally:
            self._where = before

    @property
    def where(self) -> Expr | None:
        """The condition under which loads happen now."""
        return self._where

    # --------------------------------------------------------------- indices

    def reshape_index(
        self, index: Sequence[Any], shape: tuple[int, ...], to: tuple[int, ...]
    ) -> tuple[Affine, ...]:
        """The index in shape `to` of the element at `index` of an array of `shape`."""
        return unravel(row_major(index, shape), to)

    def index_value(self, index: Any, dtype: Any = INT64) -> Scalar:
        """An index as a number."""
        index = as_index(index)
        if index.is_constant and not is_symbolic_dim(index.const):
            return self.const(index.const, dtype)
        return self.convert(self.index_expression(index), dtype)

    def within(self, index: Any, size: int) -> Scalar | None:
        """The condition that 0 <= index < size; None where that always holds."""
        low, high = as_index(index).bounds
        inside = None
        if low < 0:
            inside = self.compare("ge", index, 0)
        if high >= size:
            below = self.compare("lt", index, size)
            inside = below if inside is None else self.and_(inside, below)
        return inside

    def index_expression(self, index: Affine) -> Expr:
        """An index as an int64 expression."""
        result: Expr = self._intern(("index", index), IndexValue, index)
        return result

    def value(self, x: Scalar) -> Scalar:
        """`x` as an expression, should it be an index."""
        if isinstance(x, (Expr, ComplexExpr)):
            return x
        return self.index_value(x)

    # ------------------------------------------------------------ arithmetic

    def add(self, x: Scalar, y: Scalar) -> Scalar:
        return self._arithmetic("add", x, y)

    def sub(self, x: Scalar, y: Scalar) -> Scalar:
        return self._arithmetic("sub", x, y)

    def mul(self, x: Scalar, y: Scalar) -> Scalar:
        return self._arithmetic("mul", x, y)

    def sum(self, x: Scalar, y: Scalar) -> Scalar:
        """x + y, into which no product is contracted: a step of a reduction."""
        x, y = self._pair(x, y)
        if isinstance(x, ComplexExpr):
            re, im = self.sum(x.re, y.re), self.sum(x.im, y.im)
            return ComplexExpr(re, im, x.dtype)
        return self._in_float32("sum", x, y) if is_float(x.dtype) else self.add(x, y)

    def product(self, x: Scalar, y: Scalar) -> Scalar:
        """x * y, which is contracted with no sum: a step of a reduction."""
        x, y = self._pair(x, y)
        if isinstance(x, ComplexExpr):
            # Sums and negations alone: LLVM may give a product that it moves a sign
            # into the flags of the sum, `contract` among them.
            minus = self.neg(self.product(x.im, y.im))
            real = self.sum(self.product(x.re, y.re), minus)
            imag = self.sum(self.product(x.re, y.im), self.product(x.im, y.re))
            return ComplexExpr(real, imag, x.dtype)
        is_real = is_float(x.dtype)
        return self._in_float32("product", x, y) if is_real else self.mul(x, y)

    def muladd(self, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
        """x * y + z, of floats rounded once, where the machine does that."""
        if not isinstance(x, Expr) or x.dtype.kind != "f":
            return self.add(self.mul(x, y), z)
        return self.instruction("muladd", x.dtype, x, y, z)

    def _arithmetic(self, name: str, x: Scalar, y: Scalar) -> Scalar:
        if is_index(x, y):
            x, y = as_index(x), as_index(y)
            return x + y if name == "add" else x - y if name == "sub" else x * y
        x, y = self._pair(x, y)
        if isinstance(x, ComplexExpr):
            rule: Any = getattr(complexes, name)
            return rule(self, x, y)
        if x.dtype == BOOL:
            name = {"add": "or_", "sub": "xor", "mul": "and_"}[name]
        known = known_indices.arithmetic(self, name, x, y)
        return self._in_float32(name, x, y) if known is None else known

    def div(self, x: Scalar, y: Scalar) -> Scalar:
        """The quotient; of integers, truncated, with x / 0 = -1 (all bits set)."""
        if isinstance(x, ComplexExpr):
            return complexes.div(self, x, y)
        if is_index(x, y):
            return as_index(x) // y
        x, y = self._pair(x, y)
        if is_float(x.dtype):
            return self._in_float32("div", x, y)
        known = known_indices.arithmetic(self, "div", x, y)
        if known is not None:
            return known
        return integers.division(self, x, y)[0]

    def rem(self, x: Scalar, y: Scalar) -> Scalar:
        """The remainder with the sign of x; of integers, x rem 0 = x."""
        if is_index(x, y):
            return as_index(x) % y
        x, y = self._pair(x, y)
        if is_float(x.dtype):
            return self.math("rem", x, y)
        known = known_indices.arithmetic(self, "rem", x, y)
        if known is not None:
            return known
        return integers.division(self, x, y)[1]

    def neg(self, x: Scalar) -> Scalar:
        if isinstance(x, ComplexExpr):
            return ComplexExpr(self.neg(x.re), self.neg(x.im), x.dtype)
        return self._in_float32("neg", self.value(x))

    def abs(self, x: Scalar) -> Scalar:
        """The absolute value; a real number of a complex one."""
        if isinstance(x, ComplexExpr):
            return complexes.abs_(self, x)
        if x.dtype.kind in "ub":
            return x
        return self._in_float32("abs", x)

    def sign(self, x: Scalar) -> Scalar:
        """-1, 0 or 1; a NaN and the sign of zero stay."""
        if isinstance(x, ComplexExpr):
            return complexes.sign(self, x)
        zero, one = self.const(0, x.dtype), self.const(1, x.dtype)
        below = x
        if x.dtype.kind != "u":
            minus = self.const(-1, x.dtype)
            below = self.select(self.compare("lt", x, zero), minus, x)
        return self.select(self.compare("gt", x, zero), one, below)

    def max(self, x: Scalar, y: Scalar) -> Scalar:
        """The larger; a NaN wins."""
        return self._extremum("max", x, y)

    def min(self, x: Scalar, y: Scalar) -> Scalar:
        """The smaller; a NaN wins."""
        return self._extremum("min", x, y)

    def _extremum(self, name: str, x: Scalar, y: Scalar) -> Scalar:
        if isinstance(x, ComplexExpr):
            return complexes.extremum(self, name, x, y)
        x, y = self._pair(x, y)
        if x.dtype == BOOL:
            return self.or_(x, y) if name == "max" else self.and_(x, y)
        for this, other in ((x, y), (y, x)):
            if known_indices.order("ge" if name == "max" else "le", this, other):
                return this
        return self._in_float32(name, x, y)

    def pow(self, x: Scalar, y: Scalar) -> Scalar:
        """x to the power y; integers wrap around, and take only powers >= 0."""
        if isinstance(x, ComplexExpr):
            return complex_exponentials.power(self, x, y)
        if is_float(x.dtype):
            return self.math("pow", x, y)
        return integers.power(self, x, y)

    def math(self, name: str, *xs: Scalar) -> Scalar:
        """A function of the vector math library, or rounding and roots."""
        if isinstance(xs[0], ComplexExpr):
            rule = _COMPLEX.get(name)
            if rule is None:
                raise CannotLowerOp(f"{name} of complex numbers")
            return rule(self, *xs)
        if name not in _ROUNDING and name not in FUNCTIONS:
            raise CannotLowerOp(f"{name} is not in the vector math library")
        return self._in_float32(name if name in _ROUNDING else f"math.{name}", *xs)

    def floor(self, x: Scalar) -> Scalar:
        return self.math("floor", x)

    def ceil(self, x: Scalar) -> Scalar:
        return self.math("ceil", x)

    def trunc(self, x: Scalar) -> Scalar:
        return self.math("trunc", x)

    def round_even(self, x: Scalar) -> Scalar:
        return self.math("round_even", x)

    def sqrt(self, x: Scalar) -> Scalar:
        return self.math("sqrt", x)

    def copysign(self, x: Scalar, sign: Scalar) -> Scalar:
        return self._in_float32("copysign", x, sign)

    def is_finite(self, x: Scalar) -> Scalar:
        """Whether x is neither infinite nor NaN."""
        if isinstance(x, ComplexExpr):
            return self.and_(self.is_finite(x.re), self.is_finite(x.im))
        if not is_native(x.dtype):
            raise CannotLowerOp(f"is_finite of {x.dtype}")
        if not is_float(x.dtype):
            return self.const(True, BOOL)
        return self.compare("lt", self.abs(x), self.const(np.inf, x.dtype))

    # ------------------------------------------------------------------ bits

    def and_(self, x: Scalar, y: Scalar) -> Scalar:
        if x.dtype == BOOL:
            for this, other in ((x, y), (y, x)):
                if isinstance(this, Const):
                    return other if this.value else this
                known = known_indices.implied(this, other)
                if known is not None:
                    return this if known else self.const(False, BOOL)
        return self.instruction("and_", x.dtype, x, y)

    def or_(self, x: Scalar, y: Scalar) -> Scalar:
        return self.instruction("or_", x.dtype, x, y)

    def xor(self, x: Scalar, y: Scalar) -> Scalar:
        return self.instruction("xor", x.dtype, x, y)

    def not_(self, x: Scalar) -> Scalar:
        opposite = known_indices.opposite(self, x)
        return self.instruction("not_", x.dtype, x) if opposite is None else opposite

    def shl(self, x: Scalar, y: Scalar) -> Scalar:
        """Zeros come in; 0 where the count is negative or too large."""
        return integers.shift(self, "shl", x, y, self.const(0, x.dtype))

    def shr_logical(self, x: Scalar, y: Scalar) -> Scalar:
        """Zeros come in; 0 where the count is negative or too large."""
        return integers.shift(self, "lshr", x, y, self.const(0, x.dtype))

    def shr_arith(self, x: Scalar, y: Scalar) -> Scalar:
        """The sign comes in; nothing but signs where the count is out of range."""
        last = self.const(8 * x.dtype.itemsize - 1, x.dtype)
        return integers.shift(
            self, "ashr", x, y, self.instruction("ashr", x.dtype, x, last)
        )

    def population_count(self, x: Scalar) -> Scalar:
        return self.instruction("population_count", x.dtype, x)

    def clz(self, x: Scalar) -> Scalar:
        return self.instruction("leading_zeros", x.dtype, x)

    def bitcast(self, x: Scalar, dtype: Any) -> Scalar:
        """The same bits as another dtype of the same width."""
        x, dtype = self.value(x), np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.dtype.kind == "c" or dtype.kind == "c":
            raise CannotLowerOp("bitcasts of complex numbers")
        return self.instruction("bitcast", dtype, x)

    # -------------------------------------------- comparison, choice, dtype

    def compare(self, direction: str, x: Scalar, y: Scalar) -> Scalar:
        """eq ne lt le gt ge. With a NaN, only `ne` is true."""
        known = known_indices.comparison(self, direction, x, y)
        if known is not None:
            return known
        x, y = self._pair(x, y)
        if isinstance(x, ComplexExpr):
            return complexes.compare(self, direction, x, y)
        x, y = self._widened(x), self._widened(y)
        return self.instruction(f"compare.{direction}", BOOL, x, y)

    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
        """x where the condition holds, y elsewhere."""
        x, y = self._pair(x, y)
        if isinstance(x, ComplexExpr):
            re = self.select(condition, x.re, y.re)
            return ComplexExpr(re, self.select(condition, x.im, y.im), x.dtype)
        if isinstance(condition, Const):
            return x if condition.value else y
        if x is y:
            return x
        return self.instruction("select", x.dtype, condition, x, y)

    def convert(self, x: Scalar, dtype: Any) -> Scalar:
        """The number as another dtype.

        Floats become integers by truncation, saturating, NaN as 0; a complex number
        loses its imaginary part; anything but 0 is True.
        """
        x, dtype = self.value(x), np.dtype(physical_dtype(dtype))
        if x.dtype == dtype:
            return x
        if isinstance(x, ComplexExpr):
            if dtype == BOOL:
                return self.compare("ne", x, self.const(0, x.dtype))
            if dtype.kind != "c":
                return self.convert(x.re, dtype)
            part = component(dtype)
            re, im = self.convert(x.re, part), self.convert(x.im, part)
            return ComplexExpr(re, im, dtype)
        if dtype.kind == "c":
            re = self.convert(x, component(dtype))
            return ComplexExpr(re, self.const(0, re.dtype), dtype)
        known = isinstance(x, Const) and is_native(x.dtype)
        if known and not (x.dtype.kind == "f" and dtype.kind in "iu"):
            return self.const(np.asarray(x.value, x.dtype).astype(dtype), dtype)
        if dtype == BOOL:
            return self.compare("ne", x, self.const(0, x.dtype))
        index = known_index(x)
        if index is not None and is_within(index, dtype):
            x = self.index_expression(index)
            if x.dtype == dtype:
                return x
        if FLOAT32 not in (x.dtype, dtype) and {x.dtype, dtype} & HALVES:
            x = self.convert(x, FLOAT32)
        return self.instruction("convert", dtype, x)

    def complex(self, re: Scalar, im: Scalar) -> Scalar:
        return ComplexExpr(
            re, im, np.dtype("complex64" if re.dtype == FLOAT32 else "complex128")
        )

    def real(self, x: Scalar) -> Scalar:
        return x.re if isinstance(x, ComplexExpr) else x

    def imag(self, x: Scalar) -> Scalar:
        return x.im if isinstance(x, ComplexExpr) else self.const(0, x.dtype)

    # --------------------------------------------------------------- private

    def _pair(self, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
        """Two operands as expressions; a Python number takes the other's dtype."""
        if isinstance(x, (bool, int, float)) and hasattr(y, "dtype"):
            return self.const(x, y.dtype), y
        if isinstance(y, (bool, int, float)) and hasattr(x, "dtype"):
            return x, self.const(y, x.dtype)
        return self.value(x), self.value(y)

    def _in_float32(self, name: str, *xs: Scalar) -> Expr:
        """The instruction, computed in float32 and rounded for half floats."""
        xs = tuple(self.value(x) for x in xs)
        dtype = xs[0].dtype
        result = self.instruction(name, computed_dtype(dtype), *map(self._widened, xs))
        return self.convert(result, dtype)

    def _widened(self, x: Expr) -> Expr:
        return self.convert(x, computed_dtype(x.dtype))

    def instruction(self, name: str, dtype: Any, *args: Expr) -> Expr:
        """An instruction as it stands."""
        for touched in (dtype, *(a.dtype for a in args)):
            if not is_native(touched):
                raise CannotLowerOp(f"{name} of {touched}")
        key, bounds = (name, dtype, args), limits(name, args, dtype)
        result: Expr = self._intern(key, Instr, name, args, dtype, bounds)
        return result

    def _intern(self, key: tuple[Any, ...], cls: Any, *fields: Any) -> Any:
        result = self._nodes.get(key)
        if result is None:
            result = self._nodes[key] = cls(*fields)
        return result


def is_index(x: Scalar, y: Scalar) -> bool:
    """Whether arithmetic on x and y is index arithmetic."""
    return (
        isinstance(x, (Affine, int, SymbolicDim))
        and isinstance(y, (Affine, int, SymbolicDim))
        or (isinstance(x, Affine) or isinstance(y, Affine))
    )
