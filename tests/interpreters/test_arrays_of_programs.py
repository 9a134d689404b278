"""Classes that are registered as arrays, and names that are in other places now."""

import numpy as np
import pytest

import curta
import curta.core
from curta._settings.api_version import jax_api_version
from curta.interpreters import pxla, xla


class Variable:
    """An array that can be replaced."""

    def __init__(self, value):
        self.value = np.asarray(value, np.float64)
        self.shape, self.dtype = self.value.shape, self.value.dtype

    def __array__(self, dtype=None, copy=None):
        return self.value if dtype is None else self.value.astype(dtype)


@pytest.fixture
def registered():
    with pytest.warns(DeprecationWarning, match="pytype_aval_mappings is deprecated"):
        rules = curta.core.pytype_aval_mappings
    rules[Variable] = rules[np.ndarray]
    handlers = xla.canonicalize_dtype_handlers
    handlers[Variable] = handlers[np.ndarray]
    yield
    del rules[Variable]


def test_instances_are_arrays(registered):
    x = Variable([1.0, 2.0])
    assert curta.numpy.sin(x).dtype == np.float32
    assert curta.jit(lambda x: 2 * x)(x).tolist() == [2, 4]
    assert curta.grad(lambda x: (x * x).sum())(x).tolist() == [2, 4]
    assert xla.canonicalize_dtype_handlers[Variable](x).dtype == np.float32


def test_handlers_of_its_own_are_refused(registered):
    with pytest.raises(NotImplementedError, match="__array__"):
        xla.canonicalize_dtype_handlers[Variable] = lambda x: x.value
    with pytest.raises(KeyError):
        xla.canonicalize_dtype_handlers[set]


def test_primitives_are_applied():
    assert xla.apply_primitive(curta.lax.cos_p, 0.0, accuracy=None) == 1


def test_names_that_moved():
    message = "Use curta.extend.core.DropVar"
    with jax_api_version("0.10"), pytest.warns(DeprecationWarning, match=message):
        assert curta.core.DropVar is curta.extend.core.DropVar
    message = "curta.errors.JaxprTypeError"
    with jax_api_version("0.10"), pytest.warns(DeprecationWarning, match=message):
        assert issubclass(curta.core.JaxprTypeError, TypeError)
    with pytest.raises(AttributeError, match="get_aval was removed. Use curta.typeof"):
        _ = curta.core.get_aval
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = curta.core.nothing


def test_the_mesh_of_a_block():
    assert pxla.thread_resources.env.physical_mesh.empty
    mesh = curta.make_mesh((1,), ("x",))
    with pytest.warns(DeprecationWarning), mesh:
        assert pxla.thread_resources.env.physical_mesh == mesh
