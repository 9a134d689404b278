"""Einstein summation: products of arrays named by letters, summed over some of them.

opt_einsum finds the order in which to contract pairs of operands, if there are more
than two; each pair becomes one dot product.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.on_demand import late
from curta._base.once import once
from curta.api.inner import inlined_jit, new_arrays
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array
from curta.core.dim import is_symbolic_dim
from curta.numpy.arguments import ensure_arraylikes, refuse_out, user_dtype
from curta.numpy.promotion import cast

opt_einsum: late = late("opt_einsum")


@new_arrays
@inlined_jit(
    static_argnames=(
        *("subscripts", "out", "optimize", "precision"),
        *("preferred_element_type", "_dot_general"),
    )
)
@takes_out_sharding(sums=True)
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """The sum of products that `subscripts` spell out, as in "ij,jk->ik".

    A letter that occurs twice in one operand takes its diagonal; a letter missing
    after "->" is summed over; "..." stands for dims that broadcast. Without "->" the
    letters that occur once are kept, in alphabetical order. A. Einstein, Die Grundlage
    der allgemeinen Relativitätstheorie (1916), section 5.

    Args:
      subscripts: a letter for each dim, operands separated by commas; or the first
        operand, each followed by a list of integers for its dims.
      *operands: arrays of as many dims as the letters say.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      optimize: how to find the order of contractions: "auto" (default), "optimal",
        "greedy" or another name of opt_einsum, True or False, or a path.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.
      _dot_general: a function with the signature of `lax.dot_general`, the default,
        which takes the products of pairs of operands.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from the operands.

    Returns:
      An array of the dims after "->", of the promoted dtype.

    Raises:
      TypeError: `subscripts` is not a string and no operand, or an operand no array;
        `preferred_element_type` is unknown; `out_sharding` is not a sharding.
      ValueError: the letters do not fit the operands' dims, or the sizes of a letter
        differ; `precision` is unknown.
      NotImplementedError: `out` is given.
      KeyError: `optimize` is unknown, for three operands or more.

    >>> from curta import numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3))
    Array([3., 3.], dtype=float32)
    """
    refuse_out("einsum", out)
    given = list(map(_sized, map(_through_protocol, (subscripts, *operands))))
    arrays, steps = given[1:], _only_step(given, optimize)
    if not steps:
        arrays, steps = _contract_path(
            *given, einsum_call=True, use_blas=True, optimize=_optimizer(optimize)
        )
    arrays = [x.array if isinstance(x, _Sized) else x for x in arrays]
    arrays = list(ensure_arraylikes("einsum", *arrays))
    if preferred_element_type is None:
        dtype, weak_type = dtypes.result_type(*arrays, return_weak_type_flag=True)
    else:
        dtype, weak_type = user_dtype(preferred_element_type, "einsum"), False
    for taken, summed, expression, *_ in steps:
        # The last step takes the sums that are left to the devices.
        sharding = out_sharding if len(taken) == len(arrays) else None
        contract = _Contraction(
            expression, sorted(summed), dtype, precision, sharding, _dot_general
        )
        taking = [arrays.pop(i) for i in taken]
        if len(taking) > 2:
            raise NotImplementedError(
                "jax.numpy.einsum does not support simultaneous contraction of 3 or"
                " more operands. Typically this means you've passed an unsupported"
                " path to the einsum optimize parameter."
            )
        step = contract.one if len(taking) == 1 else contract.two
        arrays.append(step(*taking))
    return cast(arrays[0], dtype, weak_type)


def _contract_path(*given: Any, **options: Any) -> tuple[Any, Any]:
    """`opt_einsum.contract_path`; its errors tell the operands, and hide its frames."""
    try:
        result: tuple[Any, Any] = opt_einsum.contract_path(*given, **options)
    except ValueError as error:
        subscripts = next((repr(x) for x in given if isinstance(x, str)), "...")
        shapes = ", ".join(str(tuple(x.shape)) for x in given if hasattr(x, "shape"))
        text = str(error).rstrip(".")
        raise ValueError(f"{text}, in einsum {subscripts} of {shapes}.") from None
    return result


def _through_protocol(x: Any) -> Any:
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


class _Sized:
    """An array with symbolic dims, and a shape by which to judge the costs."""

    def __init__(self, array: Any):
        self.array = array
        self.shape = tuple(8 if is_symbolic_dim(d) else d for d in array.shape)


def _sized(x: Any) -> Any:
    return _Sized(x) if any(map(is_symbolic_dim, getattr(x, "shape", ()))) else x


def _only_step(given: Sequence[Any], optimize: Any) -> Sequence[tuple[Any, ...]]:
    """The contraction of one or two operands, as opt_einsum gives it.

    There is no order to find then, so a process need not import it. () for more
    operands, for a path, and for what needs a better reader: ellipses, lists, mistakes.
    """
    subscripts, *operands = given
    if not isinstance(subscripts, str) or not isinstance(optimize, str | bool):
        return ()
    inputs, arrow, result = subscripts.replace(" ", "").partition("->")
    names = inputs.split(",")
    letters = "".join(names)
    if not arrow:
        result = "".join(n for n in sorted(letters) if letters.count(n) == 1)
    if len(names) != len(operands) or len(operands) > 2:
        return ()
    if not letters.isalpha() or len({*result}) < len(result) or {*result} - {*letters}:
        return ()
    if any(len(n) != len(getattr(x, "shape", ())) for n, x in zip(names, operands)):
        return ()
    sizes: dict[str, set[int]] = {n: set() for n in letters}
    for own, x in zip(names, operands):
        for name, size in zip(own, x.shape if own else ()):
            sizes[name].add(size)
    if any(len(lengths - {1}) > 1 for lengths in sizes.values()):
        return ()
    expression = ",".join(reversed(names)) + "->" + result
    return ((range(len(operands))[::-1], {*letters} - {*result}, expression),)


def _optimizer(optimize: Any) -> Any:
    if optimize is True:
        return "optimal"
    return _in_order() if optimize is False else optimize


@once
def _in_order() -> Any:
    """Contracts the operands from left to right."""

    class InOrder(opt_einsum.paths.PathOptimizer):  # type: ignore[name-defined, misc]
        def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            return [(0, 1)] * (len(inputs) - 1)

    return InOrder()


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` would contract the operands, and its cost.

    Args:
      subscripts: a letter for each dim, operands separated by commas; see `einsum`.
      *operands: arrays of as many dims as the letters say.
      optimize: how to find the order: "auto" (default), "optimal", "greedy" or another
        name of opt_einsum, True or False, or a path.

    Returns:
      A list of tuples, the operands that each step contracts, and a printable object
      with the costs.

    Raises:
      TypeError: `subscripts` is not a string and no operand.
      ValueError: the letters do not fit the operands' dims, or the sizes of a letter
        differ.
      KeyError: `optimize` is unknown, for three operands or more.

    >>> from curta import numpy as jnp
    >>> x = jnp.ones((2, 2))
    >>> jnp.einsum_path("ij,jk->ik", x, x)[0]
    [(0, 1)]
    """
    path, info = _contract_path(subscripts, *operands, optimize=_optimizer(optimize))
    return path, info


