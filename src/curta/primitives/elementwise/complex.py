"""Complex numbers from their parts, and their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.trace import typeof
from curta.primitives.base import Family, LinearElementwise
from curta.primitives.elementwise.arithmetic import neg
from curta.primitives.structure import exact_scalar, instantiate

COMPLEX: Family = (np.complexfloating,)
PARTS: Family = (np.float32, np.float64)


def part_dtype(dtype: Any) -> Any:
    """The dtype of the parts of a complex dtype; other dtypes as they are."""
    if dtype.kind != "c":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


class RealOrImag(LinearElementwise):
    """The real or imaginary part."""

    accepts: ClassVar[Family] = COMPLEX

    def out_dtype(self, *dtypes: Any) -> Any:
        return part_dtype(super().out_dtype(*dtypes))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return self(t)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "complex")]


class Real(RealOrImag):
    """The real part."""

    name: ClassVar[str] = "real"
    method: ClassVar[str] = "real"
    makes_nan: ClassVar[bool] = False
    ufunc: ClassVar[Any] = staticmethod(np.real)

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return complex_(ct, _zero(ct))


class Imag(RealOrImag):
    """The imaginary part."""

    name: ClassVar[str] = "imag"
    method: ClassVar[str] = "imag"
    makes_nan: ClassVar[bool] = False
    ufunc: ClassVar[Any] = staticmethod(np.imag)

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return complex_(_zero(ct), neg(ct))


def _zero(x: Any) -> Any:
    return exact_scalar(0, typeof(x).dtype)


class Complex(LinearElementwise):
    """re + i * im."""

    name: ClassVar[str] = "complex"
    method: ClassVar[str] = "complex"
    makes_nan: ClassVar[bool] = False
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = PARTS

    def out_dtype(self, *given: Any) -> Any:
        return dtypes.to_complex_dtype(super().out_dtype(*given))

    def eval(self, *args: Any) -> Any:
        re, im = args
        shape = np.broadcast_shapes(re.shape, im.shape)
        out = np.empty(shape, dtypes.to_complex_dtype(re.dtype))
        out.real, out.imag = re, im
        return out

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*map(instantiate, tangents))

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return imag(neg(ct)) if i else real(ct)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for dtype in "float32", "float64":
            for shape in (2, 3), (), (0, 2):
                yield cls(), [(shape, dtype), (shape, dtype)]


@dataclass(frozen=True)
class Conj(LinearElementwise):
    """The complex conjugate; of real numbers, the complex number."""

    name: ClassVar[str] = "conj"
    makes_nan: ClassVar[bool] = False
    accepts: ClassVar[Family] = (*PARTS, np.complexfloating)
    input_dtype: Any

    def out_dtype(self, *given: Any) -> Any:
        return dtypes.to_complex_dtype(super().out_dtype(*given))

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if x.dtype.kind == "c":
            return np.conjugate(x)
        return x.astype(dtypes.to_complex_dtype(x.dtype))

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        imaginary = b.imag(x)
        if self.input_dtype.kind == "c":
            imaginary = b.neg(imaginary)
        return b.complex(b.real(x), imaginary)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return self(t)

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return conj(ct) if self.input_dtype.kind == "c" else real(ct)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for name in "float32", "float64", "complex64", "complex128":
            for shape in (2, 3), (), (0, 2):
                yield cls(np.dtype(name)), [(shape, name)]


real: Real = Real()
imag: Imag = Imag()
complex_: Complex = Complex()


def conj(x: Any) -> Any:
    """The complex conjugate of x."""
    return Conj(typeof(x).dtype)(x)
