"""Ahead of time: functions as libraries that run without Python.

This namespace is imported by name: `from curta import aot`.
"""

from curta._base.on_demand import without_parts as _without_parts
from curta.aot.building import BuiltLibrary as BuiltLibrary, build as build
from curta.aot.errors import BuildError as BuildError

__dir__ = _without_parts(__name__)
