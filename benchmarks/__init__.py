"""Curta beside JAX in one process: `python -m benchmarks --help`."""
