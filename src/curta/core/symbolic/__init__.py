"""Dims of unknown size: integer polynomials in dimension variables."""
