"""The list of dtypes, the defaults, and predicates on dtypes.

NumPy's own dtypes are joined by those of ml_dtypes: bfloat16 and the narrow floats and
integers. 64-bit types take part only while ``jax_enable_x64`` is on; otherwise they
are halved, silently where a default is meant and with a warning where a user asked.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from curta._base.pages import page
from curta._base.user_warnings import warn
from curta.config import config
from curta.dtypes.extended import ExtendedDType, extended

__all__ = [
    "bfloat16",
    "canonicalize_dtype",
    "check_user_dtype",
    "default_complex_dtype",
    "default_float_dtype",
    "default_int_dtype",
    "default_uint_dtype",
    "finfo",
    "float0",
    "iinfo",
    "is_valid_dtype",
    "isdtype",
    "issubdtype",
    "itemsize_bits",
    "python_scalar_dtype",
    "python_scalar_types",
    "scalar_type_of",
    "short_name",
    "supports_inf",
    "to_complex_dtype",
    "to_floating_dtype",
    "to_inexact_dtype",
    "to_numeric_dtype",
    "summing_dtype",
    "working_dtype",
]

DType: TypeAlias = Any  # np.dtype or ExtendedDType

finfo: Any = ml_dtypes.finfo
iinfo: Any = ml_dtypes.iinfo

bfloat16: Any = ml_dtypes.bfloat16

# The dtype of tangents of integers and booleans: a vector space of one point.
float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])


def _narrow_dtypes(*names: str) -> list[np.dtype[Any]]:
    return [np.dtype(getattr(ml_dtypes, name)) for name in names]


BOOL: np.dtype[Any] = np.dtype(np.bool_)
NARROW_SIGNED = _narrow_dtypes("int1", "int2", "int4")
NARROW_UNSIGNED = _narrow_dtypes("uint1", "uint2", "uint4")
NARROW_INTEGERS = NARROW_SIGNED + NARROW_UNSIGNED
NARROW_FLOATS = _narrow_dtypes(
    "float4_e2m1fn",
    *("float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3"),
    *("float8_e8m0fnu", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz"),
)
BFLOAT16 = np.dtype(bfloat16)
SIGNED = [*NARROW_SIGNED, *map(np.dtype, ("int8", "int16", "int32", "int64"))]
UNSIGNED = [*NARROW_UNSIGNED, *map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))]
FLOATS = [*NARROW_FLOATS, BFLOAT16, *map(np.dtype, ("float16", "float32", "float64"))]
COMPLEX: list[np.dtype[Any]] = [np.dtype("complex64"), np.dtype("complex128")]
ALL: list[np.dtype[Any]] = [BOOL, *UNSIGNED, *SIGNED, *FLOATS, *COMPLEX]

_valid = frozenset([float0, *ALL])
_narrow = frozenset(NARROW_INTEGERS + NARROW_FLOATS)

_KINDS: dict[str, frozenset[np.dtype[Any]]] = {
    "bool": frozenset([BOOL]),
    "signed integer": frozenset(SIGNED),
    "unsigned integer": frozenset(UNSIGNED),
    "integral": frozenset(SIGNED + UNSIGNED),
    "real floating": frozenset(FLOATS),
    "complex floating": frozenset(COMPLEX),
    "numeric": frozenset(SIGNED + UNSIGNED + FLOATS + COMPLEX),
}

_HALVED = {
    np.dtype(wide): np.dtype(half)
    for wide, half in {
        "int64": "int32",
        "uint64": "uint32",
        "float64": "float32",
        "complex128": "complex64",
    }.items()
}

# The dtype of a Python scalar, by whether 64-bit types are on.
_SCALAR_DTYPES: dict[bool, dict[type, np.dtype[Any]]] = {
    x64: {kind: np.dtype(dt) for kind, dt in zip((bool, int, float, complex), names)}
    for x64, names in {
        False: ("bool", "int32", "float32", "complex64"),
        True: ("bool", "int64", "float64", "complex128"),
    }.items()
}
python_scalar_types: frozenset[type] = frozenset(_SCALAR_DTYPES[False])


# ---- defaults


def python_scalar_dtype(value: Any, kind: type | None = None) -> np.dtype[Any]:
    """The dtype that the Python scalar `value` (of type `kind`) takes as an array.

    Raises:
        OverflowError: an int that the default integer dtype cannot hold.

    Example:
        >>> from curta import dtypes
        >>> dtypes.python_scalar_dtype(1.5)
        dtype('float32')
    """
    dtype = _SCALAR_DTYPES[config.jax_enable_x64][kind or type(value)]
    if dtype.kind == "i":
        half = 1 << (8 * dtype.itemsize - 1)
        if not -half <= value < half:
            raise OverflowError(
                f"Python int {value} too large to convert to {dtype}; give the array "
                "a wider dtype, or enable 64-bit types with jax_enable_x64"
            )
    return dtype


def python_type_dtype(kind: type) -> np.dtype[Any]:
    """The dtype for which the Python type bool, int, float or complex stands."""
    return _SCALAR_DTYPES[config.jax_enable_x64][kind]


def default_int_dtype() -> np.dtype[Any]:
    """int32, or int64 with 64-bit types.

    >>> from curta import dtypes
    >>> dtypes.default_int_dtype()
    dtype('int32')
    """
    return python_type_dtype(int)


def default_uint_dtype() -> np.dtype[Any]:
    """uint32, or uint64 with 64-bit types.

    >>> from curta import dtypes
    >>> dtypes.default_uint_dtype()
    dtype('uint32')
    """
    return np.dtype(np.uint64 if config.jax_enable_x64 else np.uint32)


def default_float_dtype() -> np.dtype[Any]:
    """float32, or float64 with 64-bit types.

    >>> from curta import dtypes
    >>> dtypes.default_float_dtype()
    dtype('float32')
    """
    return python_type_dtype(float)


def default_complex_dtype() -> np.dtype[Any]:
    """complex64, or complex128 with 64-bit types.

    >>> from curta import dtypes
    >>> dtypes.default_complex_dtype()
    dtype('complex64')
    """
    return python_type_dtype(complex)


# ---- a dtype given by the user or by NumPy -> the dtype of an array


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype that an array gets which is asked to have `dtype`.

    64-bit types are halved unless ``jax_enable_x64`` is on.

    Raises:
        TypeError: `dtype` does not name a dtype.
        ValueError: `dtype` is extended and `allow_extended_dtype` is not given.

    Example:
        >>> import numpy as np
        >>> from curta import dtypes
        >>> dtypes.canonicalize_dtype(np.float64)
        dtype('float32')
    """
    if not isinstance(dtype, np.dtype):
        if isinstance(dtype, ExtendedDType):
            if allow_extended_dtype:
                return dtype
            raise ValueError(
                f"Internal: canonicalize_dtype called on extended dtype {dtype} with "
                "allow_extended_dtype=False"
            )
        dtype = np.dtype(dtype)
    return dtype if config.jax_enable_x64 else _HALVED.get(dtype, dtype)


