"""The scalar types of the namespace: `float32`, `int_`, ... make arrays of rank 0.

`float32(1)` is an array, and `float32` itself stands for its dtype wherever NumPy or
this package take one.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from curta.numpy.constructors import asarray


class ScalarType:
    """A dtype that can be called: `int8(3)` is `asarray(3, dtype="int8")`.

    >>> from curta import numpy as jnp
    >>> jnp.float32(2).dtype == jnp.float32
    True
    >>> jnp.zeros(3, jnp.int8).dtype
    dtype('int8')
    """

    __slots__ = ("__name__", "dtype")

    dtype: Final[np.dtype[Any]]

    def __init__(self, scalar: Any):
        self.dtype = np.dtype(scalar)
        self.__name__ = self.dtype.name

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        return self.dtype

    def __call__(self, x: Any) -> Any:
        return asarray(x, dtype=self.dtype)

    def __eq__(self, other: object) -> bool:
        return self is other or self.dtype.type == other or self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.dtype.type)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"type object '{self.dtype}' has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<class 'curta.numpy.{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__name__


bool_ = ScalarType(np.bool_)
int1 = ScalarType(ml_dtypes.int1)
int2 = ScalarType(ml_dtypes.int2)
int4 = ScalarType(ml_dtypes.int4)
int8 = ScalarType(np.int8)
int16 = ScalarType(np.int16)
int32 = ScalarType(np.int32)
int64 = ScalarType(np.int64)
uint1 = ScalarType(ml_dtypes.uint1)
uint2 = ScalarType(ml_dtypes.uint2)
uint4 = ScalarType(ml_dtypes.uint4)
uint8 = ScalarType(np.uint8)
uint16 = ScalarType(np.uint16)
uint32 = ScalarType(np.uint32)
uint64 = ScalarType(np.uint64)
float4_e2m1fn = ScalarType(ml_dtypes.float4_e2m1fn)
float6_e2m3fn = ScalarType(ml_dtypes.float6_e2m3fn)
float6_e3m2fn = ScalarType(ml_dtypes.float6_e3m2fn)
float8_e3m4 = ScalarType(ml_dtypes.float8_e3m4)
float8_e4m3 = ScalarType(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = ScalarType(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = ScalarType(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = ScalarType(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = ScalarType(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = ScalarType(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = ScalarType(ml_dtypes.float8_e8m0fnu)
bfloat16 = ScalarType(ml_dtypes.bfloat16)
float16 = ScalarType(np.float16)
float32 = single = ScalarType(np.float32)
float64 = double = float_ = ScalarType(np.float64)
complex64 = csingle = ScalarType(np.complex64)
complex128 = cdouble = complex_ = ScalarType(np.complex128)
int_, uint = int64, uint64
