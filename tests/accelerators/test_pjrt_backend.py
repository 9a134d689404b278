"""Tier C: whole programs by CURTA_BACKEND=pjrt:NAME, against the CPU's own compiler."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from tests.accelerators import shim

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.experimental import io_callback
from curta.runtime.pjrt.backend import PluginExecutable
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.library import open_library
from curta.runtime.transfer import to_array


@pytest.fixture(scope="module")
def client():
    client = PluginClient(open_library(shim.build(), "shim"))
    yield client
    client.close()


def loss(x, y):
    return jnp.tanh(x @ y).sum()


def loop(n):
    return lax.fori_loop(0, n, lambda i, a: (a[0] * 1.5, a[1] + i), (1.0, 0))


X = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
PROGRAMS = {
    "matmul": (loss, X, X.T),
    "gradient": (curta.grad(loss), X, X.T),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x, 0)), X),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), X),
    "loop": (loop, 7),
    "branch": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), X),
    "indexing": (lambda x: x.at[jnp.array([3, 1])].add(x[::2][:2]), X),
    "narrow": (lambda x: (x.astype("bfloat16") * 2, x.astype("int4")), X),
    "complex": (lambda x: jnp.abs(jnp.exp(1j * x)), X),
    "nothing": (lambda x: (), X),
    "constants": (lambda x: x + jnp.asarray(X), X),
    "random": (lambda s: random.normal(random.key(s), (7,)), 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(client, name):
    function, *args = PROGRAMS[name]
    closed = curta.make_jaxpr(function)(*args)
    stored = [to_array(jnp.asarray(x))._storage() for x in args]
    found = PluginExecutable(closed, client)(*stored)
    expected = curta.tree_util.tree_leaves(curta.jit(function)(*args))
    for got, want in zip(found, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        wide = [np.asarray(x).astype(np.complex64) for x in (got, want)]
        np.testing.assert_allclose(*wide, rtol=2e-5, atol=1e-5)


def test_keys(client):
    keys = random.split(random.key(0), 3)
    closed = curta.make_jaxpr(lambda k: random.split(k[1]))(keys)
    (found,) = PluginExecutable(closed, client)(to_array(keys)._storage())
    expected = random.split(keys[1])
    np.testing.assert_array_equal(found, to_array(expected)._storage())


def test_calls_of_python(client):
    def fun(x):
        y = curta.pure_callback(np.sin, x, x)
        return y, io_callback(lambda x: x.sum(), curta.ShapeDtypeStruct((), x.dtype), y)

    closed = curta.make_jaxpr(fun)(X)
    run = PluginExecutable(closed, client)
    for _ in range(2):
        y, total = run(X)
        np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(total, y.sum(), rtol=1e-6)


def test_a_plugin_that_cannot_call_python_says_so(client, monkeypatch):
    monkeypatch.setattr(client.library, "calls_python", False)
    shape = curta.ShapeDtypeStruct((5, 5), np.float32)
    closed = curta.make_jaxpr(lambda x: curta.pure_callback(np.sin, shape, x))(X)
    with pytest.raises(NotImplementedError, match="programs cannot call Python"):
        PluginExecutable(closed, client)


def run(code, **environment):
    """The report of a process with arrays on the host; the shim can run programs."""
    given = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"shim{os.pathsep}{shim.build()}",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **environment,
    }
    head = "import numpy as np, curta, curta.numpy as jnp\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=given,
        timeout=300,
    )


def test_the_environment_chooses_the_plugin():
    done = run(
        """
        from curta.runtime.pjrt import plugins
        x = jnp.arange(4.0)
        f = curta.jit(lambda x: curta.grad(lambda y: (y**3).sum())(x))
        print(f(x))
        print(len(plugins.client("shim").executables) > 0)
        """,
        CURTA_BACKEND="pjrt:shim",
    )
    assert done.stdout == "[ 0.  3. 12. 27.]\nTrue\n", done.stderr


def test_a_second_process_compiles_nothing(tmp_path):
    code = """
        from curta.runtime.pjrt.client import Client
        compiled = []
        compile = Client.compile
        Client.compile = lambda *args: compiled.append(1) or compile(*args)
        print(curta.jit(lambda x: jnp.sin(x).sum())(jnp.ones(3)), len(compiled))
    """
    given = {"CURTA_BACKEND": "pjrt:shim", "CURTA_CACHE_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    first, second = run(code, **given), run(code, **given)
    *value, compiled = first.stdout.split()
    assert int(compiled) > 0, first.stderr
    assert second.stdout.split() == [*value, "0"], second.stderr
    changed = run(code, **given, XLA_FLAGS="--xla_cpu_enable_fast_math=false")
    assert changed.stdout.split() == [*value, compiled], changed.stderr


def test_a_plugin_that_is_not_there():
    done = run("curta.jit(jnp.sin)(1.0)", CURTA_BACKEND="pjrt:nowhere")
    assert "Unknown backend: 'nowhere' requested" in done.stderr


def test_plugins_are_loaded_by_those_who_ask():
    done = run(
        """
        import sys
        print(curta.jit(lambda x: x + 1)(jnp.arange(3)))
        names = [m for m in sys.modules if "pjrt" in m or "stablehlo" in m]
        print([m for m in names if not m.endswith(("pjrt", "presence"))])
        """
    )
    assert done.stdout == "[1 2 3]\n[]\n", done.stderr
