"""`PlatformIndex`: which of several implementations is for this platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import Op

PLATFORM = "cpu"

# Where arguments can be given up for the memory of results.
WITH_DONATION = ("cpu", "cuda", "rocm", "tpu", "neuron")

Platforms = tuple[tuple[str, ...] | None, ...]


def check_donation(platforms: Sequence[str], donated: Sequence[bool]) -> None:
    """Raise NotImplementedError if only some of the platforms can donate arguments."""
    able = [p for p in platforms if p in WITH_DONATION]
    if any(donated) and 0 < len(able) < len(platforms):
        raise NotImplementedError(
            "In multi-platform lowering either all or no lowering platforms should"
            f" support donation. Lowering for {tuple(platforms)}; only {able}"
            " support donation. Leave out donate_argnums, or the other platforms."
        )


@dataclass(frozen=True)
class PlatformIndex(Op):
    """The index of the platform in `platforms`; None among them stands for any."""

    name: ClassVar[str] = "platform_index"
    platforms: Platforms

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((), np.dtype(np.int32))

    def eval(self, *args: Any) -> Any:
        for i, names in enumerate(self.platforms):
            if names is not None and PLATFORM in names:
                return np.int32(i)
        if None in self.platforms:
            return np.int32(self.platforms.index(None))
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{self.name}(platforms="
            f"{self.platforms})' not found for platform {PLATFORM}: give a"
            f" `{PLATFORM}` branch, or a `default`"
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        raise AssertionError("an op without operands has no tangents")
