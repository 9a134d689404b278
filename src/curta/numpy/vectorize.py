"""`vectorize`: functions of small arrays, mapped over leading dims that broadcast."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from curta import lax
from curta._base.pages import page
from curta._base.user_warnings import warn
from curta.api.vmap import vmap
from curta.config import config
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.wrapping import wraps
from curta.numpy.arguments import canonical_axis, canonical_shape, check_arraylike
from curta.numpy.constructors import asarray
from curta.numpy.ranges import arange
from curta.numpy.shapes import expand_dims, squeeze

CoreDims = tuple[str, ...]

_DIMS = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = rf"^{_DIMS}(?:,{_DIMS})*->{_DIMS}(?:,{_DIMS})*$"


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """`pyfunc` mapped over the leading dims of its arguments, which broadcast.

    Args:
      pyfunc: a function that can be traced.
      excluded: positions and names of arguments that are passed on as they are. Default
        none.
      signature: the dims that a single call takes and gives, as in "(n,m),(m)->(n)".
        None (default): all are scalars.

    Returns:
      A function of arrays. It raises TypeError for a wrong number of arguments,
      ValueError for a signature that is none, for arguments of too few dims, and for
      dims that differ in size or do not broadcast.

    Raises:
      TypeError: `excluded` holds something else than integers and strings.
      ValueError: `excluded` holds negative integers.

    >>> from curta import numpy as jnp
    >>> norm = jnp.vectorize(lambda v: jnp.sqrt(v @ v), signature="(n)->()")
    >>> norm(jnp.array([[3.0, 4.0], [6.0, 8.0]]))
    Array([ 5., 10.], dtype=float32)
    """
    if any(not isinstance(x, (str, int)) for x in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but"
            f" excluded={excluded!r}"
        )
    if any(isinstance(x, int) and x < 0 for x in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")

    @wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = _VectorizedCall(excluded, signature)
        return call.run(pyfunc, args, kwargs)

    return wrapped


class _VectorizedCall:
    """One call of a vectorized function."""

    def __init__(self, excluded: Collection[int | str], signature: str | None):
        self.excluded = excluded
        self.signature = signature
        self.context = (
            f"on vectorized function with excluded={excluded!r} and"
            f" signature={signature!r}"
        )

    def run(self, fun: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        argnums = [i for i in range(len(args)) if i not in self.excluded]
        in_dims, out_dims = self._core_dims(len(argnums))
        if len(argnums) != len(in_dims):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(in_dims)}, got"
                f" {len(argnums)} {self.context}"
            )
        none = {i for i in argnums if args[i] is None}
        if any(d for i, d in zip(argnums, in_dims) if i in none):
            raise ValueError(
                f"Cannot pass None at locations {none} with"
                f" signature={self.signature!r}"
            )
        mapped = [i for i in argnums if i not in none]
        in_dims = [d for i, d in zip(argnums, in_dims) if i not in none]

        def function(*arrays: Any) -> Any:
            given = dict(zip(mapped, arrays))
            return fun(*[given.get(i, x) for i, x in enumerate(args)], **kwargs)

        arrays = [asarray(args[i]) for i in mapped]
        return self._mapped(function, arrays, in_dims, out_dims)

    def _core_dims(self, count: int) -> tuple[list[CoreDims], list[CoreDims] | None]:
        if self.signature is None:
            return [()] * count, None
        if not re.match(_SIGNATURE, self.signature):
            raise ValueError(f"not a valid gufunc signature: {self.signature}")
        ins, outs = (
            [tuple(re.findall(r"\w+", group)) for group in re.findall(_DIMS, side)]
            for side in self.signature.split("->")
        )
        return ins, outs

    def _mapped(
        self,
        fun: Callable[..., Any],
        arrays: list[Any],
        in_dims: list[CoreDims],
        out_dims: list[CoreDims] | None,
    ) -> Any:
        sizes: dict[str, int] = {}
        outer = []
        for x, dims in zip(arrays, in_dims):
            self._note_sizes(sizes, x.shape, dims, is_input=True)
            outer.append(x.shape[: x.ndim - len(dims)])
        shape = lax.broadcast_shapes(*outer) if outer else ()
        self._check_ranks(arrays, outer)
        if out_dims is not None:
            fun = self._checked(fun, sizes, out_dims)
        padded = [(1,) * (len(shape) - len(s)) + s for s in outer]
        arrays = [_without_ones(x, len(s)) for x, s in zip(arrays, outer)]
        new = []
        for i in reversed(range(len(shape))):
            axes = tuple(None if s[i] == 1 else 0 for s in padded)
            if all(axis is None for axis in axes):
                new.append(i)
            else:
                fun = vmap(fun, in_axes=axes)
        out = fun(*arrays)
        if not new:
            return out
        if isinstance(out, tuple):
            return tuple(expand_dims(x, new) for x in out)
        return expand_dims(out, new)

    def _check_ranks(self, arrays: Sequence[Any], outer: Sequence[Any]) -> None:
        mode = config.jax_numpy_rank_promotion
        ranks = {len(s) for x, s in zip(arrays, outer) if x.ndim}
        if mode == "allow" or len(ranks) < 2:
            return
        text = (
            f"operands with shapes {[x.shape for x in arrays]} require rank promotion"
            f" for jnp.vectorize function with signature {self.signature}. Set the"
            " jax_numpy_rank_promotion config option to 'allow' to disable this"
            " message; for more information, see"
            f" {page('settings', 'examples')}."
        )
        if mode == "raise":
            raise ValueError(text)
        warn(text)

    def _note_sizes(
        self,
        sizes: dict[str, int],
        shape: tuple[int, ...],
        dims: CoreDims,
        is_input: bool,
    ) -> None:
        if is_input and len(shape) < len(dims):
            raise ValueError(
                f"input with shape {shape!r} does not have enough dimensions for all"
                f" core dimensions {dims!r} {self.context}"
            )
        if not is_input and len(shape) != len(dims):
            raise ValueError(
                f"output shape {shape!r} does not match core dimensions {dims!r}"
                f" {self.context}"
            )
        for name, size in zip(dims, shape[len(shape) - len(dims) :]):
            if sizes.setdefault(name, size) != size:
                raise ValueError(
                    f"inconsistent size for core dimension {name!r}: {size!r} vs"
                    f" {sizes[name]!r} {self.context}"
                )

    def _checked(
        self, fun: Callable[..., Any], sizes: dict[str, int], out_dims: list[CoreDims]
    ) -> Callable[..., Any]:
        """`fun`, with the shapes of its results compared with the signature."""

        def checked(*args: Any) -> Any:
            out = fun(*args)
            if len(out_dims) > 1 and not isinstance(out, tuple):
                raise TypeError(
                    "output must be a tuple when multiple outputs are expected, got:"
                    f" {out!r}\n{self.context}"
                )
            outs = out if isinstance(out, tuple) else (out,)
            if len(outs) != len(out_dims):
                raise TypeError(
                    f"wrong number of output arguments: expected {len(out_dims)!r}, got"
                    f" {len(outs)!r} {self.context}"
                )
            known = dict(sizes)
            for x, dims in zip(outs, out_dims):
                self._note_sizes(known, np.shape(x), dims, is_input=False)
            return out

        return checked


def _without_ones(x: Any, rank: int) -> Any:
    """`x` without those of its first `rank` dims that have size 1."""
    return squeeze(x, tuple(i for i in range(rank) if x.shape[i] == 1))


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """A function of vectors, applied to all vectors along an axis.

    Args:
      func1d: a function of a vector and of `args`, that can be traced.
      axis: int, the axis of the vectors.
      arr: an array of one dim or more.
      *args, **kwargs: further arguments of `func1d`: arrays and scalars by position,
        anything by name.

    Returns:
      The shape of `arr`, with `axis` replaced by the shape of the function's result.

    Raises:
      TypeError: `arr` or `*args` is a list, a string or None; `func1d` cannot be
        called, or `axis` is not an integer.
      ValueError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.apply_along_axis(jnp.sum, 1, jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    check_arraylike("apply_along_axis", arr)
    arr = asarray(arr)
    axis = canonical_axis(axis, arr.ndim)

    def fun(x: Any) -> Any:
        return func1d(x, *args, **kwargs)

    for i in range(1, arr.ndim - axis):
        fun = vmap(fun, in_axes=i, out_axes=-1)
    for _ in range(axis):
        fun = vmap(fun)
    return fun(arr)


def apply_over_axes(
    func: Callable[[Any, int], Any], a: ArrayLike, axes: Sequence[int]
) -> Array:
    """A reduction applied over several axes in turn, their dims kept with size 1.

    Args:
      func: a function of an array and an axis, such as `sum`, whose result has the axis
        removed or of size 1.
      a: an array.
      axes: a sequence of ints, the axes to reduce.

    Returns:
      An array of the rank of `a`, with size 1 along the axes.

    Raises:
      TypeError: `a` is a list, a string or None; `func` is not callable, or `axes` is
        not a sequence.
      ValueError: an axis is out of bounds, or `func` gives another rank.

    >>> from curta import numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    check_arraylike("apply_over_axes", a)
    a = asarray(a)
    for axis in axes:
        out: Array = func(a, axis)
        if out.ndim == a.ndim - 1:
            out = expand_dims(out, axis)
        elif out.ndim != a.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = out
    return a


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any
) -> Array:
    """`function` of the indices of each element, mapped over all of them.

    Args:
      function: a function of len(shape) scalars that can be traced.
      shape: the shape of the indices, an int or ints.
      dtype: dtype of the indices. Default float.
      **kwargs: further arguments of `function`, by name.

    Returns:
      What `function` returns for each element: arrays (*shape, ...).

    Raises:
      TypeError: `function` cannot be called with so many arguments, or `shape` is not
        of integers; `dtype` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    shape = canonical_shape(shape, "shape argument of jnp.fromfunction()")
    for i in range(len(shape)):
        axes = tuple(0 if i == j else None for j in range(len(shape)))[::-1]
        function = vmap(function, in_axes=axes)
    return function(*(arange(d, dtype=dtype) for d in shape), **kwargs)
