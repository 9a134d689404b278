"""Tier A: loops, windows and indices of symbolic sizes, at several actual ones."""

import numpy as np
import pytest
from tests.accelerators import xla
from tests.accelerators.test_sizes import at_sizes
from tests.export.test_symbolic_programs import FUNCTIONS

import curta
import curta.numpy as jnp
from curta import export, lax, tree_util

MORE = {
    "places": lambda x: (x.argmax(0), x.argmin(1)),
    "reversed": lambda x: lax.cumsum(x, 0, reverse=True),
    "gather": lambda x: x.at[jnp.array([0, 7])].get(mode="fill"),
    "gather, clipped": lambda x: x.at[jnp.array([0, 7])].get(mode="clip"),
    "scatter, clipped": lambda x: x.at[jnp.array([0, 7])].add(1.0, mode="clip"),
    "small indices": lambda x: lax.gather(
        x,
        jnp.array([[1], [9]], jnp.int8),
        lax.GatherDimensionNumbers((1,), (0,), (0,)),
        (1, x.shape[1]),
        mode="fill",
    ),
    "scan backwards": lambda x: lax.scan(
        lambda c, row: (c + row.sum(), row * 2), 0.0, x, reverse=True
    ),
    "scan with a carry of that size": lambda x: lax.scan(
        lambda c, y: (c + y, c.sum()), x, jnp.arange(3.0)
    ),
    "derivative of a scan": curta.grad(
        lambda x: lax.scan(lambda c, row: (jnp.sin(c + row.sum()), c), 0.0, x)[1].sum()
    ),
}
PROGRAMS = FUNCTIONS | MORE
for name in ("linear algebra", "fft"):  # not of symbolic sizes
    del PROGRAMS[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_of_symbolic_sizes(name):
    fun = PROGRAMS[name]
    constraints = ("b >= 3", "n >= 3", "n <= b")
    args = (jnp.ones((4, 4)),)
    specs = export.symbolic_args_specs(args, "b, n", constraints=constraints)
    text = export.export(curta.jit(fun))(*specs).mlir_module()
    xla.parse(text)
    for size in (4, 3), (5, 4):
        x = np.cos(np.arange(np.prod(size), dtype=np.float32)).reshape(size)
        found = xla.run(xla.refined(at_sizes(text, [x])), [x])
        wanted = tree_util.tree_leaves(fun(jnp.asarray(x)))
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
