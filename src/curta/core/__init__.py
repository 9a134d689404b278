"""Avals, ops, traces and jaxprs: what everything else is made of."""

from curta.core.pretty import format_eqn, format_jaxpr
