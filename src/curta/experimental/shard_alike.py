"""Equal shardings for two arrays."""

from curta._base.on_demand import retired as _retired
from curta.api.placing import shard_alike

__all__ = ["shard_alike"]

__getattr__ = _retired(__name__)
