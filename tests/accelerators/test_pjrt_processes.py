"""Tier D: processes that exchange keys, and run programs over all their devices.

The topology is built by XLA's own protocol, in the shim, over the callbacks; its
collectives are exchanges of keys. The test covers the binding and XLA's partitioner.
"""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from tests.accelerators import shim

from curta.hosts.ports import free_port
from curta.hosts.store import Server

TIMEOUT = 300

STORE = """
    import os, sys
    from curta.hosts.store import Store
    from curta.runtime.pjrt.keyvalue import Callbacks
    process, count = int(sys.argv[1]), {count}
    store = Store(({host!r}, {port}), timeout=60)
"""

PROGRAM = """
    import sys
    import numpy as np
    import curta
    import curta.numpy as jnp
    from curta import NamedSharding, P
    from curta.experimental import multihost_utils
    process, count = int(sys.argv[1]), {count}
    curta.distributed.initialize("localhost:{port}", count, process)
    mesh = curta.make_mesh((2 * count,), ("x",))
    rows, whole = (NamedSharding(mesh, spec) for spec in (P("x"), P()))
    X = np.arange(12.0 * count, dtype=np.float32).reshape(4 * count, 3)
    x = curta.make_array_from_callback(X.shape, rows, lambda index: X[index])
    own = slice(4 * process, 4 * process + 4)

    def here(x):
        return np.concatenate([s.data for s in x.addressable_shards])

"""


def together(count, code, **environment):
    """Run code in several processes, which share a store; what each prints."""
    server = Server()
    host, port = server.address
    try:
        head = textwrap.dedent(STORE).format(count=count, host=host, port=port)
        return started(count, head + textwrap.dedent(code), **environment)
    finally:
        server.close()


@pytest.fixture(scope="module")
def of_the_shim(tmp_path_factory):
    """Make devices of the shim, two per process, the default ones."""
    described = tmp_path_factory.mktemp("shim") / "shim.json"
    options = {"library_path": str(shim.build())}
    options["create_options"] = {"cpu_device_count": 2}
    described.write_text(json.dumps(options))
    return {
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"shim{os.pathsep}{described}",
        "JAX_PLATFORMS": "shim,cpu",
    }


def program(count, code, environment):
    """Run code in the processes of one program; what each prints."""
    head = textwrap.dedent(PROGRAM).format(count=count, port=free_port())
    end = "\ncurta.distributed.shutdown()\n"
    return started(count, head + textwrap.dedent(code) + end, **environment)


def started(count, code, **environment):
    """Run code in several processes; what each prints."""
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
        ended = [process.communicate(timeout=TIMEOUT) for process in running]
    finally:
        for process in running:
            process.kill()
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


@pytest.mark.parametrize("count", [2, 4])
class TestPrograms:
    def test_devices_are_numbered(self, count, of_the_shim):
        said = program(
            count,
            """
            devices, local = curta.devices(), curta.local_devices()
            assert len(devices) == 2 * count and local == devices[2 * process :][:2]
            assert [d.process_index for d in devices[::2]] == [*range(count)]
            print(curta.process_index(), curta.process_count(), curta.default_backend())
            assert jnp.zeros(3).devices() == {local[0]}
            """,
            of_the_shim,
        )
        assert said == [f"{i} {count} shim\n" for i in range(count)]

    def test_arrays(self, count, of_the_shim):
        said = program(
            count,
            """
            assert not x.is_fully_addressable and len(x.addressable_shards) == 2
            assert np.array_equal(here(x), X[own])
            assert np.array_equal(here(curta.device_put(X, rows)), X[own])
            parts = [s.data for s in x.addressable_shards]
            y = curta.make_array_from_single_device_arrays(x.shape, rows, parts)
            assert np.array_equal(here(y), X[own])
            z = curta.make_array_from_process_local_data(rows, X[own])
            assert np.array_equal(here(z), X[own])
            assert np.array_equal(curta.device_put(x, whole), X)
            assert np.array_equal(
                multihost_utils.process_allgather(x, tiled=True), X
            )
            elsewhere = lambda x: curta.device_put(x, curta.devices()[0])
            for wrong in (np.asarray, elsewhere):
                try: wrong(x)
                except (RuntimeError, ValueError) as error: print(type(error).__name__)
            """,
            of_the_shim,
        )
        assert said == ["RuntimeError\nValueError\n"] * count

    def test_programs_without_and_with_collectives(self, count, of_the_shim):
        said = program(
            count,
            """
            out = curta.jit(lambda x: x * 2 + 1)(x)
            assert out.sharding.is_equivalent_to(rows, 2)
            assert np.array_equal(here(out), 2 * X[own] + 1)
            assert np.array_equal(here(x + x), 2 * X[own])
            total = curta.jit(jnp.sum)(x)
            assert total.is_fully_replicated and float(total) == X.sum()
            grad = curta.grad(lambda x: (x * x).sum())(x)
            assert np.array_equal(here(grad), 2 * X[own])
            product = curta.jit(lambda x: x.T @ x)(curta.device_put(x, whole))
            assert np.allclose(product, X.T @ X)
            sums = curta.shard_map(
                lambda x: curta.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"),
                out_specs=P(),
            )
            wanted = X.reshape(2 * count, 2, 3).sum(0)
            assert np.allclose(curta.jit(sums)(x), wanted)
            step = curta.jit(lambda x: x - 0.5, donate_argnums=0)
            assert np.array_equal(here(step(out)), 2 * X[own] + 0.5)
            assert out.is_deleted()
            print("done")
            """,
            of_the_shim,
        )
        assert said == ["done\n"] * count

    def test_shutdown_waits_for_programs_that_still_run(self, count, of_the_shim):
        said = program(
            count,
            """
            total = curta.jit(lambda x: x.sum(0) + x.max(0))
            for _ in range(20):
                total(x)
            print("done")
            """,
            of_the_shim,
        )
        assert said == ["done\n"] * count


def test_bad_values_are_found_in_the_own_part(of_the_shim):
    said = program(
        2,
        """
        with curta.debug_nans(True):
            y = curta.jit(lambda x: x + 1)(x)
            for f in (lambda x: jnp.log(x - 3), curta.jit(lambda x: jnp.log(x - 3))):
                try:
                    print(bool(here(f(x)).min() > 0))
                except FloatingPointError as error:
                    print(str(error).partition(" at ")[0])
        """,
        of_the_shim,
    )
    found = [
        f"invalid value (nan) encountered in {name}"
        for name in ("log", "jit(<lambda>)")
    ]
    assert [text.splitlines() for text in said] == [found, ["True"] * 2]
