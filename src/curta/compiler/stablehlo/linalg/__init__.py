"""Decompositions of matrices as programs of other ops, a file per family."""
