"""Collectives along a named axis of vmap and pmap."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import grad, jit, lax, pmap, vmap

X = jnp.arange(6.0).reshape(3, 2)
CUBE = jnp.arange(18.0).reshape(3, 3, 2)
ROTATION = [(0, 1), (1, 2), (2, 0)]

CASES = {
    "psum": (lambda v: lax.psum(v, "i"), X, np.tile(X.sum(0), (3, 1))),
    "psum of a number": (lambda v: v * lax.psum(1, "i"), X, 3 * X),
    "psum of a constant": (lambda v: lax.psum(jnp.ones(2), "i"), X, np.full((3, 2), 3)),
    "pmean": (lambda v: lax.pmean(v, "i"), X, np.tile(X.mean(0), (3, 1))),
    "pmax": (lambda v: lax.pmax(v, "i"), X, np.tile(X.max(0), (3, 1))),
    "pmin": (lambda v: lax.pmin(v, "i"), X, np.tile(X.min(0), (3, 1))),
    "axis_index": (lambda v: lax.axis_index("i") + 0 * v[0], X, [0, 1, 2]),
    "axis_size": (lambda v: v * lax.axis_size("i"), X, 3 * X),
    "all_gather": (lambda v: lax.all_gather(v, "i"), X, np.stack([X] * 3)),
    "all_gather at 1": (
        lambda v: lax.all_gather(v, "i", axis=1),
        X,
        np.stack([X.T] * 3),
    ),
    "all_gather tiled": (
        lambda v: lax.all_gather(v, "i", tiled=True),
        X,
        np.tile(X.ravel(), (3, 1)),
    ),
    "psum_scatter": (
        lambda v: lax.psum_scatter(v, "i"),
        jnp.arange(9.0).reshape(3, 3),
        [9, 12, 15],
    ),
    "psum_scatter tiled": (
        lambda v: lax.psum_scatter(v, "i", tiled=True),
        jnp.arange(9.0).reshape(3, 3),
        [[9], [12], [15]],
    ),
    "ppermute": (lambda v: lax.ppermute(v, "i", ROTATION), X, np.roll(X, 1, 0)),
    "ppermute in part": (
        lambda v: lax.ppermute(v, "i", [(0, 1)]),
        X + 1,
        [[0, 0], [1, 2], [0, 0]],
    ),
    "pshuffle": (lambda v: lax.pshuffle(v, "i", [2, 0, 1]), X, np.roll(X, 1, 0)),
    "pswapaxes": (lambda v: lax.pswapaxes(v, "i", 0), CUBE[..., 0], CUBE[..., 0].T),
    "all_to_all": (
        lambda v: lax.all_to_all(v, "i", 0, 1),
        CUBE,
        np.transpose(CUBE, (1, 2, 0)),
    ),
    "all_to_all tiled": (
        lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True),
        CUBE,
        np.swapaxes(CUBE, 0, 1),
    ),
}

GROUPS = [[0, 3], [2, 1]]
X4 = jnp.arange(8.0).reshape(4, 2)
CASES |= {
    "psum in groups": (
        lambda v: lax.psum(v, "i", axis_index_groups=GROUPS),
        X4,
        [X4[0] + X4[3], X4[1] + X4[2], X4[1] + X4[2], X4[0] + X4[3]],
    ),
    "psum in groups of different sizes": (
        lambda v: lax.psum(v, "i", axis_index_groups=[[0, 3, 1], [2]]),
        X4,
        [X4[0] + X4[1] + X4[3]] * 2 + [X4[2], X4[0] + X4[1] + X4[3]],
    ),
    "pmean in groups": (
        lambda v: lax.pmean(v, "i", axis_index_groups=GROUPS),
        X4,
        [[3, 4]] * 4,
    ),
    "all_gather in groups": (
        lambda v: lax.all_gather(v, "i", axis_index_groups=GROUPS),
        X4,
        [X4[jnp.array(g)] for g in ([0, 3], [2, 1], [2, 1], [0, 3])],
    ),
    "psum_scatter in groups": (
        lambda v: lax.psum_scatter(v, "i", axis_index_groups=GROUPS),
        X4,
        [X4[0, 0] + X4[3, 0], X4[1, 1] + X4[2, 1], X4[1, 0] + X4[2, 0], 8],
    ),
    "all_to_all in groups": (
        lambda v: lax.all_to_all(v, "i", 0, 0, axis_index_groups=GROUPS),
        X4,
        [[0, 6], [5, 3], [4, 2], [1, 7]],
    ),
    "pbroadcast": (lambda v: lax.pbroadcast(v, "i", 2), X, np.tile(X[2], (3, 1))),
}

NO_DERIVATIVE = ("pmax", "pmin", "axis_index")


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    fun, x, expected = CASES[name]
    for mapped in (
        vmap(fun, axis_name="i"),
        jit(vmap(fun, axis_name="i")),
        vmap(jit(fun), axis_name="i"),
    ):
        np.testing.assert_allclose(mapped(x), expected)
    inner = vmap(vmap(fun, axis_name="i"), in_axes=1, out_axes=-1)
    np.testing.assert_allclose(
        inner(jnp.stack([x, 2 * x], 1))[..., 0], expected, err_msg="beside a batch"
    )


@pytest.mark.parametrize("name", [n for n in CASES if n not in NO_DERIVATIVE])
def test_derivatives_are_those_of_the_whole_batch(name):
    fun, x, _ = CASES[name]
    mapped = vmap(lambda v: (fun(v) ** 2).sum(), axis_name="i")

    def total(x):
        return mapped(x).sum()

    found, forward = grad(total)(x), curta.jacfwd(total)(x)
    np.testing.assert_allclose(found, forward, rtol=1e-5)


def test_gradients_inside_the_map_sum_over_it():
    inside = vmap(grad(lambda v: (lax.psum(v, "i") ** 2).sum()), axis_name="i")
    np.testing.assert_allclose(inside(X), np.tile(6 * X.sum(0), (3, 1)))
    gathered = vmap(grad(lambda v: (lax.all_gather(v, "i") ** 2).sum()), axis_name="i")
    np.testing.assert_allclose(gathered(X), 6 * X)


def test_several_axes_and_control_flow():
    both = vmap(vmap(lambda v: lax.psum(v, ("i", "j")), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(both(X), np.full((3, 2), 15))
    outer = vmap(vmap(lambda v: lax.psum(v, "i"), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(outer(X), np.tile(X.sum(0), (3, 1)))
    scanned = vmap(
        lambda v: lax.scan(lambda c, _: (lax.psum(c, "i"), None), v, None, 2)[0],
        axis_name="i",
    )
    np.testing.assert_allclose(scanned(X), np.tile(3 * X.sum(0), (3, 1)))


def test_trees():
    found = vmap(lambda v: lax.psum({"a": v, "b": 2.0}, "i"), axis_name="i")(X)
    np.testing.assert_allclose(found["a"][0], X.sum(0))
    np.testing.assert_allclose(found["b"], [6, 6, 6])


def test_pmap_on_one_device():
    np.testing.assert_allclose(pmap(lambda v: 2 * v)(X[:1]), 2 * X[:1])
    scaled = pmap(lambda v, n: v * n, static_broadcasted_argnums=1)
    np.testing.assert_allclose(scaled(X[:1], 3), 3 * X[:1])
    shared = pmap(lambda v, w: v * w, in_axes=(0, None))
    np.testing.assert_allclose(shared(X[:1], 3.0), 3 * X[:1])
    nested = vmap(pmap(lambda v: v * 2, axis_name="i"), axis_name="j")
    np.testing.assert_allclose(nested(X[:, :1]), 2 * X[:, :1])
    loss = grad(lambda x: pmap(lambda v: v**2)(x).sum())
    np.testing.assert_allclose(loss(X[:1]), 2 * X[:1])


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (NameError, "unbound axis name: i", lambda: lax.psum(X, "i")),
        (NameError, "unbound axis name: i", lambda: lax.axis_index("i")),
        (
            ValueError,
            "must be unique",
            lambda: vmap(lambda v: lax.ppermute(v, "i", [(0, 1), (0, 2)]), 0, 0, "i")(
                X
            ),
        ),
        (
            ValueError,
            "size of the mapped axis",
            lambda: vmap(lambda v: lax.all_to_all(v, "i", 0, 0), 0, 0, "i")(X),
        ),
        (ValueError, "at least one argument", lambda: pmap(lambda v: v)(1.0)),
        (
            ValueError,
            "cover all indices exactly once",
            lambda: vmap(
                lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1]]), 0, 0, "i"
            )(X),
        ),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_more_rows_than_devices():
    """Simulated hosts have a device each, unless it is said how many there are."""
    before = curta.config.jax_num_cpu_devices
    curta.config.update("jax_num_cpu_devices", 2)
    try:
        with pytest.raises(ValueError, match="requires 3 logical devices"):
            pmap(lambda v: v)(X)
    finally:
        curta.config.update("jax_num_cpu_devices", before)


EXCHANGES = {
    "all_gather": lambda x: lax.all_gather(x, "data"),
    "all_to_all": lambda x: lax.all_to_all(x, "data", 0, 0),
    "pbroadcast": lambda x: lax.pbroadcast(x, "data", 0),
    "pmax": lambda x: lax.pmax(x, "data"),
    "ppermute": lambda x: lax.ppermute(x, "data", [(0, 0)]),
    "psum": lambda x: lax.psum(x, "data"),
    "reduce_scatter": lambda x: lax.psum_scatter(x, "data"),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_interpreters_bind_eqns_again_with_their_params(name):
    mesh, P = curta.make_mesh((1,), ("data",)), curta.sharding.PartitionSpec
    mapped = curta.shard_map(
        EXCHANGES[name], mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False
    )
    x = jnp.arange(3.0)[None]
    (outer,) = curta.make_jaxpr(mapped)(x).eqns
    (eqn,) = outer.params["jaxpr"].eqns
    assert eqn.primitive.name == name
    again = vmap(lambda x: eqn.primitive.bind(x, **eqn.params), axis_name="data")
    np.testing.assert_array_equal(
        again(x[None]), vmap(EXCHANGES[name], axis_name="data")(x[None])
    )
