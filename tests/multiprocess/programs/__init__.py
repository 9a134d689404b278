"""Programs that the tests run as several processes."""