def check_user_dtype(dtype: Any, function: str = "") -> DType:
    """The dtype a user asked for, checked and canonical; Python types give defaults.

    Args:
        dtype: anything that names a dtype.
        function: the function to name in a message, for example ``"zeros"``.

    Raises:
        TypeError: arrays of this dtype do not exist.
        ValueError: `dtype` is None or an array.

    Warns:
        UserWarning: a 64-bit dtype while ``jax_enable_x64`` is off.

    Returns:
        The dtype, of 32 bits for one of 64 unless ``jax_enable_x64`` is on.

    >>> from curta import dtypes
    >>> dtypes.check_user_dtype(float), dtypes.check_user_dtype("bfloat16")
    (dtype('float32'), dtype(bfloat16))
    >>> dtypes.check_user_dtype("datetime64[s]")
    Traceback (most recent call last):
        ...
    TypeError: Only number, bool, and string dtypes are supported, got dtype ...
    """
    if dtype is None:
        raise ValueError("dtype must be specified.")
    if isinstance(dtype, ExtendedDType):
        return dtype
    if isinstance(dtype, type) and dtype in python_scalar_types:
        return python_type_dtype(dtype)
    if not isinstance(dtype, np.dtype):
        if hasattr(dtype, "aval"):
            raise ValueError(
                "Passing an array as a dtype argument is no longer supported; instead "
                "of dtype=arr use dtype=arr.dtype."
            )
        if isinstance(dtype, type) and issubclass(dtype, extended):
            raise TypeError(
                f"{function or 'an array'} does not accept dtype {dtype}: it stands for"
                " all dtypes of its kind. Give the dtype of an array."
            )
        dtype = np.dtype(dtype)
    if dtype not in _valid:
        where_requested = f" in {function}" if function else ""
        raise TypeError(
            f"Only number, bool, and string dtypes are supported, got dtype {dtype}"
            f"{where_requested}. Arrays hold booleans, integers, floats and complex"
            " numbers."
        )
    return explicit_dtype(dtype, function)


