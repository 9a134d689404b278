"""How exactly products of matrices are computed: what a user may ask of an accelerator.

This machine's processor multiplies every dtype exactly and sums 16-bit floats in
float32, which is at least as exact as any of these; they are kept in the jaxpr for the
machine that has a choice.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes


class Precision(enum.Enum):
    """How exactly an accelerator multiplies float32 matrices.

    DEFAULT is the fastest, HIGHEST as exact as float32 is.

    >>> from curta import lax, numpy as jnp
    >>> lax.dot(jnp.ones(3), jnp.ones(3), precision=lax.Precision.HIGHEST)
    Array(3., dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return PRECISIONS.get(value)

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


PRECISIONS: dict[Any, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}


def check_preferred_type(result: Any, preferred: Any) -> None:
    """Raise TypeError unless a sum of products of `result` can be made `preferred`."""
    widened = dtypes.issubdtype(result, np.integer) and dtypes.issubdtype(
        preferred, np.floating
    )
    kinds = (np.integer, np.floating, np.complexfloating)
    if not widened:
        if any(
            dtypes.issubdtype(result, k) and not dtypes.issubdtype(preferred, k)
            for k in kinds
        ):
            raise TypeError(
                "Input type is incompatible with `preferred_element_type`. The"
                " compatible combinations of (input_type, preferred_element_type) are"
                " (integral, integral), (integral, floating), (floating, floating),"
                f" (complex, complex); got ({result.name}, {preferred.name})."
            )
        signed = [dtypes.issubdtype(d, np.signedinteger) for d in (result, preferred)]
        if signed == [True, False]:
            raise TypeError(
                "`preferred_element_type` must have the same signedness as the"
                f" original type, got {preferred.name} for {result.name}."
            )
    if preferred.itemsize < result.itemsize:
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got"
            f" {preferred.name} for {result.name}."
        )


class DotAlgorithm(NamedTuple):
    """An algorithm for dot products, by the dtypes that it works in.

    lhs_precision_type, rhs_precision_type: to what the operands are rounded.
    accumulation_type: in what the products are summed.
    lhs_component_count, rhs_component_count, num_primitive_operations: of how many
        parts, and products of parts, a product of greater precision is made.
    allow_imprecise_accumulation: whether sums may be less exact than their dtype.

    >>> from curta import lax, numpy as jnp
    >>> exact = lax.DotAlgorithm(jnp.float32, jnp.float32, jnp.float32)
    >>> lax.dot(jnp.ones(3), jnp.ones(3), precision=exact)
    Array(3., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms that machines have, named after operands and sum: LHS_RHS_SUM.

    `_X3`, `_X6` and `_X9` emulate a greater precision with so many products.

    >>> from curta import lax, numpy as jnp
    >>> exact = lax.DotAlgorithmPreset.F32_F32_F32
    >>> lax.dot(jnp.ones(3), jnp.ones(3), precision=exact)
    Array(3., dtype=float32)
    """

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name


def is_default(precision: object) -> bool:
    """Whether nobody asked for more than usual."""
    both = precision if isinstance(precision, tuple) else (precision,)
    return all(p is None or str(p) in ("DEFAULT", "Precision.DEFAULT") for p in both)
