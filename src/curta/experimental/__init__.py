"""The supported parts of `jax.experimental`."""

from curta._base.on_demand import retired as _retired
from curta.api.callbacks import io_callback as io_callback
from curta.experimental import (
    checkify as checkify,
    custom_partitioning as custom_partitioning,
    jet as jet,
    key_reuse as key_reuse,
    mesh_utils as mesh_utils,
    multihost_utils as multihost_utils,
    pjit as pjit,
    random as random,
    shard_alike as shard_alike,
    shard_map as shard_map,
)
from curta.experimental.earray import EArray as EArray
from curta.experimental.extended_types import (
    primal_tangent_dtype as primal_tangent_dtype,
)

__getattr__ = _retired(__name__, {"cur_qdd": "curta.experimental.hijax"})