def explicit_dtype(dtype: np.dtype[Any], function: str) -> DType:
    """Halve a 64-bit dtype that was asked for by name, if the settings say so."""
    if config.jax_enable_x64 or dtype not in _HALVED:
        return dtype
    mode = config.jax_explicit_x64_dtypes
    if mode == "allow":
        return dtype
    where_requested = f" requested in {function}" if function else ""
    subject = f"Explicitly requested dtype {dtype}{where_requested} is not available"
    if mode == "error":
        raise ValueError(
            f"{subject}. To enable more dtypes, set the jax_enable_x64 or "
            "jax_explicit_x64_dtypes configuration options."
        )
    warn(
        f"{subject}, and will be truncated to dtype {_HALVED[dtype]}. To enable more "
        "dtypes, set the jax_enable_x64 configuration option or the JAX_ENABLE_X64 "
        "shell environment variable. "
        f"See {page('sharp_bits', 'numbers-are-32-bits-wide')}.",
    )
    return _HALVED[dtype]


def is_valid_dtype(dtype: Any) -> bool:
    """Return True if arrays of this NumPy or extended dtype exist.

    >>> import numpy as np
    >>> from curta import dtypes
    >>> dtypes.is_valid_dtype(np.dtype("int8")), dtypes.is_valid_dtype(np.dtype("U3"))
    (True, False)
    """
    return dtype in _valid or isinstance(dtype, ExtendedDType)


# ---- questions


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype `a` is `b` or a subtype of it in NumPy's hierarchy of scalar types.

    Like ``numpy.issubdtype``, but knows bfloat16, the narrow types and random keys.

    Example:
        >>> import numpy as np
        >>> from curta import dtypes
        >>> dtypes.issubdtype(dtypes.bfloat16, np.floating)
        True
    """
    if not isinstance(a, (type, np.dtype, ExtendedDType)):
        a = np.dtype(a)
    if not isinstance(b, (type, np.dtype, ExtendedDType)):
        b = np.dtype(b)
    return _issubdtype(a, b)


@functools.lru_cache(1024)
def _issubdtype(a: Any, b: Any) -> bool:
    if isinstance(b, ExtendedDType):
        return bool(a == b)
    sub, above = _scalar_type(a), _scalar_type(b)
    return issubclass(sub, above) or above in _ANCESTORS.get(sub, ())


def _scalar_type(x: Any) -> type[np.generic]:
    if isinstance(x, type) and issubclass(x, np.generic):
        return x
    return x.type if isinstance(x, ExtendedDType) else np.dtype(x).type


# The scalar types of ml_dtypes stand outside NumPy's hierarchy; this is their parent.
_ANCESTORS: dict[type, tuple[type, ...]] = {
    dtype.type: (family, *above, np.number)
    for dtypes, family, *above in (
        ([*NARROW_FLOATS, BFLOAT16], np.floating, np.inexact),
        (NARROW_SIGNED, np.signedinteger, np.integer),
        (NARROW_UNSIGNED, np.unsignedinteger, np.integer),
    )
    for dtype in dtypes
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: a name of the array API standard, a dtype, a tuple.

    Raises:
        ValueError: a string that names neither a kind nor a dtype.
        TypeError: a kind that is neither string nor dtype.

    Example:
        >>> from curta import dtypes
        >>> dtypes.isdtype("float16", "real floating")
        True
    """
    given = np.dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return given in frozenset[Any]().union(*map(_dtypes_of_kind, kinds))


def _dtypes_of_kind(kind: Any) -> frozenset[Any]:
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    try:
        return frozenset([np.dtype(kind)])
    except TypeError as error:
        if isinstance(kind, str):
            raise ValueError(
                f"Unrecognized {kind=} expected one of {list(_KINDS)}, or the name of "
                "a dtype"
            ) from error
        raise TypeError(
            f"Expected kind to be a dtype, string, or tuple; got {kind=}"
        ) from error


def scalar_type_of(x: Any) -> type:
    """The Python type for elements of `x`: bool, int, float or complex.

    `x` is a dtype, an array or a Python number; ValueError for None.

    >>> from curta import dtypes, numpy as jnp
    >>> dtypes.scalar_type_of(jnp.bfloat16), dtypes.scalar_type_of(jnp.arange(2))
    (<class 'float'>, <class 'int'>)
    """
    if x is None:
        raise ValueError("Invalid argument to dtype: None.")
    if type(x) in (bool, int, float, complex):
        return type(x)
    for kind, above in _PYTHON_KINDS:
        if issubdtype(x, above):
            return kind
    raise TypeError(f"Invalid scalar value {x}")


_PYTHON_KINDS: list[tuple[type, type]] = [
    (bool, np.bool_),
    (int, np.integer),
    (float, np.floating),
    (complex, np.complexfloating),
]


