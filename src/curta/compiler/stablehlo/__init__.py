"""Programs as StableHLO, for compilers that are not our own."""
