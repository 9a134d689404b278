"""`ufunc`: elementwise functions that also reduce, accumulate and update arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import lax
from curta.api.inner import inner_jit
from curta.api.tracing import eval_shape
from curta.api.vmap import vmap
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    check_but_strings,
    check_operands,
    ensure_arraylike,
    ensure_operands,
    static_axes,
    static_axis,
    user_dtype,
)
from curta.numpy.constructors import asarray
from curta.numpy.index_parsing import parse
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.promotion import broadcast_to_shape, cast
from curta.numpy.selection import select_where
from curta.numpy.shapes import moveaxis, ravel, reshape
from curta.numpy.taking import take
from curta.numpy.vectorize import vectorize


class ufunc:
    """A function of elements, mapped over arrays that broadcast.

    Binary ufuncs also reduce an array along an axis (`reduce`), return the partial
    results of the reduction (`accumulate`), reduce slices (`reduceat`), combine all
    pairs (`outer`), and update the elements at an index (`at`).

    >>> from curta import numpy as jnp
    >>> jnp.add.reduce(jnp.arange(4)), jnp.multiply.outer(jnp.arange(2), jnp.ones(2))
    (Array(6, dtype=int32), Array([[0., 0.],
           [1., 1.]], dtype=float32))
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ):
        self.__doc__ = func.__doc__
        self.__name__: str = name or func.__name__
        self._nin, self._nout = operator.index(nin), operator.index(nout)
        self._nargs = operator.index(nargs or nin)
        self._identity = identity
        self._function = func
        self._own_call = call
        self._own_reduce = reduce
        self._own_accumulate = accumulate
        self._own_at = at
        self._own_reduceat = reduceat

    @property
    def _func(self) -> Callable[..., Any]:
        return self._function

    @property
    def nin(self) -> int:
        """The number of operands."""
        return self._nin

    @property
    def nout(self) -> int:
        """The number of results."""
        return self._nout

    @property
    def nargs(self) -> int:
        """The number of arguments."""
        return self._nargs

    @property
    def identity(self) -> Any:
        """The initial value of a reduction, or None."""
        return self._identity

    def _key(self) -> tuple[Any, ...]:
        return self._func, self.__name__, self.identity, self.nin, self.nout, self.nargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Array:
        """The function of every element.

        Args:
          *args: `nin` arrays or scalars that broadcast.
          out, where: must be None (default); they are there for NumPy's callers.

        Returns:
          An array of the broadcast shape, or a tuple of `nout` of them.

        Raises:
          TypeError: an operand is a list, a string or None; the number of operands is
            another; shapes do not broadcast.
          NotImplementedError: `out` or `where` is given.
        """
        if out is not None or where is not None:
            given = "out" if out is not None else "where"
            raise NotImplementedError(f"{given} argument of {self}")
        if self._own_call is not None:
            try:
                return self._own_call(*args)
            except TypeError:
                check_but_strings(self.__name__, *args)
                raise
        check_arraylike(self.__name__, *args)
        return _call_vectorized(self, *args)

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        """The elements along an axis folded into one.

        Args:
          a: an array of any shape.
          axis: int, the axis to reduce. Default 0; None reduces over all elements.
            Several axes are accepted if the reduction is a function of its own, such as
            `sum`.
          dtype: dtype of the result. None (default) uses the dtype that the function
            returns.
          out: must be None (default); it is there for NumPy's callers.
          keepdims: keep the axis, with size 1. Default False.
          initial: the initial value. None (default) is `identity`, or the first
            element.
          where: booleans that broadcast with `a`, the elements to reduce. None
            (default) for all.

        Returns:
          The reductions: the shape of `a` without `axis`.

        Raises:
          TypeError: `a` is a list, a string or None.
          ValueError: the function has not two operands and one result; `axis` is out of
            bounds; there is nothing to start with for no elements or `where`; `where`
            is not boolean.
          NotImplementedError: `out` is given, or several axes where they cannot be
            folded.
        """
        name = f"{self.__name__}.reduce"
        check_operands(name, a, *(x for x in (initial, where) if x is not None))
        self._require_binary("reduce", out)
        dtype = user_dtype(dtype, name)
        if where is not None:
            if self.identity is None and initial is None:
                raise ValueError(
                    f"reduction operation {self.__name__!r} does not have an identity,"
                    " so to use a where mask one has to specify 'initial'."
                )
            if ensure_arraylike("reduce", where).dtype != np.bool_:
                raise ValueError(
                    "where argument must have dtype=bool; got"
                    f" dtype={asarray(where).dtype}"
                )
        return _reduce(
            self,
            a,
            static_axes(static_axis(axis)),
            dtype,
            keepdims,
            initial=initial,
            where=where,
        )

    def accumulate(
        self, a: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Array:
        """The reductions of all elements up to each position.

        Args:
          a: an array of any shape.
          axis: int, the axis to reduce. Default 0.
          dtype: dtype of the result. None (default) uses the dtype that the function
            returns.
          out: must be None (default); it is there for NumPy's callers.

        Returns:
          An array of the shape of `a`.

        Raises:
          TypeError: `a` is a list, a string or None.
          ValueError: the function has not two operands and one result; `axis` is out of
            bounds or several.
          NotImplementedError: `out` is given.
        """
        name = f"{self.__name__}.accumulate"
        self._require_binary("accumulate", out)
        check_operands(name, a)
        if self._own_accumulate is None and (axis is None or isinstance(axis, tuple)):
            raise ValueError("accumulate does not allow multiple axes")
        dtype = user_dtype(dtype, name)
        return _accumulate(self, a, axis=axis, dtype=dtype)

    def reduceat(
        self,
        a: Any,
        indices: Any,
        axis: int = 0,
        dtype: Any = None,
        out: None = None,
    ) -> Any:
        """The reductions of the slices that start at `indices`, each up to the next
        one.

        Args:
          a: an array of one dim or more.
          indices: a vector of integers, the starts of slices along `axis`.
          axis: int, the axis to reduce. Default 0.
          dtype: not used: the result has the dtype of `a`. Default None.
          out: must be None (default); it is there for NumPy's callers.

        Returns:
          The shape of `a` with as many as `indices` along `axis`.

        Raises:
          TypeError: `a` or `indices` is a list, a string or None.
          ValueError: the function has not two operands and one result; `a` is a scalar,
            `indices` no vector of integers, or `axis` out of bounds or several.
          NotImplementedError: `out` is given.
        """
        self._require_binary("reduceat", out)
        a, indices = ensure_operands(f"{self.__name__}.reduceat", a, indices)
        if self._own_reduceat is not None:
            return self._own_reduceat(a, indices, axis=axis, dtype=dtype)
        if a.ndim == 0:
            raise ValueError(
                f"reduceat: a must have 1 or more dimension, got a.shape={a.shape}"
            )
        if indices.ndim != 1:
            raise ValueError(
                "reduceat: indices must be one-dimensional, got"
                f" indices.shape={indices.shape}"
            )
        if axis is None or isinstance(axis, (tuple, list)):
            raise ValueError("reduceat requires a single integer axis.")
        if indices.dtype == np.bool_:
            indices = cast(indices, np.dtype(np.int32))
        return _reduceat(self, a, indices, axis=canonical_axis(axis, a.ndim))

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every pair of an element of `A` and one of `B`."""
        self._require_binary("outer", None)
        A, B = ensure_operands(f"{self.__name__}.outer", A, B)
        pairs = vmap(vmap(self, (None, 0)), (0, None))(ravel(A), ravel(B))
        return reshape(pairs, (*A.shape, *B.shape))

    def at(
        self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True
    ) -> Any:
        """A copy of `a` with the function applied at an index, as often as it occurs.

        `inplace` must be False, as arrays do not change.
        """
        if inplace:
            raise NotImplementedError(
                "Because arrays are immutable, jnp.ufunc.at() cannot operate"
                " inplace like\nnp.ufunc.at(). Instead, you can pass inplace=False and"
                " capture the result; e.g.\n"
                ">>> arr = jnp.add.at(arr, ind, val, inplace=False)\n"
            )
        name, given = f"{self.__name__}.at", (a,) if b is None else (a, b)
        if isinstance(indices, str):
            check_operands(name, indices)
        a, *others = ensure_operands(name, *given)
        if self._own_at is not None:
            return self._own_at(a, indices, *others)
        return _update_one_by_one(self, a, indices, *others)

    def _require_binary(self, method: str, out: None) -> None:
        if self.nin != 2:
            raise ValueError(f"{method} only supported for binary ufuncs")
        if self.nout != 1:
            raise ValueError(
                f"{method} only supported for functions returning a single value"
            )
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.{method}()")

    def result_dtype(self, *arrays: Any) -> Any:
        """The dtype of the function of elements of these arrays."""
        elements = [lax.full_like(x, 1, shape=()) for x in arrays]
        return eval_shape(self._func, *elements).dtype


def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None
) -> ufunc:
    """A ufunc from a function of scalars.

    Args:
      func: a function of `nin` scalars that can be traced.
      nin: the number of its arguments.
      nout: the number of its results.
      identity: the initial value of reductions. None (default) for none.

    Returns:
      A `ufunc`.

    Raises:
      TypeError: `nin` or `nout` is not an integer.
      AttributeError: `func` has no name, as functions do.

    >>> from curta import numpy as jnp
    >>> jnp.frompyfunc(lambda x, y: x + 2 * y, 2, 1).reduce(jnp.arange(3))
    Array(6, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


@inner_jit(static_argnames=("self",))
def _call_vectorized(self: ufunc, *args: Any) -> Any:
    return vectorize(self._func)(*args)


@inner_jit(name="reduce", static_argnames=("self", "axis", "dtype", "keepdims"))
def _reduce(
    self: ufunc,
    a: Any,
    axis: Any,
    dtype: Any,
    keepdims: bool,
    *,
    initial: Any,
    where: Any,
) -> Any:
    if self._own_reduce is not None:
        return self._own_reduce(
            a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
        )
    a = asarray(a)
    if isinstance(axis, tuple):
        canonical_axes(axis, a.ndim)
        raise NotImplementedError("tuple of axes")
    dtype = self.result_dtype(a, a) if dtype is None else dtype
    initial = self.identity if initial is None else initial
    mask = None if where is None else broadcast_to_shape(asarray(where), a.shape)
    kept = (1,) * a.ndim
    if axis is None:
        a, mask, axis = ravel(a), None if mask is None else ravel(mask), 0
    else:
        axis = canonical_axis(axis, a.ndim)
        kept = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    rows = moveaxis(cast(a, dtype), axis, 0)
    masks = None if mask is None else moveaxis(mask, axis, 0)
    out = _fold_rows(self, rows, masks, initial)
    return reshape(out, kept) if keepdims else out


def _fold_rows(self: ufunc, rows: Any, masks: Any, initial: Any) -> Any:
    count, *shape = rows.shape
    if initial is None and count == 0:
        raise ValueError(
            f"zero-size array to reduction operation {self.__name__} which has no"
            " identity"
        )

    def step(i: Any, value: Any) -> Any:
        after = cast(self(value, getitem(rows, i)), rows.dtype)
        return after if masks is None else select_where(getitem(masks, i), after, value)

    if count == 0:
        return broadcast_to_shape(asarray(initial, dtype=rows.dtype), tuple(shape))
    first = 0 if initial is not None else 1
    start = getitem(rows, 0) if initial is None else cast(initial, rows.dtype)
    start = broadcast_to_shape(asarray(start), tuple(shape))
    return lax.fori_loop(first, count, step, start)


@inner_jit(name="accumulate", static_argnames=("self", "axis", "dtype"))
def _accumulate(self: ufunc, a: Any, axis: int, dtype: Any) -> Any:
    if self._own_accumulate is not None:
        return self._own_accumulate(a, axis=axis, dtype=dtype)
    a = asarray(a)
    dtype = self.result_dtype(a, a) if dtype is None else dtype
    axis = canonical_axis(axis, a.ndim)
    if a.size == 0:
        return lax.full(a.shape, 0, dtype)
    rows = moveaxis(cast(a, dtype), axis, 0)

    def step(value: Any, row: Any) -> tuple[Any, Any]:
        value = cast(self(value, row), dtype)
        return value, value

    first = getitem(rows, 0)
    _, rest = lax.scan(step, first, getitem(rows, np.s_[1:]))
    out = lax.concatenate([lax.expand_dims(first, (0,)), rest], 0)
    return moveaxis(out, 0, axis)


@inner_jit(name="reduceat", static_argnames=("self", "axis"))
def _reduceat(self: ufunc, a: Any, indices: Any, axis: int) -> Any:
    shape = [1] * a.ndim
    shape[axis] = indices.shape[0]
    starts = reshape(indices, shape)
    last = lax.full((1,), a.shape[axis], indices.dtype)
    ends = getitem(lax.concatenate([indices, last], 0), np.s_[1:])
    ends = reshape(ends, shape)

    def step(i: Any, out: Any) -> Any:
        i = cast(i, indices.dtype)
        inside = lax.bitwise_and(lax.gt(i, starts), lax.lt(i, ends))
        row = take(a, lax.expand_dims(i, (0,)), axis=axis)
        return select_where(inside, self(out, row), out)

    return lax.fori_loop(0, a.shape[axis], step, take(a, indices, axis=axis))


def _update_one_by_one(self: ufunc, a: Any, indices: Any, *others: Any) -> Any:
    """The function applied at each position of the index, one after the other."""
    a = cast(a, self.result_dtype(a, *others))
    if isinstance(indices, list):
        parse(indices, a.shape)  # raises: lists are no indices
    items = indices if isinstance(indices, tuple) else (indices,)
    arrays = [x for x in items if not isinstance(x, slice)]
    shape = lax.broadcast_shapes(*map(np.shape, arrays)) if arrays else ()
    parse(tuple(items), a.shape)
    if not shape:
        target = IndexedUpdate(a, tuple(items))
        return target.set(self(target.get(), *others))
    flat = tuple(
        x if isinstance(x, slice) else ravel(broadcast_to_shape(asarray(x), shape))
        for x in items
    )
    count = math.prod(shape)
    rows = [_rows_for(x, shape, count) for x in others]

    def step(i: Any, a: Any) -> Any:
        index = tuple(x if isinstance(x, slice) else getitem(x, i) for x in flat)
        target = IndexedUpdate(a, index)
        return target.set(self(target.get(), *(getitem(x, i) for x in rows)))

    return lax.fori_loop(0, count, step, a)


def _rows_for(x: Any, shape: tuple[int, ...], count: int) -> Any:
    """The second operand with one row for each position of an index."""
    rest = x.shape[len(shape) :]
    return reshape(broadcast_to_shape(x, (*shape, *rest)), (count, *rest))
