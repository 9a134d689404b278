"""Ops whose values hosts could get wrong, split in ways chosen by chance.

Each case is run on meshes of one to three axes, with its arguments and results split
along any dims that the axes divide, and must be as in one process: places, ties, NaN
and what lies outside exactly, sums up to their order. Hosts that have the same part
of a result must have the same bits.
"""

import math
import zlib
from functools import partial

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax, random
from curta.core.evaluate import evaluate
from curta.hosts.simulated import run_on_hosts
from curta.partition.host_mesh import grouped
from curta.partition.partition import partition
from curta.sharding import AxisType, Mesh

RNG = np.random.default_rng(13)
# Sizes of axes, hosts.
MESHES = [
    ((2,), 2), ((4,), 4), ((8,), 8), ((8,), 2), ((2, 2), 4), ((4, 2), 8), ((4, 2), 4),
    ((2, 4), 2), ((2, 2, 2), 8),
]  # fmt: skip


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def integers(low, high, *shape, dtype="int32"):
    return RNG.integers(low, high, shape).astype(dtype)


def special(dtype, *shape):
    """Values among which there are equals, infinities, NaN and both zeros."""
    if dtype in ("float32", "bfloat16", "float16"):
        values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1.0])
        return RNG.choice(values, shape).astype(dtype)
    return RNG.integers(0, 3, shape).astype(dtype)


def split_by_chance(rng, mesh, aval):
    entries = [()] * aval.ndim
    for name in map(str, rng.permutation(mesh.axis_names)):
        fits = [
            d
            for d, n in enumerate(aval.shape)
            if n % (mesh.size_of(entries[d]) * mesh.shape[name]) == 0
        ]
        if fits and rng.random() < 0.85:
            entries[rng.choice(fits)] += (name,)
    return NamedSharding(mesh, P(*entries))


