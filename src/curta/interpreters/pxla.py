"""The mesh of a `with mesh:` block, under the name by which older programs ask for it.

>>> import curta
>>> from curta.interpreters import pxla
>>> with curta.make_mesh((1,), ("x",)):
...     pxla.thread_resources.env.physical_mesh.axis_names
('x',)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from curta._base.on_demand import Listing, listed
from curta.core.mesh import Mesh
from curta.core.mesh_scope import scope

__all__ = ["ResourceEnv", "thread_resources"]
__dir__: Listing = listed(__all__)


class ResourceEnv(NamedTuple):
    """The mesh of the enclosing `with mesh:` block; empty outside of one."""

    physical_mesh: Mesh


_NO_MESH = Mesh(np.empty((), object), ())


class _ThreadResources:
    @property
    def env(self) -> ResourceEnv:
        return ResourceEnv(scope().resources or _NO_MESH)


thread_resources: _ThreadResources = _ThreadResources()
"""Those of the thread that asks."""
