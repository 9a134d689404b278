"""What runs compiled code: buffers, threads, native entries, dispatch."""
