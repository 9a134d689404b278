"""Routines of LAPACK that NumPy does not offer, called on one matrix at a time.

The library is loaded by the compiler's floor, which hands over the way to its routines.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

_providers: list[Callable[..., None]] = []

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def provide(routines: Callable[..., None]) -> None:
    """Let `routines(name, *words)` call the Fortran routines (`dgees`, ...).

    Words are addresses and, after them, the lengths of characters.
    """
    _providers[:] = [routines]


def call(name: str, dtype: Any, *args: Any) -> int:
    """Call a routine whose name without the dtype's letter is `name`.

    `args` are integers, characters (bytes), arrays in Fortran's order, which it may
    change, and None for a null pointer. The last argument, info, is added and returned.
    """
    info = ctypes.c_int32(0)
    references = [*map(_by_reference, args), info]
    lengths = [1 for x in args if isinstance(x, bytes)]
    _providers[0](
        _LETTERS[np.dtype(dtype).name] + name, *map(_address, references), *lengths
    )
    return info.value


def call_with_workspace(name: str, dtype: Any, *args: Any) -> int:
    """Like `call`, for a routine with a workspace; "work" in `args` stands for it.

    A first call asks how large it should be.
    """
    at = next(i for i, x in enumerate(args) if isinstance(x, str))
    size = np.zeros(1, dtype)
    call(name, dtype, *args[:at], size, -1, *args[at + 1 :])
    work = np.zeros(max(1, int(size[0].real)), dtype)
    return call(name, dtype, *args[:at], work, work.size, *args[at + 1 :])


def _by_reference(x: Any) -> Any:
    """What lies in memory, for Fortran takes nothing else."""
    if isinstance(x, bytes):
        return ctypes.create_string_buffer(x)
    return ctypes.c_int32(x) if isinstance(x, int) else x


def _address(x: Any) -> int:
    if x is None:
        return 0
    if isinstance(x, np.ndarray):
        assert x.flags.f_contiguous
        return int(x.ctypes.data)
    return ctypes.addressof(x)


def each(function: Callable[..., Any], *batches: Any, ranks: Any = None) -> list[Any]:
    """The outputs of `function`, which takes matrices, on batches of them, stacked.

    `ranks` are the ranks of one element of each operand, 2 if not given.
    """
    ranks = ranks or (2,) * len(batches)
    lead = batches[0].shape[: batches[0].ndim - ranks[0]]
    flat = [
        x.reshape(math.prod(lead), *x.shape[x.ndim - rank :])
        for x, rank in zip(batches, ranks, strict=True)
    ]
    if not flat[0].shape[0]:
        like = function(*(np.ones(x.shape[1:], x.dtype) for x in flat))
        return [np.empty((*lead, *out.shape), out.dtype) for out in like]
    outs = zip(*(function(*elements) for elements in zip(*flat)))
    return [np.stack(out).reshape(*lead, *out[0].shape) for out in outs]
