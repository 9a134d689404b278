"""Library calls and hand-made kernels."""
