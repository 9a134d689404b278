"""Tier A: programs over four devices, run by XLA, against Curta's own results."""

import warnings

import numpy as np
import pytest
from tests.accelerators import xla

import curta
import curta.numpy as jnp
from curta import lax
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P

curta.config.update("jax_num_cpu_devices", 4)

X = np.arange(128, dtype=np.float32).reshape(16, 8) % 11 - 5


def mesh(shape=(4,), names=("i",), kind=AxisType.Auto):
    return curta.make_mesh(shape, names, (kind,) * len(shape))


def check(fun, *args):
    """Compare XLA's results with Curta's, for arguments that are placed."""
    fun = curta.jit(fun)
    lowered = fun.lower(*args)
    text = lowered.as_text()
    cut = [[*x.sharding.devices_indices_map(x.shape).values()] for x in args]
    wanted = curta.tree.leaves(fun(*args))
    shapes = [x.shape for x in wanted]
    found = xla.run_partitioned(text, [np.asarray(x) for x in args], cut, shapes)
    for parts, want in zip(found, wanted, strict=True):
        for place, part in parts:
            np.testing.assert_array_equal(part, np.asarray(want)[place])


def put(x, over, *entries):
    return curta.device_put(x, NamedSharding(over, P(*entries)))


def mapped(body, outs, **options):
    return curta.shard_map(
        body, mesh=mesh(), in_specs=P("i"), out_specs=outs, check_vma=False, **options
    )


GROUPS = [[0, 3], [1, 2]]

COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), P()),
    "pmax": (lambda x: lax.pmax(x, "i"), P()),
    "pmin": (lambda x: lax.pmin(x, "i"), P()),
    "psum of groups": (lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), P("i")),
    "psum of uneven groups": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1, 2], [3]]),
        P("i"),
    ),
    "all_gather": (lambda x: lax.all_gather(x, "i"), P(None, "i")),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", axis=1, tiled=True), P("i")),
    "all_gather of groups": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS),
        P("i"),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), P("i")),
    "psum_scatter tiled": (lambda x: lax.psum_scatter(x, "i", tiled=True), P("i")),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]), P("i")),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), P("i")),
    "all_to_all back": (lambda x: lax.all_to_all(x.T, "i", 1, 0), P(None, "i")),
    "all_to_all tiled": (lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), P("i")),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), P("i")),
    "axis_index": (lambda x: x + lax.axis_index("i"), P("i")),
    "messages": (
        lambda x: lax.precv(
            lax.psend(x, "i", [(0, 1)]), curta.typeof(x), "i", [(0, 1)]
        ),
        P("i"),
    ),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name):
    body, outs = COLLECTIVES[name]
    check(mapped(body, outs), put(X, mesh(), "i"))


def test_pmap():
    fun = curta.pmap(lambda x: lax.psum(x, "i") + x, axis_name="i")
    check(lambda x: fun(x), put(X[:4], mesh(), "i"))


@pytest.mark.parametrize("checked", [True, False])
def test_gradients(checked):
    grid = mesh((2, 2), ("x", "y"))

    def body(x, y):
        total = lax.psum(x * y, ("x", "y"))
        return total * x, lax.all_gather(y, "y", tiled=True)

    fun = curta.shard_map(
        body,
        mesh=grid,
        in_specs=(P("x", "y"), P("x", "y")),
        out_specs=(P("x", "y"), P(("x", "y"))),
        check_vma=checked,
    )

    def loss(x, y):
        first, second = fun(x, y)
        return jnp.sum(first) + jnp.sum(second)

    check(curta.grad(loss, (0, 1)), put(X, grid, "x", "y"), put(-X, grid, "x", "y"))


def test_several_axes():
    grid = mesh((2, 2), ("x", "y"))

    def body(x):
        return (
            lax.psum(x, ("y", "x")),
            x + lax.axis_index(("y", "x")),
            lax.all_gather(x, ("y", "x"), tiled=True),
        )

    fun = curta.shard_map(
        body,
        mesh=grid,
        in_specs=P("x", "y"),
        out_specs=(P(), P("x", "y"), P("x", "y")),
        check_vma=False,
    )
    check(fun, put(X, grid, "x", "y"))


def test_maps_of_some_axes():
    grid = mesh((2, 2), ("x", "y"))
    fun = curta.shard_map(
        lambda x: lax.psum(x, "x") + lax.axis_index("x"),
        mesh=grid,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
        check_vma=False,
    )
    check(lambda x: fun(x) * 2, put(X, grid, "x", "y"))


def test_maps_in_maps():
    grid = mesh((2, 2), ("x", "y"))

    def inner(x):
        return lax.psum(x, "y") + lax.psum(x, "x")

    def outer(x):
        found = curta.shard_map(
            inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )
        return found(x)

    fun = curta.shard_map(
        outer,
        mesh=grid,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
        check_vma=False,
    )
    check(fun, put(X, grid, "x", "y"))


def test_constraints():
    grid = mesh((2, 2), ("x", "y"))

    def fun(x):
        x = lax.with_sharding_constraint(x, NamedSharding(grid, P(None, ("x", "y"))))
        return x * 2

    check(fun, put(X, grid, "x", "y"))


def test_types():
    grid = mesh((2, 2), ("x", "y"), AxisType.Explicit)
    with curta.set_mesh(grid):
        check(lambda x: -x + 1, put(X, grid, "x", "y"))
        check(lambda x: (jnp.sum(x), jnp.max(x, 0), jnp.sort(x, 1)), put(X, grid, "x"))
        check(
            lambda x: lax.while_loop(lambda c: jnp.sum(c) < 9, lambda c: c + 1, x),
            put(X, grid, "x", "y"),
        )
        check(lambda x: lax.scan(lambda c, y: (c + y, -c), x[0], x), put(X, grid))
        spread = curta.sharding.reshard
        check(lambda x: spread(x * x, P("y", "x")), put(X, grid, "x", None))


def test_donation():
    x = put(X, mesh(), "i")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = curta.jit(lambda x: x + 1, donate_argnums=0).lower(x).as_text()
    assert "jax.buffer_donor = true" in text
    check(lambda x: x + 1, x)
