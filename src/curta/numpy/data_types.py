"""Questions about dtypes, and constants of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.array import Array, DTypeLike

e: float = np.e
pi: float = np.pi
euler_gamma: float = np.euler_gamma
inf: float = np.inf
nan: float = np.nan
newaxis: None = None

# The kinds of dtypes, and the class of them, are NumPy's own.
dtype = np.dtype
generic: type[Any] = np.generic
number: type[Any] = np.number
inexact: type[Any] = np.inexact
integer: type[Any] = np.integer
signedinteger: type[Any] = np.signedinteger
unsignedinteger: type[Any] = np.unsignedinteger
floating: type[Any] = np.floating
complexfloating: type[Any] = np.complexfloating
character: type[Any] = np.character
flexible: type[Any] = np.flexible
object_: type[Any] = np.object_
ComplexWarning = np.exceptions.ComplexWarning

ndarray = Array

finfo: Any = dtypes.finfo
iinfo: Any = dtypes.iinfo


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether a dtype equals another one or is a subtype of it in NumPy's hierarchy.

    >>> from curta import numpy as jnp
    >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Return True if a dtype is of a kind: "bool", "integral", "real floating" ...

    >>> from curta import numpy as jnp
    >>> jnp.isdtype(jnp.int8, "signed integer")
    True
    """
    return dtypes.isdtype(dtype, kind)


def result_type(*args: Any) -> Any:
    """The dtype to which arrays, scalars and dtypes promote.

    >>> from curta import numpy as jnp
    >>> jnp.result_type(jnp.int8, 2.0)
    dtype('float32')
    """
    return dtypes.result_type(*args)


def promote_types(a: Any, b: Any) -> Any:
    """The dtype to which two dtypes promote.

    >>> from curta import numpy as jnp
    >>> jnp.promote_types("uint8", "int8")
    dtype('int16')
    """
    return dtypes.promote_types(a, b)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Return True if NumPy's casting rules let a dtype (or array) become another.

    Args:
      from_: a dtype, or an array, whose dtype is taken; not a Python number.
      to: a dtype, or an array, whose dtype is taken.
      casting: "no", "equiv", "safe" (default), "same_kind" or "unsafe", as in NumPy.

    Returns:
      A Python bool.

    Raises:
      TypeError: `from_` is a Python number, or `from_` or `to` no dtype.
      ValueError: `casting` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.can_cast("int32", "float64"), jnp.can_cast("float64", "int32")
    (True, False)
    """
    if isinstance(from_, (int, float, complex)) and not isinstance(from_, np.generic):
        raise TypeError(
            "can_cast() does not support Python ints, floats, and complex because what"
            " they can become would depend on their values. Pass a dtype instead."
        )
    given = from_.dtype if isinstance(from_, Array) else from_
    return np.can_cast(given, to, casting)  # type: ignore[arg-type]


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """NumPy's print options, which arrays are printed by.

    >>> from curta import numpy as jnp
    >>> jnp.set_printoptions(precision=8)
    """
    np.set_printoptions(*args, **kwargs)


def get_printoptions() -> Any:
    """NumPy's print options.

    >>> from curta import numpy as jnp
    >>> jnp.get_printoptions()["precision"]
    8
    """
    return np.get_printoptions()


def printoptions(*args: Any, **kwargs: Any) -> Any:
    """A context in which NumPy's print options are changed.

    >>> from curta import numpy as jnp
    >>> with jnp.printoptions(precision=2):
    ...     print(jnp.array([1 / 3]))
    [0.33]
    """
    return np.printoptions(*args, **kwargs)
