"""The `out_sharding` argument of array functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from curta import tree_util
from curta.api.placing import check_explicit, on_mesh_in_scope, resharded
from curta.api.shard_map import shard_map
from curta.core.array import Array
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.partition_spec import PartitionSpec, entry_axes, entry_of
from curta.core.placement import placed_as
from curta.core.sharding import NamedSharding
from curta.core.trace import typeof
from curta.errors import ShardingTypeError

F = TypeVar("F", bound=Callable[..., Any])


@overload
def takes_out_sharding(fun: F, /, *, sums: bool = False) -> F: ...
@overload
def takes_out_sharding(*, sums: bool = False) -> Callable[[F], F]: ...
def takes_out_sharding(fun: Any = None, /, *, sums: bool = False) -> Any:
    """Give a function's result the split that its argument `out_sharding` says.

    The function then need not derive the split of the result from the split of its
    operands. With `sums`, it is called with the unreduced part of `out_sharding`: it
    computes the sums on each device with `sum_of_terms`, or passes that part on.
    """
    if fun is None:
        return functools.partial(takes_out_sharding, sums=sums)
    plain: Callable[..., Any] = fun
    before = _parameters_before(plain)

    @functools.wraps(plain)
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if before is not None and len(args) == before + 1 and out_sharding is None:
            args, out_sharding = args[:-1], args[-1]
        if out_sharding is None or says_nothing(out_sharding):
            return plain(*args, **kwargs)
        sharding = explicit_sharding(plain.__name__, out_sharding)
        if sums and sharding.spec.unreduced:
            terms = sharding.update(
                spec=PartitionSpec(unreduced=sharding.spec.unreduced)
            )
            return _as(plain(*args, out_sharding=terms, **kwargs), sharding)
        args, kwargs = tree_util.tree_map(_unplaced, (args, kwargs))
        return resharded(plain(*args, **kwargs), sharding)

    return call


def _parameters_before(plain: Callable[..., Any]) -> int | None:
    """How many parameters come before `out_sharding`; None if it is by keyword only."""
    code = plain.__code__
    names = code.co_varnames[: code.co_argcount]
    return names.index("out_sharding") if "out_sharding" in names else None


def says_nothing(sharding: Any) -> bool:
    """Return True if it is the sharding of a type that no mesh splits."""
    return isinstance(sharding, NamedSharding) and sharding.mesh.empty


def sum_of_terms(
    fun: Callable[..., Any],
    operands: Sequence[Any],
    summed: Sequence[Sequence[int]],
    sharding: NamedSharding,
) -> Any:
    """The sums of `fun` over dims of its operands, one term on each device.

    `summed` are these dims of each operand. Raises ShardingTypeError unless they are
    split over the axes over which the result is unreduced, the same in all operands.
    """
    axes = sharding.spec.unreduced
    specs = [typeof(x).sharding.spec.for_rank(typeof(x).ndim) for x in operands]
    result = [
        tuple(spec.partitions[d] for d in dims)
        for spec, dims in zip(specs, summed, strict=True)
    ]
    if any(spec.unreduced for spec in specs):
        raise ShardingTypeError(
            "lhs or rhs passed to dot_general cannot be unreduced. Got"
            f" {', '.join(str(typeof(x)) for x in operands)}"
        )
    if len({*result}) > 1:
        raise ShardingTypeError(
            "lhs and rhs contracting dims should be sharded identically when"
            " out_sharding provided to dot_general mentions unreduced_axes. Got"
            f" {result[0]} and {result[1]}"
        )
    if axes != {n for e in result[0] for n in entry_axes(e)}:
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be equal to the contracting specs."
            f" Got unreduced axes={set(axes)} and contracting spec={result[0]}"
        )
    return terms_on_devices(fun, operands, summed, sharding)


def terms_on_devices(
    fun: Callable[..., Any],
    operands: Sequence[Any],
    summed: Sequence[Sequence[int]],
    sharding: NamedSharding,
) -> Any:
    """As `sum_of_terms`, of operands that are split over other axes as well."""
    axes, in_specs, placed = sharding.spec.unreduced, [], []
    for x, dims in zip(operands, summed, strict=True):
        spec = typeof(x).sharding.spec.for_rank(typeof(x).ndim)
        entries = [
            entry_of(n for n in entry_axes(e) if d in dims and n in axes)
            for d, e in enumerate(spec.partitions)
        ]
        in_specs.append(PartitionSpec(*entries, unreduced=spec.unreduced & axes))
        placed.append(_as(x, sharding.update(spec=in_specs[-1])))
    mapped = shard_map(
        fun,
        mesh=sharding.mesh if get_abstract_mesh().empty else None,
        in_specs=tuple(in_specs),
        out_specs=sharding.spec,
    )
    return mapped(*placed)


def _as(x: Any, sharding: NamedSharding) -> Any:
    """The value with this split, itself if it has it."""
    spec = sharding.spec.for_rank(typeof(x).ndim)
    return x if typeof(x).sharding.spec == spec else resharded(x, sharding)


def _unplaced(x: Any) -> Any:
    if not isinstance(x, Array):
        return x
    where = typeof(x).placement
    return x if where is None else placed_as(x, where, where.only_varying())


def explicit_sharding(user: str, given: Any) -> NamedSharding:
    """The given sharding over explicit axes.

    Raises TypeError for other types, ValueError for a spec where no mesh is in scope,
    another mesh than that in scope, and axes of another type.
    """
    if not isinstance(given, (NamedSharding, PartitionSpec)):
        raise TypeError(
            f"`out_sharding` argument of {user} only supports instances of"
            f" `NamedSharding` or `PartitionSpec`. Got {given} of type: {type(given)}"
        )
    mesh = get_abstract_mesh()
    if isinstance(given, PartitionSpec):
        given = on_mesh_in_scope(given)
    elif not mesh.empty and given.mesh.abstract_mesh is not mesh:
        raise ValueError(
            f"Context mesh {mesh} should match the mesh of sharding"
            f" {given.mesh.abstract_mesh} passed to {user}."
        )
    check_explicit(user, given)
    return given
