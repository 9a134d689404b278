"""The older place of `shard_map`."""

from curta.api.shard_map import older_shard_map as shard_map

__all__ = ["shard_map"]
