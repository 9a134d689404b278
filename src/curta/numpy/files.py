"""Arrays in files and strings."""

from __future__ import annotations

import os
from typing import IO, Any, NoReturn

import numpy as np

from curta import dtypes
from curta.core.array import Array, DTypeLike
from curta.numpy.constructors import asarray

save, savez = np.save, np.savez
array_repr, array_str, iterable = np.array_repr, np.array_str, np.iterable


def load(file: IO[bytes] | str | os.PathLike[Any], *args: Any, **kwargs: Any) -> Array:
    """The array of an `.npy` file, or the archive of an `.npz` file.

    Args:
      file: a path, or a file open for reading bytes.
      *args, **kwargs: further arguments of `numpy.load`, such as `allow_pickle`.

    Returns:
      An array; of an `.npz` file NumPy's archive, a mapping of names to arrays of
      NumPy.

    Raises:
      TypeError: `file` is not a path and no file.
      ValueError: the file is none of NumPy's, or holds objects and `allow_pickle` is
        not given.
      FileNotFoundError: there is no such file.

    >>> import tempfile
    >>> from curta import numpy as jnp
    >>> with tempfile.TemporaryFile() as file:
    ...     jnp.save(file, jnp.arange(3))
    ...     _ = file.seek(0)
    ...     jnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    if out.dtype == np.dtype("V2"):  # NumPy does not know bfloat16.
        out = out.view(dtypes.bfloat16)
    return asarray(out)


def fromstring(
    string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str
) -> Array:
    """The numbers written in a string.

    Args:
      string: numbers as text, with `sep` between them.
      dtype: the dtype of the elements. Default float.
      count: how many numbers to read. Default -1, all.
      sep: what stands between numbers, such as " " or ","; not empty.

    Returns:
      A vector of the numbers, of `dtype`; 64-bit types are halved unless
      `jax_enable_x64`.

    Raises:
      TypeError: `string` is none, `dtype` unknown, or `count` no integer.
      ValueError: `string` holds something else than numbers, or `sep` is empty.

    >>> from curta import numpy as jnp
    >>> jnp.fromstring("1 2 3", dtype=int, sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, dtype=np.dtype(dtype), count=count, sep=sep))


def fromfile(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: reading moves on in the file, which a traced function may not do.

    >>> from curta import numpy as jnp
    >>> jnp.fromfile("data")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NotImplementedError: jnp.fromfile() is not implemented ...
    """
    raise NotImplementedError(_IMPURE.format(name="fromfile", what="file"))


def fromiter(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: iterating uses up the iterator, which a traced function may not do.

    >>> from curta import numpy as jnp
    >>> jnp.fromiter(iter([1, 2]), int)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NotImplementedError: jnp.fromiter() is not implemented ...
    """
    raise NotImplementedError(_IMPURE.format(name="fromiter", what="iterator"))


_IMPURE = (
    "jnp.{name}() is not implemented because it may be non-pure and thus unsafe for use"
    " with JIT and other JAX transformations. Consider using"
    " jnp.asarray(np.{name}(...)) outside of transformed functions, which uses up the"
    " {what} once."
)
