"""Clustering, as in `scipy.cluster`."""

from curta.scipy.cluster import vq as vq
