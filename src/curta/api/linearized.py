"""A user's function, linearized: what grad, vjp and linearize share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta.api.argument_flags import argument_flags, mirrored
from curta.api.arguments import as_result, differentiable_leaf
from curta.core.avals import ShapedArray
from curta.core.flat import debug_info
from curta.core.hi_types import is_value
from curta.core.jaxpr import DebugInfo, Jaxpr, eval_jaxpr
from curta.core.mesh import Mesh
from curta.core.mesh_scope import known_mesh
from curta.core.sharding import NamedSharding
from curta.core.source_info import Transforming
from curta.core.tangents import LinearArg, Zero
from curta.core.trace import typeof
from curta.primitives.structure import instantiate
from curta.runtime.array import ArrayImpl
from curta.transforms.backward_logs import collecting
from curta.transforms.linearize import Linearized, linearize as linearize_flat
from curta.transforms.transpose import backward_pass


@dataclass(frozen=True)
class LinearMap:
    """The linear map of a function's tangents, but for the residuals it needs.

    `jaxpr` has the residuals as constants; it maps the tangents of the inputs in
    `in_nonzero` to those of the outputs in `out_nonzero`. Equal to another if it came
    from the same trace, so that a jitted function may take it as part of a pytree.
    Types name the axes of a mesh, and not its devices, which others may have, too: it
    is applied on the `mesh` of the values that it was made for, if they have one.
    """

    jaxpr: Jaxpr
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    in_nonzero: tuple[bool, ...]
    out_nonzero: tuple[bool, ...]
    in_tree: Any
    out_tree: Any
    debug_info: DebugInfo
    mesh: Mesh | None = None

    @property
    def out_nzs(self) -> Any:
        """Which outputs have tangents that are not zero, in containers as theirs."""
        return mirrored(self.out_tree, self.out_nonzero)

    def pull(
        self,
        residuals: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool] | None = None,
        log: dict[str, Any] | None = None,
    ) -> Any:
        """The input cotangents, as the tuple of arguments.

        For those that are not `wanted` it is None. Backward rules log into the dict
        `log`, if there is one.
        """
        given = [ct for ct, n in zip(cotangents, self.out_nonzero, strict=True) if n]
        jaxpr = self.jaxpr
        if wanted is not None and not all(wanted):
            pairs = zip(wanted, self.in_nonzero, strict=True)
            jaxpr = only_to(jaxpr, [w for w, nonzero in pairs if nonzero])
        args = [LinearArg(v.aval) for v in jaxpr.invars]
        with (
            Transforming("transpose"),
            known_mesh(self.mesh),
            collecting(log is not None) as logged,
        ):
            result = iter(backward_pass(jaxpr, residuals, args, given))
        if log is not None:
            log.update(logged)
        cts = [
            next(result) if n else Zero(a.to_tangent_aval())
            for a, n in zip(self.in_avals, self.in_nonzero, strict=True)
        ]
        flags = [True] * len(cts) if wanted is None else wanted
        leaves = [
            as_result(instantiate(ct)) if w else None
            for ct, w in zip(cts, flags, strict=True)
        ]
        return tree_util.tree_unflatten(self.in_tree, leaves)

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The output tangents, as the tree of outputs."""
        given = [t for t, n in zip(tangents, self.in_nonzero, strict=True) if n]
        with known_mesh(self.mesh):
            result = iter(eval_jaxpr(self.jaxpr, residuals, *given))
        outs = [
            next(result) if n else instantiate(Zero(a.to_tangent_aval()))
            for a, n in zip(self.out_avals, self.out_nonzero, strict=True)
        ]
        return tree_util.tree_unflatten(self.out_tree, [as_result(x) for x in outs])


def only_to(jaxpr: Jaxpr, wanted: Sequence[bool]) -> Jaxpr:
    """A linear jaxpr without the eqns that only carry tangents of unwanted inputs."""
    linear: set[Any] = set(jaxpr.invars)
    needed = {v for v, w in zip(jaxpr.invars, wanted, strict=True) if w}
    kept = []
    for eqn in jaxpr.eqns:
        if not linear.isdisjoint(eqn.invars):
            linear.update(eqn.outvars)
            if needed.isdisjoint(eqn.invars):
                continue
            needed.update(eqn.outvars)
        kept.append(eqn)
    return jaxpr.replace(eqns=kept)


