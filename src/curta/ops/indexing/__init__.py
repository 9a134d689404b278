"""Reading and writing windows whose places are data."""

from curta.ops.indexing.dynamic import (
    DynamicSlice,
    DynamicUpdateSlice,
    dynamic_update_slice,
)
from curta.ops.indexing.gather import Gather, ScatterAdd, Scattering
from curta.ops.indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from curta.ops.indexing.scatter import (
    Scatter,
    ScatterMax,
    ScatterMin,
    ScatterMul,
    ScatterSub,
)
