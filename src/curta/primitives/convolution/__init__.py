"""Convolutions: the op, the numbers of its dims, and its shapes."""

from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.convolution.shapes import ConvDimensionNumbers
