"""Minimisation, as in `scipy.optimize`."""

from curta.scipy.optimize.minimisation import (
    OptimizeResults as OptimizeResults,
    minimize as minimize,
)
