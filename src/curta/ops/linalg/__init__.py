"""Decompositions and solutions of batches of matrices.

They run in NumPy, whose LAPACK works through batches, also in compiled code.
"""

from curta.ops.linalg.cholesky import Cholesky
from curta.ops.linalg.eigen import Eig, Eigh
from curta.ops.linalg.lu import LU, LUPivotsToPermutation
from curta.ops.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.ops.linalg.svd import SVD
from curta.ops.linalg.triangular import TriangularSolve
