"""Compiled functions as bytes, to be loaded by another process."""

from curta.api.serialization import deserialize_and_load, serialize

__all__ = ["deserialize_and_load", "serialize"]
