"""Compare Curta with JAX in one process: `python -m benchmarks --help`."""
