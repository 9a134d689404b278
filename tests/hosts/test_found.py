"""Programs that tests/stress/hosts.py found, on simulated hosts, and host numbers."""

from functools import partial
from pathlib import Path

import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.stress.fuzz.programs import Program
from tests.stress.hosts import as_arrays, check, on_hosts

import curta
import curta.numpy as jnp
from curta import P, lax
from curta.config import config
from curta.sharding import AxisType

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.fixture(params=[4, 8])
def hosts(request, eight_devices):  # noqa: F811
    before = config.curta_simulate_hosts
    config.update("curta_simulate_hosts", request.param)
    yield request.param
    config.update("curta_simulate_hosts", before)


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_it_does_as_in_one_process(path, hosts):
    program = Program.from_json(path.read_text())
    for _ in range(4):
        check(program, as_arrays)


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
@pytest.mark.parametrize("compiled", [False, True])
def test_its_parts_do(path, compiled, eight_devices):  # noqa: F811
    check(Program.from_json(path.read_text()), partial(on_hosts, compiled=compiled))


INDEXED = {
    "branch": lambda x, i: lax.cond(x[0] > -1, lambda x: x + i(), lambda x: x, x),
    "loop": lambda x, i: lax.fori_loop(0, 3, lambda k, x: x + i(), x),
    "scan": lambda x, i: lax.scan(lambda x, k: (x + i(), k), x, jnp.arange(3))[0],
    "branch of a loop": lambda x, i: lax.fori_loop(
        0, 3, lambda k, x: lax.cond(k > 0, lambda x: x + i(), lambda x: x, x), x
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_each_host_has_its_number_within_loops_and_branches(name, hosts):
    """In small ones, code in registers had the number of one host as a constant."""
    mesh = curta.make_mesh((8,), ("x",), (AxisType.Auto,))
    body = partial(INDEXED[name], i=lambda: lax.axis_index("x").astype(float))
    f = curta.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    given = jnp.zeros(8)
    times = {"branch": 1, "branch of a loop": 2}.get(name, 3)
    assert curta.jit(f)(given).tolist() == [times * n for n in range(8)]
