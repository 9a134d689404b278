"""Saying in a program where values are to be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.api.devices import device_put
from curta.api.jit_shardings import check_layout_fits, context_mesh, resolved
from curta.core.array import Array
from curta.core.array_layout import Format, Layout, layout_of
from curta.core.avals import ShapedArray, placed_aval
from curta.core.mesh import AbstractMesh, AxisType, Mesh
from curta.core.mesh_scope import get_abstract_mesh, use_abstract_mesh
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec, entry_axes, entry_of
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import Tracer, current_trace, typeof
from curta.core.wrapping import wraps
from curta.primitives.placing import Reshard, ShardAlike, ShardingConstraint
from curta.runtime.array import ArrayImpl


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec, Format))


def _spread(what: str, shardings: Any, x: Any) -> list[Any]:
    try:
        result = tree_util.broadcast_prefix(shardings, x, is_leaf=_is_leaf)
    except ValueError:
        errors = tree_util.prefix_errors(shardings, x, is_leaf=_is_leaf)
        detail = "".join(f"\n{error(what)}" for error in errors)
        raise ValueError(
            f"{what} specification must be a tree prefix of the corresponding value."
            f"{detail}"
        ) from None
    return list(result)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a pytree, laid out as said wherever the compiler may choose.

    Args:
      x: a pytree of arrays.
      shardings: a `Sharding`, a `PartitionSpec` over the mesh in scope, a `Format`, or
        a tree of them that is a prefix of `x`. A dim that is `P.UNCONSTRAINED` is left
        open.

    Returns:
      A tree like `x`.

    Raises:
      RuntimeError: for a spec where no mesh is in scope.
      ValueError: if shardings do not fit the arrays.

    >>> import curta, curta.numpy as jnp
    >>> Auto = curta.sharding.AxisType.Auto
    >>> mesh = curta.make_mesh((1,), ("x",), (Auto,))
    >>> rows = curta.NamedSharding(mesh, curta.P("x"))
    >>> f = curta.jit(lambda x: curta.lax.with_sharding_constraint(2 * x, rows))
    >>> f(jnp.arange(3)).sharding.mesh == mesh
    True
    """
    leaves, tree = tree_util.tree_flatten(x)
    for wanted in tree_util.tree_leaves(shardings, is_leaf=_is_leaf):
        if not _is_leaf(wanted):
            raise TypeError(
                "shardings leaf specifications are expected to be PartitionSpec"
                f" instances or None, but got {wanted}"
            )
    given = _spread("with_sharding_constraint shardings", shardings, x)
    outs = []
    for leaf, wanted in zip(leaves, given, strict=True):
        aval = typeof(leaf)
        layout = layout_of(wanted)
        if isinstance(wanted, Format):
            wanted = wanted.sharding
        if isinstance(layout, Layout):
            check_layout_fits("with_sharding_constraint arguments", layout, aval)
        else:
            layout = None
        sharding = resolved("with_sharding_constraint", "shardings", wanted)
        if sharding is None:
            raise ValueError(
                "One of with_sharding_constraint arguments got sharding None which is"
                " not allowed. Please only pass `jax.sharding.Sharding` instances."
            )
        _check_input_of_abstract(leaf, sharding)
        outs.append(_constrained(as_result(leaf), sharding, layout))
    return tree_util.tree_unflatten(tree, outs)


def _check_input_of_abstract(x: Any, sharding: Sharding) -> None:
    """Refuse a sharding without devices for a value that has none of its mesh."""
    mesh = getattr(sharding, "mesh", None)
    if not isinstance(mesh, AbstractMesh) or isinstance(x, Tracer):
        return
    shape = typeof(x).str_short()
    if not isinstance(x, Array):
        raise ValueError(
            "Target sharding contains a `jax.sharding.AbstractMesh` which requires the"
            f" input passed should be a `jax.Array`. Got {type(x)} with shape {shape}"
        )
    have: Any = x.sharding
    if not isinstance(have, NamedSharding):
        raise TypeError(
            "The sharding on the input must be a `NamedSharding` since the target"
            " sharding has an `AbstractMesh` in it. Got sharding type"
            f" {type(have)} for shape {shape}"
        )
    if have.mesh.shape_tuple != mesh.shape_tuple:
        raise ValueError(
            f"Mesh shape of the input {have.mesh.shape_tuple} does not match the mesh"
            f" shape of the target sharding {mesh.shape_tuple} for shape {shape}"
        )