def _shown_output(out: Any) -> str:
    """What a function returned, arrays by their types."""
    if is_value(out):
        return str(typeof(out).str_short())
    return f"type {type(out)} with value {out!r}"


class LinearizedCall(NamedTuple):
    """A linearized call: its flat inputs and outputs, the map, residuals, `aux`."""

    leaves: list[Any]
    outs: list[Any]
    linear: LinearMap
    residuals: list[Any]
    aux: Any

    @property
    def out(self) -> Any:
        """The tree of outputs."""
        return tree_util.tree_unflatten(self.linear.out_tree, self.outs)


def forward(
    what: str,
    fun: Callable[..., Any],
    partial: Callable[..., Any],
    args: tuple[Any, ...],
    has_aux: bool,
    in_nzs: Any = None,
) -> LinearizedCall:
    """Linearize `partial`, which is the user's `fun` of some of its arguments.

    `in_nzs` says in which of these, as flags of a prefix of them; None is in all.
    """
    leaves, in_tree = tree_util.tree_flatten(args)
    wanted = None
    if in_nzs is not None:
        wanted = argument_flags(in_nzs, in_tree, what, "in_nzs")
    leaves = list(map(differentiable_leaf, leaves))
    flat = FlatWithAux(partial, in_tree, has_aux)
    info = debug_info(what, fun)
    mode = "lin" if what == "linearize" else "vjp"
    lin = linearize_flat(flat, leaves, info, wanted, mode)
    count = len(lin.primals_out) - flat.aux_count
    aux = None
    if has_aux:
        aux = tree_util.tree_unflatten(flat.aux_tree, flat.aux(lin.primals_out[count:]))
    outs = [as_result(x) for x in lin.primals_out[:count]]
    linear = LinearMap(
        flat.without_aux(lin),
        tuple(map(typeof, leaves)),
        tuple(map(typeof, outs)),
        tuple(lin.in_nonzero),
        tuple(lin.out_nonzero[:count]),
        in_tree,
        flat.out_tree,
        info,
        _explicit_mesh((*leaves, *outs)),
    )
    return LinearizedCall(leaves, outs, linear, lin.jaxpr.consts, aux)


def _explicit_mesh(values: Sequence[Any]) -> Mesh | None:
    """The mesh with explicit axes that one of the values lies on."""
    for x in values:
        sharding = x._sharding if type(x) is ArrayImpl else None
        if isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes:
            mesh: Any = sharding.mesh  # which has devices
            return mesh
    return None


class FlatWithAux:
    """A function of flat leaves whose auxiliary output rides behind the others.

    Auxiliary leaves that are not arrays are put aside and come back untouched.
    """

    aux_count: int

    def __init__(self, fun: Callable[..., Any], in_tree: Any, has_aux: bool):
        self.fun = fun
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree: Any = None
        self.aux_tree: Any = None
        self.aux_count = 0
        self.others: list[tuple[bool, Any]] = []

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.fun(*tree_util.tree_unflatten(self.in_tree, leaves))
        if not self.has_aux:
            outs, self.out_tree = tree_util.tree_flatten(out)
            return outs
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(
                "expected function with aux output to return a two-element tuple, but"
                f" got {_shown_output(out)}. With has_aux=True the function returns a"
                " pair: what is differentiated, and the rest."
            )
        outs, self.out_tree = tree_util.tree_flatten(out[0])
        aux, self.aux_tree = tree_util.tree_flatten(out[1])
        self.others = [(is_value(x), x) for x in aux]
        arrays = [x for is_array, x in self.others if is_array]
        self.aux_count = len(arrays)
        return [*outs, *arrays]

    def aux(self, arrays: Sequence[Any]) -> list[Any]:
        """The auxiliary leaves, with the arrays among them as given."""
        result = iter(arrays)
        return [next(result) if is_array else x for is_array, x in self.others]

    def without_aux(self, lin: Linearized) -> Jaxpr:
        """The tangent jaxpr without the outputs of the auxiliary value."""
        jaxpr = lin.jaxpr.jaxpr
        if not self.aux_count:
            return jaxpr
        dropped = sum(lin.out_nonzero[len(lin.out_nonzero) - self.aux_count :])
        return jaxpr.replace(outvars=jaxpr.outvars[: len(jaxpr.outvars) - dropped])
