"""Groups of work items that share loops, and their kernels."""
