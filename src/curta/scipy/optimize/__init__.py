"""Minimization, as in `scipy.optimize`."""

from curta._base.on_demand import without_parts as _without_parts
from curta.scipy.optimize.minimisation import (
    OptimizeResults as OptimizeResults,
    minimize as minimize,
)

__dir__ = _without_parts(__name__)
