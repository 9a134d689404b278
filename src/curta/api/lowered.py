"""From what `jit` traced to a program of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta import tree_util
from curta._base.on_demand import late
from curta.core.sharding import Sharding
from curta.transforms.discharge import low_program

# Few programs ask for it.
entry: Any = late("curta.compiler.stablehlo.entry")
handlers: Any = late("curta.runtime.pjrt.handlers")

_NAMES = {"gpu": "cuda"}


def canonical_platforms(names: Sequence[str]) -> tuple[str, ...]:
    """Platforms by their names; `gpu` stands for NVIDIA's."""
    return tuple([_NAMES.get(n, n) for n in names])


def lowered_program(
    name: str,
    staged: Any,
    argument_names: Sequence[str],
    arg_shardings: Sequence[Sharding | None],
    platforms: Sequence[str],
    layouts: Sequence[Any] = (),
) -> Any:
    """The program of a function traced for one signature.

    Values that it closes over, if they are being traced, are its first arguments.
    """
    if staged.closed.is_high:
        return entry.lower_program(
            low_program(staged.closed),
            entry.MainAttributes(name, keep_unused=True, platforms=platforms),
        )
    count = len(staged.captured)
    before: list[Any] = [None] * count
    return entry.lower_program(
        staged.closed,
        entry.MainAttributes(
            name,
            [""] * count + [*argument_names],
            result_names(staged.out_tree),
            [False] * count + [*staged.donated] if staged.donated else (),
            before + [*arg_shardings] if arg_shardings else (),
            staged.out_shardings,
            before + [*layouts] if layouts else (),
            staged.out_layouts,
            staged.keep_unused,
            platforms,
            staged.mesh and staged.mesh.abstract_mesh,
            _targets(platforms),
        ),
    )


def _targets(platforms: Sequence[str]) -> frozenset[str]:
    """The handlers that programs for all these platforms may call."""
    each = [handlers.registered_targets(p) for p in platforms]
    return frozenset.intersection(*each) if each else frozenset()


def result_names(out_tree: Any) -> list[str]:
    """`result[0]`: the paths of leaves in a result."""
    value = tree_util.tree_unflatten(out_tree, range(out_tree.num_leaves))
    paths = tree_util.tree_leaves_with_path(value)
    return [f"result{tree_util.keystr(path)}" for path, _ in paths]
