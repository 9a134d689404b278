"""Changes of dtype, by value and by bits; copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray, is_python_scalar, tangent_dtype
from curta.core.key_use import FORWARD, KeyReuseSignature
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.primitives.base import scalar_of
from curta.primitives.families import Linear
from curta.primitives.structure import move_dim


@dataclass(frozen=True)
class ConvertElementType(Op):
    """The same numbers in another dtype.

    Floats become integers by truncation, saturating, with NaN as 0; complex numbers
    lose their imaginary part; anything but 0 is True.
    """

    name: ClassVar[str] = "convert_element_type"
    arity: ClassVar[int | None] = 1
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    param_names: ClassVar[Mapping[str, str | None]] = {"sharding": None}
    new_dtype: Any
    weak_type: bool = False

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        _refuse_keys(x.dtype, self.new_dtype)
        return ShapedArray(x.shape, self.new_dtype, self.weak_type)

    def eval(self, *args: Any) -> Any:
        return converted(args[0], dtypes.physical_dtype(self.new_dtype))

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        x, dtype = operands[0].at(index), dtypes.physical_dtype(self.new_dtype)
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = b.real(x)
        return b.convert(x, dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out, dtype = self(*primals), tangent_dtype(self.new_dtype)
        if dtype == dtypes.float0:
            return out, zero_tangent(typeof(out))
        return out, ConvertElementType(dtype, self.weak_type)(*tangents)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        return [convert_element_type(cotangent, x.aval.dtype, x.aval.weak_type)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(*args), dims[0]

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


def _refuse_keys(old: Any, new: Any) -> None:
    if old != new and any(map(_is_no_number, (old, new))):
        raise ValueError(
            f"Cannot convert_element_type from {old} to {new}: random keys are not"
            " numbers. random.key_data returns their words, random.wrap_key_data"
            " makes keys from words."
        )


def _is_no_number(dtype: Any) -> bool:
    extended = isinstance(dtype, dtypes.ExtendedDType)
    return extended and not isinstance(dtype, dtypes.PrimalTangentDType)


def converted(x: Any, dtype: Any) -> Any:
    """The NumPy array `x` as `dtype`, by the rules of `ConvertElementType`."""
    if x.dtype == dtype:
        return x
    if x.dtype == dtypes.float0:
        return np.zeros(x.shape, dtype)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtypes.issubdtype(dtype, np.integer) and dtypes.issubdtype(x.dtype, np.floating):
        return _saturated(x, dtype)
    if _is_narrow(x.dtype) and _is_narrow(dtype):
        x = x.astype(_OWN_DTYPES[dtypes.scalar_type_of(x.dtype)])
    return x.astype(dtype)


# NumPy's dtypes that hold the numbers of those it knows no way between.
_OWN_DTYPES = {int: np.int16, float: np.float32}


def _is_narrow(dtype: Any) -> bool:
    """Whether elements are numbers of a byte or less that are not NumPy's own."""
    return bool(dtype.itemsize == 1 and dtype.kind in "Vf")


def _saturated(x: Any, dtype: Any) -> Any:
    """Floats as integers: truncated, with what lies outside at the nearest end."""
    x = x.astype(dtypes.working_dtype(x.dtype), copy=False)
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
    if aval is None or isinstance(x, np.generic):
        _refuse_keys(typeof(x).dtype, dtype)
        wanted = ShapedArray((), dtype, weak_type)
        physical = dtypes.physical_dtype(dtype)
        narrow = np.dtype(physical).itemsize < 4  # where too large a float is infinite
        with np.errstate(over="ignore") if narrow else nullcontext():
            out = scalar_of(wanted, converted(np.asarray(x), physical))
        if typeof(out) is wanted:
            return out
    return ConvertElementType(dtype, weak_type)(x)


