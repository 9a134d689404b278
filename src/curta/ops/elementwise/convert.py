"""Changes of dtype: by value and by bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray, is_python_scalar, tangent_dtype
from curta.core.op import Op
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof


@dataclasses.dataclass(frozen=True)
class ConvertElementType(Op):
    """The same numbers in another dtype.

    Floats become integers by truncation, saturating, with NaN as 0; complex numbers
    lose their imaginary part; anything but 0 is True.
    """

    name: ClassVar[str] = "convert_element_type"
    new_dtype: Any
    weak_type: bool = False

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        return ShapedArray(x.shape, self.new_dtype, self.weak_type)

    def eval(self, *args: Any) -> Any:
        return _converted(args[0], self.new_dtype)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        x = operands[0].at(index)
        if x.dtype.kind == "c" and self.new_dtype.kind != "c":
            x = b.real(x)
        return b.convert(x, self.new_dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        if tangent_dtype(self.new_dtype) == dtypes.float0:
            return out, zero_tangent(typeof(out))
        return out, self(*tangents)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        return [ConvertElementType(x.aval.dtype, x.aval.weak_type)(cotangent)]

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        return self(*args), dims[0]

    def params(self) -> dict[str, Any]:
        return {
            "new_dtype": self.new_dtype,
            "weak_type": self.weak_type,
            "sharding": None,
        }

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {"new_dtype": self.new_dtype, "weak_type": self.weak_type}

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for name in "float32", "float64", "bfloat16", "complex64":
            yield cls(np.dtype(name)), [((2, 3), "inexact")]
            yield cls(np.dtype(name)), [((), "bool_or_int")]
        for name in "bool", "int8", "uint8", "int32", "int64", "uint64":
            yield cls(np.dtype(name)), [((2, 3), "any")]
        yield cls(np.dtype("float32"), True), [((0, 2), "any")]


def _converted(x: Any, dtype: Any) -> Any:
    """`x` as `dtype`, in NumPy."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtypes.issubdtype(dtype, np.integer) and dtypes.issubdtype(x.dtype, np.floating):
        return _saturated(x, dtype)
    return x.astype(dtype)


def _saturated(x: Any, dtype: Any) -> Any:
    """Floats as integers: truncated, with what lies outside at the nearest end."""
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    info = dtypes.iinfo(dtype)
    # The greatest integer may not be a float, but the power of two after it is.
    least, beyond = float(info.min), float(info.max) + 1.0
    if info.bits == 64:
        beyond = 2.0 ** (64 - (info.min < 0))
    inside = (x >= least) & (x < beyond)
    if inside.all():
        return x.astype(dtype)
    result = np.where(inside, x, 0).astype(dtype)
    result = np.where(x >= beyond, np.asarray(info.max, dtype), result)
    return np.where(x <= least, np.asarray(info.min, dtype), result)


def convert_element_type(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """`x` as `dtype`; `x` itself if it is that already. Scalars convert at once."""
    aval = typeof(x) if not is_python_scalar(x) else None
    if aval is not None and (aval.dtype, aval.weak_type) == (dtype, weak_type):
        return x
    if not weak_type and (aval is None or isinstance(x, np.generic)):
        return _converted(np.asarray(x), dtype)[()]
    return ConvertElementType(dtype, weak_type)(x)
