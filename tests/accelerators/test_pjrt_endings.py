"""Tier D: a process that ends at any stage ends the others, which say why.

The cases are the cause of its end, and the stage of the other processes. All end within
seconds; the time limits are far longer.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from tests.accelerators import shim

from curta.hosts.ports import free_port

# What ends process 1: `die()` at the stage of a test.
PROGRAM = """
    import os, signal, sys, time
    import numpy as np
    import curta
    from curta import NamedSharding, P
    from curta.hosts import processes
    from curta.runtime.pjrt import client, keyvalue
    process, how, stage = int(sys.argv[1]), sys.argv[2], sys.argv[3]

    def die():
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "exit":
            sys.exit(3)
        raise ValueError("process 1 gives up")

    def dies_at(name):
        return process == 1 and stage == name

    if dies_at("initialize"):
        processes.connected = lambda *args: die()
    if dies_at("client"):
        keyvalue.Callbacks._put = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    if dies_at("compile"):
        client.PluginClient.compile = lambda *args: die()
    curta.distributed.initialize("localhost:{port}", 2, process)
    if dies_at("devices"):
        die()
    mesh = curta.make_mesh((4,), ("x",))
    rows = NamedSharding(mesh, P("x"))
    X = np.arange(8.0, dtype=np.float32)
    x = curta.make_array_from_callback(X.shape, rows, lambda index: X[index])
    total = curta.jit(lambda x: x.sum())
    if dies_at("before"):
        die()
    if stage != "begun" or process == 1:
        y = total(x)  # not waited for
    if dies_at("begun"):
        die()
    if stage == "begun":
        time.sleep(100)  # in nothing that could be woken
    print(float(y), flush=True)
    if dies_at("shutdown"):
        die()
    curta.distributed.shutdown()
"""

STAGES = [
    ("initialize", "kill"),
    ("client", "kill"),
    ("devices", "kill"),
    ("compile", "kill"),
    ("compile", "raise"),
    ("before", "kill"),
    ("before", "exit"),
    ("begun", "kill"),
    ("begun", "raise"),
    ("begun", "exit"),
    ("shutdown", "kill"),
    ("shutdown", "raise"),
]
SAID = {
    "kill": "process 1 is gone",
    "raise": "process 1 failed: ValueError: process 1 gives up",
    "exit": "process 1 failed: sys.exit(3)",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    described = tmp_path_factory.mktemp("shim") / "shim.json"
    said = {"library_path": str(shim.build())}
    said["create_options"] = {"cpu_device_count": 2}
    described.write_text(json.dumps(said))
    return {
        **os.environ,
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"shim{os.pathsep}{described}",
        "JAX_PLATFORMS": "shim,cpu",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def ended(process, seconds):
    """The status of a process, which must end by itself, and what it said."""
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        pytest.fail(f"still there after {seconds} s; it said\n{said}")
    return process.returncode, said


@pytest.mark.parametrize(("stage", "how"), STAGES)
def test_the_others_end(stage, how, environment, tmp_path):
    code = textwrap.dedent(PROGRAM).replace("{port}", str(free_port()))
    stays, ends = (
        subprocess.Popen(
            [sys.executable, "-c", code, str(i), how, stage],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # What is kept there, by the other process too, is not compiled.
            env={**environment, "CURTA_CACHE_DIR": str(tmp_path / str(i))},
        )
        for i in range(2)
    )
    try:
        status, said = ended(ends, 120)
        assert status != 0, said
        status, said = ended(stays, 45)
        assert status != 0
        assert SAID[how] in said
    finally:
        for process in (stays, ends):
            process.kill()
