"""Sparse systems, as in `scipy.sparse`."""

from curta.scipy.sparse import linalg as linalg
