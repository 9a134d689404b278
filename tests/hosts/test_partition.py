"""Programs of one host, run on simulated hosts, against those of whole arrays."""

import re

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax, shard_map
from curta.config import enable_x64
from curta.hosts.simulated import run_on_hosts
from curta.partition.destinations import Destinations
from curta.partition.host_mesh import grouped
from curta.partition.own_host import one_program
from curta.partition.partition import partition
from curta.runtime.backends import executable
from curta.sharding import AxisType

RNG = np.random.default_rng(0)


def mesh_of(**axes):
    devices = np.array(curta.devices()[:8]).reshape(tuple(axes.values()))
    return curta.sharding.Mesh(devices, tuple(axes), (AxisType.Auto,) * len(axes))


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def parted(f, args, mesh, specs, count, outs=None):
    """The program of one of `count` hosts."""
    closed = curta.make_jaxpr(f)(*args)
    ins = [NamedSharding(mesh, spec) for spec in specs]
    if outs is None:
        found = Destinations(closed, (), ()).results(ins)
    else:
        found = [NamedSharding(mesh, spec) for spec in outs]
    hosts = grouped(mesh, tuple(i * count // 8 for i in range(8)))
    return partition(closed, mesh, ins, found, hosts)


def check(f, args, mesh, specs, count, outs=None):
    """Run on hosts, compare with whole arrays, and give the collectives."""
    local = parted(f, args, mesh, specs, count, outs)
    program, hosts = one_program(local.closed), local.hosts
    run = executable(program.closed)
    assert "host_index" not in str(program.closed)
    args = [np.asarray(x) for x in curta.tree.leaves(args)]

    def on(host):
        pairs = zip(args, local.in_splits, strict=True)
        parts = [x[hosts.index(host, x.shape, split)] for x, split in pairs]
        given = (*map(np.ascontiguousarray, parts), *program.numbers(host))
        return [np.array(x) for x in run(*given)]

    results = run_on_hosts(on, range(count))
    wanted = map(np.asarray, curta.tree.leaves(curta.jit(f)(*args)))
    for k, (want, split) in enumerate(zip(wanted, local.out_splits, strict=True)):
        found = np.empty_like(want)
        for host in range(count):
            found[hosts.index(host, want.shape, split)] = results[host][k]
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)
    return re.findall(r"host_(?!index)\w+", str(local.closed))


LINE, GRID = {"x": 8}, {"x": 4, "y": 2}
CASES = {
    "map": (lambda x: jnp.sin(x) + 1, [normal(16, 8)], LINE, [P("x")]),
    "product by rows": (
        lambda x, w: jnp.tanh(x @ w), [normal(16, 8), normal(8, 24)], LINE,
        [P("x"), P()],
    ),
    "product over parts": (
        lambda x, w: x @ w, [normal(16, 8), normal(8, 24)], LINE,
        [P(None, "x"), P("x")],
    ),
    "product of gathered": (
        lambda x, w: x @ w, [normal(16, 8), normal(8, 24)], LINE, [P("x"), P("x")],
    ),
    "product on a grid": (
        lambda x, w: jnp.maximum(x @ w, 0).sum(0), [normal(16, 8), normal(8, 24)],
        GRID, [P("x"), P(None, "y")],
    ),
    "folds": (
        lambda x: (x.sum(0), x.sum(1), x.max(), x.mean(), (x > 0).any(0)),
        [normal(16, 8)], LINE, [P("x")],
    ),
    "transpose and reshape": (
        lambda x: x.T.reshape(4, 2, -1) * 2, [normal(16, 8)], GRID, [P("x", "y")],
    ),
    "inner part of a reshape": (
        lambda x: x.reshape(4, 4, 8).swapaxes(0, 1).reshape(16, 8), [normal(16, 8)],
        GRID, [P("x")],
    ),
    "numbers": (
        lambda x: x + jnp.arange(16.0)[:, None], [normal(16, 8)], LINE, [P("x")]
    ),
    "random": (
        lambda x: x + curta.random.normal(curta.random.key(0), x.shape),
        [normal(16, 8)], LINE, [P("x")],
    ),
    "scan": (
        lambda x: lax.scan(
            lambda c, r: (jnp.sin(c) + r.sum(), c.sum()), x * 0, x[:5]
        ),
        [normal(16, 8)], LINE, [P("x")],
    ),
    "while": (
        lambda x: lax.while_loop(
            lambda c: c[1].sum() < 100.0, lambda c: (c[0] + 1, abs(c[1]) + 1), (0, x)
        ),
        [normal(16, 8)], LINE, [P("x")],
    ),
    "cond": (
        lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - x.mean(), x),
        [normal(16, 8)], LINE, [P("x")],
    ),
    "rows of a table": (
        lambda t, i: curta.value_and_grad(lambda t: (t[i] ** 2).sum())(t),
        [normal(32, 8), RNG.integers(0, 32, (16, 4))], LINE, [P(), P("x")],
    ),
    "neighbours": (
        lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) - 2 * x, [normal(16, 8)],
        LINE, [P("x")],
    ),
    "order": (
        lambda x: (jnp.cumsum(x, 0), jnp.sort(x, 1), jnp.argmax(x, 0)),
        [normal(16, 8)], LINE, [P("x")],
    ),
    "matrices": (
        lambda x: jnp.linalg.cholesky(x @ x.swapaxes(1, 2) + 5 * jnp.eye(4)),
        [normal(16, 4, 4)], LINE, [P("x")],
    ),
    "convolution": (
        lambda x, k: lax.conv(x, k, (1, 1), "SAME"),
        [normal(8, 4, 10, 10), normal(6, 4, 3, 3)], GRID, [P("x", "y"), P()],
    ),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("name", CASES)
