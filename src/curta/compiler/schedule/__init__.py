"""Scheduling: loop order, vectors, tails and chunks, decided before code is written."""
