"""Jaxpr to work items and fusion plan."""
