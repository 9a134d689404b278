"""Pictures of how arrays are laid out over devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.core.sharding import Sharding
from curta.core.trace import Tracer
from curta.primitives.placing import InspectSharding
from curta.runtime.transfer import to_array


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which devices hold which part of an array of one or two dims.

    Args:
      shape: of the array.
      sharding: how it is laid out.
      scale: makes the boxes wider or narrower, between `min_width` and `max_width`.
      use_color, color_map: passed over: the picture is plain text.

    Raises ValueError for other ranks.

    >>> import curta
    >>> mesh = curta.make_mesh((1,), ("x",))
    >>> visualize_sharding((4, 2), curta.NamedSharding(mesh, curta.P("x")))
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    if len(shape) not in (1, 2):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dims")
    cells: dict[tuple[int, ...], list[int]] = {}
    parts = sharding.parts(len(shape))
    for device, place in zip(sharding.devices, sharding.tiling(len(shape)).places):
        cells.setdefault(place, []).append(device.id)
    platform = sharding.devices[0].platform.upper()
    rows, columns = (1, parts[0]) if len(shape) == 1 else parts
    names = {p: f"{platform} {','.join(map(str, ids))}" for p, ids in cells.items()}
    grid = [
        [names[(r, c)[2 - len(shape) :]] for c in range(columns)] for r in range(rows)
    ]
    widest = max(len(text) for row in grid for text in row) + 4
    width = max(widest, min(max_width // columns, round(min_width * scale)))
    print(_table(grid, width))


def _table(grid: Sequence[Sequence[str]], width: int) -> str:
    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * width for _ in grid[0]) + right

    rows = ["│" + "│".join(text.center(width) for text in row) + "│" for row in grid]
    between = rule("├", "┼", "┤")
    inner = f"\n{between}\n".join(rows)
    return f"{rule('┌', '┬', '┐')}\n{inner}\n{rule('└', '┴', '┘')}"


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function on the shardings of the arrays in a pytree.

    Within `jit` it is called when it is known where the arrays are: once for each
    compiled program and each way in which its arguments are laid out.
    """

    def inspect(x: Any) -> None:
        x = as_result(x)
        if isinstance(x, Tracer):
            InspectSharding(callback)(x)
        else:
            callback(to_array(x).sharding)

    tree_util.tree_map(inspect, value)


def visualize_array_sharding(arr: Any, **options: Any) -> None:
    """Print which devices hold which part of an array; see `visualize_sharding`."""
    draw = functools.partial(visualize_sharding, arr.shape, **options)
    inspect_array_sharding(arr, callback=draw)
