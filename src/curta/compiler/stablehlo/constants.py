"""Constants as MLIR writes them: `dense<1.000000e+00> : tensor<f32>`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.types import element_type, tensor
from curta.core.avals import ShapedArray
from curta.dtypes import ExtendedDType, KeyDType, KeyFill


def elements(value: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """The elements of a constant; random keys as words along a last dim."""
    if not isinstance(aval.dtype, ExtendedDType):
        return np.asarray(value, aval.dtype)
    if isinstance(value, KeyFill):
        value = value.physical
    storage = getattr(value, "_storage", None)
    stored = np.asarray(storage() if storage else value, aval.dtype.physical)
    if not isinstance(aval.dtype, KeyDType):
        return stored
    # A single key stays one: NumPy's `ascontiguousarray` would make a row of it.
    return np.asarray(stored, order="C")[..., None].view(np.uint32)


# The bits of the significand, the leading one included.
_PRECISION = {
    "f64": 53,
    "f32": 24,
    "f16": 11,
    "bf16": 8,
    "f8E3M4": 5,
    "f8E4M3": 4,
    "f8E4M3B11FNUZ": 4,
    "f8E4M3FN": 4,
    "f8E4M3FNUZ": 4,
    "f8E5M2": 3,
    "f8E5M2FNUZ": 3,
    "f4E2M1FN": 2,
    "f8E8M0FNU": 1,
}

_MOST_WRITTEN = 100  # elements; the bytes of more are written in hex


def dense(values: np.ndarray[Any, Any]) -> RawAttribute:
    """`dense<...> : tensor<...>` for an array of any shape and dtype.

    A splat is written once; large tensors as the bytes of their elements in hex.
    """
    if values.dtype.kind == "V" and not values.dtype.itemsize or values.dtype.fields:
        values = np.zeros(values.shape, bool)  # float0
    element = element_type(values.dtype)
    return RawAttribute(
        f"dense<{_elements(values, element)}> : {tensor(values.shape, element)}"
    )


def constant_text(values: np.ndarray[Any, Any]) -> tuple[RawAttribute, str, str]:
    """A constant, its type, and what MLIR calls its value."""
    if values.ndim or not values.dtype.itemsize:  # float0 has no bytes
        return _constant_text(values)
    return _scalar_constant(values.dtype, values.tobytes())


@functools.lru_cache(1024)
def _scalar_constant(dtype: Any, data: bytes) -> tuple[RawAttribute, str, str]:
    return _constant_text(np.frombuffer(data, dtype).reshape(()))


def _constant_text(values: np.ndarray[Any, Any]) -> tuple[RawAttribute, str, str]:
    text = dense(values)
    _, _, type_ = text.rpartition(" : ")
    return text, type_, "cst" if type_.endswith(_NOT_INTEGERS) else "c"


_NOT_INTEGERS = tuple(
    f"{name}>" for name in (*_PRECISION, "complex<f32>", "complex<f64>")
)


def scalar(value: Any) -> str:
    """One element of a constant."""
    return _written(np.asarray(value).reshape(1), element_type(value.dtype))[0]


def _elements(values: np.ndarray[Any, Any], element: str) -> str:
    if values.size == 0:
        return ""
    flat = np.ascontiguousarray(values).reshape(-1)
    bytes_ = flat.view(np.uint8).reshape(flat.size, -1)
    if flat.size == 1 or bool((bytes_ == bytes_[0]).all()):
        return _written(flat[:1], element)[0]
    if values.size > _MOST_WRITTEN:
        return f'"0x{flat.tobytes().hex().upper()}"'
    return _nested(_written(flat, element), values.shape)


def _nested(items: list[str], shape: tuple[int, ...]) -> str:
    for size in reversed(shape[1:]):
        rows = range(0, len(items), size)
        items = ["[" + ", ".join(items[i : i + size]) + "]" for i in rows]
    return "[" + ", ".join(items) + "]"


def _written(flat: np.ndarray[Any, Any], element: str) -> list[str]:
    """The elements of an array of rank 1."""
    if element == "i1":
        return ["true" if x else "false" for x in flat.tolist()]
    if element.startswith(("i", "u")):
        return [str(int(x)) for x in flat]
    if element.startswith("complex"):
        part = element[len("complex<") : -1]
        pairs = zip(_written(flat.real, part), _written(flat.imag, part), strict=True)
        return [f"({x},{y})" for x, y in pairs]
    flat = np.ascontiguousarray(flat)
    bits = flat.view(f"u{flat.dtype.itemsize}").tolist()
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        wide = flat.astype(np.float64).tolist()
    return [_float(x, f"0x{n:X}", flat.dtype) for x, n in zip(wide, bits, strict=True)]


# ---------------------------------------------------------------------- floats


def float_text(value: np.floating[Any]) -> str:
    """A float of an attribute."""
    return _float(float(value), "", value.dtype)


@functools.lru_cache(1024)
def _float(value: float, bits: str, dtype: np.dtype[Any]) -> str:
    """A float as MLIR writes it: six digits if they say it all, else as many as do.

    The bits in hex if it is not finite, or would look like an integer.
    """
    if not np.isfinite(value):
        return bits
    sign = "-" if np.signbit(value) else ""
    if value == 0:
        return f"{sign}0.000000e+00"
    digits, exponent = _decimal(abs(value), 6)
    exponent += len(digits) - 1
    power = f"{exponent:+03d}"
    short = f"{sign}{digits[0]}.{digits[1:]:0<6}e{power}"
    if np.float64(float(short)).astype(dtype).astype(np.float64) == value:
        return short
    most = 2 + _PRECISION[element_type(dtype)] * 59 // 196
    long = _positional(*_decimal(abs(value), most), most)
    return sign + long if "." in long else bits


def _decimal(value: float, most: int) -> tuple[str, int]:
    """At most so many digits d and a power of ten p, with d * 10**p near a number.

    As LLVM's APFloat does it: what is certainly not needed is cut off, not rounded,
    then half is rounded up. So the digits need not be the nearest ones.
    """
    numerator, denominator = value.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    digits = numerator * 5**-exponent
    surplus = digits.bit_length() - (most * 196 + 58) // 59
    if surplus > 0:
        tens = surplus * 59 // 196
        digits //= 10**tens
        exponent += tens
    text = str(digits)
    kept = text.rstrip("0")
    exponent += len(text) - len(kept)
    if len(kept) > most:
        exponent += len(kept) - most
        text = str(int(kept[:most]) + (kept[most] >= "5"))
        kept = text.rstrip("0")
        exponent += len(text) - len(kept)
    return kept, exponent


def _positional(digits: str, exponent: int, most: int) -> str:
    """The number without a power of ten, where it takes few zeros."""
    count = len(digits)
    if exponent >= 0:
        if exponent <= 3 and count + exponent <= most:
            return digits + "0" * exponent
    elif exponent + count > 0:
        return f"{digits[:exponent]}.{digits[exponent:]}"
    elif 1 - exponent - count <= 3:
        return f"0.{'0' * -(exponent + count)}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent + count - 1:+d}"
