"""Tests of real processes: `make test-hosts` and `make test-multiprocess`."""
