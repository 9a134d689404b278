"""Checks of the arguments and outputs of a `shard_map`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from curta import tree_util
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.flat import function_name
from curta.core.mesh import AbstractMesh, AxisType, Mesh
from curta.core.mesh_scope import get_abstract_mesh, get_concrete_mesh
from curta.core.partition_spec import PartitionSpec, entry_of
from curta.core.sharding import NamedSharding, check_distinct
from curta.core.trace import Trace, current_trace, typeof
from curta.transforms.vmap import BatchTrace


def checked_axes(
    mesh: Any, axis_names: Any, in_specs: Any, out_specs: Any, infer: Any
) -> tuple[Mesh | AbstractMesh, frozenset[Any]]:
    """The mesh and the axes to map over; raises for what does not fit together."""
    mesh = _checked_mesh(mesh)
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(
            "`axis_names` argument of shard_map should be of type `frozenset` or `set`."
            f" Got type: {type(axis_names)}"
        )
    names = frozenset(mesh.axis_names) - _vmapped_axes()
    axes = frozenset(axis_names) or names
    if not axes <= names:
        raise ValueError(
            f"jax.shard_map requires axis_names={axes} to be a subset of"
            f" mesh.axis_names={mesh.in_order(names)}"
        )
    if in_specs is infer:
        if any(mesh.types[a] is not AxisType.Explicit for a in axes):
            kinds = ", ".join(str(mesh.types[a]) for a in axes)
            raise TypeError(
                "shard_map in_specs argument must be a pytree of"
                " `jax.sharding.PartitionSpec` instances, but it was `None` when"
                f" axis_names={axes} are of type {kinds}"
            )
    elif in_specs is not None:
        _check_specs("in", in_specs, axes)
        _check_sum_axes("in", in_specs, mesh, axes)
    _check_specs("out", out_specs, axes)
    _check_sum_axes("out", out_specs, mesh, axes)
    return mesh, axes


def _vmapped_axes() -> frozenset[Any]:
    """The explicit axes over which what an enclosing `vmap` maps is split."""
    result: set[Any] = set()
    trace: Trace | None = current_trace()
    while trace is not None:
        if isinstance(trace, BatchTrace):
            result.update(trace.axis.explicit)
        trace = trace.parent
    return frozenset(result)


def _checked_mesh(mesh: Any) -> Mesh | AbstractMesh:
    around = get_abstract_mesh()
    if mesh is None:
        if around.empty:
            raise ValueError(
                "The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter"
                " into a mesh context"
            )
        return around
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            "shard_map requires a `jax.sharding.Mesh` or a"
            " `jax.sharding.AbstractMesh` instance for its second argument, but got"
            f" {mesh} of type {type(mesh)}."
        )
    if not around.empty and mesh.abstract_mesh is not around:
        raise ValueError(
            f"The context mesh {around} should match the mesh passed to shard_map"
            f" {mesh}"
        )
    if mesh.empty:
        raise ValueError(f"shard_map requires a non-empty mesh. Got {mesh}")
    return mesh


def _check_specs(prefix: str, specs: Any, axes: frozenset[Any]) -> None:
    leaves = tree_util.tree_leaves_with_path(specs)
    wrong = [
        f"  {prefix}_specs{tree_util.keystr(path)} is {x} of type {type(x).__name__}, "
        for path, x in leaves
        if not isinstance(x, PartitionSpec)
    ]
    if wrong:
        raise TypeError(
            f"shard_map {prefix}_specs argument must be a pytree of"
            " `jax.sharding.PartitionSpec` instances, but:\n\n"
            + "\n\n".join(wrong)
            + f"\n\nCheck the {prefix}_specs values passed to shard_map."
        )
    foreign = [
        f"  {prefix}_specs{tree_util.keystr(path)} refers to {name!r}"
        for path, spec in leaves
        for name in spec.used_axes()
        if name not in axes
    ]
    if foreign:
        raise ValueError(
            f"shard_map {prefix}_specs argument must refer to an axis marked as manual"
            f" ({axes}), but:\n\n"
            + "\n\n".join(foreign)
            + f"\n\nCheck the {prefix}_specs values passed to shard_map."
        )


def _check_sum_axes(
    prefix: str, specs: Any, mesh: Mesh | AbstractMesh, axes: frozenset[Any]
) -> None:
    """Refuse sums over axes that are not in types, or beside axes not mapped over."""
    for spec in tree_util.tree_leaves(specs):
        spec.refuse_extrema()
        sums = {"unreduced": spec.unreduced, "reduced": spec.reduced}
        if any(sums.values()) and axes != {*mesh.axis_names}:
            raise NotImplementedError(
                f"unreduced/reduced can only be passed to {prefix}_specs when shard_map"
                f" is in full manual mode. Got mesh axis names {mesh.axis_names},"
                f" manual_axes: {set(axes)}, specs: {spec}."
            )
        for kind, names in sums.items():
            if any(mesh.types[n] is not AxisType.Explicit for n in names):
                raise ValueError(
                    f"{kind} in {prefix}_specs {spec} can only be used when the mesh"
                    " passed to shard_map contains axis names all of type `Explicit`."
                    f" Got mesh {mesh}"
                )


def check_explicit(
    mesh: Mesh | AbstractMesh,
    axes: frozenset[Any],
    args: Sequence[Any],
    specs: Sequence[PartitionSpec | None],
) -> None:
    """Raise ValueError if specs over explicit axes are not those of the types."""
    if axes | _vmapped_axes() != {*mesh.axis_names} or not axes <= {
        *mesh.explicit_axes
    }:
        return
    for x, spec in zip(args, specs, strict=True):
        if spec is None:
            continue
        aval = typeof(x)
        given, result = spec.for_rank(aval.ndim), aval.sharding.spec
        shown = given.update(_without_small(mesh, given))
        if shown.partitions != result.partitions:
            raise ValueError(
                f"in_specs passed to shard_map: {given} does not match the specs of the"
                f" input: {result} for arg: {aval}. `in_specs` is an optional argument"
                " so you can omit specifying it and shard_map will infer the in_specs"
                " from the arguments. If you want to reshard your inputs, you can use"
                " `jax.reshard` on the arguments and then pass those args to shard_map."
            )


def _without_small(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> list[Any]:
    """The entries of a spec, without what types do not mention."""
    drop = config.jax_remove_size_one_mesh_axis_from_type
    return [
        entry_of(n for n in axes if not (drop and mesh.shape[n] == 1))
        for axes in spec.axes_of_dims()
    ]


def check_sums(
    prefix: str, spec: PartitionSpec, aval: ShapedArray, result_spec: Any
) -> None:
    """Raise ValueError if a spec has other sums than the type `aval` of the array."""
    for kind in ("unreduced", "reduced"):
        if getattr(spec, kind) != getattr(result_spec, kind):
            raise ValueError(
                f"{prefix}_specs passed to shard_map should be equal to the {kind}"
                f" present on the {prefix}_aval. Got {prefix}_specs={spec} and"
                f" {prefix}_aval={aval.str_short(True)}"
            )


def check_devices_known(mesh: AbstractMesh, args: Sequence[Any]) -> None:
    """Raise ValueError if nothing says which devices an abstract mesh stands for."""
    known = not get_concrete_mesh().empty
    for x in args:
        sharding = getattr(x, "sharding", None)
        if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
            continue
        if sharding.mesh.shape_tuple != mesh.shape_tuple:
            raise ValueError(
                f"Mesh shape of the input {sharding.mesh.shape_tuple} does not match"
                f" the mesh shape passed to shard_map {mesh.shape_tuple} for shape"
                f" {typeof(x).str_short()}"
            )
        known = True
    if not known:
        raise ValueError(
            "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map`"
            " when passing `AbstractMesh` to the mesh argument."
        )


Failure = tuple[str, PartitionSpec, str, Any]


def _pairs(specs: Any, tree: Any, facts: Sequence[Any]) -> Iterator[Failure]:
    """Paths and values of specs with those of the leaves that they are for."""
    facts_tree = tree_util.tree_unflatten(tree, [_Leaf(f) for f in facts])
    spread = _spread(specs, facts_tree)
    leaves = tree_util.tree_leaves_with_path(facts_tree)
    for (spec_path, spec), (path, leaf) in zip(spread, leaves, strict=True):
        yield spec_path, spec, tree_util.keystr(path), leaf.fact


class _Leaf:
    """Something known of one leaf, kept from being taken for a tree."""

    def __init__(self, fact: Any):
        self.fact = fact


def _is_none(x: Any) -> bool:
    return x is None


def _spread(specs: Any, full: Any) -> list[tuple[str, Any]]:
    """For each leaf of `full`, the spec over it with its path."""
    marked = tree_util.tree_map_with_path(
        lambda path, s: _Leaf((tree_util.keystr(path), s)), specs, is_leaf=_is_none
    )
    return [m.fact for m in tree_util.broadcast_prefix(marked, full, is_leaf=_is_none)]


def check_in_specs(
    fun: Any, mesh: Mesh | AbstractMesh, in_specs: Any, args: Any, flat: Sequence[Any]
) -> None:
    """Raise ValueError for specs longer than an array's rank, or that cut unevenly."""
    leaves, tree = tree_util.tree_flatten(args)
    avals = [None if s is None else typeof(x) for x, s in zip(leaves, flat)]
    check_specs_fit("in", fun, mesh, in_specs, tree, flat, avals)
    uneven = [
        None if a is None or not _uneven(mesh, s, a.shape) else a
        for s, a in zip(flat, avals, strict=True)
    ]
    if any(uneven):
        raise ValueError(_divisibility_text(fun, mesh, in_specs, tree, uneven))


