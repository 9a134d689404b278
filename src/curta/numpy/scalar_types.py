"""The scalar types of the namespace: `float32`, `int_`, ... make arrays of rank 0.

`float32(1)` is an array, and `float32` itself stands for its dtype wherever NumPy or
this package take one.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from curta.core.array import Array
from curta.numpy.constructors import asarray


class ScalarType(type):
    """The class of `float32` and the others: calling one of them makes an array.

    >>> from curta import numpy as jnp
    >>> jnp.float32(2).dtype == jnp.float32
    True
    >>> jnp.zeros(3, jnp.int8).dtype
    dtype('int8')
    """

    dtype: np.dtype[Any]

    @property
    def __numpy_dtype__(cls) -> np.dtype[Any]:
        return cls.dtype

    def __call__(cls, x: Any) -> Array:
        return asarray(x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> bool:
        return cls is other or cls.dtype.type == other or cls.dtype == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


_TEXT = """An array of rank 0 and dtype {name}; also stands for that dtype.

    >>> from curta import numpy as jnp
    >>> jnp.dtype(jnp.{name}).name
    '{name}'
    """


def _scalar_type(scalar: Any) -> ScalarType:
    dtype = np.dtype(scalar)
    text = _TEXT.format(name=dtype.name)
    namespace = {"dtype": dtype, "__doc__": text, "__module__": "curta.numpy"}
    return ScalarType(dtype.name, (), namespace)


bool_: ScalarType = _scalar_type(np.bool_)
int1: ScalarType = _scalar_type(ml_dtypes.int1)
int2: ScalarType = _scalar_type(ml_dtypes.int2)
int4: ScalarType = _scalar_type(ml_dtypes.int4)
int8: ScalarType = _scalar_type(np.int8)
int16: ScalarType = _scalar_type(np.int16)
int32: ScalarType = _scalar_type(np.int32)
int64: ScalarType = _scalar_type(np.int64)
uint1: ScalarType = _scalar_type(ml_dtypes.uint1)
uint2: ScalarType = _scalar_type(ml_dtypes.uint2)
uint4: ScalarType = _scalar_type(ml_dtypes.uint4)
uint8: ScalarType = _scalar_type(np.uint8)
uint16: ScalarType = _scalar_type(np.uint16)
uint32: ScalarType = _scalar_type(np.uint32)
uint64: ScalarType = _scalar_type(np.uint64)
float4_e2m1fn: ScalarType = _scalar_type(ml_dtypes.float4_e2m1fn)
float6_e2m3fn: ScalarType = _scalar_type(ml_dtypes.float6_e2m3fn)
float6_e3m2fn: ScalarType = _scalar_type(ml_dtypes.float6_e3m2fn)
float8_e3m4: ScalarType = _scalar_type(ml_dtypes.float8_e3m4)
float8_e4m3: ScalarType = _scalar_type(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz: ScalarType = _scalar_type(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn: ScalarType = _scalar_type(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz: ScalarType = _scalar_type(ml_dtypes.float8_e4m3fnuz)
float8_e5m2: ScalarType = _scalar_type(ml_dtypes.float8_e5m2)
float8_e5m2fnuz: ScalarType = _scalar_type(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu: ScalarType = _scalar_type(ml_dtypes.float8_e8m0fnu)
bfloat16: ScalarType = _scalar_type(ml_dtypes.bfloat16)
float16: ScalarType = _scalar_type(np.float16)
float32: ScalarType = _scalar_type(np.float32)
float64: ScalarType = _scalar_type(np.float64)
complex64: ScalarType = _scalar_type(np.complex64)
complex128: ScalarType = _scalar_type(np.complex128)
single: ScalarType = float32
double: ScalarType = float64
float_: ScalarType = float64
csingle: ScalarType = complex64
cdouble: ScalarType = complex128
complex_: ScalarType = complex128
int_: ScalarType = int64
uint: ScalarType = uint64