class _Contraction:
    """One step of a contraction path, on one or two operands."""

    def __init__(
        self,
        expression: str,
        summed: list[str],
        dtype: Any,
        precision: Any,
        out_sharding: Any,
        dot_general: Callable[..., Any],
    ):
        names, self.result = expression.split("->")
        self.names = names.split(",")
        self.summed = summed
        self.dtype = dtype
        self.precision = precision
        self.split = {} if out_sharding is None else {"out_sharding": out_sharding}
        self.dot_general = dot_general

    def one(self, x: Any) -> Any:
        (names,) = self.names
        counts = collections.Counter(names)
        single = [n for n in self.summed if counts[n] == 1]
        x, names = self._sum_single(x, names, single, **self.split)
        x, names = self._take_diagonals(x, names, counts, self.result)
        return self._ordered(x, names)

    def two(self, x: Any, y: Any) -> Any:
        x_names, y_names = self.names
        x, x_names = _without_ones(x, x_names, np.shape(y), y_names)
        y, y_names = _without_ones(y, y_names, np.shape(x), x_names)
        x_counts, y_counts = collections.Counter(x_names), collections.Counter(y_names)
        alone = [n for n in self.summed if x_counts[n] == 1 and not y_counts[n]]
        x, x_names = self._sum_single(x, x_names, alone)
        alone = [n for n in self.summed if y_counts[n] == 1 and not x_counts[n]]
        y, y_names = self._sum_single(y, y_names, alone)
        result = self.result
        x, x_names = self._take_diagonals(x, x_names, x_counts, result + y_names)
        y, y_names = self._take_diagonals(y, y_names, y_counts, result + x_names)
        common = set(x_names) & set(y_names)
        batch = [n for n in result if n in common]
        summed = [n for n in self.summed if n in common]
        gone = {*batch, *summed}
        x_kept = [n for n in x_names if n not in gone]
        y_kept = [n for n in y_names if n not in gone]
        # Whichever order of the operands spares the transpose is taken.
        if [*batch, *y_kept, *x_kept] == list(result):
            x, x_names, x_kept, y, y_names, y_kept = (
                *(y, y_names, y_kept),
                *(x, x_names, x_kept),
            )
        numbers = (
            (_dims_of(x_names, summed), _dims_of(y_names, summed)),
            (_dims_of(x_names, batch), _dims_of(y_names, batch)),
        )
        out = self.dot_general(
            x,
            y,
            numbers,
            self.precision,
            preferred_element_type=self.dtype,
            **self.split,
        )
        return self._ordered(out, "".join([*batch, *x_kept, *y_kept]))

    def _sum(self, x: Any, axes: Sequence[int], out_sharding: Any = None) -> Any:
        if dtypes.result_type(x, self.dtype) != x.dtype:
            x = cast(x, self.dtype)
        if x.dtype == np.bool_:
            return lax.reduce_or(x, tuple(axes))
        return lax.reduce_sum(x, tuple(axes), out_sharding=out_sharding)

    def _sum_single(
        self, x: Any, names: str, single: list[str], out_sharding: Any = None
    ) -> tuple[Any, str]:
        """Sum over the letters that occur only here, once."""
        if not single:
            return x, names
        axes = [names.index(n) for n in single]
        out = self._sum(x, axes, out_sharding)
        return out, "".join(n for n in names if n not in single)

    def _take_diagonals(
        self, x: Any, names: str, counts: collections.Counter[str], kept: str
    ) -> tuple[Any, str]:
        """The diagonal of letters that occur twice, summed if no other needs them."""
        for name, count in counts.items():
            if count < 2:
                continue
            axes = [i for i, n in enumerate(names) if n == name]
            x = lax.select(_diagonal_mask(x.shape, axes), x, lax.full_like(x, 0))
            if name not in kept:
                x, names = self._sum(x, axes), names.replace(name, "")
            else:
                x = self._sum(x, axes[:-1])
                names = names.replace(name, "", count - 1)
        return x, names

    def _ordered(self, x: Any, names: str) -> Any:
        if names == self.result:
            return x
        return lax.transpose(x, _dims_of(names, self.result))


def _dims_of(names: str, wanted: Sequence[str]) -> tuple[int, ...]:
    return tuple(names.index(n) for n in wanted)


def _without_ones(
    x: Any, names: str, other_shape: tuple[int, ...], other_names: str
) -> tuple[Any, str]:
    """Without dims of size 1 that broadcast against the other operand."""
    gone = [
        i
        for i, n in enumerate(names)
        if x.shape[i] == 1
        and n in other_names
        and other_shape[other_names.index(n)] != 1
    ]
    if not gone:
        return x, names
    left = "".join(n for i, n in enumerate(names) if i not in gone)
    return lax.squeeze(x, tuple(gone)), left


def _diagonal_mask(shape: tuple[int, ...], axes: list[int]) -> Any:
    sizes = tuple(shape[i] for i in axes)
    counters = [lax.broadcasted_iota(np.uint32, sizes, i) for i in range(len(sizes))]
    mask = lax.eq(counters[0], counters[1])
    for first, second in zip(counters[1:], counters[2:]):
        mask = lax.bitwise_and(mask, lax.eq(first, second))
    return mask if sizes == shape else lax.broadcast_in_dim(mask, shape, tuple(axes))
