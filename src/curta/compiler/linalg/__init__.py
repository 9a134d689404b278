"""Linear algebra of small matrices: algorithms, and what they are written with."""
