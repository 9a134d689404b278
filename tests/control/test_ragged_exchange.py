"""`ragged_all_to_all`: against a loop over senders, slices and rows."""

import functools

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import P, grad, jit, lax, shard_map, vmap
from curta.sharding import AxisType
from curta.test_util import check_grads

ROWS, OUT = 6, 9


def exchanged(groups, operand, output, begins, sizes, places):
    """The arrays of all devices after the exchange, each within its group."""
    output = output.copy()
    for group in groups:
        each = begins.shape[1] // len(group)
        for sender in group:
            for k in range(begins.shape[1]):
                receiver = group[k // each]
                for row in range(sizes[sender, k]):
                    source = operand[sender, begins[sender, k] + row]
                    output[receiver, places[sender, k] + row] = source
    return output


def slices(groups, count, each, seed):
    """Random slices, each with a place of its own at its receiver."""
    rng = np.random.default_rng(seed)
    size = len(groups[0])
    begins = rng.integers(0, ROWS - 2, (count, size * each), np.int32)
    sizes = rng.integers(0, 3, begins.shape, np.int32)
    places, received = np.zeros_like(begins), np.zeros_like(begins)
    for group in groups:
        for i, receiver in enumerate(group):
            place = 0
            for j, sender in enumerate(group):
                for k in range(each):
                    n = i * each + k
                    sizes[sender, n] = min(sizes[sender, n], OUT - place)
                    places[sender, n] = place
                    received[receiver, j * each + k] = sizes[sender, n]
                    place += sizes[sender, n]
    operand = rng.standard_normal((count, ROWS, 2)).astype(np.float32)
    output = rng.standard_normal((count, OUT, 2)).astype(np.float32)
    return operand, output, begins, sizes, places, received


def on_mesh(shape, names, groups=None, check_vma=True):
    mesh = curta.make_mesh(shape, names, (AxisType.Auto,) * len(shape))

    def body(*args):
        args = [x[0] for x in args]
        axis = names if len(names) > 1 else names[0]
        found = lax.ragged_all_to_all(*args, axis_name=axis, axis_index_groups=groups)
        return found[None]

    spec = P(names)
    return shard_map(
        body, mesh=mesh, in_specs=(spec,) * 6, out_specs=spec, check_vma=check_vma
    )


@pytest.mark.parametrize(
    ("shape", "names", "groups"),
    [
        ((4,), ("x",), None),
        ((2, 2), ("x", "y"), None),
        ((4,), ("x",), [[0, 2], [3, 1]]),
    ],
)
@pytest.mark.parametrize("each", [1, 2])
def test_values_and_derivatives(shape, names, groups, each):
    whole = groups or [[*range(4)]]
    args = slices(whole, 4, each, seed=each)
    f = on_mesh(shape, names, groups)
    expected = exchanged(whole, *args[:5])
    np.testing.assert_array_equal(f(*args), expected)
    np.testing.assert_array_equal(jit(f)(*args), expected)
    check_grads(lambda x, y: f(x, y, *args[2:]), args[:2], 2, eps=1.0)


@pytest.mark.parametrize("check_vma", [True, False])
def test_many_receivers_of_a_row(check_vma):
    """The cotangents of a row that is sent twice are added up."""
    operand, output = np.ones((2, 3), np.float32), np.zeros((2, 4), np.float32)
    begins = np.array([[0, 0], [1, 2]], np.int32)
    sizes = np.array([[2, 3], [1, 1]], np.int32)
    places = np.array([[0, 0], [2, 3]], np.int32)
    received = np.array([[2, 1], [3, 1]], np.int32)
    f = on_mesh((2,), ("x",), check_vma=check_vma)
    total = grad(lambda x: f(x, output, begins, sizes, places, received).sum())
    np.testing.assert_array_equal(total(operand), [[2, 2, 1], [0, 1, 1]])


def test_examples_beside_the_axis():
    groups = [[0, 1], [2, 3]]
    many = [slices(groups, 4, 2, seed) for seed in range(3)]
    f = on_mesh((4,), ("x",), groups)
    stacked = [np.stack(xs) for xs in zip(*many, strict=True)]
    expected = [exchanged(groups, *args[:5]) for args in many]
    np.testing.assert_array_equal(vmap(f)(*stacked), np.stack(expected))
    one = [stacked[0], *many[0][1:]]
    expected = [exchanged(groups, x, *many[0][1:5]) for x in stacked[0]]
    np.testing.assert_array_equal(vmap(f, (0, *[None] * 5))(*one), np.stack(expected))
    mapped = vmap(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"), axis_name="i")
    args = slices([[0, 1, 2, 3]], 4, 1, 0)
    np.testing.assert_array_equal(mapped(*args), exchanged([[0, 1, 2, 3]], *args[:5]))


def test_jaxpr_and_errors():
    args = slices([[0, 1]], 2, 1, 0)
    jaxpr = curta.make_jaxpr(on_mesh((2,), ("x",)))(*args)
    (body,) = curta.extend.core.jaxprs_in_params(jaxpr.eqns[0].params)
    eqn = next(e for e in body.eqns if e.primitive is lax.ragged_all_to_all_p)
    assert eqn.params == {"axis_name": ("x",), "axis_index_groups": None}
    x, n = jnp.zeros((3, 2)), jnp.zeros(2, jnp.int32)
    mapped = vmap(
        lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"),
        in_axes=(0, *[None] * 5),
        axis_name="i",
    )
    many = jnp.zeros((2, 3, 2))
    with pytest.raises(ValueError, match="send_sizes must be integer type"):
        mapped(many, x, n, n.astype("float32"), n, n)
    with pytest.raises(ValueError, match="output_offsets must be rank 1 with positive"):
        mapped(many, x, n, n, n[None], n)
    with pytest.raises(ValueError, match="rows of one shape"):
        mapped(many, x[:, :1], n, n, n, n)
    with pytest.raises(ValueError, match="multiple of the axis size 2"):
        mapped(many, x, n[:1], n[:1], n[:1], n[:1])
    alone = functools.partial(lax.ragged_all_to_all, axis_name="i")
    with pytest.raises(NameError, match="Found an unbound axis name: i"):
        curta.jit(alone)(x, x, n, n, n, n)
    with pytest.raises(RuntimeError, match="must be used within a mapped context"):
        alone(x, x, n, n, n, n)
    with pytest.raises(TypeError, match="interpreting argument to ragged_all_to_all"):
        alone(x, "x", n, n, n, n)
