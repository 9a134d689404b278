"""Collectives of hosts are equal, joined, or moved out of loops."""

import numpy as np
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import check, mesh_of, normal, parted

import curta
import curta.numpy as jnp
from curta import P, lax
from curta.core.jaxpr import jaxprs_in_params
from curta.partition.costs import traffic_of
from curta.partition.partition import Partitioner


def in_loops(closed):
    """The collectives within loops of a program."""
    found = []

    def look(jaxpr, inside):
        for eqn in jaxpr.eqns:
            if inside and eqn.op.name.startswith("host_"):
                found.append(eqn.op.name)
            for inner in jaxprs_in_params(eqn.op.params()):
                look(inner, True)

    look(closed.jaxpr, False)
    return found


def test_sums_that_are_added_are_one():
    def f(x, y, w):
        return x.T @ w + y.T @ w + 1

    args = [normal(16, 4), normal(16, 4), normal(16, 4)]
    assert check(f, args, mesh_of(x=8), [P("x")] * 3, 8) == ["host_reduce"]


def test_what_is_gathered_twice_is_gathered_once():
    def f(x):
        return jnp.split(x, 4)[0], jnp.split(x, 8)[1] * 2

    assert len(check(f, [normal(16, 4)], mesh_of(x=8), [P("x")], 4)) == 1


def test_large_folds_go_alone():
    def f(x, y):
        return x.sum(0), y.sum(0), (x[:, :3] * 2).sum(0), (y[:, :3] ** 2).sum(0)

    args = [normal(8, 1 << 17), normal(8, 1 << 17)]
    found = check(f, args, mesh_of(x=8), [P("x"), P("x")], 2)
    assert sorted(found) == ["host_bucket", "host_reduce", "host_reduce"]


def test_gradients_of_recurrent_weights_are_folded_after_the_loop():
    def loss(w, x):
        def step(h, _):
            return jnp.tanh(h @ w), None

        return (lax.scan(step, x, None, length=5)[0] ** 2).sum()

    f = curta.value_and_grad(loss)
    args, specs = [normal(4, 4) / 2, normal(16, 4)], [P(), P("x")]
    assert check(f, args, mesh_of(x=8), specs, 8) == ["host_bucket"]
    assert not in_loops(parted(f, args, mesh_of(x=8), specs, 8).closed)


def test_what_does_not_change_is_gathered_before_the_loop():
    def f(w, x):
        def step(h, _):
            return jnp.tanh(h @ w), None

        return lax.scan(step, x, None, length=5)[0]

    args, specs = [normal(8, 8) / 2, normal(16, 8)], [P("x"), P("x")]
    assert check(f, args, mesh_of(x=8), specs, 8) == ["host_gather"]
    assert not in_loops(parted(f, args, mesh_of(x=8), specs, 8).closed)


def test_while_loops_gather_before_too():
    def f(w, x):
        def going(c):
            return (c[0] < 3) & (abs(c[1]).sum() < w.sum() ** 2 + 1e6)

        return lax.while_loop(going, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x))

    args, specs = [normal(8, 8) / 2, normal(16, 8)], [P("x"), P("x")]
    check(f, args, mesh_of(x=8), specs, 8)
    found = in_loops(parted(f, args, mesh_of(x=8), specs, 8).closed)
    assert set(found) == {"host_reduce"}, "the sum of what changes"


def test_carries_that_are_read_are_folded_in_each_iteration():
    def f(x):
        def step(c, row):
            return c + (row * c).sum(), c

        return lax.scan(step, jnp.float32(1), x.T)

    args = [abs(normal(16, 3)) / 10]
    check(f, args, mesh_of(x=8), [P("x")], 8)
    found = in_loops(parted(f, args, mesh_of(x=8), [P("x")], 8).closed)
    assert found == ["host_reduce"]


def test_callbacks_run_once():
    seen = []

    def f(x):
        curta.debug.callback(lambda s: seen.append(float(s)), x.sum())
        return x * 2

    mesh = mesh_of(x=8)
    check(f, [np.ones((16, 2), np.float32)], mesh, [P("x")], 8)
    assert seen == [32.0, 32.0], "once on hosts, and once by the comparison"


def test_bodies_of_nested_loops_are_partitioned_once_for_each_split(monkeypatch):
    def nested(depth):
        if not depth:
            return lambda c: jnp.sin(c) * c.sum()
        inner = nested(depth - 1)
        return lambda c: lax.scan(lambda c, _: (inner(c), None), c, None, length=2)[0]

    def stagings(depth):
        count = 0

        def counted(self, *args):
            nonlocal count
            count += 1
            return stage(self, *args)

        stage = Partitioner._stage
        with monkeypatch.context() as patch:
            patch.setattr(Partitioner, "_stage", counted)
            parted(nested(depth), [normal(16, 4)], mesh_of(x=8), [P("x")], 8)
        return count

    assert stagings(6) - stagings(5) == stagings(3) - stagings(2)


def test_halos_of_several_arrays_go_together():
    """A step of two fields: one message to the next host, one around, in a loop too."""

    def step(u, v):
        left, right = jnp.roll(u, 1, 0), jnp.roll(v, 1, 0)
        return u + 0.1 * (left - right), v * 0.5 + jnp.roll(u * v, 1, 0)

    args, specs = [normal(16, 4), normal(16, 4)], [P("x")] * 2
    assert check(step, args, mesh_of(x=8), specs, 8) == ["host_bucket"] * 2

    def steps(u, v):
        return lax.fori_loop(0, 3, lambda _, uv: step(*uv), (u, v))

    assert check(steps, args, mesh_of(x=8), specs, 8) == ["host_bucket"] * 2
    local = parted(steps, args, mesh_of(x=8), specs, 8)
    # Three times a row of four numbers of three arrays, each time in two messages.
    found = traffic_of(local.closed)
    assert found.counts == {"permute": 3 * 2}
    assert found.nbytes == {"permute": 3 * 2 * 3 * 4 * 4}


def test_halos_that_need_each_other_go_one_after_the_other():
    def twice(u):
        u = u + jnp.roll(u, 1, 0)
        return u * jnp.roll(u, 1, 0)

    found = check(twice, [normal(16, 4)], mesh_of(x=8), [P("x")], 8)
    assert found == ["host_permute"] * 4
