"""Policies for `checkpoint`: which results are saved for the backward pass.

A policy is called for each operation, `policy(primitive, *avals, **params)`, and
returns whether its results are saved. Other results are recomputed when needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, listed
from curta.control.saving import FitIn, Offloadable, Recompute, Saveable
from curta.core.primitive import Primitive, primitive_of
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import Name

__all__ = [
    "DotsSaveable",
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "fit_in",
    "everything_saveable",
    "nothing_saveable",
    "offload_dot_with_no_batch_dims",
    "save_and_offload_only_these_names",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]
__dir__: Listing = listed(__all__)

Policy = Callable[..., Any]

_dot = primitive_of(DotGeneral)
_name = primitive_of(Name)


def everything_saveable(*args: Any, **params: Any) -> bool:
    """Keep every result, as without `checkpoint`.

    >>> import curta, curta.numpy as jnp
    >>> policy = curta.checkpoint_policies.everything_saveable
    >>> curta.grad(curta.checkpoint(jnp.sin, policy=policy))(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return True


def nothing_saveable(*args: Any, **params: Any) -> bool:
    """Keep no result, as with `checkpoint` and no policy.

    >>> import curta, curta.numpy as jnp
    >>> policy = curta.checkpoint_policies.nothing_saveable
    >>> curta.grad(curta.checkpoint(jnp.sin, policy=policy))(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return False


@dataclass(frozen=True)
class DotsSaveable:
    """Keep the results of matrix products: dear to compute, small to keep.

    With `only_if_no_batch_dims`, only of those without batch dims: those with weights.

    Args:
      primitive: the operation whose result may be kept.
      args: the avals of its operands.
      params: its parameters, by name.

    Returns:
      Whether the result is kept.

    Raises:
      KeyError: if parameters are not those of the operation.

    >>> import curta, curta.numpy as jnp
    >>> f = lambda w, x: jnp.sin(x @ w).sum()
    >>> f = curta.checkpoint(f, policy=curta.checkpoint_policies.dots_saveable)
    >>> curta.grad(f)(jnp.zeros((2, 1)), jnp.ones((3, 2)))
    Array([[3.],
           [3.]], dtype=float32)
    """

    only_if_no_batch_dims: bool

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> bool:
        if primitive is not _dot:
            return False
        return not (self.only_if_no_batch_dims and any(params["dimension_numbers"][1]))


dots_saveable: DotsSaveable = DotsSaveable(only_if_no_batch_dims=False)
dots_with_no_batch_dims_saveable: DotsSaveable = DotsSaveable(
    only_if_no_batch_dims=True
)
checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@dataclass(frozen=True)
class SaveOnlyTheseNames:
    """The policy that `save_only_these_names` gives."""

    saveable_names: frozenset[str]

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> bool:
        return primitive is _name and params["name"] in self.saveable_names


@dataclass(frozen=True)
class SaveAnyNamesButThese:
    """The policy that `save_any_names_but_these` gives."""

    names: frozenset[str]

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> bool:
        return primitive is _name and params["name"] not in self.names


@dataclass(frozen=True)
class SaveAnythingExceptTheseNames:
    """The policy that `save_anything_except_these_names` gives."""

    names: frozenset[str]

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> bool:
        return primitive is not _name or params["name"] not in self.names


@dataclass(frozen=True)
class SaveFromBothPolicies:
    """The policy that `save_from_both_policies` gives."""

    first: Policy
    second: Policy

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> bool:
        answers = [p(primitive, *args, **params) for p in (self.first, self.second)]
        if not all(isinstance(a, bool) for a in answers):
            raise ValueError(
                "The return value of the policies should be a boolean. Got:"
                f" {answers[0]} and {answers[1]}. Please write a custom policy"
                " function directly, rather than using this helper function."
            )
        return any(answers)


@dataclass(frozen=True)
class SaveAndOffloadOnlyTheseNames:
    """The policy that `save_and_offload_only_these_names` gives."""

    saved: frozenset[str]
    offloaded: frozenset[str]
    memories: Offloadable

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> Any:
        name = params["name"] if primitive is _name else None
        if name in self.saved:
            return Saveable
        return self.memories if name in self.offloaded else Recompute


@dataclass(frozen=True)
class OffloadDotWithNoBatchDims:
    """The policy that `offload_dot_with_no_batch_dims` gives."""

    memories: Offloadable

    def __call__(self, primitive: Primitive, *args: Any, **params: Any) -> Any:
        kept = dots_with_no_batch_dims_saveable(primitive, *args, **params)
        return self.memories if kept else Recompute


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Iterable[str],
    names_which_can_be_offloaded: Iterable[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keep named values, some of them in another memory; here there is one memory.

    Args:
      names_which_can_be_saved: names of `checkpoint_name` whose values are kept.
      names_which_can_be_offloaded: those whose values go to the other memory.
      offload_src: the kind of memory they are in: "device".
      offload_dst: the kind of memory they go to: "pinned_host".

    Returns:
      A policy for `checkpoint`.

    Raises:
      ValueError: if names are both.

    >>> import curta, curta.numpy as jnp
    >>> from curta.ad_checkpoint import checkpoint_name
    >>> policy = curta.checkpoint_policies.save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["y"], names_which_can_be_offloaded=["z"],
    ...     offload_src="device", offload_dst="pinned_host")
    >>> f = lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "z"))
    >>> curta.grad(curta.checkpoint(f, policy=policy))(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    saved = frozenset(names_which_can_be_saved)
    offloaded = frozenset(names_which_can_be_offloaded)
    if both := saved & offloaded:
        raise ValueError(
            "The names should be exclusive and should not intersect in"
            " `names_which_can_be_saved` and `names_which_can_be_offloaded`. Got"
            f" names_which_can_be_saved={set(saved)},"
            f" names_which_can_be_offloaded={set(offloaded)} and the"
            f" intersection={set(both)}"
        )
    memories = Offloadable(offload_src, offload_dst)
    return SaveAndOffloadOnlyTheseNames(saved, offloaded, memories)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """As `dots_with_no_batch_dims_saveable`, in another memory; here there is one.

    >>> import curta, curta.numpy as jnp
    >>> policy = curta.checkpoint_policies.offload_dot_with_no_batch_dims(
    ...     "device", "pinned_host")
    >>> f = curta.checkpoint(lambda w, x: jnp.sin(x @ w).sum(), policy=policy)
    >>> curta.grad(f)(jnp.zeros((2, 1)), jnp.ones((3, 2))).shape
    (2, 1)
    """
    return OffloadDotWithNoBatchDims(Offloadable(offload_src, offload_dst))


def fit_in(limit: int | str) -> Policy:
    """Compute again what is needed for the whole compiled program to fit in memory.

    The compiler knows the bytes and the cost of each value, and when each is needed. It
    drops those that cost least for the bytes that they take and the time for which they
    are not needed, and computes them again right before they are, from what is held
    then. A program that fits as it is stays as it is.

    The limit holds for each compiled program that the function is part of, as
    `jit(grad(checkpoint(f, policy=fit_in("2GB"))))`: for its arguments, results and
    temporaries, which are the `peak_memory_in_bytes` of `Compiled.memory_analysis()`.
    Values that a loop stores for its gradient are not recomputed: apply `checkpoint` to
    its body for that. Without `jit` around the gradient, and on plugins, nothing is
    dropped.

    Args:
      limit: bytes, or a number with a unit: "2GB" is 2e9 bytes, "2GiB" 2 * 2**30; "kB",
        "MB", "TB" and "KiB", "MiB", "TiB" as well.

    Returns:
      A policy for `checkpoint`.

    Raises:
      TypeError: if the limit is neither an int nor a string.
      ValueError: if it is not positive, or no number with a unit.
      AdviceWarning: when a program is compiled that does not fit, and the setting
        `curta_advice` has `memory=raise`; else that is a warning, and the program takes
        as little as was found.

    >>> import curta, curta.numpy as jnp
    >>> def loss(x):
    ...     for _ in range(20):
    ...         x = jnp.sin(x) @ jnp.cos(x)
    ...     return x.sum()
    >>> x = jnp.ones((100, 100))
    >>> policy = curta.checkpoint_policies.fit_in("800kB")
    >>> for f in loss, curta.checkpoint(loss, policy=policy):
    ...     compiled = curta.jit(curta.grad(f)).lower(x).compile()
    ...     print(compiled.memory_analysis().peak_memory_in_bytes <= 800e3)
    False
    True
    """
    return FitIn(_bytes(limit))


_UNITS = {
    **{f"{p}B": 1000**i for i, p in enumerate(("", "k", "M", "G", "T"))},
    **{f"{p}iB": 1024**i for i, p in enumerate(("K", "M", "G", "T"), start=1)},
}


def _bytes(limit: int | str) -> int:
    if isinstance(limit, bool) or not isinstance(limit, (int, str)):
        raise TypeError(
            f"a limit of memory is an int or a string as '2GB', got {limit!r} of type"
            f" {type(limit).__name__}"
        )
    if isinstance(limit, str):
        parts = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]+)\s*", limit)
        units = {name.lower(): size for name, size in _UNITS.items()}
        try:
            number, unit = parts.groups() if parts else ("", "")
            limit = int(float(number) * units[unit.lower()])
        except (ValueError, KeyError):
            raise ValueError(
                f"{limit!r} is not a number of bytes: give an int, or a number with one"
                f" of {', '.join(_UNITS)}"
            ) from None
    if limit <= 0:
        raise ValueError(f"a limit of memory is a positive number of bytes: {limit}")
    return limit


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep the values that `checkpoint_name` gave one of these names.

    >>> import curta, curta.numpy as jnp
    >>> from curta.ad_checkpoint import checkpoint_name
    >>> policy = curta.checkpoint_policies.save_only_these_names("y")
    >>> f = lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "y"))
    >>> curta.grad(curta.checkpoint(f, policy=policy))(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep the values that have a name, but for those with one of these.

    >>> import curta
    >>> curta.checkpoint_policies.save_any_names_but_these("y")
    SaveAnyNamesButThese(names=frozenset({'y'}))
    """
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep every value, named or not, but for those with one of these names.

    >>> import curta
    >>> curta.checkpoint_policies.save_anything_except_these_names("y")
    SaveAnythingExceptTheseNames(names=frozenset({'y'}))
    """
    return SaveAnythingExceptTheseNames(frozenset(names_not_to_save))


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps.

    >>> import curta
    >>> policies = curta.checkpoint_policies
    >>> policy = policies.save_from_both_policies(
    ...     policies.dots_saveable, policies.save_only_these_names("y"))
    >>> curta.grad(curta.checkpoint(lambda x: x * x, policy=policy))(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    return SaveFromBothPolicies(policy_1, policy_2)
