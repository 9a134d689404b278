"""`import jaxlib` in a process that a program under `curta run` has started."""

import importlib
import sys

del sys.modules["jaxlib"]
importlib.import_module("jax")
importlib.import_module("jaxlib")
