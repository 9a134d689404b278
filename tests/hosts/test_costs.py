"""Bytes between hosts, counted: those of the textbook, to 4,096 hosts."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import P, lax
from curta.config import enable_x64
from curta.partition.costs import traffic_of
from curta.partition.host_mesh import grouped
from curta.partition.partition import partition
from curta.runtime.devices import Device
from curta.sharding import AxisType, Mesh, NamedSharding

WORD = 4


def f32(*shape):
    return curta.ShapeDtypeStruct(shape, np.float32)


def traffic(f, args, axes, specs, outs):
    """The traffic of one host, where each device of a mesh is one."""
    return traffic_of(program(f, args, axes, specs, outs))


def program(f, args, axes, specs, outs):
    """The program of one host."""
    count = int(np.prod([*axes.values()]))
    devices = np.array([Device(i, process_index=i) for i in range(count)])
    kinds = (AxisType.Auto,) * len(axes)
    mesh = Mesh(devices.reshape(tuple(axes.values())), tuple(axes), kinds)
    closed = curta.make_jaxpr(f)(*args)
    ins, results = ([NamedSharding(mesh, s) for s in x] for x in (specs, outs))
    hosts = grouped(mesh, tuple(range(count)))
    return partition(closed, mesh, ins, results, hosts).closed


@pytest.mark.parametrize("n", [8, 64, 512, 4096])
def test_product_of_rows_needs_nothing(n):
    m = 2 * n
    args, specs = [f32(m, m), f32(m, m)], [P("x"), P()]
    assert traffic(jnp.matmul, args, {"x": n}, specs, [P("x")]).total == 0


@pytest.mark.parametrize("n", [8, 64, 512, 4096])
def test_product_over_parts_scatters_the_sum(n):
    """Each host keeps 1/n of the sum: (n - 1)/n of the result leaves it."""
    m = n
    args, specs = [f32(m, m), f32(m, m)], [P(None, "x"), P("x")]
    found = traffic(jnp.matmul, args, {"x": n}, specs, [P("x")])
    assert found.nbytes == {"reduce_scatter": (n - 1) * m * m * WORD // n}


@pytest.mark.parametrize("n", [4, 16, 64])
def test_product_on_a_grid(n):
    """SUMMA: a row of blocks of one factor, a column of those of the other."""
    m = 4 * n
    args, specs = [f32(m, m), f32(m, m)], [P("x", "y"), P("x", "y")]
    found = traffic(jnp.matmul, args, {"x": n, "y": n}, specs, [P("x", "y")])
    block = m * m * WORD // n**2
    assert found.total == 2 * (n - 1) * block


@pytest.mark.parametrize("n", [8, 64, 512, 4096])
def test_a_data_parallel_step_folds_each_gradient_once(n):
    def step(w, v, x, y):
        def loss(w, v):
            return ((jnp.tanh(x @ w) @ v - y) ** 2).mean()

        dw, dv = curta.grad(loss, (0, 1))(w, v)
        return w - 0.1 * dw, v - 0.1 * dv

    args = [f32(32, 64), f32(64, 8), f32(2 * n, 32), f32(2 * n, 8)]
    found = traffic(step, args, {"x": n}, [P(), P(), P("x"), P("x")], [P(), P()])
    assert found.total == 2 * (n - 1) * (32 * 64 + 64 * 8) * WORD // n
    assert found.counts == {"all_reduce": 1}


def layer(x, wq, wk, wv, wo, w1, w2):
    """A transformer layer: heads and the hidden dim are split over `model`."""
    b, s, d = x.shape
    heads = wq.shape[1]
    q, k, v = (jnp.einsum("bsd,dhe->bhse", x, w) for w in (wq, wk, wv))
    scores = jnp.einsum("bhse,bhte->bhst", q, k) / np.sqrt(d // heads)
    mixed = jnp.einsum("bhst,bhte->bhse", curta.nn.softmax(scores), v)
    x = x + jnp.einsum("bhse,hed->bsd", mixed, wo)
    return x + curta.nn.gelu(x @ w1) @ w2


def weight_shapes(d, h):
    head = d // h
    return [(d, h, head)] * 3 + [(h, head, d), (d, 4 * d), (4 * d, d)]


@pytest.mark.parametrize(("data", "model"), [(1, 8), (4, 8), (64, 8), (256, 16)])
def test_a_transformer_layer_sums_twice(data, model):
    """As in Megatron-LM (Shoeybi et al., 2019): two all-reduces of activations."""
    b, s, d, h = 2 * data, 8, 64, 16
    weights = [f32(*shape) for shape in weight_shapes(d, h)]
    specs = [P("data")] + [P(None, "model")] * 3 + [P("model"), P(None, "model"),
             P("model")]  # fmt: skip
    axes = {"data": data, "model": model}
    found = traffic(layer, [f32(b, s, d), *weights], axes, specs, [P("data")])
    activations = b // data * s * d * WORD
    assert found.counts == {"all_reduce": 2}
    assert found.total == 2 * (2 * (model - 1) * activations // model)


@pytest.mark.parametrize(("data", "model"), [(4, 8), (256, 16)])
def test_its_gradients_sum_twice_more_and_once_for_weights(data, model):
    b, s, d, h = 2 * data, 8, 64, 16
    weights = [f32(*shape) for shape in weight_shapes(d, h)]
    own = [P(None, "model")] * 3 + [P("model"), P(None, "model"), P("model")]
    axes = {"data": data, "model": model}

    def step(x, *weights):
        def loss(x, *w):
            return (layer(x, *w) ** 2).sum()

        return curta.grad(loss, tuple(range(7)))(x, *weights)

    specs = [P("data"), *own]
    found = traffic(step, [f32(b, s, d), *weights], axes, specs, specs)
    activations = b // data * s * d * WORD
    parameters = 12 * d * d * WORD // model
    along_model = 4 * (2 * (model - 1) * activations // model)
    along_data = 2 * (data - 1) * parameters // data
    assert found.total == along_model + along_data


def test_loops_count_for_all_iterations():
    def f(x):
        return lax.scan(lambda c, _: (jnp.tanh(c) * c.sum(), None), x, None, length=7)

    found = traffic(f, [f32(16)], {"x": 8}, [P("x")], [P("x")])
    assert found.counts == {"all_reduce": 7} and found.rounds == 7 * 2 * 3
    assert found.seconds(1e9, 1e-6) == found.total / 1e9 + 42e-6


def test_a_listing_names_the_line():
    def f(x):
        return x / x.sum(0)

    text = str(traffic(f, [f32(16, 4)], {"x": 8}, [P("x")], [P("x")]))
    first, line = text.splitlines()
    assert first == "28 bytes leave each host"
    assert line.startswith("all_reduce over x (8 hosts), 28 bytes: ")
    assert "test_costs.py" in line


def test_rows_that_an_int32_cannot_count_are_counted_or_refused():
    large = 1 << 33
    axes, rows = {"x": 8}, [P("x")]
    with enable_x64(True):
        local = program(lambda: lax.iota("int64", large), [], axes, [], rows)
    assert f"{large // 8}:i64[]" in str(local)
    with pytest.raises(NotImplementedError, match="another dim"):
        program(lambda: lax.iota("float32", large), [], axes, [], rows)
