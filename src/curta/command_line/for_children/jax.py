"""`import jax` in a process that a program under `curta run` has started.

The folder of this file is on its PYTHONPATH. The module that is imported by the name is
another one by then: Curta.
"""

import importlib
import sys

del sys.modules["jax"]
importlib.import_module("curta.as_jax")
importlib.import_module("jax")
