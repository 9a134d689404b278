"""Tier D: a process that is late at any stage is waited for, and all end in order.

The stages are functions of start, run and end; one of two processes comes late to one
of them. A program's result is not waited for, so that its devices may still be at work
when the process has come to its end.
"""

import subprocess
import sys
import textwrap

import pytest
from tests.accelerators.test_pjrt_endings import ended, environment  # noqa: F401

from curta.hosts.ports import free_port

# What is late: a function of which process; `how` the process ends.
PROGRAM = """
    import functools, sys, time
    import numpy as np
    import curta
    from curta import NamedSharding, P
    from curta.hosts import presence, processes, service, store, tcp
    from curta.runtime.pjrt import client, keyvalue
    process, late, stage, how = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]

    def delay(path):
        *owner, name = path.split(".")
        owner = functools.reduce(getattr, owner[1:], globals()[owner[0]])
        function = getattr(owner, name)
        def delayed(*args, **kwargs):
            time.sleep({delay})
            return function(*args, **kwargs)
        setattr(owner, name, delayed)

    if process == late:
        delay(stage)
    curta.distributed.initialize("localhost:{port}", 2, process)
    mesh = curta.make_mesh((4,), ("x",))
    rows = NamedSharding(mesh, P("x"))
    X = np.arange(8.0, dtype=np.float32)
    x = curta.make_array_from_callback(X.shape, rows, lambda index: X[index])
    y = curta.jit(lambda x: x.sum() + x.max())(x)  # not waited for
    if how == "result":
        assert float(y) == 35
    print("done", flush=True)
    if how != "end":
        curta.distributed.shutdown()
"""
DELAY = 1.0

STARTING = [
    ("processes.Service", 0),
    ("service.Service.join", 0),
    ("processes.StoreConnection", 0),
    ("processes.StoreConnection", 1),
    ("processes.Presence", 0),
    ("processes.Presence", 1),
    ("processes.connected", 0),
    ("processes.connected", 1),
    ("client.PluginClient.__init__", 0),
    ("client.PluginClient.__init__", 1),
    ("client.PluginClient.compile", 0),
    ("client.PluginClient.compile", 1),
    ("keyvalue.Callbacks._put", 0),
    ("keyvalue.Callbacks._put", 1),
]
ENDING = [
    ("keyvalue.Callbacks._get", 0),  # those that a device waits for
    ("keyvalue.Callbacks._get", 1),
    ("store.StoreConnection.barrier", 0),
    ("store.StoreConnection.barrier", 1),
    ("client.PluginClient.wait_for_programs", 0),
    ("client.PluginClient.wait_for_programs", 1),
    ("service.Service._heard", 0),
    ("presence.Presence.leave", 0),
    ("presence.Presence.leave", 1),
    ("service.Service.wait_until_left", 0),
    ("store.Server.close", 0),
    ("tcp.TCP.close", 0),
    ("tcp.TCP.close", 1),
    ("client.PluginClient.close", 0),
    ("client.PluginClient.close", 1),
]
# Those that are also come to without `shutdown`.
AT_THE_END = ("_get", "wait_for_programs", "leave", "close")
CASES = [
    *((stage, late, "result") for stage, late in STARTING),
    *((stage, late, "shutdown") for stage, late in ENDING),
    *((s, late, "end") for s, late in ENDING if s.endswith(AT_THE_END)),
]


@pytest.mark.parametrize(("stage", "late", "how"), CASES)
def test_all_end_in_order(stage, late, how, environment, tmp_path):  # noqa: F811
    code = textwrap.dedent(PROGRAM)
    code = code.replace("{port}", str(free_port())).replace("{delay}", str(DELAY))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(i), str(late), stage, how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "CURTA_CACHE_DIR": str(tmp_path / str(i))},
        )
        for i in range(2)
    ]
    try:
        for process in running:
            status, said = ended(process, 120)
            assert status == 0, said
            assert "Traceback" not in said and "curta:" not in said, said
    finally:
        for process in running:
            process.kill()
