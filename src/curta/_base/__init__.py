"""Process-wide state, signals, lazy imports and warnings: the base of the package."""
