"""Integration of samples, as in `scipy.integrate`."""

from curta.numpy import trapezoid as trapezoid
