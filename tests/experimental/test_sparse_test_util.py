"""The tools for tests of functions of sparse arrays."""

import unittest

import numpy as np
import pytest

import curta.numpy as jnp
from curta.experimental import sparse

pytest.importorskip("absl", reason="test cases take parameters by absl-py")
from curta.experimental.sparse import test_util


def run(name, method):
    """The failures of a test case with one method."""
    case = type("Case", (test_util.SparseTestCase,), {name: method})(name)
    result = unittest.TestResult()
    case.run(result)
    return [text for _, text in result.failures + result.errors]


def test_random_arrays():
    rng = np.random.RandomState(0)
    m = test_util.rand_bcoo(rng, n_batch=1, n_dense=1)((2, 3, 4), np.complex64)
    assert (m.n_batch, m.n_dense, m.nse, m.dtype) == (1, 1, 2, np.complex64)
    m = test_util.rand_bcsr(rng, nse=5)((3, 4), np.float32)
    assert isinstance(m, sparse.BCSR) and m.nse == 5
    x = test_util.rand_sparse(rng, nse=0.25)((4, 4), np.uint8)
    assert isinstance(x, np.ndarray) and np.count_nonzero(x) <= 4
    with pytest.raises(ValueError, match="2 sparse dimensions"):
        test_util.rand_bcsr(rng)((3,), np.float32)
    with pytest.raises(ValueError, match="Invalid parameters"):
        test_util.rand_bcoo(rng, n_batch=2)((3,), np.float32)


def test_layouts():
    found = list(test_util.iter_sparse_layouts((3, 4), min_n_batch=1))
    assert [tuple(layout) for layout in found] == [(1, 0, 1), (1, 1, 0), (2, 0, 0)]
    assert [tuple(s) for s in test_util.iter_bcsr_layouts((3, 4))] == [(0, 0, 2)]


def test_comparisons():
    def good(self):
        draw = test_util.rand_bcoo(self.rng(), n_batch=1)

        def args():
            return [draw((2, 3), np.float32), jnp.arange(3.0)]

        def product(x, v):
            return x @ v

        self._CheckAgainstDense(product, product, args, tol=1e-5)
        self._CheckGradsSparse(product, product, args, rtol=1e-5)
        self._CheckBatchingSparse(product, product, args, tol=1e-5)
        self._CompileAndCheck(product, args, tol=1e-5)
        self._CheckAgainstNumpy(lambda x, v: x.todense() @ v, product, args, tol=1e-5)

    assert run("test_good", good) == []

    def wrong_value(self):
        draw = test_util.rand_bcoo(self.rng())
        args = [draw((2, 3), np.float32)]
        self._CheckAgainstDense(lambda x: 2 * x, lambda x: x, lambda: args)

    assert "Mismatched elements" in run("test_wrong_value", wrong_value)[0]

    def wrong_dtype(self):
        self.assertAllClose(jnp.ones(2), jnp.ones(2, int))

    assert "float32" in run("test_wrong_dtype", wrong_dtype)[0]

    def wrong_knowledge(self):
        m = sparse.BCOO.fromdense(jnp.eye(2))
        self.assertSparseArraysEquivalent(m, m.replaced(m.data, unique_indices=False))

    assert "BCOO" in run("test_wrong_knowledge", wrong_knowledge)[0]
