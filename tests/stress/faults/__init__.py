"""Search for wrong results and crashes where memory or the cache's folder fails."""