def _constrained(x: Any, sharding: Sharding, layout: Layout | None) -> Any:
    aval = typeof(x)
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ValueError(
            "One of with_sharding_constraint arguments is incompatible with its"
            f" sharding annotation {sharding}: {error}"
        ) from None
    if not isinstance(x, Tracer):
        sharding.shard_shape(aval.shape)
    mesh = context_mesh()
    if isinstance(sharding, NamedSharding):
        around = get_abstract_mesh()
        if not around.empty and sharding.mesh.shape_tuple != around.shape_tuple:
            raise ValueError(
                f"Context mesh {around} should match the mesh of sharding"
                f" {sharding.mesh.abstract_mesh} passed to with_sharding_constraint."
            )
        _check_not_manual(sharding, around)
        if around.are_all_axes_explicit:
            return _asserted(x, aval, sharding)
        _check_auto(sharding)
    if current_trace().is_evaluating() and _is_definite(sharding):
        _check_same_devices(x, sharding)
        return device_put(x, Format(layout, sharding))  # with the spec as written
    target = sharding.named or sharding
    return ShardingConstraint(target, mesh, layout=layout)(x)


def _check_same_devices(x: Any, sharding: Sharding) -> None:
    """Refuse other devices than an array was placed on: that is for `device_put`."""
    have = x._sharding if type(x) is ArrayImpl else None
    if have is None or have.devices == sharding.devices:
        return
    ids = [[d.id for d in s.devices] for s in (have, sharding)]
    raise ValueError(
        "Received incompatible devices for jitted computation. Got argument x of"
        f" with_sharding_constraint with shape {typeof(x).str_short()} and with device"
        f" ids {ids[0]} and a sharding with device ids {ids[1]}. Move the array with"
        " jax.device_put."
    )


def _is_definite(sharding: Sharding) -> bool:
    """Return True if a sharding leaves nothing open, neither dims nor devices."""
    if not isinstance(sharding, NamedSharding):
        return True
    abstract = isinstance(sharding.mesh, AbstractMesh)
    return not abstract and UNCONSTRAINED not in sharding.spec.partitions


def _asserted(x: Any, aval: ShapedArray, sharding: NamedSharding) -> Any:
    """With explicit axes types say how arrays are split: here it is only checked."""
    wanted, have = placed_aval(aval, sharding).sharding.spec, aval.sharding.spec
    free = [p is UNCONSTRAINED for p in sharding.spec.partitions]
    for d, (w, h) in enumerate(zip(wanted, have, strict=True)):
        if w != h and not (d < len(free) and free[d]):
            raise AssertionError(
                "`with_sharding_constraint` acts as an assert when all axes of mesh are"
                f" of type `Explicit`. The array sharding: {have} did not match the"
                f" sharding provided: {wanted}. Please use `jax.sharding.reshard` to"
                " shard your input to the sharding you want."
            )
    return x


def _check_not_manual(sharding: NamedSharding, around: AbstractMesh) -> None:
    """Refuse to split a shard along axes that are mapped over."""
    if manual := {*sharding.spec.used_axes()} & {*around.manual_axes}:
        raise ValueError(
            f"pspec {sharding.spec} contains a manual axes {manual} of mesh {around}:"
            " within shard_map a value is the part of one device along these. Name the"
            " other axes alone."
        )


