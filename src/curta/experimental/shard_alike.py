"""Laying two arrays out alike."""

from curta.api.placing import shard_alike

__all__ = ["shard_alike"]
