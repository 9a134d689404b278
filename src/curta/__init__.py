"""Curta: array programs in Python, differentiated, vectorised and compiled.

The programming model of JAX, with a compiler of its own. Programs written for JAX run
after `import jax` is changed to `import curta`.
"""

from curta import (
    dtypes as dtypes,
    errors as errors,
    lax as lax,
    nn as nn,
    numpy as numpy,
    random as random,
    tree as tree,
    tree_util as tree_util,
    typing as typing,
)
from curta.api.checkpoint import checkpoint as checkpoint, remat as remat
from curta.api.custom_derivatives import (
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
)
from curta.api.grad import (
    grad as grad,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from curta.api.jacobian import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from curta.api.jit import clear_caches as clear_caches, jit as jit
from curta.api.tracing import eval_shape as eval_shape, make_jaxpr as make_jaxpr
from curta.api.vmap import vmap as vmap
from curta.config import (
    config as config,
    debug_nans as debug_nans,
    disable_jit as disable_jit,
    enable_x64 as enable_x64,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
    threefry_partitionable as threefry_partitionable,
)
from curta.core.array import Array as Array
from curta.core.trace import typeof as typeof
from curta.dtypes import float0 as float0
from curta.runtime.shape_struct import ShapeDtypeStruct as ShapeDtypeStruct
from curta.version import __version__ as __version__
