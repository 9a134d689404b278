"""Arrays and programs on devices of a plugin: the tests of `on_devices`, and a part of
the suite's own, in a process whose default device is one of four of the shim's."""

import json
import os
import subprocess
import sys

import pytest

from accelerators.shim import build

SUITE = [
    "tests/numpy/test_operators.py",
    "tests/numpy/test_indexing.py",
    "tests/numpy/test_reductions.py",
    "tests/random/test_gamma_loops.py",
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    described = folder / "shim.json"
    options = {"cpu_device_count": 4}
    said = {"library_path": os.fspath(build()), "create_options": options}
    described.write_text(json.dumps(said))
    return {
        **os.environ,
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"shim:{described}",
        "JAX_PLATFORMS": "shim,cpu",
        # TensorFlow's default would have maxima pass over NaNs.
        "XLA_FLAGS": "--xla_cpu_enable_fast_min_max=false",
        "CURTA_CACHE_DIR": os.fspath(folder / "cache"),
        "CURTA_ON_DEVICES": "1",
    }


@pytest.mark.parametrize("part", ["accelerators/on_devices", *SUITE])
def test_on_devices(part, environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", part]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_program_that_never_asks_for_devices(environment):
    program = (
        "import curta.numpy as jnp; x = jnp.arange(3.0) + 1;"
        " assert x._data is None; print(x.devices())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "{ShimDevice(id=0)}", done.stderr[-2000:]
