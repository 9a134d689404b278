"""Tests of real processes, by MPI and over TCP: `make test-hosts`."""
