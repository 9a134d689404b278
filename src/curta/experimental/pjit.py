"""`pjit`, the older name of `jit`."""

from curta.api.jit import jit as pjit

__all__ = ["pjit"]
