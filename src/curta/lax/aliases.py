"""Names for the types of arguments, for annotations."""

from __future__ import annotations

from collections.abc import Sequence

from curta.primitives.convolution import ConvDimensionNumbers
from curta.primitives.precision import DotAlgorithm, DotAlgorithmPreset, Precision

_Dims = Sequence[int]

DotDimensionNumbers = tuple[tuple[_Dims, _Dims], tuple[_Dims, _Dims]]
ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None
PrecisionLike = (
    str
    | Precision
    | tuple[str, str]
    | tuple[Precision, Precision]
    | DotAlgorithm
    | DotAlgorithmPreset
    | None
)
