"""Tier D: processes that exchange keys, and build a topology of all their devices.

The topology is built by XLA's own protocol, in the shim, over the callbacks.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from accelerators import shim
from curta.hosts.store import Server


def together(count, code, **environment):
    """Run code in several processes; what each prints."""
    server = Server()
    host, port = server.address
    head = f"""
        import os, sys
        from curta.hosts.store import Store
        from curta.runtime.pjrt.keyvalue import Callbacks
        process, count = int(sys.argv[1]), {count}
        store = Store(({host!r}, {port}), timeout=60)
    """
    code = textwrap.dedent(head) + textwrap.dedent(code)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
        )
        for i in range(count)
    ]
    try:
        ended = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
        server.close()
    for process, (_, errors) in zip(running, ended):
        assert process.returncode == 0, errors
    return [out for out, _ in ended]


@pytest.mark.parametrize("count", [2, 4])
def test_keys_are_exchanged(count):
    said = together(
        count,
        """
        store.put(f"said/{process}", b"x" * (process + 1) * 100_000)
        print([len(store.get(f"said/{i}", 60)) for i in range(count)])
        for turn in range(20):
            store.barrier("turns", count, 60)
            store.put(f"turn/{turn}/{process}", b"here")
            store.barrier("turns", count, 60)
            assert all(store.try_get(f"turn/{turn}/{i}") for i in range(count))
        """,
    )
    assert said == [f"{[100_000 * (i + 1) for i in range(count)]}\n"] * count


@pytest.mark.parametrize("count", [2, 4])
def test_a_topology_of_all_processes(count):
    said = together(
        count,
        """
        from curta.runtime.pjrt.client import Client
        from curta.runtime.pjrt.library import open_library
        options = {"node_id": process, "num_nodes": count, "cpu_device_count": 2}
        library = open_library(os.environ["SHIM"], "shim")
        client = Client(library, options, Callbacks(store, "shim:"))
        print(client.platform_version.rpartition("; ")[2])
        assert store.get(f"shim:global_topology/shim", 1)
        """,
        SHIM=str(shim.build()),
    )
    assert said == [f"{count} processes, {2 * count} devices\n"] * count


def test_a_process_that_is_missing_is_named():
    (said,) = together(
        1,
        """
        from curta.errors import JaxRuntimeError
        try: store.barrier("start", 2, 0.1)
        except JaxRuntimeError as error: print(error)
        """,
    )
    assert said == (
        "DEADLINE_EXCEEDED: waited 0.1 s at barrier 'start' for 2 processes\n"
    )
