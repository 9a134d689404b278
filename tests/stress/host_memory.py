"""An array of 8 GB over 8 simulated hosts: no host ever has more than its eighth.

    python -m tests.stress.host_memory --gigabytes 8

It is made by a callback and by programs, and computed with. The memory of hosts is
counted. The resident memory of the process shows that there is no other memory.
"""

from __future__ import annotations

import argparse
import resource
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import P
from curta.config import config
from curta.runtime.hosts_data import HostsData
from curta.sharding import AxisType, NamedSharding

HOSTS = 8


def most_held(x: Any) -> int:
    """The bytes of the host that has most of an array."""
    data = x._buffer()
    assert type(data) is HostsData
    return max(part.nbytes for part in data.parts.values())


def peak() -> int:
    """The most bytes of memory that the process ever had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(what: str, x: Any, total: int) -> None:
    """Print and check what hosts have of an array."""
    x.block_until_ready()
    most = most_held(x)
    print(f"{what}: {most:,} of {total:,} bytes on one host, {peak():,} in all")
    assert most == total // HOSTS


def main() -> None:
    """Make arrays of so many gigabytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=8.0)
    total = int(parser.parse_args().gigabytes * 2**30)
    config.update("jax_num_cpu_devices", HOSTS)
    config.update("curta_simulate_hosts", HOSTS)
    mesh = curta.make_mesh((HOSTS,), ("x",), (AxisType.Auto,))
    rows = NamedSharding(mesh, P("x"))
    shape = (HOSTS, total // 4 // HOSTS)
    begin = peak()

    def part(index: Any) -> Any:
        return np.ones((1, shape[1]), np.float32)

    x = curta.make_array_from_callback(shape, rows, part)
    measured("by a callback", x, total)
    x = curta.jit(lambda x: 2 * x + 1, donate_argnums=0)(x)
    measured("computed in place", x, total)
    assert float(x[3, 5]) == 3 and float(x.min()) == 3
    x.delete()
    x = curta.jit(lambda: jnp.ones(shape), out_shardings=rows)()
    measured("by a program", x, total)
    assert float(x.max()) == 1
    # One more part is there while a callback gives it.
    most = total + 2 * total // HOSTS + (256 << 20)
    assert peak() - begin <= most, f"{peak() - begin:,} > {most:,} bytes"


if __name__ == "__main__":
    main()
