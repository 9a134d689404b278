"""Equal shardings for two arrays."""

from curta.api.placing import shard_alike
from curta.on_demand import retired as _retired

__all__ = ["shard_alike"]

__getattr__ = _retired(__name__)
