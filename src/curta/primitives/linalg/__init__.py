"""Decompositions and solutions of batches of matrices.

The `eval` rules are in NumPy; compiled programs, and eager mode, call LAPACK natively.
"""

from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.condensed import Hessenberg, Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.schur import Schur
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import CholeskyUpdate, Ormqr, SymmetricProduct
