"""`import jax` in a process that a program under `curta run` has started.

The folder of this file is on its PYTHONPATH. The module that is imported by the name is
another one by then: Curta, or JAX where a Python without Curta runs.
"""

import importlib
import os
import sys

del sys.modules["jax"]
try:
    importlib.import_module("curta.as_jax")
except ModuleNotFoundError as error:
    if error.name != "curta":
        raise
    sys.path.remove(os.path.dirname(__file__))
importlib.import_module("jax")
