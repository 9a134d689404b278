"""What the processes of a program do together.

There is one process, so that everything is where it is needed; the functions check
their arguments and give what they would give with several.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import tree_util
from curta.api.devices import device_put
from curta.core.mesh import Mesh
from curta.core.sharding import NamedSharding


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values that the first process has, as NumPy arrays.

    >>> broadcast_one_to_all({"a": 1})
    {'a': array(1)}
    """
    return tree_util.tree_map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes: stacked, or for `tiled` one after the other.

    An array over several devices is given whole.

    >>> import numpy
    >>> process_allgather(numpy.arange(2))
    array([[0, 1]])
    """

    def gather(x: Any) -> Any:
        whole = np.asarray(x)
        over_devices = len(getattr(x, "devices", lambda: ())()) > 1
        return whole if tiled or over_devices else whole[None]

    return tree_util.tree_map(gather, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here."""


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have the same values."""


def host_local_array_to_global_array(
    local_inputs: Any, global_mesh: Mesh, pspecs: Any
) -> Any:
    """What each process has, as arrays over the devices of all."""
    specs = tree_util.broadcast_prefix(pspecs, local_inputs, is_leaf=_is_none)
    leaves, tree = tree_util.tree_flatten(local_inputs)
    outs = [
        device_put(x, NamedSharding(global_mesh, s))
        for x, s in zip(leaves, specs, strict=True)
    ]
    return tree_util.tree_unflatten(tree, outs)


def _is_none(x: Any) -> bool:
    return x is None


def global_array_to_host_local_array(
    global_inputs: Any, global_mesh: Mesh, pspecs: Any
) -> Any:
    """Arrays over the devices of all, as what each process has."""
    return host_local_array_to_global_array(global_inputs, global_mesh, pspecs)
