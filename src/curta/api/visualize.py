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
      shape: of the array, no dim 0.
      sharding: how it is laid out.
      use_color, color_map: passed over: the picture is plain text.
      scale: makes the boxes larger or smaller.
      min_width, max_width: bounds for the width of a box, in characters.

    Returns:
      Nothing.

    Raises:
      ValueError: if ranks differ.

    >>> import curta
    >>> mesh = curta.make_mesh((1,), ("x",))
    >>> visualize_sharding((4, 12), curta.NamedSharding(mesh, curta.P("x")), scale=0.4)
    ┌────────────────────────────┐
    │                            │
    │           CPU 0            │
    │                            │
    └────────────────────────────┘
    """
    if len(shape) not in (1, 2):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dims")
    cells: dict[tuple[int, ...], list[int]] = {}
    parts = sharding.parts(len(shape))
    for device, part in zip(sharding.devices, sharding.tiling(len(shape)).coordinates):
        cells.setdefault(part, []).append(device.id)
    platform = sharding.devices[0].platform.upper()
    rows, columns = (1, parts[0]) if len(shape) == 1 else parts
    names = {p: f"{platform} {','.join(map(str, ids))}" for p, ids in cells.items()}
    grid = [
        [names[(r, c)[2 - len(shape) :]] for c in range(columns)] for r in range(rows)
    ]
    # The picture has the proportions of the array; a character is 2.5 times as high
    # as it is wide.
    height = int(10 * scale)
    width = int(height * (shape[1] if len(shape) == 2 else 1) / shape[0])
    box_width = min(max(int(width * 2.5 / columns), min_width), max_width)
    box_height = int(height / rows) if len(shape) == 2 else 1
    longest = max(len(text) for row in grid for text in row)
    room = (max_width - 1) // columns - 1
    inner_width = max(min(box_width - 2, room), longest)
    print(_table(grid, inner_width, max(box_height - 2, 0)))


def _table(grid: Sequence[Sequence[str]], width: int, blank: int) -> str:
    """The texts in boxes of that width, amid so many blank lines."""

    def line(left: str, middle: str, right: str, texts: Sequence[str]) -> str:
        return left + middle.join(texts) + right

    def rule(left: str, middle: str, right: str) -> str:
        return line(left, middle, right, ["─" * width] * len(grid[0]))

    def boxes(row: Sequence[str]) -> list[str]:
        texts = [_centred(text, width) for text in row]
        empty = line("│", "│", "│", [" " * width] * len(row))
        above = blank // 2
        middle = line("│", "│", "│", texts)
        return [*[empty] * above, middle, *[empty] * (blank - above)]

    between = f"\n{rule('├', '┼', '┤')}\n"
    inner = between.join("\n".join(boxes(row)) for row in grid)
    return f"{rule('┌', '┬', '┐')}\n{inner}\n{rule('└', '┴', '┘')}"


def _centred(text: str, width: int) -> str:
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function on the shardings of the arrays in a pytree.

    Within `jit` it is called when it is known where the arrays are: once for each
    compiled program and each way in which its arguments are laid out.

    >>> import curta
    >>> show = lambda sharding: print(len(sharding.device_set))
    >>> curta.debug.inspect_array_sharding(curta.numpy.arange(3), callback=show)
    1
    """

    def inspect(x: Any) -> None:
        x = as_result(x)
        if isinstance(x, Tracer):
            InspectSharding(callback)(x)
        else:
            callback(to_array(x).sharding)

    tree_util.tree_map(inspect, value)


def visualize_array_sharding(arr: Any, **options: Any) -> None:
    """Print which devices hold which part of an array; see `visualize_sharding`.

    >>> import curta
    >>> curta.debug.visualize_array_sharding(curta.numpy.arange(3))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    draw = functools.partial(visualize_sharding, arr.shape, **options)
    inspect_array_sharding(arr, callback=draw)
