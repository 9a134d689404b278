"""Memory spaces of arrays: device or host.

All devices here share the memory of the host, so that moving an array changes only what
its sharding says.

>>> import curta
>>> from curta import memory
>>> curta.device_put(1.0, memory.Space.Host).sharding.memory_kind
'pinned_host'
"""

from curta.core.sharding import MemorySpace as Space

__all__ = ["Space"]
