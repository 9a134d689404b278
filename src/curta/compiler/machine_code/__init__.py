"""Object files, their loader and cache, and native functions in memory."""
