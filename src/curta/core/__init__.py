"""Avals, ops, traces and jaxprs: what everything else is made of."""

from curta.core.avals import ShapedArray as ShapedArray
from curta.core.pretty import format_eqn as format_eqn, format_jaxpr as format_jaxpr
from curta.core.trace import Trace as Trace, Tracer as Tracer