def _check_auto(sharding: NamedSharding) -> None:
    if {*sharding.spec.used_axes()} & {*sharding.mesh.explicit_axes}:
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only"
            f" refer to Auto axes of the mesh. Got spec={sharding.spec} and"
            f" mesh={sharding.mesh.abstract_mesh}. Use `jax.sharding.reshard` for"
            " explicit ones."
        )


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two pytrees of one structure, their arrays laid out alike.

    Raises ValueError if the structures or the shapes differ.

    >>> import curta.numpy as jnp
    >>> shard_alike(jnp.ones(2), jnp.zeros(2))
    (Array([1., 1.], dtype=float32), Array([0., 0.], dtype=float32))
    """
    leaves, tree = tree_util.tree_flatten(x)
    others, other_tree = tree_util.tree_flatten(y)
    if tree != other_tree:
        raise ValueError(
            f"Trees should be equal. Got x_tree: {tree}, y_tree: {other_tree}"
        )
    pairs = []
    for a, b in zip(leaves, others, strict=True):
        if typeof(a).shape != typeof(b).shape:
            raise ValueError(
                "The leaves shapes of `x` and `y` should match. Got `x` leaf shape:"
                f" {typeof(a).shape} and `y` leaf shape: {typeof(b).shape}."
            )
        pairs.append(ShardAlike()(as_result(a), as_result(b)))
    return (
        tree_util.tree_unflatten(tree, [a for a, _ in pairs]),
        tree_util.tree_unflatten(tree, [b for _, b in pairs]),
    )


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Reshard the arrays of a pytree over explicit mesh axes.

    Args:
      xs: a pytree of arrays.
      out_shardings: a `NamedSharding`, a `PartitionSpec` over the mesh in scope, or a
        tree of them that is a prefix of `xs`.

    Returns:
      A tree like `xs`.

    Raises:
      ValueError: where no mesh is in scope and none is given.

    >>> import curta, curta.numpy as jnp
    >>> mesh = curta.make_mesh((1,), ("x",))
    >>> y = curta.reshard(jnp.arange(2.0), curta.NamedSharding(mesh, curta.P("x")))
    >>> curta.typeof(y)
    ShapedArray(float32[2@x])
    """
    leaves, tree = tree_util.tree_flatten(xs)
    given = _spread("reshard out_shardings", out_shardings, xs)
    outs = [resharded(as_result(v), s) for v, s in zip(leaves, given, strict=True)]
    return tree_util.tree_unflatten(tree, outs)


def resharded(x: Any, sharding: Any) -> Any:
    """One array with the split that a sharding or spec says."""
    if isinstance(sharding, PartitionSpec):
        sharding = on_mesh_in_scope(sharding)
    if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
        raise ValueError(
            "Reshard should only be used with out_shardings which are non-None and have"
            f" a non-empty mesh. Got sharding {sharding}."
        )
    _check_divides(typeof(x), sharding)
    check_explicit("reshard", sharding)
    spec = sharding.spec.for_rank(typeof(x).ndim)
    return Reshard(sharding.update(spec=spec))(x)


def on_mesh_in_scope(spec: PartitionSpec) -> NamedSharding:
    """The sharding that a spec says; raises ValueError where no mesh is in scope."""
    mesh = get_abstract_mesh()
    if mesh.empty:
        raise ValueError(
            "Using PartitionSpec when you are not under a mesh context is not"
            " allowed. Please pass a NamedSharding instance or enter into a mesh"
            f" context via `jax.set_mesh`. Got {spec}"
        )
    return NamedSharding(mesh, spec)


def check_explicit(user: str, sharding: NamedSharding) -> None:
    """Raise ValueError unless all axes that `sharding` uses are explicit."""
    for name in sharding.spec.used_axes():
        if sharding.mesh.types[name] is not AxisType.Explicit:
            raise ValueError(
                f"PartitionSpec passed to {user} cannot contain axis names that are of"
                f" type Auto or Manual. Got PartitionSpec: {sharding.spec} with axis"
                f" name: {name} of type: {sharding.mesh.types[name]}."
            )


def _check_divides(aval: ShapedArray, sharding: NamedSharding) -> None:
    sharding.check_compatible_aval(aval.shape)
    sharding.shard_shape(aval.shape)


