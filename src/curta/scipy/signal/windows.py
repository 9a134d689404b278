"""The windows that spectra know by name, as SciPy defines them, periodic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta._base.on_demand import Listing, own

__dir__: Listing = own(__name__)

# Σ (-1)^k a_k cos(2π k x): F. Harris (1978), A. Nuttall (1981), D'Antona and Ferrero.
_COSINE_SUMS = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.50, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
_ALIASES = {"rectangular": "boxcar", "ones": "boxcar", "hanning": "hann"}


def window(name: str | tuple[Any, ...], size: int) -> Any:
    """The window as a NumPy array of float64; ValueError for a name not known.

    A tuple has the parameters after the name: ("kaiser", beta), ("gaussian", std),
    ("tukey", alpha).
    """
    if isinstance(name, tuple) and not (name and isinstance(name[0], str)):
        raise ValueError(f"First tuple entry of parameter window={name} is not a str!")
    kind, *parameters = (name,) if isinstance(name, str) else name
    kind = _ALIASES.get(kind, kind)
    if size == 1:
        return np.ones(1)
    if kind in _COSINE_SUMS and not parameters:
        x = np.arange(size) / size
        return sum(
            (-1) ** k * a * np.cos(2 * np.pi * k * x)
            for k, a in enumerate(_COSINE_SUMS[kind])
        )
    offset = np.arange(size) - size / 2  # from the middle of one period
    share = offset / (size / 2)
    if kind in ("bartlett", "triang") and not parameters:
        whole = size + 1  # of which the last element is left out
        n = np.arange(1, whole + 1) - (whole + 1) / 2
        reach = whole / 2 + (0.5 if whole % 2 else 0)
        return 1 - abs(share) if kind == "bartlett" else (1 - abs(n) / reach)[:-1]
    if kind == "cosine" and not parameters:
        return np.sin(np.pi / (size + 1) * (np.arange(size) + 0.5))
    if kind == "gaussian" and len(parameters) == 1:
        return np.exp(-0.5 * (offset / parameters[0]) ** 2)
    if kind == "kaiser" and len(parameters) == 1:
        (beta,) = parameters
        return np.i0(beta * np.sqrt(1 - share**2)) / np.i0(beta)
    if kind == "tukey" and len(parameters) <= 1:
        alpha = parameters[0] if parameters else 0.5
        return _tukey(1 - abs(share), alpha)
    raise ValueError(
        f"Invalid window name {kind!r} in parameter window={name!r}! Known by name are"
        f" {sorted([*_COSINE_SUMS, 'bartlett', 'triang', 'cosine', 'tukey'])},"
        " ('kaiser', beta), ('gaussian', std) and ('tukey', alpha); any other can be"
        " passed as an array."
    )


def _tukey(distance: Any, alpha: float) -> Any:
    """A cosine over the share `alpha` of the window; `distance` from the ends."""
    if alpha <= 0:
        return np.ones_like(distance)
    slope = np.clip(distance / min(alpha, 1.0), 0, 1)
    return 0.5 * (1 - np.cos(math.pi * slope))
