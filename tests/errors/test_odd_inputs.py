"""Nothing that a program passes ends the process: odd inputs give errors or values.

The functions get every combination of odd arguments in a process of their own, so that
a crash is a failure of one test.
"""

import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import itertools, warnings
import numpy as np
import curta, curta.numpy as jnp
from curta import lax, random
warnings.simplefilter("ignore")

class Odd:
    shape, dtype = (2,), np.dtype("float32")

class Hostile:
    def __array__(self, *args, **kwargs):
        raise RuntimeError("no")

cyclic = []
cyclic.append(cyclic)
deep = 0
for _ in range(100_000):
    deep = [deep]
ODD = [
    None, True, -1, 0, 2**41, 2**63, 2**100, -2**70, 1.5, float("nan"), float("inf"),
    1j, "a", "float32", b"bytes", bytearray(3), [], [1, [2]], [None], {}, {"a": 1},
    (), (1, 2), (-1,), (0, 3), ("x",), slice(None), slice(1, None, 0), Ellipsis,
    object(), int, len, np.float64("nan"), np.datetime64("2020"), np.array("s"),
    np.array([None]), np.array([], "V3"), np.zeros((0, 3)), np.zeros((2, 3))[::-1],
    np.arange(6, dtype=">i4"), np.zeros(3, [("a", int)]), np.ma.array([1.0], mask=[1]),
    np.matrix([[1.0]]), memoryview(b"xy"), range(3), iter([1]), Odd(), Hostile(),
    jnp.zeros(0), jnp.zeros((0, 2)), jnp.ones((2, 3)), jnp.arange(3), random.key(0),
    jnp.array(True), curta.ShapeDtypeStruct((2,), "float32"), cyclic,
]
count = 0

def attempt(f, *args, **kwargs):
    global count
    count += 1
    try:
        out = f(*args, **kwargs)
        curta.block_until_ready(out)
    except Exception:
        pass
