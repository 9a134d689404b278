"""The routines that custom calls may name without anybody registering them."""

from __future__ import annotations

from collections.abc import Sequence

#: What XLA's compilers expand, on all platforms and on TPUs.
_EXPANDED = frozenset({"Qr", "ProductOfElementaryHouseholderReflectors"})
_EXPANDED_ON_TPUS = _EXPANDED | {"LuDecomposition"}


def expanded_targets(platforms: Sequence[str]) -> frozenset[str]:
    """The routines that the compilers of all these platforms expand."""
    return _EXPANDED_ON_TPUS if {*platforms} == {"tpu"} else _EXPANDED
