"""Plans of matrix products and contractions for a target."""

from __future__ import annotations

from functools import lru_cache

from curta.compiler.library.contraction import Contraction, contraction_plan
from curta.compiler.library.gemm import Dot, dot_plan
from curta.compiler.library.product_plan import ProductPlan
from curta.compiler.targets import Target, Tuning


def product_plan(product: Dot | Contraction, target: Target) -> ProductPlan:
    """Return the plan of a product for the vectors of a target."""
    return _product_plan(product, target.vector_bytes, target.tuning)


@lru_cache(maxsize=1024)
def _product_plan(
    product: Dot | Contraction, vector_bytes: int, tuning: Tuning
) -> ProductPlan:
    if isinstance(product, Contraction):
        return contraction_plan(product, vector_bytes, tuning)
    return dot_plan(product, vector_bytes, tuning)
