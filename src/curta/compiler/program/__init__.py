"""Lowered programs as data."""
