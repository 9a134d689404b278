"""Shardings as attributes: Shardy's, over meshes of the module, or XLA's older ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from curta.compiler.stablehlo.attributes import RawAttribute, string
from curta.compiler.stablehlo.ir import HloModule, HloValue
from curta.compiler.stablehlo.types import physical
from curta.config import config
from curta.control.call import JaxprOp
from curta.core.avals import ShapedArray
from curta.core.mesh import AbstractMesh, AxisType
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec, entry_axes
from curta.core.sharding import NamedSharding, Sharding
from curta.primitives.collective import Collective
from curta.primitives.exchange import Message
from curta.primitives.placing import Placing

if TYPE_CHECKING:
    from curta.compiler.stablehlo.lowering import BlockBuilder


class Manual(NamedTuple):
    """The axes of a mesh that are mapped over, device by device."""

    mesh: AbstractMesh
    axes: frozenset[Any]


class Meshes:
    """The meshes of a module, which get names as they are spoken of."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._names: dict[Any, str] = {}

    def name(self, axes: Sequence[tuple[Any, int]], only: int | None = None) -> str:
        """The name of the mesh with these axes, or of device number `only`."""
        key = tuple(axes), only
        result = self._names.get(key)
        if result is None:
            base = "mesh" if axes else "empty_mesh"
            if only is not None:
                base = f"maximal_mesh_{only}"
            result, count = base, 0
            while result in self._module.meshes:
                result, count = f"{base}_{count}", count + 1
            self._names[key] = result
            self._module.meshes[result] = _mesh_text(axes, only)
        return result

    def sharding(
        self, sharding: Sharding, rank: int, *, by_types: bool = False
    ) -> RawAttribute:
        """`<@mesh, [{"x"}, {}]>`: where an array of that rank is.

        With `by_types`, all dims may be split further over axes that are left to the
        compiler.
        """
        named = sharding.named
        if named is None:
            dims = ", ".join(["{}"] * rank)
            return RawAttribute(f"<@{self.name(())}, [{dims}]>")
        mesh, spec = named.mesh, named.spec
        is_open = by_types and AxisType.Auto in mesh.axis_types
        entries = [*spec.partitions, *[None] * (rank - len(spec.partitions))]
        dims = ", ".join([_dim_text(e, is_open) for e in entries])
        text = f"<@{self.name(mesh.shape_tuple)}, [{dims}]"
        whole = named.replicated_axes & {*mesh.explicit_axes} if is_open else ()
        for label, axes in (("replicated", whole), ("unreduced", spec.unreduced)):
            if axes:
                text += f", {label}={_axes_text(mesh.in_order(axes))}"
        return RawAttribute(text + ">")


def _mesh_text(axes: Sequence[tuple[Any, int]], only: int | None) -> str:
    sizes = ", ".join(f"{string(str(n))}={size}" for n, size in axes)
    fields = ", ".join(
        f"{{name = {string(str(n))}, size = {size} : i64}}" for n, size in axes
    )
    ids = "" if only is None else f", device_ids=[{only}]"
    dense = "" if only is None else f", device_ids = dense<{only}> : tensor<1xi64>"
    return f"<[{sizes}]{ids}> {{stablehlo.mesh = {{axes = [{fields}]{dense}}}}}"


def _axes_text(axes: Iterable[Any]) -> str:
    return "{" + ", ".join([string(str(a)) for a in axes]) + "}"


def _dim_text(entry: Any, is_open: bool) -> str:
    if entry is UNCONSTRAINED:
        return "{?}"
    axes = [string(str(a)) for a in entry_axes(entry)]
    return "{" + ", ".join([*axes, *["?"] * is_open]) + "}"


def uses_shardy() -> bool:
    """Whether shardings are written as Shardy's."""
    return bool(config.jax_use_shardy_partitioner)


def sharding_attribute(
    meshes: Meshes, sharding: Sharding, rank: int
) -> tuple[str, Any]:
    """The attribute of an argument or result that is there, and its name."""
    if uses_shardy():
        return "sdy.sharding", RawAttribute(
            f"#sdy.sharding{meshes.sharding(sharding, rank)}"
        )
    return "mhlo.sharding", repr(sharding.tiling(rank))


def constrained(
    b: BlockBuilder,
    x: HloValue,
    sharding: Sharding,
    rank: int,
    *,
    by_types: bool = False,
) -> HloValue:
    """A value that is to be laid out so."""
    if uses_shardy():
        text = b.program.meshes.sharding(sharding, rank, by_types=by_types)
        return b.emit("sdy.sharding_constraint", [x], [x.type], sharding=text)[0]
    spec = sharding.named.spec if sharding.named else PartitionSpec()
    free = [d for d, e in enumerate(spec.partitions) if e is UNCONSTRAINED]
    closed = spec.update([None if e is UNCONSTRAINED else e for e in spec.partitions])
    if sharding.named:
        sharding = sharding.named.update(spec=closed)
        if by_types and AxisType.Auto in sharding.named.mesh.axis_types:
            free = [*range(rank)]
    config_text = f"unspecified_dims=[{','.join(map(str, free))}]" if free else ""
    return b.op(
        "custom_call",
        [x],
        x.type,
        call_target_name="Sharding",
        backend_config=config_text,
        **{"mhlo.sharding": repr(sharding.tiling(rank))},
    )


OWN_PLACES = (JaxprOp, Placing, Collective, Message)
"""Ops whose rule says where results are, or the eqns of their jaxpr."""


def constrained_by_types(
    b: BlockBuilder, results: Sequence[HloValue]
) -> Sequence[HloValue]:
    """The results of an eqn, laid out as their types say."""
    if b.program.mesh is None and not any(a.placement for a in b.outs):
        return results
    return [constrained_by_type(b, x, a) for x, a in zip(results, b.outs, strict=True)]


def constrained_by_type(b: BlockBuilder, x: HloValue, aval: ShapedArray) -> HloValue:
    """A value laid out as its type says, by explicit axes."""
    where = aval.placement
    if b.of_elements:
        return x
    if where is not None:
        mesh, spec = where.mesh, where.spec(aval.ndim)
    elif b.program.mesh is not None and b.manual is None:
        mesh, spec = b.program.mesh, PartitionSpec()
    else:
        return x
    if not mesh.explicit_axes:
        return x
    sharding = NamedSharding(mesh, spec)
    return constrained(b, x, sharding, physical_rank(aval), by_types=True)


def physical_rank(aval: ShapedArray) -> int:
    """The rank of the array that a value is, which is more than a key's own."""
    return physical(aval).ndim
