"""Arrays in notebooks: text, type, sharding, and a picture of matrices."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape
from typing import Any

import numpy as np

_Any = np.ndarray[Any, Any]

# Renderers of notebooks may give `pre` their own font, and break long lines.
_TEXT = (
    "margin: 0; font-family: ui-monospace, Menlo, Consolas, monospace;"
    " white-space: pre; overflow-x: auto; max-width: 100%"
)
_READ = 1024  # elements along a dim, at most, of which the pixels are means
_SIDE = 128  # pixels
_SHOWN = 144  # the longer side on the screen, in CSS's pixels
_LEAST = 4  # elements along each dim that are worth a picture
_NAN = (255, 0, 255)
# From the least to the greatest value; from negative ones over zero to positive ones.
_SEQUENTIAL = (0x440154, 0x3B528B, 0x21918C, 0x5EC962, 0xFDE725)
_DIVERGING = (0x214CA0, 0x92B2DE, 0xF7F7F7, 0xE89882, 0xA81628)


def array_html(x: Any, values: _Any | None = None) -> str:
    """The array as HTML; `values` are the elements of a matrix to be pictured."""
    parts = [
        f'<pre style="{_TEXT}">{escape(repr(x))}</pre>',
        f'<div style="font-size: smaller; opacity: .75">{escape(facts(x))}</div>',
    ]
    if values is not None and min(values.shape) >= _LEAST:
        parts.append(_image(values))
    return f"<div>{''.join(parts)}</div>"


def facts(x: Any) -> str:
    """Type, bytes, and devices or sharding of an array, in one line."""
    sharding = x.sharding
    kind = x.aval.str_short() + (", weak type" if x.aval.weak_type else "")
    where = sharding if sharding.num_devices > 1 else x.device
    return f"{kind} · {x.nbytes:,} bytes · {where}"


def _image(values: _Any) -> str:
    """An `img` of a matrix, the first row on top, with the range of its values."""
    means = _means(values)
    finite = means[np.isfinite(means)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    height, width = means.shape
    scale = _SHOWN / max(height, width)
    size = f"width: {width * scale:.0f}px; height: {height * scale:.0f}px"
    range_ = f"from {low:.4g} to {high:.4g}"
    bad = means.size - finite.size
    title = range_ + (f", {bad} pixels not finite" if bad else "")
    data = base64.b64encode(_png(_coloured(means, low, high))).decode()
    return (
        f'<img alt="the values as colours, {title}" title="{title}"'
        f' style="{size}; image-rendering: pixelated; margin-top: .3em"'
        f' src="data:image/png;base64,{data}">'
    )


def _means(values: _Any) -> _Any:
    """A matrix of at most `_SIDE` by `_SIDE`, of means over blocks."""
    rows, columns = (-(-n // _READ) for n in values.shape)
    values = values[::rows, ::columns]
    if values.dtype.kind == "c":
        values = np.abs(values)
    means = values.astype(np.float64)
    with np.errstate(all="ignore"):
        for axis in (0, 1):
            n = means.shape[axis]
            starts = np.arange(0, n, -(-n // _SIDE))
            counts = np.diff(np.append(starts, n)).reshape((-1, 1) if axis == 0 else -1)
            means = np.add.reduceat(means, starts, axis) / counts
    return means


def _coloured(means: _Any, low: float, high: float) -> _Any:
    """The pixels' red, green and blue."""
    colours, largest = _SEQUENTIAL, high
    if low < 0 < high:
        colours, largest = _DIVERGING, max(-low, high)
        low = -largest
    with np.errstate(all="ignore"):
        span = (largest - low) or 1.0
        part = np.clip((means - low) / span, 0, 1) * (len(colours) - 1)
    lost = np.isnan(part)
    steps = np.arange(len(colours))
    parts = [
        np.interp(np.where(lost, 0, part), steps, [c >> shift & 0xFF for c in colours])
        for shift in (16, 8, 0)
    ]
    pixels = np.stack(parts, -1).round().astype(np.uint8)
    pixels[lost] = _NAN
    return pixels


def _png(pixels: _Any) -> bytes:
    """A picture of 8-bit channels, as https://www.w3.org/TR/png/ has it."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # 0: a row as it is
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(rows.tobytes())),
        (b"IEND", b""),
    )
    out = b"\x89PNG\r\n\x1a\n"
    for kind, content in chunks:
        check = zlib.crc32(kind + content)
        out += struct.pack(">I", len(content)) + kind + content
        out += struct.pack(">I", check)
    return out
