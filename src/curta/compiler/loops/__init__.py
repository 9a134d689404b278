"""Kernels as loop nests over buffers."""