def _uneven(
    mesh: Mesh | AbstractMesh, spec: PartitionSpec, shape: Sequence[int]
) -> list[tuple[int, tuple[Any, ...]]]:
    return [
        (d, axes)
        for d, axes in enumerate(spec.axes_of_dims())
        if axes and shape[d] % mesh.size_of(axes)
    ]


def check_specs_fit(
    prefix: str,
    fun: Any,
    mesh: Mesh | AbstractMesh,
    specs: Any,
    tree: Any,
    flat: Sequence[Any],
    avals: Sequence[ShapedArray | None],
) -> None:
    """Raise ValueError for specs with more entries than their array has dims."""
    long = [
        a if a is not None and len(s) > a.ndim else None for s, a in zip(flat, avals)
    ]
    if not any(a is not None for a in long):
        return
    name = function_name(fun)
    base = "the passed args" if prefix == "in" else f"{name}(*args)"
    lines = []
    for spec_path, spec, path, aval in _pairs(specs, tree, long):
        if aval is None:
            continue
        bound = _parameter(fun, path) if prefix == "in" else ""
        lines.append(
            f"{prefix}_specs{spec_path} is {spec} which has length {len(spec)}, but"
            f" {base}{path}{bound} has shape {aval.str_short()}, which has rank"
            f" {aval.ndim} (and {aval.ndim} < {len(spec)})"
        )
    text = (
        f"shard_map applied to the function '{name}' was given an {prefix}_specs entry"
        f" which is too long to be compatible with the corresponding {prefix}put value"
        f" from the function:\n\n{_listed(lines)}\n\nEntries in {prefix}_specs must be"
        " of length no greater than the number of axes in the corresponding"
        f" {prefix}put value.\n\nEither revise the spec to be shorter, or modify"
        f" '{name}' so that its {prefix}puts have sufficient rank."
    )
    if any(a is not None and not a.ndim for a in long):
        text += (
            f"\n\nFor scalar values (rank 0), consider using an {prefix}_specs entry"
            " of `P()`, where `P = jax.sharding.PartitionSpec`."
        )
        if prefix == "out":
            text += (
                " In particular, for rank 0 outputs which are not constant over the"
                " mesh, add at least one (singleton) axis to them so that they can be"
                " concatenated using out_specs."
            )
    raise ValueError(text)


