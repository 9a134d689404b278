"""`explain` of programs over several hosts."""

import numpy as np
from tests.hosts.simulated_hosts import four_hosts  # noqa: F401

import curta
from curta import P
from curta.sharding import AxisType, NamedSharding


def test_collectives_between_hosts_are_shown():
    mesh = curta.make_mesh((8,), ("x",), (AxisType.Auto,))
    split = NamedSharding(mesh, P("x"))
    x = curta.device_put(np.ones((16, 4), np.float32), split)

    def total(x):
        return (x * x).sum(0)

    found = curta.explain(total, seconds=0.0)(x)
    head, one = found.cost.collectives
    # A sum of four numbers: 2 (n - 1)/n times 16 bytes leave each of four hosts.
    assert head == "24 bytes leave each host"
    assert one.startswith("all_reduce over x (4 hosts), 24 bytes: ")
    assert "test_explained.py" in one and one in str(found)
    whole = curta.explain(total, seconds=0.0)(np.ones((16, 4), np.float32))
    assert not whole.cost.collectives