@dataclass(frozen=True)
class BitcastConvertType(Op):
    """The same bits as another dtype; a change of width adds or takes a last dim."""

    name: ClassVar[str] = "bitcast_convert_type"
    arity: ClassVar[int | None] = 1
    new_dtype: Any

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        for dtype in (x.dtype, self.new_dtype):
            if dtypes.issubdtype(dtype, dtypes.extended):
                raise ValueError(
                    f"unexpected input: dtype={dtype}. {self.name} takes numbers;"
                    " random.key_data gives the words of random keys."
                )
        old, new, shape = x.dtype, self.new_dtype, self._shape(x)
        if old != new and (_is_opaque(old) or _is_opaque(new)):
            raise TypeError(
                "lax.bitcast_convert_type does not support bool or complex values"
                " unless the operand and destination types match. Got operand"
                f" dtype={old}, new_dtype={new!r}. Consider using the arr.view()"
                " method instead."
            )
        return ShapedArray(shape, new)

    def _shape(self, x: ShapedArray) -> tuple[int, ...]:
        old, new = map(dtypes.itemsize_bits, (x.dtype, self.new_dtype))
        if old == new:
            return x.shape
        if old > new:
            return (*x.shape, old // new)
        last = x.shape[-1] if x.shape else 1
        if last * old != new:
            raise ValueError(
                f"Attempting to convert array of shape {x.shape} from {x.dtype} of"
                f" size {old} bits to {self.new_dtype} of size {new}, bits but {last}"
                f" * {old} != {new}. The last dim must make up one element."
            )
        return x.shape[:-1]

    def eval(self, *args: Any) -> Any:
        (x,) = args
        out = self._shape(ShapedArray(x.shape, x.dtype))
        if min(map(dtypes.itemsize_bits, (x.dtype, self.new_dtype))) < 8:
            count = dtypes.itemsize_bits(self.new_dtype)
            bits = _bits_of(x).reshape(*out, count)
            return _from_bits(bits, self.new_dtype).reshape(out)
        return np.ascontiguousarray(x).reshape(-1).view(self.new_dtype).reshape(out)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        old, new = x.aval.dtype, self.new_dtype
        if min(map(dtypes.itemsize_bits, (old, new))) < 8:
            self._missing("lower")
        if old.itemsize == new.itemsize:
            return b.bitcast(x.at(index), new)
        if old.itemsize > new.itemsize:
            return _part(b, x.at(index[:-1]), index[-1], new)
        count = new.itemsize // old.itemsize
        parts = [x.at((*index, k) if x.aval.shape else ()) for k in range(count)]
        return _joined(b, parts, new)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        return out, zero_tangent(typeof(out))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        old, new = map(dtypes.itemsize_bits, (typeof(x).dtype, self.new_dtype))
        if old >= new:
            return self(x), dim
        return self(move_dim(x, dim, 0)), 0  # the last dim goes

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for old, new in ("float32", "int32"), ("int16", "bfloat16"), ("int8", "uint8"):
            for shape in (2, 3), (), (0, 2):
                yield cls(np.dtype(new)), [(shape, old)]
        yield cls(np.dtype("uint8")), [((2, 3), "float32")]
        yield cls(np.dtype("float64")), [((3, 2), "uint32", {"high": 9})]


def _is_opaque(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.bool_) or dtype.kind == "c"


def _bits_of(x: Any) -> Any:
    """The bits of each element along a new last dim, the least significant first."""
    data: Any = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    data = data.reshape(x.size, x.itemsize)
    bits = np.unpackbits(data, axis=-1, bitorder="little")
    return bits[:, : dtypes.itemsize_bits(x.dtype)]


def _from_bits(bits: Any, dtype: Any) -> Any:
    """The elements with these bits, for dtypes of less than a byte too."""
    data = np.packbits(bits, axis=-1, bitorder="little")
    width = dtypes.itemsize_bits(dtype)
    if width >= 8 or not dtypes.issubdtype(dtype, np.signedinteger):
        return data.view(dtype)
    return np.right_shift(data.view(np.int8) << (8 - width), 8 - width).astype(dtype)


def _word(dtype: Any) -> Any:
    """The unsigned integers as wide as `dtype`."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _part(b: Any, x: Any, k: Any, dtype: Any) -> Any:
    """The k-th of the narrower elements that make up x, the least significant first."""
    word = _word(x.dtype)
    shift = b.index_value(b.mul(k, 8 * dtype.itemsize), word)
    bits = b.shr_logical(b.bitcast(x, word), shift)
    return b.bitcast(b.convert(bits, _word(dtype)), dtype)


def _joined(b: Any, parts: Sequence[Any], dtype: Any) -> Any:
    """The wider element made up of `parts`, the least significant first."""
    word = _word(dtype)
    bits = b.const(0, word)
    for k, part in enumerate(parts):
        one = b.convert(b.bitcast(part, _word(part.dtype)), word)
        shift = b.const(8 * part.dtype.itemsize * k, word)
        bits = b.or_(bits, b.shl(one, shift))
    return b.bitcast(bits, dtype)


class Identity(Op):
    """An op that gives its operand back."""

    domain: ClassVar[dict[str, Any]] = {}

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, *args: Any) -> Any:
        return args[0]

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        return operands[0].at(index)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(*args), dims[0]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "any", cls.domain)]


class Copy(Identity, Linear):
    """The operand in memory of its own."""

    name: ClassVar[str] = "copy"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD

    def eval(self, *args: Any) -> Any:
        return args[0].copy()

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [self(cotangent)]


@dataclass(frozen=True)
class Name(Identity, Linear):
    """The operand, under a name that policies of rematerialisation know it by."""

    name: ClassVar[str] = "name"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    param_names: ClassVar[Mapping[str, str | None]] = {"name": "label"}
    label: str

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), tangents[0]

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [cotangent]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls("kept"), [((2, 3), "any")]
        yield cls("kept"), [((), "any")]
        yield cls("kept"), [((0, 2), "any")]


@dataclass(frozen=True)
class XlaMetadataValue(Identity, Linear):
    """The operand, with notes for XLA on what made it."""

    name: ClassVar[str] = "xla_metadata_value"
    xla_metadata_kvs: tuple[tuple[str, Any], ...]

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [cotangent]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((("key", "a"),)), [((2, 3), "any")]
        yield cls((("key", 1),)), [((0,), "any")]


class StopGradient(Identity):
    """The operand, as a constant to differentiation."""

    domain: ClassVar[dict[str, Any]] = {"rough": True}

    name: ClassVar[str] = "stop_gradient"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), zero_tangent(typeof(*primals))


copy: Copy = Copy()
stop_gradient: StopGradient = StopGradient()