def _listed(lines: Sequence[str]) -> str:
    return lines[0] if len(lines) == 1 else "\n\n".join(f"* {x}" for x in lines)


def _parameter(fun: Any, path: str) -> str:
    """Which parameter of the function the argument at that path is for."""
    index = int(path[1 : path.index("]")])
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return ""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    parameters = [p for p in parameters if p.kind not in kinds]
    if not parameters:
        return ""
    name = function_name(fun)
    last = len(parameters) - 1
    if index >= last and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        return (
            f", where args[{index}] is the index {index - last} component of {name}'s"
            f" varargs parameter '{parameters[-1].name}',"
        )
    if index > last:
        return ""
    return (
        f", where args[{index}] is bound to {name}'s parameter '{parameters[index]}',"
    )


def _mesh_text(mesh: Mesh | AbstractMesh) -> str:
    return (
        f"The mesh given has shape {tuple(mesh.axis_sizes)} with corresponding axis"
        f" names {mesh.axis_names}."
    )


def _divisibility_text(
    fun: Any, mesh: Mesh | AbstractMesh, specs: Any, tree: Any, uneven: Sequence[Any]
) -> str:
    name = function_name(fun)
    lines = []
    for spec_path, spec, path, aval in _pairs(specs, tree, uneven):
        for d, axes in [] if aval is None else _uneven(mesh, spec, aval.shape):
            size = mesh.size_of(axes)
            which = f"axes {axes}" if len(axes) > 1 else f"axis '{axes[0]}'"
            total = "total " if len(axes) > 1 else ""
            lines.append(
                f"the passed args{path} of shape"
                f" {aval.str_short()}{_parameter(fun, path)} corresponds to"
                f" in_specs{spec_path} of value {spec}, which maps array axis {d} (of"
                f" size {aval.shape[d]}) to mesh {which} (of {total}size {size}), but"
                f" {size} does not evenly divide {aval.shape[d]}"
            )
    return (
        f"shard_map applied to the function '{name}' was given argument arrays with"
        " axis sizes that are not evenly divisible by the corresponding mesh axis"
        f" sizes:\n\n{_mesh_text(mesh)}\n\n{_listed(lines)}\n\nArray arguments' axis"
        " sizes must be evenly divisible by the mesh axis or axes indicated by the"
        " corresponding elements of the argument's in_specs entry. Consider checking"
        " that in_specs are correct, and if so consider changing the mesh axis sizes or"
        f" else padding the input and adapting '{name}' appropriately."
    )


