"""Stencils on simulated hosts: only rows at the borders of parts are sent."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import check, mesh_of, normal, parted

import curta
import curta.numpy as jnp
from curta import P, lax
from curta.hosts import traffic

LINE, GRID = {"x": 8}, {"x": 4, "y": 2}


def second_difference(u):
    return u[2:] - 2 * u[1:-1] + u[:-2]


def five_points(u):
    inner = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * inner))


def written(u):
    inner = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return lax.dynamic_update_slice(u, inner + 0.1 * (around - 4 * inner), (1, 1))


def periodic(u):
    around = sum(jnp.roll(u, k, d) for k in (1, -1) for d in (0, 1))
    return u + 0.1 * (around - 4 * u)


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
    "heat with a border": (steps(five_points), [normal(64, 32)], GRID, [P("x", "y")],
                           ["host_permute"] * 4),
    "heat, written": (steps(written), [normal(64, 32)], GRID, [P("x", "y")],
                      ["host_permute"] * 4),
    "writes": (
        lambda x, y: (x.at[0].set(1.0), x.at[-1].add(y[0]), x.at[3:20].mul(y[:17]),
                      x.at[5:9, 2:4].set(7.0), (x * 0).at[1:-1].set(x[2:])),
        ROWS * 2, LINE, [P("x"), P()], None,
    ),
    "writes of parts": (
        lambda x: (jnp.zeros((66, 10)).at[1:-1, 1:-1].set(x)[2:, 2:] * 2), ROWS, LINE,
        X, None,
    ),
    "reads": (lambda x: (lax.dynamic_slice(x, (60, 0), (16, 8)),
                         lax.dynamic_slice(x, (1, -3), (62, 4)).sum(0)), ROWS, LINE, X,
              None),
    "heat, periodic": (steps(periodic), [normal(64, 32)], GRID, [P("x", "y")],
                       ["host_bucket"] * 2 + ["host_permute"] * 4),
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


def smoothed(u):
    kernel = jnp.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)
    return u + 0.1 * lax.conv(u[None, None], kernel[None, None], (1, 1), "SAME")[0, 0]


def convolved(padding, **how):
    return lambda x, k: lax.conv_general_dilated(
        x, k, padding=padding, **{"window_strides": (1, 1), **how}
    )


def pooled(padding, size=2, strides=2, **how):
    return lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (size, 1), (strides, 1), padding, **how
    )


def gradient(f):
    def loss(*args):
        return (f(*args) ** 2).sum()

    return lambda *args: curta.grad(loss, tuple(range(len(args))))(*args)


FOLDS = "nothing but folds"
IMAGES = [normal(2, 4, 64, 8), normal(6, 4, 3, 3)]
GROUPED = [normal(2, 16, 8, 8), normal(16, 2, 3, 3)]
ROWS_OF_IMAGES = [P(None, None, "x"), P()]
SLIDING = {
    "heat by a convolution": (steps(smoothed), [normal(64, 32)], GRID, [P("x", "y")],
                              ["host_permute"] * 4),
    "same": (convolved("SAME"), IMAGES, LINE, ROWS_OF_IMAGES, ["host_permute"] * 2),
    "valid": (convolved("VALID"), IMAGES, LINE, ROWS_OF_IMAGES, None),
    "strided": (convolved("SAME", window_strides=(2, 1)), IMAGES, LINE, ROWS_OF_IMAGES,
                ["host_permute"]),
    "dilated": (convolved([(2, 1), (0, 0)], lhs_dilation=(2, 1), rhs_dilation=(2, 2)),
                IMAGES, LINE, ROWS_OF_IMAGES, None),
    "full": (convolved([(2, 2), (2, 2)]), IMAGES, LINE, ROWS_OF_IMAGES, None),
    "strided, dilated": (
        convolved([(3, 2), (0, 0)], window_strides=(4, 2), lhs_dilation=(2, 1)),
        IMAGES, LINE, ROWS_OF_IMAGES, None,
    ),
    "gradient": (gradient(convolved("SAME")), IMAGES, LINE, ROWS_OF_IMAGES, None),
    "gradient, valid": (gradient(convolved("VALID")), IMAGES, LINE, ROWS_OF_IMAGES,
                        None),
    "gradient, strided": (gradient(convolved("SAME", window_strides=(2, 2))), IMAGES,
                          LINE, ROWS_OF_IMAGES, None),
    "batch": (gradient(convolved("SAME")), [normal(8, 4, 6, 6), IMAGES[1]], LINE,
              [P("x"), P()], FOLDS),
    "channels": (convolved("SAME"), [normal(2, 8, 6, 6), normal(6, 8, 3, 3)], LINE,
                 [P(None, "x"), P(None, "x")], ["host_reduce"]),
    "features": (convolved("SAME"), [normal(2, 4, 6, 6), normal(8, 4, 3, 3)], LINE,
                 [P(), P("x")], []),
    "groups": (convolved("SAME", feature_group_count=8), GROUPED, LINE,
               [P(None, "x"), P("x")], []),
    "groups, gradient": (gradient(convolved("SAME", feature_group_count=8)), GROUPED,
                         LINE, [P(None, "x"), P("x")], FOLDS),
    "groups of the batch": (
        convolved("SAME", batch_group_count=8), [normal(16, 2, 8, 8), GROUPED[1]], LINE,
        [P("x"), P("x")], [],
    ),
    "windows": (pooled("VALID"), ROWS, LINE, X, []),
    "windows that overlap": (pooled("SAME", 5, 2), ROWS, LINE, X, None),
    "windows, gradient": (gradient(pooled("VALID")), ROWS, LINE, X, None),
    "windows that overlap, gradient": (gradient(pooled("SAME", 3, 2)), ROWS, LINE, X,
                                       None),
    "sums of windows": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 3), (1, 1), "SAME"),
        ROWS, GRID, [P("x", "y")], None,
    ),
    "windows, tangents": (
        lambda x, t: curta.jvp(pooled("SAME", 3, 2), (x,), (t,))[1], ROWS * 2, LINE,
        X * 2, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("name", SLIDING)
def test_windows_that_slide(name, count):
    f, args, axes, specs, collectives = SLIDING[name]
    found = check(f, args, mesh_of(**axes), specs, count)
    if collectives is FOLDS:
        assert all(op.startswith("host_reduce") for op in found)
    elif collectives is not None and count == 8:
        assert sorted(found) == sorted(collectives)


@pytest.mark.parametrize("step", [five_points, periodic, smoothed, written])
def test_a_step_of_the_heat_equation_sends_its_halos(step):
    args, mesh = [normal(64, 32)], mesh_of(**GRID)
    check(steps(step), args, mesh, [P("x", "y")], 8)  # compiled
    before = traffic.sent()
    check(steps(step), args, mesh, [P("x", "y")], 8)
    rows, columns = 2 * 16, (2 if step is periodic else 1) * 16
    for host in range(8):
        sent = {k: n - before[host][k] for k, n in traffic.sent()[host].items()}
        assert 0 < sent.pop("permute") <= 3 * 4 * (rows + columns + 2)
        assert not any(sent.values())


def test_what_is_put_around_is_told_apart_at_borders_alone():
    def step(u):
        around = jnp.pad(u, 1, constant_values=2.0)
        return u + around[2:, 1:-1] + around[:-2, 1:-1]

    local = parted(step, [normal(64, 32)], mesh_of(**LINE), X, 8).closed
    chosen = [e for e in local.jaxpr.eqns if e.op.name == "select_n"]
    assert [e.outvars[0].aval.shape for e in chosen] == [(1, 32), (1, 32)]
