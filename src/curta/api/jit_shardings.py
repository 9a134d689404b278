"""The `in_shardings` and `out_shardings` of `jit`: where arguments and results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta import tree_util
from curta.core.array_layout import Format, Layout, layout_of
from curta.core.avals import ShapedArray, placed_aval
from curta.core.mesh import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    AbstractMesh,
    Mesh,
    retyped,
)
from curta.core.mesh_scope import scope
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import DuplicateSpecError, NamedSharding, Sharding
from curta.core.trace import typeof
from curta.primitives.placing import Reshard, ShardingConstraint
from curta.runtime.array import ArrayImpl


class ShardingTree(NamedTuple):
    """A tree of shardings, flattened so that it can be hashed.

    `layouts` are those of leaves that were a `Format`, None of others.
    """

    leaves: tuple[Any, ...]
    tree: Any
    layouts: tuple[Any, ...]

    def unflattened(self) -> Any:
        """The tree itself."""
        return tree_util.tree_unflatten(self.tree, self.leaves)

    def layouts_of(self, value: Any) -> list[Any]:
        """The layout of each leaf of a value, None for an open one; [] if all are."""
        if not any(self.layouts):
            return []
        wrapped = tree_util.tree_unflatten(self.tree, map(_Given, self.layouts))
        if isinstance(wrapped, list):
            wrapped = tuple(wrapped)
        result = tree_util.broadcast_prefix(wrapped, value)
        return [x.layout for x in result]


class _Given:
    """A layout as a leaf of a tree, where None would be none."""

    def __init__(self, layout: Any):
        self.layout = layout


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))


def sharding_tree(user: str, what: str, given: Any) -> ShardingTree | None:
    """The given tree of shardings, or None; TypeError if a leaf is not a sharding."""
    leaves, tree = tree_util.tree_flatten(given, is_leaf=_is_leaf)
    layouts = tuple(map(layout_of, leaves))
    leaves = [x.sharding if isinstance(x, Format) else x for x in leaves]
    for x in leaves:
        if isinstance(x, Layout) or x is Layout.AUTO:
            raise ValueError(
                "`jax.jit` does not accept device-local layouts directly. Create a"
                " `Format` instance wrapping this device-local layout and pass that to"
                f" `jit` instead. Got {x}"
            )
        if not _is_leaf(x):
            raise TypeError(
                f"{what} leaf specifications are expected to be PartitionSpec instances"
                f" or None, but got {x}"
            )
        if isinstance(x, NamedSharding) and x.mesh.empty:
            raise ValueError(
                f"One of {what} leaf specifications got an empty NamedSharding: {x}"
                " which is not allowed. Say None where the sharding does not matter."
            )
        if isinstance(x, (NamedSharding, PartitionSpec)):
            spec = x if isinstance(x, PartitionSpec) else x.spec
            _check_once(what, spec)
            if UNCONSTRAINED in spec.partitions:
                raise ValueError(
                    "Unconstrained dims are not allowed when passed to"
                    f" {what} of jit: {spec}"
                )
    if given is None and user != "pjit":
        return None
    return ShardingTree(tuple(leaves), tree, layouts)


def _check_once(what: str, spec: PartitionSpec) -> None:
    used = spec.used_axes()
    for name in used:
        if used.count(name) > 1:
            raise DuplicateSpecError(
                f"A single {what} specification can map every mesh axis to at most one"
                f" positional dimension, but {spec} has duplicate entries for `{name}`"
            )


def context_mesh(*, heeds_with: bool = True) -> Any:
    """The mesh in scope, by `set_mesh`, or the older `with mesh:` if that is heeded."""
    result = scope()
    concrete = result.concrete
    if concrete is not None:
        # `use_abstract_mesh` may have given its devices other axes.
        same = result.abstract in (concrete.abstract_mesh, EMPTY_ABSTRACT_MESH)
        return concrete if same else result.abstract
    if not result.abstract.empty:
        return result.abstract
    return (result.resources if heeds_with else None) or EMPTY_MESH


def resolved(user: str, what: str, given: Any, mesh: Mesh | None = None) -> Any:
    """A sharding for what the user gave: a spec is one over the mesh in scope.

    Raises RuntimeError for a spec where no mesh is in scope.
    """
    if not isinstance(given, PartitionSpec):
        return given
    mesh = mesh or context_mesh(heeds_with=user != "jit")
    if mesh.empty:
        raise RuntimeError(
            f"{user} requires a non-empty mesh in context if you are passing"
            f" `PartitionSpec`s to {what}. You can define a context mesh via"
            " `jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s to"
            f" {what} and then the mesh context manager is not required."
        )
    return NamedSharding(mesh, given)


def flat_shardings(
    what: str, given: ShardingTree | None, value: Any, mesh: Mesh | None = None
) -> list[Sharding | None]:
    """A sharding or None for each leaf of `value`; [] if none was given.

    With a `mesh`, None stands for a copy of the whole array on every device of it.
    Raises ValueError if the given tree is not a prefix of the tree of `value`.
    """
    if given is None:
        return []
    user = "jit" if mesh is None else "pjit"
    for x in given.leaves:
        resolved(user, what, x, mesh)  # RuntimeError where there is no mesh at all
    specs = given.unflattened()
    if isinstance(specs, list) and what == "in_shardings":
        specs = tuple(specs)
    try:
        result = tree_util.broadcast_prefix(specs, value, is_leaf=_is_leaf)
    except ValueError:
        raise ValueError(_mismatch(what, specs, value)) from None
    whole = None if mesh is None else NamedSharding(mesh, PartitionSpec())
    given_or_whole = (whole if x is None else x for x in result)
    return [_on_devices(resolved(user, what, x, mesh)) for x in given_or_whole]


def _on_devices(sharding: Sharding | None) -> Sharding | None:
    """One over a mesh without devices has those in scope, if they are as many."""
    around = scope().concrete
    if around is None or not isinstance(sharding, NamedSharding):
        return sharding
    mesh = sharding.mesh
    if not isinstance(mesh, AbstractMesh) or mesh.size != around.size:
        return sharding
    return sharding.update(mesh=retyped(around, mesh))


def check_fits(
    what: str,
    shardings: Sequence[Sharding | None],
    shapes: Sequence[Any],
    names: Callable[[], Sequence[str]],
) -> None:
    """Raise ValueError if a value cannot be laid out by its sharding.

    `what` the values are, and their `names`, are for the error to say.
    """
    for i, (sharding, shape) in enumerate(zip(shardings, shapes)):
        if sharding is None:
            continue
        try:
            sharding.check_compatible_aval(shape)
        except ValueError as error:
            raise ValueError(
                f"One of {what} with pytree key path {names()[i]} is incompatible with"
                f" its sharding annotation {sharding}: {error}"
            ) from None
        sharding.shard_shape(shape)


def flat_layouts(
    what: str,
    given: ShardingTree | None,
    value: Any,
    avals: Sequence[ShapedArray],
    names: Sequence[str] | Callable[[], Sequence[str]],
) -> list[Any]:
    """A layout or None for each leaf of `value`; [] if none was given.

    Raises ValueError for one of other dims than the array has.
    """
    result = [] if given is None else given.layouts_of(value)
    for i, (layout, aval) in enumerate(zip(result, avals)):
        if isinstance(layout, Layout):
            paths = names() if callable(names) else names
            name = f"jit {what} with pytree key path {paths[i]}"
            check_layout_fits(name, layout, aval)
    return result


def check_layout_fits(what: str, layout: Layout, aval: ShapedArray) -> None:
    """Raise ValueError if an array does not have the dims of a layout."""
    try:
        layout.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ValueError(
            f"One of {what} is incompatible with its layout annotation {layout}:"
            f" {error}"
        ) from None


def sharding_of_argument(x: Any) -> Sharding | None:
    """The sharding of an argument of a function that is staged ahead of time."""
    if type(x) is ArrayImpl:
        return x._sharding
    sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else None
    abstract = isinstance(getattr(sharding, "mesh", None), AbstractMesh)
    return None if abstract else sharding


def layout_of_argument(x: Any) -> Layout | None:
    """In which order an argument of such a function is stored, if it is said."""
    if isinstance(x, ShapeDtypeStruct):
        layout = x.format.layout
        return layout if isinstance(layout, Layout) else None
    placed = type(x) is ArrayImpl and x.committed
    layout = x.format.layout if placed else None
    return layout if isinstance(layout, Layout) and not layout.is_row_major else None


def _mismatch(what: str, specs: Any, value: Any) -> str:
    if what == "in_shardings" and isinstance(specs, tuple):
        if len(specs) != len(value):
            return (
                "pjit in_shardings specification must be a tree prefix of the"
                " positional arguments tuple. In particular, pjit in_shardings must"
                " either be a Sharding, a PartitionSpec, or a tuple of length equal to"
                " the number of positional arguments. But pjit in_shardings is the"
                f" wrong length: got a tuple or list of length {len(specs)} for an args"
                f" tuple of length {len(value)}."
            )
    errors = tree_util.prefix_errors(specs, value, is_leaf=_is_leaf)
    detail = "".join(f"\n{error(f'pjit {what}')}" for error in errors)
    return (
        f"pjit {what} specification must be a tree prefix of the corresponding value."
        f"\nMismatch details ({len(errors)} found):{detail}"
    )


def constrained(x: Any, sharding: Sharding | None) -> Any:
    """A traced value with the sharding that it is to have."""
    if sharding is None:
        return x
    sharding.check_compatible_aval(typeof(x).shape)
    if isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes:
        spec = sharding.spec.for_rank(typeof(x).ndim)
        wanted = sharding.update(spec=spec)
        op = Reshard(wanted)
        return x if op.aval(typeof(x)) is typeof(x) else op(x)
    mesh = scope().resources or EMPTY_MESH
    return ShardingConstraint(sharding.named or sharding, mesh, of_call=True)(x)


def placed_avals(avals: Sequence[Any], shardings: Sequence[Any]) -> tuple[Any, ...]:
    """The types of arguments once they are where they are to be."""
    if not shardings:
        return tuple(avals)
    return tuple(
        a
        if s is None or a.is_high
        else placed_aval(a, s).update(memory_space=a.memory_space)
        for a, s in zip(avals, shardings, strict=True)
    )