def check_out_avals(
    fun: Any,
    mesh: Mesh | AbstractMesh,
    specs: Any,
    tree: Any,
    flat: Sequence[PartitionSpec],
    avals: Sequence[ShapedArray],
    check_vma: bool,
) -> None:
    """Raise ValueError for specs that are too long, or promise what may not hold."""
    check_specs_fit("out", fun, mesh, specs, tree, flat, avals)
    for spec in flat:
        check_distinct(spec)
    if not check_vma:
        return
    for spec, aval in zip(flat, avals, strict=True):
        check_sums("out", spec, aval, aval.mat)
    fresh = [n for n in mesh.axis_names if n not in mesh.manual_axes]
    broken = [
        a if any(n in a.vma and n not in s.used_axes() for n in fresh) else None
        for s, a in zip(flat, avals, strict=True)
    ]
    if not any(a is not None for a in broken):
        return
    lines = []
    for spec_path, spec, _, aval in _pairs(specs, tree, broken):
        if aval is not None:
            lines.append(f"out_specs{spec_path} is {spec} " + _broken(mesh, spec, aval))
    raise ValueError(
        f"shard_map applied to the function '{function_name(fun)}' was given out_specs"
        " which require replication which can't be statically inferred given the"
        f" mesh:\n\n{_mesh_text(mesh)}\n\n{_listed(lines)}\n\nCheck if these output"
        " values are meant to be replicated over those mesh axes. If not, consider"
        " revising the corresponding out_specs entries. If so, consider disabling the"
        " check by passing the check_vma=False argument to `jax.shard_map`."
    )


def _broken(mesh: Mesh | AbstractMesh, spec: PartitionSpec, aval: ShapedArray) -> str:
    unmentioned = [n for n in mesh.axis_names if n not in spec.used_axes()]
    if len(unmentioned) == 1:
        return (
            "which implies that the corresponding output value is replicated across"
            f" mesh axis '{unmentioned[0]}', but could not infer replication over any"
            " axes"
        )

    def text(names: Any) -> str:
        return "{" + ",".join(map(str, mesh.in_order(names))) + "}"

    return (
        "which implies that the corresponding output value is only varying across mesh"
        f" axes {text(spec.used_axes())} and not"
        f" {text([n for n in unmentioned if n in aval.vma])}, but it was inferred to be"
        f" possibly varying over {text(aval.vma)}"
    )
