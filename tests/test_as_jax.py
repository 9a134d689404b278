"""Libraries that import jax get Curta, in a process of their own."""

import subprocess
import sys

LIBRARY = """
from functools import partial

import jax
import jax.numpy as jnp
import jax.scipy.special
from jax import lax, tree_util
import jax._src.dispatch
from jax._src import api, core, dtypes, traceback_util
from jax._src.ad_util import stop_gradient_p
from jax._src.flatten_util import ravel_pytree
from jax._src.lax import lax as private_lax
from jax._src.util import safe_map
from jax._src.state.types import AbstractRef
from jax._src.tree_util import _registry
from jax.experimental import hijax, sparse
from jax.extend.core import DropVar, Var


traceback_util.register_exclusion(__file__)
assert stop_gradient_p is lax.stop_gradient_p
assert dtypes.DType is not None and not hasattr(jax.dtypes, "DType")
assert issubclass(dtypes.TypePromotionError, ValueError)
assert api.grad is jax.grad and private_lax is lax and core.Primitive("a").name == "a"
assert safe_map(len, ["ab"]) == [2]
assert list in _registry and set not in _registry
assert hijax.AbstractRef is AbstractRef


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

assert jax is curta and jax.numpy is curta.numpy is sys.modules["jax.numpy"]
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
