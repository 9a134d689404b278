"""Code for older processors: the same numbers, in narrower vectors."""

import json
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json
from curta.compiler.host_target import host
import curta, curta.numpy as jnp
from curta.compiler import code_generator
x = jnp.linspace(-3, 3, 1000)
f = curta.jit(lambda x: [jnp.sin(x) * jnp.exp(x), jnp.cumsum(x), jnp.sort(-x)])
bits = curta.random.bits(curta.random.key(0), (64,))
print(json.dumps([host().vector_bytes, *[v.tolist() for v in [*f(x), bits]]]))
"""

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="levels of the x86-64 instruction set"
)


def run(level):
    environment = {**os.environ, "CURTA_CPU": level}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )


def test_levels_agree():
    width, *host = json.loads(run("host").stdout)
    for level, widest in ("x86-64", 16), ("x86-64-v3", 32):
        found = run(level)
        if "lacks" in found.stderr:
            continue
        narrow, *values = json.loads(found.stdout)
        assert narrow == widest <= width
        for x, y in zip(values, host, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-3)
        assert values[-1] == host[-1]  # bits are the same ones


def test_levels_that_there_are_none_of():
    assert "x86-64-v9" in run("x86-64-v9").stderr