# ---- parts of a program with axes of another type


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: Any = None,
    out_sharding: Any = None,
) -> Any:
    """A function within which mesh axes are left to the compiler.

    Args:
      f: function of pytrees of arrays. Left out, the result is a decorator.
      axes: which axes of the mesh in scope; all if left out.
      out_sharding: how its results are split; may be given at the call instead.

    Returns:
      A function with the arguments and results of `f`.

    Raises:
      TypeError: when it is called, without an `out_sharding` in either way.
      ValueError: when it is called, for axes that the mesh has not.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> @curta.sharding.auto_axes(out_sharding=P("i"))
    ... def double(x):
    ...     return 2 * x
    >>> with curta.set_mesh(mesh):
    ...     print(double(curta.device_put(jnp.arange(2), P("i"))))
    [0 2]
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    fun = f

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = out_sharding
        if wanted is None and "out_sharding" not in kwargs:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        if wanted is None:
            wanted = kwargs.pop("out_sharding")
        result = _changed_mesh("auto_axes", axes, AxisType.Auto, wanted)
        if result is None or {*result[0].auto_axes} == {*result[2]}:
            return fun(*args, **kwargs)
        before, inner, _ = result
        with use_abstract_mesh(inner):
            args = tree_util.tree_map(lambda x: _without_axes(x, inner), args)
            out = fun(*args, **kwargs)
        with use_abstract_mesh(before):
            return reshard(out, wanted)

    return call


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: Any = None,
    in_sharding: Any = None,
) -> Any:
    """A function within which mesh axes are part of arrays' types.

    Args:
      f: function of pytrees of arrays. Left out, the result is a decorator.
      axes: which axes of the mesh in scope; all if left out.
      in_sharding: how its arguments are split; may be given at the call instead.

    Returns:
      A function with the arguments and results of `f`.

    Raises:
      TypeError: when it is called, without an `in_sharding` in either way.
      ValueError: when it is called without a mesh in scope, or for axes that it has
        not.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> auto = curta.sharding.AxisType.Auto
    >>> mesh = curta.make_mesh((1,), ("i",), axis_types=(auto,))
    >>> @curta.sharding.explicit_axes(in_sharding=P("i"))
    ... def double(x):
    ...     print(curta.typeof(x))
    ...     return 2 * x
    >>> with curta.set_mesh(mesh):
    ...     print(curta.jit(double)(jnp.arange(2)))
    int32[2@i]
    [0 2]
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    fun = f

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = in_sharding
        if wanted is None and "in_sharding" not in kwargs:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        if wanted is None:
            wanted = kwargs.pop("in_sharding")
        result = _changed_mesh("explicit_axes", axes, AxisType.Explicit, None)
        if result is None:
            raise ValueError(
                "Context mesh cannot be empty. Please use `jax.set_mesh` API to enter"
                " into a mesh context when using `explicit_axes` API."
            )
        before, inner, _ = result
        with use_abstract_mesh(inner):
            out = fun(*reshard(args, wanted), **kwargs)
        with use_abstract_mesh(before):
            return tree_util.tree_map(lambda x: _without_axes(x, before), out)

    return call


def _without_axes(x: Any, mesh: AbstractMesh) -> Any:
    """The array with only those axes in its type that are explicit in `mesh`.

    Over the others it stays split as it is.
    """
    x = as_result(x)
    entries = []
    for e in typeof(x).sharding.spec.partitions:
        kept = entry_of(n for n in entry_axes(e) if n in mesh.explicit_axes)
        entries.append(UNCONSTRAINED if kept is None and e is not None else kept)
    return Reshard(NamedSharding(mesh, PartitionSpec(*entries)))(x)


def _changed_mesh(
    user: str, axes: Any, kind: AxisType, shardings: Any
) -> tuple[AbstractMesh, AbstractMesh, tuple[Any, ...]] | None:
    """The mesh in scope, the same with other axis types, and the axes concerned."""
    around = get_abstract_mesh()
    result: AbstractMesh | None = None
    for s in tree_util.tree_leaves(shardings, is_leaf=_is_leaf):
        if isinstance(s, NamedSharding) and isinstance(s.mesh, (Mesh, AbstractMesh)):
            if result is not None and result is not s.mesh.abstract_mesh:
                raise ValueError(
                    f"Shardings passed to {user} should have the same mesh. Got one"
                    f" mesh {result} and another {s.mesh}"
                )
            result = s.mesh.abstract_mesh
    if result is not None and not around.empty and result is not around:
        raise ValueError(
            f"Context mesh {around} must match the mesh passed to shardings {result}."
            " Recommended approach is to use `jax.set_mesh` context manager."
        )
    mesh = around if result is None else result
    if mesh.empty:
        return None
    names = mesh.axis_names if axes is None else axes
    names = names if isinstance(names, tuple) else (names,)
    if any(mesh.types[n] is AxisType.Manual for n in names):
        raise NotImplementedError(
            "Going from `Manual` AxisType to `Auto` or `Explicit` AxisType is not"
            " allowed: these axes are being mapped over."
        )
    return mesh, mesh.update_axis_types(dict.fromkeys(names, kind)), names
