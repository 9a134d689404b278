"""Stencils on simulated hosts: only rows at the borders of parts are sent."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import check, mesh_of, normal

import curta
import curta.numpy as jnp
from curta import P, lax

LINE, GRID = {"x": 8}, {"x": 4, "y": 2}


def second_difference(u):
    return u[2:] - 2 * u[1:-1] + u[:-2]


def five_points(u):
    inner = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * inner))


def periodic(u):
    around = sum(jnp.roll(u, k, d) for k in (1, -1) for d in (0, 1))
    return u + 0.1 * (around - 4 * u)


def smoothed(u):
    kernel = jnp.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)
    return u + 0.1 * lax.conv(u[None, None], kernel[None, None], (1, 1), "SAME")[0, 0]


def padded_edges(u):
    v = jnp.pad(u, 1, mode="edge")
    around = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2]
    return u + 0.1 * (around - 4 * u)


def steps(f):
    return lambda u: lax.fori_loop(0, 3, lambda i, u: f(u), u)


ROWS = [normal(64, 8)]
X = [P("x")]
CASES = {
    "roll": (lambda x: jnp.roll(x, 1, 0), ROWS, LINE, X, ["host_permute"] * 2),
    "roll far": (lambda x: jnp.roll(x, 19, 0), ROWS, LINE, X, None),
    "roll both": (lambda x: jnp.roll(x, (3, -2), (0, 1)), ROWS, GRID, [P("x", "y")],
                  None),
    "differences": (lambda x: jnp.pad(second_difference(x), ((1, 1), (0, 0))), ROWS,
                    LINE, X, ["host_permute"] * 2),
    "differences alone": (second_difference, ROWS, LINE, X,
                          ["host_permute"] * 2 + ["host_gather"]),
    "gradient": (lambda x: jnp.gradient(x, axis=0), ROWS, LINE, X, None),
    "diff": (lambda x: jnp.sin(jnp.diff(x, axis=0)).sum(0), ROWS, LINE, X,
             ["host_permute", "host_reduce_scatter"]),
    "diff the other way": (lambda x: jnp.diff(x, axis=0).sum(1), ROWS, LINE, X,
                           ["host_permute", "host_gather"]),
    "extremes of a slice": (lambda x: (x[3:-5].max(), x[1:].min(0), x[:-1].prod(1)[0]),
                            ROWS, LINE, X, None),
    "product with a slice": (lambda x: x[1:].T @ x[:-1], ROWS, LINE, X, None),
    "ones around": (lambda x: jnp.pad(x, 1, constant_values=1.0)[2:, 1:-1], ROWS, LINE,
                    X, ["host_permute"] * 2),
    "holes": (lambda x: lax.pad(x, 7.0, ((1, 2, 2), (0, 0, 0))), ROWS, LINE, X, None),
    "holes and cuts": (lambda x: lax.pad(x, 7.0, ((-3, -4, 1), (-1, 0, 0))).sum(0),
                       ROWS, LINE, X, ["host_reduce"]),
    "every other": (lambda x: (x[::2] * 2, x[1::4] + 1, x[5:33:2].sum(0)), ROWS, LINE,
                    X, None),
    "ends": (lambda x: (x[0], x[-1], x[3:5], x[7:9] + x[:2]), ROWS, LINE, X, None),
    "other values between": (
        lambda x, y: jnp.concatenate([y[:3], x[4:-4], y[3:], x[:1] * 2]),
        [normal(64, 8), normal(7, 8)], LINE, [P("x"), P()], None,
    ),
    "joined halves": (lambda x: jnp.concatenate([x, x + 1]), ROWS, LINE, X, None),
    "swapped halves": (lambda x: jnp.concatenate([x[32:], x[:32]]), ROWS, LINE, X,
                       None),
    "in two dims": (
        lambda x: second_difference(second_difference(x).T).sum(0), [normal(64, 32)],
        GRID, [P("x", "y")], None,
    ),
    "edges": (padded_edges, [normal(64, 32)], GRID, [P("x", "y")], None),
    "heat, periodic": (steps(periodic), [normal(64, 32)], GRID, [P("x", "y")],
                       ["host_permute"] * 8),
}  # fmt: skip


def results_of(f, args):
    return curta.tree.leaves(curta.eval_shape(f, *args))


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("name", CASES)
def test_stencils(name, count):
    f, args, axes, specs, collectives = CASES[name]
    outs = [P(*specs[0][: len(x.shape)]) for x in results_of(f, args)]
    found = check(f, args, mesh_of(**axes), specs, count, outs)
    if collectives is not None and count == 8:
        assert sorted(found) == sorted(collectives)
