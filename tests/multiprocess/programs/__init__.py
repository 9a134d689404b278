"""What the tests run as several processes."""
