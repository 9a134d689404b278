"""`custom_partitioning`: a function that says itself how it runs on several devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.api.placing import reshard
from curta.api.shard_map import shard_map
from curta.api.sharding_rule import SdyShardingRule, parsed_rule
from curta.control.custom_partitioning import CustomPartitioning
from curta.core.avals import ShapedArray
from curta.core.flat import debug_info
from curta.core.mesh import Mesh
from curta.core.mesh_scope import concrete_mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import NamedSharding
from curta.core.stage import stage
from curta.core.trace import Tracer, typeof
from curta.errors import UnexpectedTracerError
from curta.transforms.partial_eval import residuals_as_inputs


class custom_partitioning:
    """A function with a rule of its own for arrays that are split over devices.

    Where types say how its arguments are split (explicit axes of a mesh), each device
    runs the function that `partition` gives on its shards. Otherwise the function
    itself runs on whole arrays, and the rule says how results are split.

    Args:
      fun: a function of arrays and pytrees of them.
      static_argnums: positions of arguments that are Python values.

    >>> import curta, curta.numpy as jnp
    >>> from curta.experimental.custom_partitioning import custom_partitioning
    >>> @custom_partitioning
    ... def double(x):
    ...     return 2 * x
    >>> _ = double.def_partition(
    ...     lambda mesh, args, result: (
    ...         mesh, lambda x: x + x, result.sharding, (args[0].sharding,)
    ...     ),
    ...     sharding_rule="... i -> ... i",
    ... )
    >>> double(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """

    decode_shardings: bool

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()):
        self.fun = fun
        self.static_argnums: tuple[int, ...] = tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.propagate_user_sharding: Callable[..., Any] | None = None
        self.infer_sharding_from_operands: Callable[..., Any] | None = None
        self.sharding_rule: Any = None
        self.decode_shardings = True

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Give the rule; returns `partition`.

        Args:
          partition: `(*static, mesh, arg_shapes, result_shape) -> (mesh, fun,
            result_shardings, arg_shardings)`: the function of the shards, and how
            arrays are split for it. Shapes are `ShapeDtypeStruct` with a sharding.
          infer_sharding_from_operands: `(*static, mesh, arg_shapes, result_shape) ->`
            the shardings of results; used where there is no `sharding_rule`.
          propagate_user_sharding, decode_shardings: accepted; nothing is decided from
            how results are used.
          sharding_rule: a text such as `"i j, j k -> i k"`, an `SdyShardingRule`, or a
            function `(*static, mesh, arg_shapes, result_shape)` to one of them.
          factor_sizes: of a text, the sizes of factors that are parts of dims.

        Raises ValueError for sizes or kinds of factors without a text.
        """
        kinds = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if isinstance(sharding_rule, str):
            sharding_rule = parsed_rule(sharding_rule, **factor_sizes)
        elif unknown := {**factor_sizes, **{k: v for k, v in kinds.items() if v}}:
            raise ValueError(f"Unknown keyword arguments: {unknown}")
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        self.decode_shardings = decode_shardings
        self.sharding_rule = sharding_rule
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        args = bound.args
        static = tuple(args[i] for i in self.static_argnums)
        if any(isinstance(x, Tracer) for x in tree_util.tree_leaves(static)):
            raise UnexpectedTracerError(
                "Found a Tracer object passed as an argument to a"
                " custom_partitioning function in a position indicated as static by"
                " static_argnums."
            )
        return _PartitionedCall(self, args, static).run()


class _PartitionedCall:
    """One call: the leaves of the arguments, and the program on whole arrays."""

    def __init__(self, rule: custom_partitioning, args: Sequence[Any], static: Any):
        self.rule = rule
        self.static = static
        static = rule.static_argnums
        self.dynamic = tuple(x for i, x in enumerate(args) if i not in static)
        leaves, self.in_tree = tree_util.tree_flatten(self.dynamic)
        self.leaves = [*map(as_result, leaves)]
        out_tree: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            given = iter(tree_util.tree_unflatten(self.in_tree, leaves))
            whole = [args[i] if i in static else next(given) for i in range(len(args))]
            outs, tree = tree_util.tree_flatten(rule.fun(*whole))
            out_tree[:] = [tree]
            return outs

        avals = [typeof(x).unplaced() for x in self.leaves]
        info = debug_info("custom_partitioning", rule.fun)
        self.closed = stage(flat, avals, info)
        (self.out_tree,) = out_tree

    def run(self) -> Any:
        mesh = self._mesh()
        if mesh is not None and self.rule.partition is not None:
            return self._on_shards(mesh)
        closed, captured = residuals_as_inputs(self.closed)
        count = len(captured)

        def specs(mesh: Mesh, specs: Sequence[PartitionSpec]) -> Sequence[Any]:
            return self.result_specs(mesh, specs[count:])

        outs = CustomPartitioning(closed, specs)(*captured, *self.leaves)
        return tree_util.tree_unflatten(self.out_tree, outs)

    def _mesh(self) -> Mesh | None:
        """The mesh over which types say that arguments are split."""
        for x in self.leaves:
            where = typeof(x).placement
            if where is not None and where.entries and not where.mesh.manual_axes:
                return concrete_mesh(where.mesh)
        return None

    def _shapes(self, tree: Any, avals: Any, mesh: Mesh, specs: Any) -> Any:
        pairs = zip(avals, specs, strict=True)
        return tree_util.tree_unflatten(
            tree,
            [
                ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, s))
                for a, s in pairs
            ],
        )

    def result_specs(
        self, mesh: Mesh, specs: Sequence[PartitionSpec]
    ) -> list[PartitionSpec]:
        """How the results are split, given how the arguments are."""
        avals, outs = self.closed.in_avals, self.closed.out_avals
        whole = [PartitionSpec()] * len(outs)
        given = (
            *self.static,
            mesh,
            self._shapes(self.in_tree, avals, mesh, specs),
            self._shapes(self.out_tree, outs, mesh, whole),
        )
        rule, infer = self.rule.sharding_rule, self.rule.infer_sharding_from_operands
        if callable(rule):
            rule = rule(*given)
        if isinstance(rule, str):
            rule = parsed_rule(rule)
        if isinstance(rule, SdyShardingRule):
            ranks = [a.ndim for a in avals], [a.ndim for a in outs]
            return rule.result_specs(specs, *ranks)
        return whole if infer is None else self._specs(self.out_tree, infer(*given))

    def _specs(self, tree: Any, shardings: Any) -> list[PartitionSpec]:
        result = tree.flatten_up_to(shardings)
        for s in result:
            if not isinstance(s, NamedSharding):
                raise ValueError(
                    f"Custom Partitioning rules must return Sharding. Got {s!r}, which"
                    " is not a NamedSharding"
                )
        return [s.spec for s in result]

    def _on_shards(self, mesh: Mesh) -> Any:
        specs = [typeof(x).sharding.spec for x in self.leaves]
        assert self.rule.partition is not None
        mesh, fun, results, arg_shardings = self.rule.partition(
            *self.static,
            mesh,
            self._shapes(self.in_tree, self.closed.in_avals, mesh, specs),
            self._shapes(
                self.out_tree,
                self.closed.out_avals,
                mesh,
                self.result_specs(mesh, specs),
            ),
        )
        in_specs = self._specs(self.in_tree, arg_shardings)
        out_specs = self._specs(self.out_tree, results)
        pairs = zip(self.leaves, in_specs, strict=True)
        moved = [reshard(x, NamedSharding(mesh, s)) for x, s in pairs]
        out = shard_map(
            fun,
            mesh=mesh,
            in_specs=tree_util.tree_unflatten(self.in_tree, in_specs),
            out_specs=tree_util.tree_unflatten(self.out_tree, out_specs),
            check_vma=False,
        )(*tree_util.tree_unflatten(self.in_tree, moved))
        _check_results(out, self.closed.out_avals)
        return out


def _check_results(out: Any, wanted: Sequence[ShapedArray]) -> None:
    result = [typeof(x) for x in tree_util.tree_leaves(out)]
    if [(a.shape, a.dtype) for a in result] != [(a.shape, a.dtype) for a in wanted]:
        raise ValueError(
            f"Mismatch in result shapes. {result} vs {list(wanted)}: the function that"
            " `partition` gives returns other shards than its shardings say"
        )
