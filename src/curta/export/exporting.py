"""`export`: trace a jitted function to keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curta import tree_util
from curta.api.jit import jit
from curta.api.vjp import vjp
from curta.config import config
from curta.control.platform import PLATFORM
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import Tracer
from curta.dtypes import float0
from curta.export.dimensions import path_text, solve
from curta.export.exported import (
    DisabledSafetyCheck,
    Exported,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from curta.transforms.dce import prune_outputs
from curta.transforms.specialise import shardings_within


def default_export_platform() -> str:
    """The platform for which `export` traces unless told otherwise.

    >>> from curta import export
    >>> export.default_export_platform()
    'cpu'
    """
    return PLATFORM


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """Trace a function for arguments of given types, to call or store it.

    Args:
      fun_jit: a function that `jit` returned, or one of the library's.
      platforms: where the function is to run: `cpu`, `cuda`, `rocm`, `tpu`. Curta runs
        programs on `cpu`; others can be named, for programs to be loaded elsewhere.
      disabled_checks: checks to leave out when it is called.

    Returns:
      A function of arrays, or of `ShapeDtypeStruct`s, whose shapes may be symbolic
      (`symbolic_args_specs`), to an `Exported`.

    Raises:
      ValueError: if the function is not jitted; if symbolic dims of two scopes are
        mixed, or cannot be found from the shapes of arguments.

    >>> import curta, curta.numpy as jnp
    >>> from curta import export
    >>> @curta.jit
    ... def normalise(x):
    ...     return x / jnp.sum(x)
    >>> spec = export.symbolic_args_specs(jnp.ones(1), "n")
    >>> exported = export.export(normalise)(spec)
    >>> exported.in_avals, exported.out_avals
    ((ShapedArray(float32[n]),), (ShapedArray(float32[n]),))
    >>> exported.call(jnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    if not hasattr(fun_jit, "trace"):
        if not _is_library_function(fun_jit):
            raise ValueError(
                f"Function to be exported must be the result of `jit` but is: {fun_jit}"
            )
        fun_jit = jit(fun_jit)
    if _override_lowering_rules is not None:
        raise NotImplementedError(
            "lowering rules cannot be overridden: a program is exported as a jaxpr"
        )

    def do_export(*args: Any, **kwargs: Any) -> Exported:
        _check_scopes(fun_jit, args, kwargs)
        traced = fun_jit.trace(*args, **kwargs)
        names = tuple(platforms or (default_export_platform(),))
        traced.lower(lowering_platforms=names)  # which checks them
        return _exported(traced, names, tuple(disabled_checks), (args, kwargs))

    return do_export


def _is_library_function(fun: Any) -> bool:
    module = getattr(fun, "__module__", None) or ""
    return callable(fun) and module.partition(".")[0] == __name__.partition(".")[0]


def _check_scopes(fun: Any, args: Any, kwargs: Any) -> None:
    first = None
    for path, spec in tree_util.tree_leaves_with_path((args, kwargs)):
        for dim in filter(is_symbolic_dim, getattr(spec, "shape", ())):
            first = first or (dim.scope, path)
            if dim.scope is not first[0]:
                name = getattr(fun, "__name__", fun)
                raise ValueError(
                    f"Invalid mixing of symbolic scopes when exporting {name}.\n"
                    f"Expected current (from {path_text(first[1])}) scope {first[0]}\n"
                    f"and found for '{dim}' ({path_text(path)}) scope {dim.scope}\n"
                    "Make all shapes in one call of symbolic_args_specs, or pass one"
                    " `scope` to all."
                )


def _version() -> int:
    version: int = config.jax_export_calling_convention_version
    least = minimum_supported_calling_convention_version
    most = maximum_supported_calling_convention_version
    if not least <= version <= most:
        raise ValueError(
            f"The requested export calling convention version {version} is outside the"
            f" range of supported versions [{least}..{most}]"
        )
    return version


def _exported(
    traced: Any,
    platforms: tuple[str, ...],
    disabled: tuple[DisabledSafetyCheck, ...],
    given: Any,
) -> Exported:
    version = _version()
    closed = traced.jaxpr
    solve(closed.in_avals, traced.in_tree, closed.in_avals)
    _check_variables(closed)
    staged = traced._staged
    shardings = _in_shardings(staged, traced.in_tree, given)
    _, used = prune_outputs(closed, (True,) * len(closed.out_avals))
    kept = tuple(i for i, u in enumerate(used) if u or staged.keep_unused)
    outs = tuple(staged.out_shardings) or (None,) * len(closed.out_avals)
    inner = shardings_within(closed.jaxpr)
    counts = [_count(s) for s in (*shardings, *outs, *inner) if s]
    return Exported(
        fun_name=traced.fun_name,
        in_tree=traced.in_tree,
        in_avals=tuple([a.strip_weak_type() for a in closed.in_avals]),
        out_tree=traced.out_tree,
        out_avals=closed.out_avals,
        _in_named_shardings=shardings,
        _out_named_shardings=tuple(map(_named, outs)),
        nr_devices=max((1, *counts)),
        platforms=platforms,
        disabled_safety_checks=disabled,
        calling_convention_version=version,
        module_kept_var_idx=kept,
        jaxpr=closed,
        _get_vjp=_export_vjp,
    )


class UnexpectedDimVar(Exception):
    """A dimension variable that no shape of an argument gives a value."""


def _check_variables(closed: ClosedJaxpr) -> None:
    known = _variables(closed.in_avals)
    made = [v.aval for eqn in closed.eqns for v in eqn.outvars]
    for name in sorted(_variables([*made, *closed.out_avals]) - known):
        raise UnexpectedDimVar(
            f"Encountered dimension variable '{name}' that is not appearing in the"
            " shapes of the function arguments.\nThe following dimension variables are"
            f" appearing in the shapes of the function arguments: {sorted(known)}.\nLet"
            " an argument that is not static have it in its shape."
        )


def _variables(avals: Iterable[Any]) -> set[str]:
    """The dimension variables of some shapes."""
    dims: list[Any] = [d for a in avals for d in a.shape if is_symbolic_dim(d)]
    return {name for dim in dims for name in dim._get_vars()}


def _in_shardings(staged: Any, in_tree: Any, given: Any) -> tuple[Any, ...]:
    count = len(staged.closed.in_avals)
    wanted = tuple(staged.in_shardings) or (None,) * count
    leaves, tree = tree_util.tree_flatten(given)
    own = [None] * count
    if tree == in_tree:
        own = [_own_sharding(x) for x in leaves]
    return tuple(_named(w or o) for w, o in zip(wanted, own, strict=True))


def _own_sharding(x: Any) -> Any:
    """Where the user has placed an array, or says that it will be."""
    if isinstance(x, Tracer) or not getattr(x, "committed", True):
        return None
    return getattr(x, "sharding", None)


def _named(sharding: Any) -> Any:
    return sharding and sharding.named


def _export_vjp(exported: Exported) -> Exported:
    """The function of flat primals and cotangents to cotangents, exported too."""
    fun = jaxpr_as_fun(exported.jaxpr)
    count = len(exported.in_avals)
    given = exported._in_named_shardings

    def pull_back(*args: Any) -> Any:
        return vjp(fun, *args[:count])[1]([*args[count:]])

    pull_back.__name__ = f"{exported.fun_name}_vjp"
    cotangents = [a.to_cotangent_aval() for a in exported.out_avals]
    specs = map(ShapeDtypeStruct.of_aval, (*exported.in_avals, *cotangents))
    made = export(
        _placed_jit(pull_back, (*given, *_cotangent_shardings(exported)), given),
        platforms=exported.platforms,
        disabled_checks=exported.disabled_safety_checks,
    )
    return made(*specs)


def _placed_jit(fun: Any, given: tuple[Any, ...], wanted: tuple[Any, ...]) -> Any:
    """`jit` of a function of flat arguments, with shardings where there are any."""
    options: dict[str, Any] = {"in_shardings": given, "out_shardings": wanted}
    return jit(fun, **{k: v for k, v in options.items() if any(v)})


def _cotangent_shardings(exported: Exported) -> list[Any]:
    """Where cotangents are expected: as the results are, or whole on all devices."""
    result = [*exported._out_named_shardings]
    named = [s for s in (*exported._in_named_shardings, *result) if s is not None]
    inner = shardings_within(exported.jaxpr.jaxpr)
    meshes = (getattr(x, "mesh", x) for x in (*named, *inner))
    several = (m for m in meshes if isinstance(m, Mesh) and m.size > 1)
    mesh = next(several, None)
    if mesh is None or mesh.explicit_axes:  # types hold the shardings
        return result
    for i, aval in enumerate(exported.out_avals):
        if result[i] is None and aval.to_cotangent_aval().dtype != float0:
            result[i] = NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim))
    return result


def _count(over: Any) -> int:
    """Over how many devices a mesh or sharding is."""
    result = over.num_devices if isinstance(over, Sharding) else over.size
    return int(result)
