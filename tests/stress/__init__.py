"""Long searches for faults; each module says what it ran, and what it did not."""
