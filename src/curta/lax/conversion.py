"""Changes of dtype, and complex numbers and their parts."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from curta import dtypes, tree
from curta._base.user_warnings import warn
from curta.api.signatures import T
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.avals import is_python_scalar
from curta.core.trace import operand_type, typeof
from curta.lax.scalars import refuse_complex, scalar_array
from curta.primitives import elementwise as ops
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.effects import Stage


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """`operand` as `new_dtype`, value by value.

    Floats become integers by truncation, saturating, with NaN as 0; complex numbers
    lose their imaginary part, with a ComplexWarning; anything but 0 is True.

    >>> from curta import lax
    >>> lax.convert_element_type(2.75, "int32")
    Array(2, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(new_dtype, "convert_element_type")
    refuse_complex(operand, dtype)
    warn_of_imaginary(operand, dtype)
    if isinstance(operand, int) and dtypes.issubdtype(dtype, np.integer):
        operand = _wrapped(operand, dtype)
    elif type(operand) is int:
        operand = _in_range(operand, dtype)
    elif dtype == np.bool_ and is_complex_scalar(operand):
        operand = operand != 0  # an array would drop the imaginary part
    out = ops.convert_element_type(operand, dtype)
    return out if isinstance(out, Array) else scalar_array(out)


def is_complex_scalar(x: Any) -> bool:
    """Return True if x is a complex number of Python's or NumPy's."""
    return isinstance(x, (builtins.complex, np.complexfloating))


def warn_of_imaginary(x: Any, dtype: Any) -> None:
    """Warn that complex numbers lose their imaginary part, if `dtype` is real."""
    if _is_complex(x) and not dtypes.issubdtype(dtype, np.complexfloating):
        warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
        )


def _wrapped(x: int, dtype: Any) -> Any:
    """An integer too large for its own dtype, as another one has it: wrapped around."""
    fits = dtypes.iinfo(dtypes.canonicalize_dtype(np.int64))
    return x if fits.min <= x <= fits.max else np.asarray(x).astype(dtype)[()]


def _in_range(x: int, dtype: Any) -> Any:
    """An integer too large for its own dtype, as the number of another that it is."""
    fits = dtypes.iinfo(dtypes.canonicalize_dtype(np.int64))
    if fits.min <= x <= fits.max:
        return x
    return x != 0 if dtype == np.bool_ else float(x)


def _is_complex(x: Any) -> bool:
    if is_python_scalar(x):  # an int may be too large for its own dtype
        return isinstance(x, builtins.complex)
    dtype = operand_type("convert_element_type", 0, x).dtype
    return dtypes.issubdtype(dtype, np.complexfloating)


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The bits of `operand` read as `new_dtype`.

    A wider dtype takes the bits of the last dim together, a narrower one adds a last
    dim. Raises TypeError for booleans and complex numbers, ValueError if the last dim
    does not make up one element.

    >>> from curta import lax
    >>> lax.bitcast_convert_type(1.0, "int32")
    Array(1065353216, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(new_dtype, "bitcast_convert_type")
    return ops.BitcastConvertType(dtype)(operand)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + 1j * y, of float32 or float64 numbers of the same dtype.

    >>> from curta import lax
    >>> lax.complex(1.0, 2.0)
    Array(1.+2.j, dtype=complex64, weak_type=True)
    """
    return ops.complex_(x, y)


def conj(x: ArrayLike) -> Array:
    """The complex conjugate; x is complex, float32 or float64.

    >>> from curta import lax
    >>> lax.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    operand_type("conj", 0, x)
    return ops.conj(x)


def real(x: ArrayLike) -> Array:
    """The real part of complex numbers.

    >>> from curta import lax
    >>> lax.real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    return ops.real(x)


def imag(x: ArrayLike) -> Array:
    """The imaginary part of complex numbers.

    >>> from curta import lax
    >>> lax.imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    return ops.imag(x)


def stop_gradient(x: T) -> T:
    """x, a pytree of arrays, as a constant to differentiation.

    >>> import curta
    >>> curta.grad(lambda x: x * curta.lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return tree.map(_stop_gradient, x)


def _stop_gradient(x: Any) -> Any:
    if isinstance(typeof(x).dtype, dtypes.ExtendedDType):
        return x
    return ops.stop_gradient(x)


def optimization_barrier(operand: T, /) -> T:
    """`operand`, a pytree of arrays, all computed before any of the results is used.

    In a compiled program nothing is fused across it, nor are its results recognized as
    what went in, so that what is computed from them is computed again.

    >>> from curta import lax
    >>> lax.optimization_barrier((1, 2))
    (Array(1, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    leaves, treedef = tree.flatten(operand)
    return tree.unflatten(treedef, OptimizationBarrier()(*leaves))


def copy(x: T) -> T:
    """The elements of x in memory of their own.

    >>> from curta import lax
    >>> lax.copy(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return ops.copy(x)


def stage(x: ArrayLike, /) -> Array:
    """x, a number or NumPy array, as an array; arrays stay what they are.

    >>> from curta import lax
    >>> lax.stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    operand_type("stage", 0, x)
    return Stage()(x)
