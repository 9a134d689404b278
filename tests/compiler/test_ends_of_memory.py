"""Compiled code reads nothing before the first and behind the last element."""

import ctypes
import mmap
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, nn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
PAGE = mmap.PAGESIZE


def between_guards(x, at_end):
    """A copy with an inaccessible page behind it, or before it."""
    pages = -(-x.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for guard in 0, pages + 1:
        address = ctypes.c_void_p(start + guard * PAGE)
        assert protect(address, ctypes.c_size_t(PAGE), 0) == 0
    first = PAGE + (pages * PAGE - x.nbytes if at_end else 0)
    result = np.frombuffer(memory, x.dtype, x.size, first).reshape(x.shape)
    result[...] = x
    return result


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


PROGRAMS = {
    "map": (lambda x: jnp.sin(x) + 1, [normal(10007)]),
    "sum": (lambda x: x.sum(), [normal(10007)]),
    "columns": (lambda x: x.sum(0), [normal(301, 67)]),
    "columns, every other": (lambda x: x[:, ::2].sum(0), [normal(301, 67)]),
    "columns of complex numbers": (
        lambda x: x.sum(0),
        [normal(301, 38).view(np.complex64)],
    ),
    "a narrow array": (lambda x: x.sum(0), [normal(10007, 3)]),
    "reversed": (lambda x: x[::-1, ::-1] * 2, [normal(301, 67)]),
    "transposed": (lambda x: x.T + 1, [normal(301, 67)]),
    "strided": (lambda x: x[1::3, ::2] + 1, [normal(301, 67)]),
    "cumulative": (lambda x: jnp.cumsum(x, 1), [normal(301, 67)]),
    "product": (lambda x, y: x @ y, [normal(61, 67), normal(67, 59)]),
    "transposed product": (lambda x, y: x.T @ y.T, [normal(67, 61), normal(59, 67)]),
    "batch of products": (lambda x, y: x @ y, [normal(301, 5, 5), normal(301, 5, 3)]),
    "convolution": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        [normal(2, 5, 13, 11), normal(7, 5, 3, 3)],
    ),
    "shifted": (lambda x: x[1:-1] - 2 * x[2:] + x[:-2], [normal(10007)]),
    "periodic": (lambda x: x[(jnp.arange(3001) - 3) % 3001], [normal(3001)]),
    "circulant": (
        lambda x: x[(jnp.arange(67)[:, None] - jnp.arange(67)) % 67],
        [normal(67)],
    ),
    "rows of a torus": (lambda x: x[(jnp.arange(31) + 3) % 31], [normal(31, 67)]),
    "packed products": (
        lambda x, y: jnp.matmul(
            x.astype("bfloat16"), y.astype("bfloat16"), preferred_element_type="float32"
        ),
        [normal(61, 67), normal(67, 59)],
    ),
    "sorted": (lambda x: jnp.sort(x), [normal(37, 29)]),
    "Cholesky": (
        lambda x: jnp.linalg.cholesky(x @ x.swapaxes(1, 2) + 9 * jnp.eye(5)),
        [normal(37, 5, 5)],
    ),
} | {
    f"rows of {width}, {rows} of them": (
        lambda x: (x.sum(1), nn.softmax(x)),
        [normal(rows, width)],
    )
    for width in (3, 8, 12)
    for rows in (20001, 20004, 20016)
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_else_is_read(name):
    fun, args = PROGRAMS[name]
    compiled = curta.jit(fun)
    want = curta.tree.map(np.asarray, compiled(*args))
    for at_end in True, False:
        got = compiled(*[between_guards(x, at_end) for x in args])
        curta.tree.map(np.testing.assert_array_equal, got, want)
