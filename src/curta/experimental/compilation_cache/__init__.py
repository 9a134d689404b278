"""Where compiled kernels are kept; see `compilation_cache`."""