def supports_inf(dtype: Any) -> bool:
    """Return True if infinity is among the values of `dtype`.

    >>> from curta import dtypes, numpy as jnp
    >>> dtypes.supports_inf(jnp.float32), dtypes.supports_inf(jnp.float8_e4m3fn)
    (True, False)
    """
    dtype = np.dtype(dtype)
    if dtype in _narrow:
        return dtype.name in ("float8_e3m4", "float8_e4m3", "float8_e5m2")
    return issubdtype(dtype, np.inexact)


def itemsize_bits(dtype: Any) -> int:
    """How many bits an element has; a boolean is stored in 8.

    Example:
        >>> from curta import dtypes
        >>> dtypes.itemsize_bits("int8"), dtypes.itemsize_bits("complex64")
        (8, 64)
    """
    if dtype is None:
        raise ValueError("dtype cannot be None.")
    if issubdtype(dtype, np.integer):
        return int(iinfo(dtype).bits)
    if issubdtype(dtype, np.floating):
        return int(finfo(dtype).bits)
    if issubdtype(dtype, np.complexfloating):
        return 2 * int(finfo(dtype).bits)
    if not isinstance(dtype, ExtendedDType) and _dtype_of_numbers(dtype) == BOOL:
        return 8
    raise ValueError(f"unexpected input: {dtype=}, which is not a dtype of numbers")


@functools.cache
def short_name(dtype: DType) -> str:
    """The dtype's name in a jaxpr: f32, bf16, i8, u4, c64, bool, key<fry>.

    >>> from curta import dtypes, numpy as jnp
    >>> dtypes.short_name(jnp.dtype("bfloat16")), dtypes.short_name(jnp.dtype("uint8"))
    ('bf16', 'u8')
    """
    if isinstance(dtype, ExtendedDType):
        return dtype.name
    if dtype == float0:
        return "float0"
    name = str(dtype.name)
    for long, short in ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c"):
        name = name.replace(long, short)
    return name


# ---- neighbours of a dtype


def _dtype_of_numbers(dtype: Any) -> np.dtype[Any]:
    if isinstance(dtype, ExtendedDType):
        raise TypeError(
            f"Cannot interpret '{dtype.name}' as a data type of numbers:"
            " random.key_data gives the words of random keys."
        )
    return np.dtype(dtype)


def to_numeric_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype itself, or int32 for booleans.

    >>> from curta import dtypes
    >>> dtypes.to_numeric_dtype("bool"), dtypes.to_numeric_dtype("int8")
    (dtype('int32'), dtype('int8'))
    """
    own = _dtype_of_numbers(dtype)
    return np.dtype(np.int32) if own == BOOL else own


def working_dtype(dtype: DType) -> DType:
    """Return the dtype of computations: float32 for floats of one or two bytes.

    Example:
        >>> from curta import dtypes
        >>> [dtypes.working_dtype(np.dtype(d)).name for d in ("float16", "int16")]
        ['float32', 'int16']
    """
    small = dtype.itemsize <= 2 and dtype in _KINDS["real floating"]
    return np.dtype(np.float32) if small else dtype


def summing_dtype(dtype: DType) -> DType:
    """Return the dtype of sums as in NumPy: floats add in twice their precision.

    Example:
        >>> from curta import dtypes
        >>> [dtypes.summing_dtype(np.dtype(d)).name for d in ("float32", "int16")]
        ['float64', 'int16']
    """
    if dtype in _KINDS["real floating"]:
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if dtype == np.complex64 else dtype


def to_inexact_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype itself, or the float dtype that integers and booleans divide in.

    >>> from curta import dtypes
    >>> dtypes.to_inexact_dtype("int32"), dtypes.to_inexact_dtype("complex64")
    (dtype('float32'), dtype('complex64'))
    """
    own = _dtype_of_numbers(dtype)
    if issubdtype(own, np.inexact):
        return own
    wide = own in _HALVED
    return np.dtype(np.float64 if wide else np.float32)


def to_floating_dtype(dtype: Any) -> np.dtype[Any]:
    """The real float dtype of the same precision.

    >>> from curta import dtypes
    >>> dtypes.to_floating_dtype("complex64")
    dtype('float32')
    """
    real: np.dtype[Any] = finfo(to_inexact_dtype(dtype)).dtype
    return real


def to_complex_dtype(dtype: Any) -> np.dtype[Any]:
    """The complex dtype that holds values of `dtype`.

    >>> from curta import dtypes
    >>> dtypes.to_complex_dtype("float64"), dtypes.to_complex_dtype("int8")
    (dtype('complex128'), dtype('complex64'))
    """
    wide = to_inexact_dtype(dtype).name in ("float64", "complex128")
    return np.dtype(np.complex128 if wide else np.complex64)
