"""Reading and writing windows whose starts are data."""

from curta.primitives.indexing.dynamic import (
    DynamicSlice,
    DynamicUpdateSlice,
    dynamic_update_slice,
)
from curta.primitives.indexing.gather import Gather, ScatterAdd, Scattering
from curta.primitives.indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from curta.primitives.indexing.scatter import (
    Scatter,
    ScatterMax,
    ScatterMin,
    ScatterMul,
    ScatterSub,
)