"""

PROGRAMS = {
    "one argument": """
        functions = [
            jnp.sin, jnp.sum, jnp.sort, jnp.asarray, jnp.zeros, jnp.ones, jnp.arange,
            jnp.eye, jnp.unique, jnp.nonzero, jnp.concatenate, jnp.stack, jnp.argmax,
            jnp.cumsum, jnp.diag, jnp.dtype, jnp.squeeze, jnp.ravel, jnp.linspace,
            lax.neg, lax.exp, lax.sort, lax.rsqrt, lax.stop_gradient,
            random.key, random.PRNGKey, random.split, random.normal, random.key_data,
            curta.jit, curta.grad, curta.vmap, curta.device_put, curta.device_get,
            curta.typeof, curta.tree.leaves, curta.make_jaxpr, curta.checkpoint,
            curta.custom_jvp, curta.custom_vjp, curta.eval_shape, curta.devices,
            curta.jit(lambda x: x), curta.vmap(lambda x: x), curta.grad(lambda x: x),
            curta.jit(lambda x: x * 2 + 1), curta.hessian(jnp.sin), repr, str, bool,
        ]
        for f, x in itertools.product(functions, ODD):
            attempt(f, x)
    """,
    "two arguments": """
        x = jnp.arange(6.0).reshape(2, 3)
        functions = [
            jnp.add, jnp.matmul, jnp.reshape, jnp.broadcast_to, jnp.take, jnp.full,
            jnp.repeat, jnp.tile, jnp.roll, jnp.expand_dims, jnp.sum, jnp.pad,
            lax.add, lax.reshape, lax.rev, lax.top_k, lax.convert_element_type,
            lax.broadcast, lax.transpose, lax.squeeze, lax.cumsum,
            random.fold_in, random.split, random.bits, random.permutation,
        ]
        small = [y for y in ODD if not (isinstance(y, int) and abs(y) > 2**20)]
        for f, y in itertools.product(functions, small):
            attempt(f, x, y)
            attempt(f, y, x)
            attempt(curta.jit(lambda y: f(x, y)), y)
        for y in ODD:
            attempt(lambda: x[y])
            attempt(lambda: x.at[y].set(1.0))
            attempt(lambda: x.at[0].set(y))
            attempt(lambda: x + y)
            attempt(lambda: y @ x)
            attempt(lambda: x.astype(y))
            attempt(curta.jit(lambda x: x[y]), x)
    """,
    "axes and arguments of transformations": """
        x = jnp.arange(6.0).reshape(2, 3)
        for y in ODD:
            attempt(curta.vmap(jnp.sin, in_axes=0), y)
            attempt(lambda: curta.vmap(jnp.sin, in_axes=y)(x))
            attempt(lambda: curta.vmap(jnp.sin, out_axes=y)(x))
            attempt(lambda: curta.grad(lambda x: x.sum(), argnums=y)(x))
            attempt(lambda: curta.jit(lambda x, y: x, static_argnums=y)(x, y))
            attempt(lambda: curta.jit(lambda x, y: x, static_argnums=1)(x, y))
            attempt(lambda: curta.jit(lambda x: x, donate_argnums=y)(x + 0))
            attempt(lambda: curta.jit(lambda x: y)(x))
            attempt(lambda: curta.grad(lambda x: y)(1.0))
            attempt(lambda: curta.vmap(lambda x: y)(x))
            attempt(lambda: curta.jvp(jnp.sin, y, y))
            attempt(lambda: curta.vjp(jnp.sin, x)[1](y))
            attempt(lambda: lax.scan(lambda c, a: (c, a), y, y))
            attempt(lambda: lax.scan(lambda c, a: y, 0.0, x))
            attempt(lambda: lax.cond(y, lambda: 1, lambda: 2))
            attempt(lambda: lax.switch(y, [lambda: 1, lambda: 2]))
            attempt(lambda: lax.fori_loop(0, 3, lambda i, c: y, 0.0))
            attempt(lambda: curta.tree.map(lambda a, b: a, y, x))
            attempt(curta.config.update, y, y)
            attempt(curta.config.update, "jax_debug_nans", y)
            curta.config.update("jax_debug_nans", False)
    """,
    "sizes": """
        huge = [(2**41,), (2**62, 2), (2**31, 2**31, 2**31), (2**63 - 1,), (0, 2**62)]
        for shape in huge:
            for f in jnp.zeros, jnp.ones, jnp.empty, lambda s: jnp.full(s, 3):
                attempt(f, shape)
            attempt(lambda: jnp.broadcast_to(1.0, shape) + 1)
            attempt(curta.jit(lambda x: jnp.broadcast_to(x, shape) + 1), 1.0)
            attempt(random.normal, random.key(0), shape)
            if shape[0] > 2**40:  # fewer might fit in memory, and take long
                attempt(lambda: jnp.arange(shape[0]))
                attempt(lambda: jnp.eye(shape[0]))
            attempt(lambda: jnp.ones(4).reshape(shape))
        for shape in (0,), (0, 3), (2, 0, 3):
            x = jnp.zeros(shape)
            for f in (jnp.sin, jnp.sum, jnp.cumsum, jnp.sort, jnp.prod, jnp.max,
                      jnp.argmin, jnp.mean, lambda x: x @ x.T, lambda x: x[..., :0],
                      lambda x: jnp.concatenate([x, x]), lambda x: x.reshape(-1),
                      lambda x: lax.scan(lambda c, a: (c + 1, a), 0, x)):
                attempt(f, x)
                attempt(curta.jit(f), x)
                attempt(curta.vmap(f), x)
                attempt(curta.grad(lambda x: f(x).sum()), x)
    """,
    "recursion": """
        attempt(curta.tree.leaves, deep)
        attempt(curta.jit(lambda x: 1.0), deep)
        attempt(jnp.asarray, deep)
        attempt(curta.tree.map, lambda x: x, deep)

        def endless(x):
            return endless(x)

        attempt(curta.jit(endless), 1.0)
        attempt(curta.grad(endless), 1.0)
        attempt(curta.vmap(endless), jnp.ones(2))

        def chain(x):
            for _ in range(3000):
                x = x + 1
            return x

        attempt(curta.jit(chain), 1.0)
        attempt(curta.grad(chain), 1.0)
        f = jnp.sin
        for _ in range(30):
            f = curta.jit(f)
        attempt(f, 1.0)
        for _ in range(4):
            f = curta.grad(f)
        attempt(f, 1.0)
        a = {}
        a["self"] = a
        attempt(curta.jit(lambda d: 1.0), a)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_odd_inputs_do_no_harm(name):
    program = PRELUDE + textwrap.dedent(PROGRAMS[name]) + "\nprint(count)\n"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout.split()[-1]) > 10