def test_hosts_compute_what_one_does(name, count):
    f, args, axes, specs = CASES[name]
    check(f, args, mesh_of(**axes), specs, count)


def loss(w, v, x, y):
    return ((jnp.tanh(x @ w) @ v - y) ** 2).mean()


def test_a_step_meets_once_for_each_gradient():
    args = [normal(8, 16), normal(16, 4), normal(16, 8), normal(16, 4)]
    specs = [P(), P(), P("x"), P("x")]
    step = curta.value_and_grad(loss, (0, 1))
    found = check(step, args, mesh_of(x=8), specs, 8)
    assert found == ["host_bucket"]


def test_a_wanted_part_of_a_sum_is_scattered():
    args, specs = [normal(16, 8), normal(8, 24)], [P(None, "x"), P("x")]
    mesh = mesh_of(x=8)
    assert check(jnp.matmul, args, mesh, specs, 8, [P("x")]) == ["host_reduce_scatter"]


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize(
    ("body", "collective"),
    [
        (lambda x: x - lax.pmean(x, "x"), "host_reduce"),
        (lambda x: lax.ppermute(x, "x", [(i, i + 1) for i in range(7)]),
         "host_permute"),
        (lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), "host_exchange"),
        (lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
         "host_reduce_scatter"),
        (lambda x: lax.all_gather(x, "x", tiled=True).sum(0, keepdims=True) + x,
         "host_gather"),
        (lambda x: lax.psum(x, "x", axis_index_groups=[[0, 3, 4, 6], [1, 2, 5, 7]])
         + lax.axis_index("x"), "host_gather"),
    ],
)  # fmt: skip
def test_bodies_of_shard_map(body, collective, count):
    mesh = mesh_of(x=8)

    def f(x):
        specs = {"in_specs": P("x"), "out_specs": P("x"), "check_vma": False}
        return shard_map(body, mesh=mesh, **specs)(x)

    found = check(f, [normal(16, 8)], mesh, [P("x")], count)
    if count == 8:
        assert found == [collective]


def test_collectives_along_two_axes():
    mesh = mesh_of(x=4, y=2)

    def body(x):
        return lax.psum(x, ("x", "y")) + lax.axis_index("x")

    for count in (2, 4, 8):
        f = shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x"))
        check(f, [normal(16, 8)], mesh, [P("x", "y")], count)


def test_numbers_of_hosts_are_inputs_of_loops_branches_and_remats():
    def row(x):
        return jnp.cumsum(x) + x[::-1]

    bodies = {
        "cond": lambda x: lax.cond(x[0] > 0, row, lambda x: x, x),
        "scan": lambda x: lax.scan(lambda c, _: (row(c) / 9, c), x, None, length=2)[0],
        "while": lambda x: lax.while_loop(lambda x: row(x)[0] < 5, row, x),
        "remat": curta.grad(curta.checkpoint(lambda x: jnp.sum(row(jnp.sin(row(x)))))),
    }
    x = np.abs(normal(16))
    for body in bodies.values():
        local = parted(body, [x], mesh_of(x=8), [P("x")], 4)
        assert one_program(local.closed).groups
        check(body, [x], mesh_of(x=8), [P("x")], 4)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64", "float64"])
def test_numbers_of_all_widths(dtype):
    with enable_x64(True):
        check(lambda: lax.iota(dtype, 1024), [], mesh_of(x=8), [], 8, [P("x")])
