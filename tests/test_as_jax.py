"""Libraries that import jax get Curta, in a process of their own."""

import subprocess
import sys

LIBRARY = """
import os
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

from curta._settings.api_version import jax_api_version
import jax
import jax.numpy as jnp
import jax.experimental.earray
import jax.scipy.special
from jax import lax, tree_util
import jax._src.dispatch
import jax.lib
from jax._src import api, compiler, core, dtypes, traceback_util, xla_bridge
from jax._src import tree_util as tree_util_private
from jax._src.interpreters.ad import CustomVJPException
from jax._src.ad_util import stop_gradient_p
from jax._src.flatten_util import ravel_pytree
from jax._src.earray import EArray
from jax._src.lax import lax as private_lax
from jax._src.nn.functions import glu
from jax._src.public_test_util import check_close
from jax._src.source_info_util import register_exclusion
from jax._src.util import safe_map
from jax._src.state.types import AbstractRef
from jax._src.tree_util import _registry
from jax.experimental import colocated_python, hijax, jax2tf, sparse
from jax.experimental.array_serialization import serialization
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel
from jax.extend.ifrt_programs import ifrt_programs
from jax.extend.core import DropVar, Var


traceback_util.register_exclusion(__file__)
assert stop_gradient_p is lax.stop_gradient_p
assert dtypes.DType is not None and not hasattr(jax.dtypes, "DType")
assert issubclass(dtypes.TypePromotionError, ValueError)
assert api.grad is jax.grad and private_lax is lax and core.Primitive("a").name == "a"
assert glu is jax.nn.glu
assert EArray is jax.experimental.earray.EArray
register_exclusion(__file__)
check_close(1.0, 1.0)
assert jax._src.lib._jax.PjitFunction is type(jax.jit(len))
jax._src.dispatch.wait_for_tokens()
assert safe_map(len, ["ab"]) == [2]
assert list in _registry and set not in _registry
assert hijax.AbstractRef is AbstractRef
assert os.path.isfile(jax.__file__) and os.path.isfile(jax.numpy.__file__)
with jax_api_version("0.11"):
    assert jax.experimental.cur_qdd is hijax.cur_qdd
assert issubclass(CustomVJPException, Exception)
assert jax.lib.__version__ == version("jax")
assert jax._src.distributed.global_state.process_id == 0
assert tree_util_private.flatten_one_level([1])[0] == [1]

assert find_spec("jax") is not None and find_spec("jax.lib") is not None

# By the module of an array's class libraries know the framework.
def is_of_jax(x):
    assert type(x).__module__ == "jax", type(x)
    return x


jax.jit(jax.vmap(jax.grad(is_of_jax)))(is_of_jax(jnp.ones(2)))
sparse.sparsify(is_of_jax)(jnp.ones(2))  # its tracer is made later than the others


class LibrarysTracer(jax.core.Tracer):
    pass


assert LibrarysTracer.__module__ == __name__

# Kernels for accelerators can be imported, named and subclassed, and not called.
class Spec(pl.BlockSpec):
    memory: pltpu.VMEM | None = None


# Libraries add to the list of files that tracebacks leave out, and remove theirs.
assert __file__ in traceback_util._exclude_paths
traceback_util._exclude_paths.remove(__file__)
traceback_util.register_exclusion(__file__)

# There are no backends yet, and XLA_FLAGS may still be set.
assert xla_bridge._backends == {} and not xla_bridge.backends_are_initialized()
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
assert jax.device_count() == 3 and [*xla_bridge._backends] == ["cpu"]

# Programs for a platform are refused by what takes the place of JAX's compile function.
def refuse(platform, *args, **kwargs):
    raise PermissionError(platform.platform)


compiled = jax.jit(lambda x: x + 1)
compiled(1.0)
compile_function = compiler.backend_compile_and_load
compiler.backend_compile_and_load = refuse
for donated in (), (0,):
    try:
        jax.jit(lambda x: x * 3, donate_argnums=donated)(jax.numpy.ones(4))
    except PermissionError as error:
        assert str(error) == "cpu"
    else:
        raise AssertionError("compiled for cpu")
assert compiled(2.0) == 3
compiler.backend_compile_and_load = compile_function
assert jax.jit(lambda x: x * 3)(2.0) == 6

for refusing in (
    lambda: jax2tf.convert(len), lambda: ifrt_programs.make_hlo_program(""),
    lambda: pl.pallas_call(len, out_shape=None), lambda: Spec((8, 128), None),
    lambda: splash_attention_kernel.SegmentIds(q=None, kv=None),
):
    try:
        refusing()
    except NotImplementedError as error:
        assert "curta" in str(error).lower()
    else:
        raise AssertionError(refusing)


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@partial(jax.jit, static_argnames="power")
def energy(pair, power=2):
    assert not core.trace_state_clean() and issubclass(DropVar, Var)
    return lax.reduce_sum_p.bind(pair.a**power, axes=(0,)) + jnp.sum(pair.b)
"""

PROGRAM = """
import sys
import curta.as_jax
import curta, jax, library

assert jax.jit is curta.jit and jax.numpy is curta.numpy is sys.modules["jax.numpy"]
assert jax.numpy.__name__ == curta.numpy.__spec__.name == "curta.numpy"
pair = library.Pair(curta.numpy.arange(3.0), curta.numpy.ones(2))
assert jax.grad(library.energy)(pair).a.tolist() == [0, 2, 4]
assert library.ravel_pytree(pair)[0].shape == (5,)
for absent in "jax.nothing", "jax._src.nothing", "jaxlib.nothing":
    try:
        __import__(absent)
    except ModuleNotFoundError as error:
        assert error.name == absent and "Curta has no" in str(error), error
    else:
        raise AssertionError(absent)
print("fine")
"""

TOO_LATE = """
import sys, types
sys.modules["jax"] = types.ModuleType("jax")
try:
    import curta.as_jax
except ImportError as error:
    assert "imported already" in str(error)
    print("fine")
"""


def run(program, folder):
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_library_gets_curta(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    assert run(PROGRAM, tmp_path) == "fine\n"


def test_jax_must_not_be_there_yet(tmp_path):
    assert run(TOO_LATE, tmp_path) == "fine\n"
