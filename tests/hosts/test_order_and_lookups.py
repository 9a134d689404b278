"""Cumulative reductions, order, and table lookups over simulated hosts."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import check, mesh_of, normal

import curta
import curta.numpy as jnp
from curta import P, lax

LINE, GRID = {"x": 8}, {"x": 4, "y": 2}
RNG = np.random.default_rng(1)
ROWS = [normal(64, 8)]
X = [P("x")]
INDEX = RNG.integers(-64, 64, (24,))
TABLE = [normal(64, 8), INDEX]


def special(*shape):
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1.0])
    return RNG.choice(values, shape).astype(np.float32)


def places(x):
    return jnp.argmax(x, 0), jnp.argmin(x, 0)


CASES = {
    "sums": (lambda x: jnp.cumsum(x, 0), ROWS, LINE, X, ["host_gather"]),
    "sums from the end": (lambda x: lax.cumsum(x, 0, reverse=True), ROWS, LINE, X,
                          ["host_gather"]),
    "products and extrema": (
        lambda x: (jnp.cumprod(x, 0), lax.cummax(x, 0), lax.cummin(x, 0, reverse=True),
                   lax.cumlogsumexp(x, 0)),
        ROWS, LINE, X, ["host_gather"] * 4,
    ),
    "extrema of special values": (lambda x: (lax.cummax(x, 0), lax.cummin(x, 0)),
                                  [special(64)], LINE, X, None),
    "sums of differences": (lambda x: jnp.cumsum(jnp.diff(x, axis=0), 0).sum(0), ROWS,
                            LINE, X, None),
    "gradient of sums": (
        curta.grad(lambda x: (jnp.cumsum(x[2:], 0) ** 2).sum()), ROWS, LINE, X, None,
    ),
    "places": (places, ROWS, LINE, X, ["host_gather"] * 4),
    "places of special values": (places, [special(64, 8)], LINE, X, None),
    "places of equals": (places, [RNG.integers(0, 3, (64, 8))], GRID, [P("x", "y")],
                         None),
    "places in a slice": (lambda x: jnp.argmax(x[3:], 0), [-abs(normal(64, 8))], LINE,
                          X, None),
    "one place": (lambda x: jnp.argmax(x), ROWS, LINE, X, None),
    "greatest": (lambda x: lax.top_k(x.T, 2), ROWS, LINE, X, ["host_gather"] * 2),
    "greatest of special values": (lambda x: lax.top_k(x, 2), [special(64)], LINE, X,
                                   None),
    "many greatest": (lambda x: lax.top_k(x.T, 40), ROWS, LINE, X,
                      ["host_exchange"] * 3),
    "reversed": (lambda x: x[::-1] * 2, ROWS, LINE, X, ["host_permute"]),
    "a slice reversed": (lambda x: x[2:][::-1] - x[:-2], ROWS, LINE, X, None),
    "both dims reversed": (lambda x: jnp.flip(x), ROWS, GRID, [P("x", "y")],
                           ["host_permute"] * 2),
    "rows of a table": (lambda t, i: t[i], TABLE, LINE, [P("x"), P()], ["host_reduce"]),
    "no rows of an empty table": (
        lambda t, i: t[:, :0].T[i[:0]], TABLE, LINE, [P("x"), P()], None,
    ),
    "few rows of a table": (lambda t, i: t[i[:2]], TABLE, LINE, [P("x"), P()],
                            ["host_reduce"]),
    "rows and columns": (
        lambda t, i: t[i, i % 8], TABLE, LINE, [P("x"), P()], ["host_reduce"],
    ),
    "places outside": (
        lambda t, i: (t.at[i * 2].get(mode="fill", fill_value=7.0),
                      t.at[i * 2].get(mode="clip"), jnp.take(t, i * 3, 0)),
        TABLE, LINE, [P("x"), P()], None,
    ),
    "rows by parts": (lambda t, i: t[i], TABLE, LINE, [P("x"), P("x")],
                      ["host_gather", "host_reduce_scatter"]),
    "many rows": (lambda t, i: t[i], [normal(16, 8), RNG.integers(0, 16, (512,))], LINE,
                  [P("x"), P("x")], ["host_gather"]),
    "signs and NaN": (lambda t, i: jnp.signbit(t[i]), [special(64), INDEX], LINE,
                      [P("x"), P()], None),
    "small integers": (lambda t, i: t[i], [RNG.integers(0, 99, 64).astype(np.int8),
                                           (INDEX % 64).astype(np.uint8)], LINE,
                       [P("x"), P()], None),
    "rows written": (
        lambda t, i: (t.at[i].add(1.5), t.at[i % 64].set(0.0), t.at[i * 2].max(9.0),
                      t.at[i * 2].set(3.0, mode="clip"), t.at[i, i % 8].add(2.0)),
        TABLE, LINE, [P("x"), P()], [],
    ),
    "gradient of rows": (
        curta.grad(lambda t, i: (t[i] ** 3).sum()), TABLE, LINE, [P("x"), P("x")], None,
    ),
    "one row": (lambda t, i: (t[i[0]], t[i[1] % 8], lax.dynamic_slice_in_dim(
        t, i[2], 5)), TABLE, LINE, [P("x"), P()], None),
    "a row by a loop": (
        lambda t, i: lax.fori_loop(0, 5, lambda k, s: s + t[3 * k], jnp.zeros(8)),
        TABLE, LINE, [P("x"), P()], ["host_reduce"],
    ),
    "rows written one by one": (
        lambda t, i: lax.fori_loop(0, 24, lambda k, t: t.at[i[k]].set(k * 1.0), t),
        TABLE, LINE, [P("x"), P()], [],
    ),
    "a window written": (
        lambda t, i: lax.dynamic_update_slice(t, t[:5, :2] * 2, (i[0], i[1])), TABLE,
        LINE, [P("x"), P()], None,
    ),
    "split": (lambda x: [y * 2 for y in jnp.split(x, [24, 40])], ROWS, LINE, X, None),
    "sorted": (lambda x: jnp.sort(x, 0), ROWS, LINE, X, ["host_exchange"] * 2),
    "sorted with others": (
        lambda x: lax.sort((jnp.round(x), x * 2), dimension=0, num_keys=1), ROWS, LINE,
        X, None,
    ),
    "order of special values": (lambda x: (jnp.argsort(x, 0), jnp.sort(x)),
                                [special(64)], LINE, X, None),
    "quantiles": (lambda x: jnp.median(x, axis=0), ROWS, LINE, X,
                  ["host_exchange", "host_gather", "host_reduce"]),
    "factors": (
        lambda x: jnp.linalg.cholesky(x @ x.swapaxes(1, 2) + 9 * jnp.eye(8)),
        [normal(8, 8, 8)], LINE, [P(None, "x")], None,
    ),
    "columns solved": (
        lambda a, b: lax.linalg.triangular_solve(
            jnp.tril(a) + 8 * jnp.eye(8), b, left_side=True, lower=True
        ),
        [normal(8, 8), normal(8, 16)], LINE, [P(), P(None, "x")], [],
    ),
    "transforms": (lambda x: abs(jnp.fft.fft2(x)), ROWS, LINE, X,
                   ["host_exchange", "host_gather"]),
    "transforms back": (
        lambda x: jnp.fft.ifft2(jnp.fft.fft2(x) * jnp.arange(8)).real, ROWS, LINE, X,
        ["host_exchange"] * 2 + ["host_gather"],
    ),
    "transforms of reals": (
        lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.arange(5)), ROWS, LINE, X,
        ["host_exchange"] * 4 + ["host_gather"],
    ),
    "transforms of three dims": (
        lambda x: jnp.fft.fftn(x).real, [normal(8, 4, 6)], GRID, [P("x", "y")], None,
    ),
    "transforms of a batch": (lambda x: jnp.fft.fft(x, axis=1).real, [normal(16, 16)],
                              LINE, [P(None, "x")], ["host_exchange", "host_gather"]),
    "one transform": (lambda x: jnp.fft.fft(x).real, [normal(64)], LINE, X,
                      ["host_gather"]),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("name", CASES)
def test_hosts_agree(name, count):
    f, args, axes, specs, collectives = CASES[name]
    found = check(f, args, mesh_of(**axes), specs, count)
    if collectives is not None and count == 8:
        assert sorted(found) == sorted(collectives)
