"""`x.at[index].set(y)` and related methods: updated copies of an array."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.user_warnings import warn
from curta.api.out_sharding import takes_out_sharding
from curta.config import config
from curta.core.trace import typeof
from curta.lax.conversion import warn_of_imaginary
from curta.numpy.arithmetic import divide, power
from curta.numpy.constructors import asarray
from curta.numpy.index_parsing import check_entries, expand_masks, parse
from curta.numpy.indexing import getitem, plan_gather
from curta.numpy.promotion import broadcast_to_shape, cast, promote_dtypes
from curta.runtime.shortcuts import updated_copy


def scatter_update(
    x: Any,
    index: Any,
    y: Any,
    scatter: Callable[..., Any],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    wrap_negative: bool = True,
) -> Any:
    """`x` with `y` scattered to the positions of `index` by `scatter`.

    The result has the dtype of `x`; warns if `y` does not safely convert to it.
    """
    dtype, weak_type = x.dtype, x.weak_type
    y = _update_value(y, dtype)
    entries = parse(index, x.shape)
    if not dtypes.safe_to_cast(y, x):
        _warn_of_cast(y, dtype)
        warn_of_imaginary(y, dtype)
    if config.curta_debug_index and (mode is None or _promised(mode)):
        check_entries(entries, x.shape, wrap_negative)
    entries = expand_masks(entries, x.shape)
    plan = plan_gather(entries, x.shape, wrap_negative)
    if 0 in plan.slice_shape:
        return x
    x, y = promote_dtypes(x, y)
    y = _of_shape(y, plan.slice_shape)
    if plan.new_dims:
        y = lax.squeeze(y, plan.new_dims)
    if plan.reversed_dims:
        y = lax.rev(y, plan.reversed_dims)
    if plan.mask_dims:
        x = lax.expand_dims(x, plan.mask_dims)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=plan.numbers.offset_dims,
        inserted_window_dims=plan.numbers.collapsed_slice_dims,
        scatter_dims_to_operand_dims=plan.numbers.start_index_map,
    )
    out = scatter(
        x,
        plan.indices,
        y,
        numbers,
        indices_are_sorted=indices_are_sorted or plan.ascending,
        unique_indices=unique_indices or plan.ascending,
        mode=mode,
    )
    if plan.mask_dims:
        out = lax.squeeze(out, plan.mask_dims)
    return cast(out, dtype, weak_type)


def _promised(mode: Any) -> bool:
    modes = lax.GatherScatterMode
    return modes.from_any(mode) is modes.PROMISE_IN_BOUNDS


def _warn_of_cast(y: Any, dtype: Any) -> None:
    warn(
        "scatter inputs have incompatible types: cannot safely cast value from"
        f" dtype={dtypes.dtype(y)} to dtype={dtype} with"
        f" jax_numpy_dtype_promotion={config.jax_numpy_dtype_promotion}. In future"
        " JAX releases this will result in an error.",
        FutureWarning,
    )


def _of_shape(y: Any, shape: tuple[int, ...]) -> Any:
    try:
        return broadcast_to_shape(y, shape)
    except ValueError as error:
        raise ValueError(
            f"{error}. The values of an update broadcast to the shape of x[index],"
            f" which is {shape}."
        ) from None


def _update_value(y: Any, dtype: Any) -> Any:
    if isinstance(y, int) and dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        if info.min <= y <= info.max:
            return np.asarray(y, dtype)[()]
    return asarray(y)


class IndexUpdater:
    """The type of `x.at`: index it to select the elements to update.

    >>> from curta import numpy as jnp
    >>> jnp.zeros(3).at[1].set(5.0)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array: Any = array

    def __getitem__(self, index: Any) -> IndexedUpdate:
        return IndexedUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class IndexedUpdate:
    """The type of `x.at[index]`: each method returns an updated copy of `x`.

    Keywords of all methods: `mode` ("drop" is the default for updates, "clip", "fill",
    "promise_in_bounds"), `indices_are_sorted`, `unique_indices` (promises that
    may make the update faster), `wrap_negative_indices`.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any):
        self.array: Any = array
        self.index: Any = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The elements themselves; with mode "fill", `fill_value` out of bounds.

        >>> from curta import numpy as jnp
        >>> jnp.arange(3).at[jnp.array([1, 7])].get(mode="fill", fill_value=-1)
        Array([ 1, -1], dtype=int32)
        """
        take = getitem if out_sharding is None else _split_get(out_sharding)
        return take(
            self.array,
            self.index,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            fill_value=fill_value,
            wrap_negative=wrap_negative_indices,
        )

    def set(self, values: Any, **keywords: Any) -> Any:
        """The elements replaced by `values`."""
        return self._scatter("set", values, lax.scatter, keywords)

    def add(self, values: Any, **keywords: Any) -> Any:
        """`values` added; at an index that occurs twice, both are."""
        return self._scatter("add", values, lax.scatter_add, keywords)

    def subtract(self, values: Any, **keywords: Any) -> Any:
        """`values` subtracted."""
        return self._scatter("subtract", values, lax.scatter_sub, keywords)

    def multiply(self, values: Any, **keywords: Any) -> Any:
        """The elements multiplied by `values`."""
        return self._scatter("multiply", values, lax.scatter_mul, keywords)

    mul = multiply

    def divide(self, values: Any, **keywords: Any) -> Any:
        """The elements divided by `values`."""
        return divide(self.array, self._factors("divide", values, keywords))

    def power(self, values: Any, **keywords: Any) -> Any:
        """The elements raised to the power `values`."""
        return power(self.array, self._factors("power", values, keywords))

    def min(self, values: Any, **keywords: Any) -> Any:
        """The smaller of the elements and `values`."""
        return self._scatter("min", values, lax.scatter_min, keywords)

    def max(self, values: Any, **keywords: Any) -> Any:
        """The larger of the elements and `values`."""
        return self._scatter("max", values, lax.scatter_max, keywords)

    def apply(self, func: Callable[[Any], Any], **keywords: Any) -> Any:
        """`func`, of a scalar, applied to the elements, as often as an index occurs.

        NotImplementedError is raised for derivatives.
        """

        def scatter(x: Any, indices: Any, y: Any, numbers: Any, **how: Any) -> Any:
            shape = typeof(y).shape
            return lax.scatter_apply(
                x, indices, func, numbers, update_shape=shape, **how
            )

        zero = np.zeros((), self.array.dtype)
        return self._scatter("apply", zero, scatter, keywords)

    def _factors(self, method: str, values: Any, keywords: dict[str, Any]) -> Any:
        ones = IndexedUpdate(lax.full_like(self.array, 1), self.index)
        return ones._scatter(method, values, lax.scatter_mul, keywords)

    def _scatter(
        self,
        method: str,
        values: Any,
        scatter: Callable[..., Any],
        keywords: dict[str, Any],
    ) -> Any:
        if keywords:
            for name in keywords.keys() - _KEYWORDS:
                raise TypeError(
                    f"IndexedUpdate.{method}() got an unexpected keyword argument"
                    f" {name!r}. Its keywords are {', '.join(sorted(_KEYWORDS))}."
                )
        elif scatter in _COMBINE:
            updated = updated_copy(self.array, self.index, values, _COMBINE[scatter])
            if updated is not None:
                return updated
        return indexed_update(self.array, self.index, values, scatter, **keywords)


_KEYWORDS = {
    "indices_are_sorted",
    "unique_indices",
    "mode",
    "out_sharding",
    "wrap_negative_indices",
}

# What updates do with the old elements and the new, as NumPy has it.
_COMBINE: dict[Callable[..., Any], Any] = {
    lax.scatter: None,
    lax.scatter_add: np.add,
    lax.scatter_sub: np.subtract,
    lax.scatter_mul: np.multiply,
}


def _split_get(out_sharding: Any) -> Callable[..., Any]:
    """Indexing whose result is split as said."""
    get: Callable[..., Any] = takes_out_sharding(getitem)
    return functools.partial(get, out_sharding=out_sharding)


@takes_out_sharding
def indexed_update(
    x: Any,
    index: Any,
    values: Any,
    scatter: Callable[..., Any],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    return scatter_update(
        x,
        index,
        values,
        scatter,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
        wrap_negative=wrap_negative_indices,
    )
