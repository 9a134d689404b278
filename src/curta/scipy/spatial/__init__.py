"""Geometry, as in `scipy.spatial`."""

from curta.scipy.spatial import transform as transform
