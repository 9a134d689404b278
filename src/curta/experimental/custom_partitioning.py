"""Functions that say themselves how they run on several devices."""

from curta.api.custom_partitioning import custom_partitioning as custom_partitioning
from curta.api.sharding_rule import (
    BATCHING as BATCHING,
    ArrayMapping as ArrayMapping,
    CompoundFactor as CompoundFactor,
    SdyShardingRule as SdyShardingRule,
)
