"""Type promotion: the dtype in which an operation computes, given its operands.

The dtypes form a lattice, and operands promote to their least upper bound. Python's
int, float and complex are nodes of it: a Python scalar, and what is computed from
Python scalars alone, is *weakly typed* and gives way to the dtype it meets. The lattice
is defined by the JAX enhancement proposal 9407, "Design of type promotion semantics".
In this drawing, every type points to its immediate successors::

    bool -> int* -> u8 -> u16 -> u32 -> u64 -+-> float* -> bf16, f16 -> f32 -> f64
               \\      \\      \\      \\       |          \\               \\      \\
                +-> i8 -> i16 -> i32 -> i64 -+           complex* -> c64 -----> c128
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from curta.config import config
from curta.dtypes.extended import ExtendedDType
from curta.dtypes.scalars import (
    ALL,
    BFLOAT16,
    BOOL,
    COMPLEX,
    FLOATS,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    SIGNED,
    UNSIGNED,
    DType,
    canonicalize_dtype,
    default_float_dtype,
    default_uint_dtype,
    explicit_dtype,
    is_valid_dtype,
    issubdtype,
    itemsize_bits,
    python_scalar_types,
    python_type_dtype,
    scalar_type_of,
)
from curta.errors import TypePromotionError

__all__ = [
    "dtype",
    "dtype_and_weak_type",
    "lattice_result_type",
    "promote_pair",
    "promote_types",
    "result_type",
    "safe_to_cast",
]

# A dtype, or one of Python's int, float, complex for weakly typed values.
Node: TypeAlias = Any
Lattice: TypeAlias = dict[Node, list[Node]]

_weak_nodes: tuple[type, ...] = (int, float, complex)


# ---- the lattice


def _standard_lattice(x64: bool) -> Lattice:
    """Every node with its immediate successors."""
    u8, u16, u32, u64 = UNSIGNED[-4:]
    i8, i16, i32, i64 = SIGNED[-4:]
    f16, f32, f64 = FLOATS[-3:]
    c64, c128 = COMPLEX
    narrow: Lattice = {n: [] for n in [*NARROW_INTEGERS, *NARROW_FLOATS]}
    return narrow | {
        BOOL: [int],
        int: [u8, i8, *NARROW_INTEGERS],
        u8: [i16, u16],
        u16: [i32, u32],
        # Without 64-bit types nothing may promote to one: u32 with i32 stays at 32.
        u32: [i64 if x64 else i32, u64],
        u64: [float],
        i8: [i16],
        i16: [i32],
        i32: [i64],
        i64: [float],
        float: [*NARROW_FLOATS, BFLOAT16, f16, complex],
        BFLOAT16: [f32],
        f16: [f32],
        f32: [f64, c64],
        f64: [c128],
        complex: [c64],
        c64: [c128],
        c128: [],
    }


def _strict_lattice() -> Lattice:
    """Only Python scalars promote."""
    alone: Lattice = {n: [] for n in ALL}
    return alone | {
        int: [float, *UNSIGNED, *SIGNED],
        float: [complex, *FLOATS],
        complex: [*COMPLEX],
    }


@functools.cache
def _upper_bounds(mode: str, x64: bool) -> dict[Node, frozenset[Node]]:
    """Every node with all that lie above it, itself included."""
    lattice = _strict_lattice() if mode == "strict" else _standard_lattice(x64)

    @functools.cache
    def above(node: Node) -> frozenset[Node]:
        return frozenset([node]).union(*map(above, lattice[node]))

    return {node: above(node) for node in lattice}


def _least_upper_bound(mode: str, x64: bool, nodes: frozenset[Node]) -> Node:
    bounds = _upper_bounds(mode, x64)
    for node in nodes:
        if node not in bounds:
            raise ValueError(
                f"dtype={node!r} is not a valid dtype for JAX type promotion."
            )
    common = frozenset.intersection(*(bounds[node] for node in nodes))
    least = [node for node in common if common <= bounds[node]]
    if not least:
        raise TypePromotionError(_no_path_message(mode, nodes))
    return least[0]


def _no_path_message(mode: str, nodes: frozenset[Node]) -> str:
    names = tuple(n.__name__ if isinstance(n, type) else str(n) for n in nodes)
    text = f"Input dtypes {names} have no available implicit dtype promotion path"
    if mode == "strict":
        return (
            f"{text} when jax_numpy_dtype_promotion=strict. Cast the operands to one "
            "dtype with x.astype(...), or set jax_numpy_dtype_promotion=standard."
        )
    remedy = "Cast them to one dtype first, for example with x.astype('float32')."
    for family, kind in (NARROW_FLOATS, "floats"), (NARROW_INTEGERS, "integers"):
        if narrow := nodes & {*family}:
            bits = max(map(itemsize_bits, narrow))
            reason = f"{bits}-bit {kind} do not support implicit promotion"
            return f"{text}: {reason}. {remedy}"
    return f"{text}. {remedy}"


# ---- pairs of dtype and weak type


def promote_pair(a: DType, weak_a: bool, b: DType, weak_b: bool) -> tuple[DType, bool]:
    """The dtype and weak type of a binary operation on two operands.

    Args:
        a: the dtype of the first operand.
        weak_a: whether it is weakly typed, like a Python scalar.
        b: the dtype of the second operand.
        weak_b: whether it is weakly typed.

    Returns:
        The dtype of the result, and whether that gives way.

    Raises:
        TypePromotionError: the setting ``jax_numpy_dtype_promotion`` forbids it, or
          there is none.
        ValueError: if a dtype is invalid.

    Example:
        >>> import numpy as np
        >>> from curta import dtypes
        >>> dtypes.promote_pair(np.dtype("int8"), False, np.dtype("float32"), True)
        (dtype('float32'), True)
    """
    if a is b:
        return a, weak_a and weak_b
    return _promote(
        config.jax_numpy_dtype_promotion, config.jax_enable_x64, a, weak_a, b, weak_b
    )


@functools.lru_cache(4096)
def _promote(mode: str, x64: bool, *operands: Any) -> tuple[DType, bool]:
    """Promote dtype_0, weak_0, dtype_1, weak_1, ..."""
    dtypes, weak = operands[::2], operands[1::2]
    if len(set(dtypes)) == 1:
        return dtypes[0], all(weak)
    if all(weak) and mode != "strict":
        # The bound of the dtypes themselves: avals may be weak int16.
        bound = _least_upper_bound(mode, x64, frozenset(dtypes))
        return _canonical(bound), True
    bound = _least_upper_bound(mode, x64, frozenset(map(_node, dtypes, weak)))
    return _canonical(bound), isinstance(bound, type)


def _canonical(node: Node) -> np.dtype[Any]:
    if isinstance(node, type):
        return python_type_dtype(node)
    return canonicalize_dtype(node)


def _node(dtype: DType, weak: bool) -> Node:
    return scalar_type_of(dtype) if weak and dtype != BOOL else dtype


# ---- values


def dtype(x: Any) -> DType:
    """The dtype of a value, or the dtype for which a type or name stands.

    Arrays and tracers answer with their own dtype; Python scalars, NumPy values and
    dtypes with the canonical one.

    Raises:
        TypeError: `x` has no dtype, or one that arrays cannot have.
        ValueError: `x` is None.

    >>> from curta import lax, numpy as jnp
    >>> lax.dtype(jnp.ones(2, "bfloat16")), lax.dtype(1.0), lax.dtype(int)
    (dtype(bfloat16), dtype('float32'), dtype('int32'))
    """
    return dtype_and_weak_type(x)[0]


def dtype_and_weak_type(x: Any) -> tuple[DType, bool]:
    """The dtype of a value or type, and whether it is weak; see `dtype`.

    >>> from curta import dtypes, numpy as jnp
    >>> dtypes.dtype_and_weak_type(1.0), dtypes.dtype_and_weak_type(jnp.ones(2))
    ((dtype('float32'), True), (dtype('float32'), False))
    """
    return _readers[type(x)](x)


Reader: TypeAlias = Callable[[Any], tuple[DType, bool]]


class _Readers(dict[type, Reader]):
    """Class of a value -> how to read the dtype of its instances."""

    def __missing__(self, cls: type) -> Reader:
        reader = next(
            (read for base, read in _READERS_OF_BASES if issubclass(cls, base)),
            _of_object,
        )
        if hasattr(cls, "aval"):
            reader = _of_array
        self[cls] = reader
        return reader


def _of_array(x: Any) -> tuple[DType, bool]:
    aval = x.aval
    return aval.dtype, aval.weak_type


def _of_scalar(x: Any) -> tuple[DType, bool]:
    kind = type(x)
    return python_type_dtype(kind), kind is not bool


def _of_numpy(x: Any) -> tuple[DType, bool]:
    _check_valid(x, x.dtype)
    return canonicalize_dtype(x.dtype), False


def _of_name(x: Any) -> tuple[DType, bool]:
    if isinstance(x, type) and x in python_scalar_types:
        return python_type_dtype(x), x is not bool
    named = np.dtype(x)
    if isinstance(x, type) and issubclass(x, np.generic) and not is_valid_dtype(named):
        raise ValueError(
            f"dtype={named!r} is not a valid dtype for JAX type promotion."
        )
    _check_valid(x, named)
    return explicit_dtype(named, "dtype"), False


def _of_class(x: type) -> tuple[DType, bool]:
    """The dtype of a class of scalars; those of `curta.numpy` stay silent if halved."""
    own = getattr(x, "dtype", None)
    if isinstance(own, np.dtype) and is_valid_dtype(own):
        return canonicalize_dtype(own), False
    return _of_name(x)


def _of_extended(x: ExtendedDType) -> tuple[DType, bool]:
    return x, False


def _of_object(x: Any) -> tuple[DType, bool]:
    if x is None:
        raise ValueError(f"Invalid argument to dtype: {x}.")
    if hasattr(x, "aval"):
        return _of_array(x)
    own = getattr(x, "dtype", None)
    if not isinstance(own, (np.dtype, ExtendedDType)):
        try:
            own = np.result_type(x)
        except TypeError as error:
            raise TypeError(f"Cannot determine dtype of {x}") from error
    _check_valid(x, own)
    weak = getattr(x, "weak_type", False)
    return canonicalize_dtype(own, allow_extended_dtype=True), weak


_READERS_OF_BASES: list[tuple[type | tuple[type, ...], Reader]] = [
    ((np.ndarray, np.generic), _of_numpy),
    (type, _of_class),
    ((str, np.dtype), _of_name),
    (ExtendedDType, _of_extended),
]
_readers = _Readers(dict.fromkeys(python_scalar_types, _of_scalar))


def _check_valid(x: Any, dtype: DType) -> None:
    if not is_valid_dtype(dtype):
        raise TypeError(
            f"Value '{x}' with dtype {dtype} is not a valid JAX array type. Only "
            "arrays of numeric types are supported."
        )


def lattice_result_type(*args: Any) -> tuple[DType, bool]:
    """The dtype and weak type of an operation on values, avals, dtypes or types.

    >>> from curta import dtypes, numpy as jnp
    >>> dtypes.lattice_result_type(jnp.int8, 1.0)
    (dtype('float32'), True)
    """
    if len(args) == 2:
        return promote_pair(
            *dtype_and_weak_type(args[0]), *dtype_and_weak_type(args[1])
        )
    if len(args) == 1:
        return dtype_and_weak_type(args[0])
    operands = [part for arg in args for part in dtype_and_weak_type(arg)]
    return _promote(config.jax_numpy_dtype_promotion, config.jax_enable_x64, *operands)


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that `args` promote to; None stands for the default float.

    Args:
        *args: arrays, scalars, dtypes, names of dtypes.
        return_weak_type_flag: give ``(dtype, weak_type)`` instead of the dtype.

    Returns:
        A dtype, and with the flag whether it is weak.

    Raises:
        TypePromotionError: there is no dtype they promote to.
        ValueError: no argument.

    Example:
        >>> from curta import dtypes
        >>> dtypes.result_type("int8", 1.0), dtypes.result_type("bfloat16", "float16")
        (dtype('float32'), dtype('float32'))
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    out, weak = lattice_result_type(
        *(default_float_dtype() if arg is None else arg for arg in args)
    )
    if weak:
        unsigned = issubdtype(out, np.unsignedinteger)
        out = default_uint_dtype() if unsigned else _canonical(scalar_type_of(out))
    return (out, weak) if return_weak_type_flag else out


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The dtype of a binary operation on operands of dtypes `a` and `b`.

    ``int``, ``float`` and ``complex`` stand for weakly typed operands.

    Raises:
        TypePromotionError: there is no such dtype.

    Example:
        >>> from curta import dtypes
        >>> dtypes.promote_types("uint8", int), dtypes.promote_types("int32", "float16")
        (dtype('uint8'), dtype('float16'))
    """
    nodes = frozenset(
        x if any(x is kind for kind in _weak_nodes) else np.dtype(x) for x in (a, b)
    )
    mode, x64 = config.jax_numpy_dtype_promotion, config.jax_enable_x64
    return np.dtype(_least_upper_bound(mode, x64, nodes))


def safe_to_cast(given: Any, wanted: Any) -> bool:
    """Return True if promotion alone would take the value or dtype `given` to `wanted`.

    >>> from curta import dtypes
    >>> dtypes.safe_to_cast("int8", "int32"), dtypes.safe_to_cast("int32", "int8")
    (True, False)
    """
    target = dtype(wanted)
    return bool(dtype(given) == target or result_type(given, target) == target)
