"""Figures for light and dark pages: `draw_both()` makes `savefig` write two files.

`figure.savefig("name.png")` writes `name.png` as before, and then `name.dark.png`: the
same figure with a dark background, and with light text, axes and black lines.
"""

import functools
import os
from pathlib import Path
from typing import Any

from matplotlib import colors
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

BACKGROUND, FOREGROUND, LINES = "#14171f", "#e4e7ee", "#8b93a5"
SUFFIX = ".dark"


def draw_both() -> None:
    """Replace `Figure.savefig`; calling this twice has no further effect."""
    save = Figure.savefig
    if hasattr(save, "__wrapped__"):
        return

    @functools.wraps(save)
    def savefig(self: Figure, fname: Any, **options: Any) -> None:
        save(self, fname, **options)
        if not isinstance(fname, str | os.PathLike):  # a frame of an animation
            return
        path = Path(fname)
        darken(self)
        options |= {"facecolor": BACKGROUND}
        save(self, path.with_name(f"{path.stem}{SUFFIX}{path.suffix}"), **options)

    Figure.savefig = savefig


def darken(figure: Figure) -> None:
    """Recolor what is black or white in a figure; data in other colors stay."""
    for artist in figure.findobj():
        for name in ("color", "edgecolor", "facecolor", "markeredgecolor"):
            recolor(artist, name)
    for axes in figure.axes:
        axes.set_facecolor(BACKGROUND)
        axes.tick_params(colors=FOREGROUND, which="both")
        for spine in axes.spines.values():
            spine.set_color(LINES)
        axes.xaxis.label.set_color(FOREGROUND)
        axes.yaxis.label.set_color(FOREGROUND)


def recolor(artist: Artist, name: str) -> None:
    """Swap one color property if it is black (light instead) or white (dark)."""
    if isinstance(artist, Axes | Figure):
        return
    read = getattr(artist, f"get_{name}", None)
    write = getattr(artist, f"set_{name}", None)
    if read is None or write is None or (name == "color" and isinstance(artist, Patch)):
        return
    try:
        value = colors.to_rgba(read())
    except (TypeError, ValueError):  # several colors, or "auto"
        return
    if value[3] == 0:
        return
    if max(value[:3]) < 0.2:
        write((*colors.to_rgb(FOREGROUND), value[3]))
    elif min(value[:3]) > 0.98 and not hasattr(artist, "get_text"):
        write((*colors.to_rgb(BACKGROUND), value[3]))
