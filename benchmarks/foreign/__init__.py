"""Programs of other projects, unmodified, over Curta and over JAX.

`python -m benchmarks.foreign` runs them: see `__main__.py`.
"""