def on_hosts(f, args, sizes, count, rng):
    """The results in parts, put together."""
    n = math.prod(sizes)
    devices = np.array(curta.devices()[:n]).reshape(sizes)
    mesh = Mesh(devices, tuple("xyz"[: len(sizes)]), (AxisType.Auto,) * len(sizes))
    closed = curta.make_jaxpr(f)(*args)
    ins = [split_by_chance(rng, mesh, a) for a in closed.in_avals]
    outs = [split_by_chance(rng, mesh, a) for a in closed.out_avals]
    hosts = grouped(mesh, tuple(i * count // n for i in range(n)))
    local = partition(closed, mesh, ins, outs, hosts)
    jaxpr, consts = local.closed.jaxpr, local.closed.consts

    def on(host):
        pairs = zip(args, local.in_splits, strict=True)
        parts = [x[hosts.index(host, x.shape, split)] for x, split in pairs]
        with np.errstate(all="ignore"):
            return [*map(np.asarray, evaluate(jaxpr, consts, parts))]

    results = dict(zip(hosts.hosts, run_on_hosts(on, hosts.hosts), strict=True))
    pairs = zip(closed.out_avals, local.out_splits, strict=True)
    return [
        joined({h: results[h][k] for h in hosts.hosts}, hosts, aval.shape, split)
        for k, (aval, split) in enumerate(pairs)
    ]


def joined(parts, hosts, shape, split):
    """An array of the parts of hosts; those of the same rows have the same bits."""
    known = {}
    result = np.empty(shape, next(iter(parts.values())).dtype)
    for host, part in parts.items():
        rows = hosts.index(host, shape, split)
        assert known.setdefault(str(rows), part).tobytes() == part.tobytes()
        result[rows] = part
    return result


def get_rows(mode, t, i):
    return (
        t.at[i].get(mode=mode), t.at[:, i].get(mode=mode),
        t.at[i, i[::-1]].get(mode=mode), t.at[i * 3, i].get(mode=mode),
    )  # fmt: skip


def update_rows(how, mode, t, i, new):
    update = lambda at, values: getattr(at, how)(values, mode=mode)  # noqa: E731
    return (
        update(t.at[i], new), update(t.at[:, i], new[0, 0]),
        update(t.at[i, i[::-1]], new[:, 0]), update(t.at[i * 3, i], new[:, 1]),
    )  # fmt: skip


def set_rows(mode, t, i):
    return [t.at[at].set(2.0, mode=mode) for at in (i, (i, i[::-1]), (i * 3, i))]


# Windows of several rows at index vectors, some of which are cut off.
BOTH_DIMS, OF_A_ROW = ((1, 2), (), (0, 1)), ((1,), (0,), (0, 1))


def get_windows(mode, t, i):
    pairs = (BOTH_DIMS, (3, 2)), (OF_A_ROW, (1, 3))
    return [
        lax.gather(t, i, lax.GatherDimensionNumbers(*n), sizes, mode=mode)
        for n, sizes in pairs
    ]


def add_windows(mode, t, i, new):
    pairs = (BOTH_DIMS, new), (OF_A_ROW, new[:, :, 0])
    return [
        lax.scatter_add(t, i, x, lax.ScatterDimensionNumbers(*n), mode=mode)
        for n, x in pairs
    ]


def a_row_for_all(t, i):
    numbers = lax.GatherDimensionNumbers((1,), (0,), (1,))
    return lax.gather(t, i[:, :1], numbers, (1, 3), mode="clip")


def at_starts(t, i):
    zero = i[0] * 0
    return (
        lax.dynamic_slice(t, (i[0], i[1]), (3, 2)),
        lax.dynamic_slice(t, (i[2], zero), (3, 8)),
        lax.dynamic_slice(t, (zero, i[3]), (16, 2)),
        lax.dynamic_slice(t, (i[0], i[3]), (12, 6)),
        lax.dynamic_update_slice(t, t[:3, :2] * 2, (i[0], i[1])),
        lax.dynamic_update_slice(t, t[:3] * 2, (i[2], zero)),
        lax.dynamic_update_slice(t, t[:, :2] * 2, (zero, i[3])),
        lax.dynamic_update_slice(t, -t[:13, :7], (i[1], i[2])),
    )


def places(x):
    return (
        jnp.argmax(x, 0), jnp.argmin(x, 0), jnp.argmax(x, 1), jnp.argmax(x),
        jnp.argmin(x[3:], 0), jnp.argmax(x[:-1], 0), lax.argmax(x, 0, jnp.int8),
    )  # fmt: skip


def order(x):
    return (
        jnp.sort(x, 0), jnp.argsort(x, 0), jnp.argsort(x, 1, descending=True),
        jnp.sort(x, axis=None), lax.top_k(x, 2), lax.top_k(x.T, 3),
        lax.top_k(x.ravel(), 5), lax.cummax(x, 0), lax.cummin(x[1:], 0, reverse=True),
        x.max(0), x.min(1), x[3:].max(0), x[1:-2].min(), (x != 0).any(0), x.all(1),
    )  # fmt: skip


def sums(x):
    dtype = x.dtype
    return (
        x.sum(0, dtype=dtype), x.sum(dtype=dtype), x.prod(1, dtype=dtype),
        jnp.cumsum(x, 0, dtype=dtype), jnp.cumsum(x[2:], 1, dtype=dtype),
        jnp.cumprod(x[:, 1:], 1, dtype=dtype), x[3:].sum(0, dtype=dtype),
        lax.dot(x.T, x), x @ x.T, x.mean(0),
    )  # fmt: skip


def of_complex(c, i):
    return (
        c.sum(0), c.prod(1), jnp.cumsum(c, 0), jnp.cumprod(c, 1), c @ c.T,
        jnp.conj(c.T) @ c, jnp.fft.fft(c, axis=0), c[3:].sum(0), jnp.sort(c, 0),
        jnp.roll(c, 3, 0), c[i], c.at[i].add(1j),
        lax.dynamic_slice(c, (i[0], 0), (3, 8)),
    )  # fmt: skip


def without_rows(a, t):
    return (
        a.sum(0), a.sum(1), a @ t.T, a.T @ a, jnp.sort(a, 0), jnp.cumsum(a, 0), a[::-1],
        jnp.concatenate([a, t]), jnp.pad(a, ((3, 5), (0, 0))), a.reshape(8, 0),
        t.at[jnp.zeros(0, int)].set(0), t[jnp.zeros(0, int)], t[:, :0].sum(1),
        lax.dynamic_update_slice(t, a[:, :3], (3, 2)), t[:0].any(0), t[:0] @ t.T,
        lax.dynamic_slice(t, (3, 3), (0, 2)), lax.top_k(a, 2), lax.cumsum(a.T, 1),
    )  # fmt: skip


def moves(t):
    turned = t.reshape(4, 4, 8).transpose(1, 2, 0).reshape(8, 16)
    return [t.reshape(2, 8, 8), t.T.reshape(4, 32), turned, t.ravel(order="F"),
            jnp.repeat(t, 2, 0), jnp.tile(t, (2, 3)), t[::3], t[::-1, 2:]] + [
        y
        for k in (1, 3, 7)
        for y in (jnp.roll(t, k, 0), jnp.roll(t, (k, -k), (0, 1)), t[k:], t[:-k],
                  jnp.pad(t, ((k, 0), (0, k))), jnp.pad(t, k, "wrap"),
                  jnp.pad(t, k, "reflect"), jnp.diff(t, axis=0))
    ]  # fmt: skip


def not_divided(a, b):
    return (
        a @ b, a.sum(0), jnp.cumsum(a, 1), jnp.sort(a, 0), a[1:] + a[:-1],
        jnp.concatenate([a, b.T[:3]]), jnp.pad(a, 1), a.T.reshape(-1, 3),
        jnp.argmax(a, 1), a[:, b[:, 0].astype(int) % 12],
    )  # fmt: skip


def row_by_row(t, w):
    def body(c, row):
        c = jnp.tanh(c @ w) + row.sum() / 8
        return c, (c.sum(), jnp.cumsum(c))

    return lax.scan(body, w[0], t), lax.scan(body, w[0], t, reverse=True)


def until_large(t, u):
    def body(s):
        k, t, total, u = s
        return k + 1, t + jnp.roll(u, 1, 0) / 2 + u.mean(), total + t.sum(0), t

    test = lambda s: (s[0] < 5) & (s[1].sum() < 900)  # noqa: E731
    return lax.while_loop(test, body, (0, t, t[0], u))


def sums_in_loops(t, u):
    def body(k, s):
        a, b, c = s
        return a + (u * t).sum(0) * k, b + t[k] @ u.T, c - a.sum()

    return lax.fori_loop(0, 5, body, (t[0], u[:, 0], 0.0))


def loops_in_branches(t):
    def rows(c):
        return lax.scan(lambda d, r: (d + r @ t.T[:, :8], d.sum(0)), c, t[:4])[0] / 99

    def body(i, c):
        return lax.cond(c.sum() > 0, rows, lambda c: c - t.mean(0), c)

    each = curta.vmap(lambda p, r: lax.cond(p > 0, lambda r: r * 2, jnp.flip, r))
    return lax.fori_loop(0, 3, body, t[:8] * 1.5), each(t[:, 0], t)


def wraps_around(t):
    total = lambda r: jnp.sum(t * r, 0, dtype=t.dtype)  # noqa: E731
    return lax.scan(lambda c, r: (c + total(r), c), t[0], t)


def draws(key, t):
    many = random.split(random.wrap_key_data(key), 4)
    one = many[1]
    return (
        random.normal(many[0], t.shape), random.bits(many[1], (16, 8), "uint8"),
        random.bits(one, (3, 8), "uint16"), random.permutation(one, t),
        random.choice(one, t, (8,)), random.categorical(one, t),
        random.gamma(one, 2.0, (16,)), random.bernoulli(one, 0.3, (8, 16)),
        curta.vmap(lambda k: random.uniform(k, (8,)))(many),
        random.normal(random.key(key[0], impl="rbg"), t.shape),
    )  # fmt: skip


def sums_of_sums(x, y):
    return (
        x.sum(0) + y.sum(0) + x.sum(), x.sum() + y.sum() + jnp.ones(8),
        (x.sum() + y.sum()) * jnp.arange(8.0), x.sum(0) + (y.sum() + x.max()),
    )  # fmt: skip


def folds_of_bits(z):
    return (
        lax.reduce_and(z, (0,)), lax.reduce_or(z, (1,)), lax.reduce_xor(z, (0, 1)),
        jnp.bitwise_and.reduce(z), lax.reduce_xor(z[3:], (0,)),
    )  # fmt: skip


def counted(i, x):
    return (
        jnp.bincount(i, length=8), jnp.histogram(x, 8)[0], jnp.unique(i, size=8),
        jnp.searchsorted(jnp.sort(x), x), jnp.nonzero(i > 4, size=16, fill_value=-3)[0],
        curta.ops.segment_max(x, i % 8, 8), curta.ops.segment_sum(x, i - 2, 8),
    )  # fmt: skip


def slid(x, k):
    pool = lambda x: lax.reduce_window(  # noqa: E731
        x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "SAME"
    )
    how = {"lhs_dilation": (2, 1), "rhs_dilation": (1, 2)}
    square = lambda x, k: (lax.conv(x, k, (1, 1), "SAME") ** 2).sum()  # noqa: E731
    return (
        lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        lax.conv_general_dilated(x, k, (2, 1), "VALID"),
        lax.conv_general_dilated(x, k, (1, 1), [(2, 1), (0, 3)], **how),
        curta.grad(square, (0, 1))(x, k), pool(x),
        curta.grad(lambda x: (pool(x) ** 2).sum())(x),
    )  # fmt: skip


TABLE = normal(16, 8)
NEAR = integers(-40, 40, 12)
FAR = np.array([0, 15, 16, -16, -17, 2**31 - 1, -(2**31), 3, 7, 100, -1, 8], np.int32)
INSIDE = integers(0, 3, 12)
COMPLEX = (normal(16, 8) + 1j * normal(16, 8)).astype(np.complex64)
CORNERS = integers(-4, 20, 8, 2)
READ, WRITTEN = ("fill", "clip"), ("drop", "clip")
CASES = {
    **{f"read, {m}": (partial(get_rows, m), [TABLE, NEAR]) for m in READ},
    **{f"read far, {m}": (partial(get_rows, m), [TABLE, FAR]) for m in READ},
    **{
        f"{how}, {m}": (partial(update_rows, how, m), [TABLE, i, normal(12, 8)])
        for how in ("add", "multiply", "min", "max")
        for m, i in [("drop", NEAR), ("clip", NEAR), ("promise_in_bounds", INSIDE)]
    },
    **{f"set, {m}": (partial(set_rows, m), [TABLE, NEAR]) for m in WRITTEN},
    **{f"set far, {m}": (partial(set_rows, m), [TABLE, FAR]) for m in WRITTEN},
    **{f"read windows, {m}": (partial(get_windows, m), [TABLE, CORNERS]) for m in READ},
    **{
        f"windows, {m}": (partial(add_windows, m), [TABLE, CORNERS, normal(8, 3, 2)])
        for m in WRITTEN
    },
    "a row for all": (a_row_for_all, [TABLE, CORNERS]),
    **{
        f"indices of {dtype}": (
            lambda t, i: (t[i], t.at[i].add(1.0), t.at[i].get(mode="clip")),
            [TABLE, (np.arange(12) * 5 % 20).astype(dtype)],
        )
        for dtype in ("int8", "uint8", "int16", "uint32")
    },
    "starts": (at_starts, [TABLE, NEAR[:4]]),
    "starts far away": (at_starts, [TABLE, FAR[4:8]]),
    "small starts": (at_starts, [TABLE, np.array([200, 255, 3, 15], np.uint8)]),
    **{
        f"{f.__name__} of {dtype}": (f, [special(dtype, 16, 8)])
        for f in (places, order)
        for dtype in ("float32", "bfloat16", "float16", "int8", "uint8")
    },
    **{
        f"sums of {dtype}": (sums, [integers(-100, 100, 16, 8, dtype=dtype)])
        for dtype in ("int8", "int16", "int32")
    },
    **{
        f"sums of {dtype}": (sums, [normal(16, 8, dtype=dtype)])
        for dtype in ("float32", "bfloat16", "float16")
    },
    "complex": (of_complex, [COMPLEX, NEAR]),
    "no rows": (without_rows, [np.zeros((0, 8), np.float32), TABLE]),
    "moves": (moves, [TABLE]),
    "dims that are not divided": (not_divided, [normal(6, 12), normal(12, 10)]),
    "row by row": (row_by_row, [TABLE, normal(8, 8) / 4]),
    "gradient row by row": (
        curta.grad(lambda t, w: sum(map(jnp.sum, curta.tree.leaves(row_by_row(t, w))))),
        [TABLE, normal(8, 8) / 4],
    ),
    "until large": (until_large, [abs(TABLE), abs(normal(16, 8))]),
    "sums in loops": (sums_in_loops, [TABLE, normal(16, 8)]),
    "loops in branches": (loops_in_branches, [TABLE]),
    "wraps around": (wraps_around, [integers(-99, 99, 16, 8, dtype="int8")]),
    "draws": (draws, [np.array([1, 2], np.uint32), TABLE]),
    "sums of sums": (sums_of_sums, [TABLE, normal(16, 8)]),
    "folds of bits": (folds_of_bits, [integers(0, 100, 16, 8)]),
    "counted": (counted, [integers(0, 12, 32), normal(32)]),
    "slid": (slid, [normal(4, 4, 8, 8), normal(4, 4, 3, 3)]),
}  # fmt: skip
TOLERANCE = {"bfloat16": 0.03, "float16": 4e-3}


@pytest.mark.filterwarnings("ignore::curta.errors.AdviceWarning")
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_one_process(name):
    f, args = CASES[name]
    wanted = [*map(np.asarray, curta.tree.leaves(curta.jit(f)(*args)))]
    for sizes, count in MESHES:
        rng = np.random.default_rng(zlib.crc32(f"{name} {sizes} {count}".encode()))
        for found, want in zip(
            on_hosts(f, args, sizes, count, rng), wanted, strict=True
        ):
            assert found.dtype == want.dtype and found.shape == want.shape
            tolerance = TOLERANCE.get(want.dtype.name, 2e-4)
            if want.dtype.name in TOLERANCE:
                found, want = found.astype(np.float32), want.astype(np.float32)
            np.testing.assert_allclose(found, want, tolerance, tolerance)
