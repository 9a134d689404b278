"""Count the bytes that leave a host, and compare them with textbook formulas.

    python -m benchmarks.hosts_bytes

Programs are partitioned for 8 to 4,096 hosts; their collectives are counted, nothing is
run. The status is 1 if one sends more than the textbook. Of an array of b bytes the
best algorithms send from each of n hosts b (n - 1) / n bytes in an all-gather or a
reduce-scatter, twice as many in an all-reduce. Which of these a split needs: for
products on a grid SUMMA (van de Geijn and Watts, 1997), for data-parallel steps one
all-reduce of each gradient, for transformer layers Megatron-LM (Shoeybi et al., 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import curta
import curta.numpy as jnp
from curta import P
from curta.core.jaxpr import ClosedJaxpr
from curta.partition.costs import ProgramTraffic, traffic_of
from curta.partition.host_mesh import grouped
from curta.partition.partition import partition
from curta.runtime.devices import Device
from curta.sharding import AxisType, Mesh, NamedSharding

WORD = 4
SIZES = ((8,), (64,), (512,), (4096,))
GRIDS = ((4, 2), (8, 8), (64, 8), (256, 16))


class Case(NamedTuple):
    """Return the counted bytes and the bytes of the formula."""

    traffic: ProgramTraffic
    nbytes: float


def f32(*shape: int) -> curta.ShapeDtypeStruct:
    """The type of an argument."""
    return curta.ShapeDtypeStruct(shape, np.float32)


def program(
    f: Callable[..., Any],
    args: Sequence[Any],
    axes: Mapping[str, int],
    specs: Sequence[P],
    outs: Sequence[P],
) -> ClosedJaxpr:
    """The program of one host, where each device of a mesh is one."""
    count = int(np.prod([*axes.values()]))
    devices = np.array([Device(i, process_index=i) for i in range(count)])
    kinds = (AxisType.Auto,) * len(axes)
    mesh = Mesh(devices.reshape(tuple(axes.values())), tuple(axes), kinds)
    closed = curta.make_jaxpr(f)(*args)
    ins, results = ([NamedSharding(mesh, s) for s in x] for x in (specs, outs))
    hosts = grouped(mesh, tuple(range(count)))
    return partition(closed, mesh, ins, results, hosts).closed


def once(nbytes: int, n: int) -> float:
    """The bytes that leave a host in an all-gather or reduce-scatter of `nbytes`."""
    return nbytes * (n - 1) / n


def product_of_rows(n: int) -> Case:
    """Rows of the first factor, all of the second: nothing is sent."""
    args, axes = [f32(2 * n, 2 * n)] * 2, {"x": n}
    local = program(jnp.matmul, args, axes, [P("x"), P()], [P("x")])
    return Case(traffic_of(local), 0)


def product_over_parts(n: int) -> Case:
    """The dim that is summed over is split: each host keeps its rows of the sum."""
    args, axes = [f32(n, n)] * 2, {"x": n}
    local = program(jnp.matmul, args, axes, [P(None, "x"), P("x")], [P("x")])
    return Case(traffic_of(local), once(n * n * WORD, n))


def product_on_a_grid(n: int) -> Case:
    """SUMMA: a row of blocks of one factor, a column of those of the other."""
    side = round(n**0.5)
    m, split = 4 * side, P("x", "y")
    axes = {"x": side, "y": side}
    local = program(jnp.matmul, [f32(m, m)] * 2, axes, [split] * 2, [split])
    sent = 2 * once(m * m * WORD // side, side)
    return Case(traffic_of(local), sent)


def data_parallel_step(n: int) -> Case:
    """A perceptron, its examples split: each gradient is summed once, all at once."""

    def step(w: Any, v: Any, x: Any, y: Any) -> Any:
        def loss(w: Any, v: Any) -> Any:
            return ((jnp.tanh(x @ w) @ v - y) ** 2).mean()

        dw, dv = curta.grad(loss, (0, 1))(w, v)
        return w - 0.1 * dw, v - 0.1 * dv

    args = [f32(32, 64), f32(64, 8), f32(2 * n, 32), f32(2 * n, 8)]
    local = program(step, args, {"x": n}, [P(), P(), P("x"), P("x")], [P(), P()])
    gradients = (32 * 64 + 64 * 8) * WORD
    return Case(traffic_of(local), 2 * once(gradients, n))


OF_WEIGHTS = [P(None, "model")] * 3 + [P("model"), P(None, "model"), P("model")]


def weights(width: int, heads: int) -> list[curta.ShapeDtypeStruct]:
    """Those of a transformer layer."""
    head = width // heads
    attention = [f32(width, heads, head)] * 3 + [f32(heads, head, width)]
    return [*attention, f32(width, 4 * width), f32(4 * width, width)]


def layer(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
    """A transformer layer without norms: heads and the hidden dim may be split."""
    q, k, v = (jnp.einsum("bsd,dhe->bhse", x, w) for w in (wq, wk, wv))
    scores = jnp.einsum("bhse,bhte->bhst", q, k) * np.float32(wq.shape[-1] ** -0.5)
    mixed = jnp.einsum("bhst,bhte->bhse", curta.nn.softmax(scores), v)
    x = x + jnp.einsum("bhse,hed->bsd", mixed, wo)
    return x + curta.nn.gelu(x @ w1) @ w2


LENGTH, WIDTH, HEADS = 8, 64, 16
ACTIVATIONS = 2 * LENGTH * WIDTH * WORD  # two examples for each row of hosts


def of_layer(
    data: int, model: int, f: Callable[..., Any], outs: list[P]
) -> ProgramTraffic:
    """The traffic of a function of a batch and the weights of a layer."""
    args = [f32(2 * data, LENGTH, WIDTH), *weights(WIDTH, HEADS)]
    axes, specs = {"data": data, "model": model}, [P("data"), *OF_WEIGHTS]
    return traffic_of(program(f, args, axes, specs, outs))


def transformer_layer(data: int, model: int) -> Case:
    """Forward: activations are summed after the attention, and in the end."""
    traffic = of_layer(data, model, layer, [P("data")])
    return Case(traffic, 2 * 2 * once(ACTIVATIONS, model))


def gradients_of_a_layer(data: int, model: int) -> Case:
    """Twice more backward, and the gradients of weights once over `data`."""

    def gradients(*args: Any) -> Any:
        return curta.grad(lambda *a: (layer(*a) ** 2).sum(), range(7))(*args)

    traffic = of_layer(data, model, gradients, [P("data"), *OF_WEIGHTS])
    parameters = 12 * WIDTH**2 * WORD // model
    sent = 4 * 2 * once(ACTIVATIONS, model) + 2 * once(parameters, data)
    return Case(traffic, sent)


CASES: dict[Callable[..., Case], Sequence[tuple[int, ...]]] = {
    product_of_rows: SIZES,
    product_over_parts: SIZES,
    product_on_a_grid: ((16,), (256,), (4096,)),
    data_parallel_step: SIZES,
    transformer_layer: GRIDS,
    gradients_of_a_layer: GRIDS,
}


def main() -> int:
    """Print a row for each program and mesh; the status is whether one is over."""
    over = 0
    print("| program | hosts | bytes sent | by the textbook | collectives |")
    print("|---|---|---|---|---|")
    for case, meshes in CASES.items():
        for mesh in meshes:
            found = case(*mesh)
            over += found.traffic.total > found.nbytes
            kinds = ", ".join(f"{n} {kind}" for kind, n in found.traffic.counts.items())
            print(
                f"| {case.__name__.replace('_', ' ')} | {' x '.join(map(str, mesh))}"
                f" | {found.traffic.total:,} | {found.nbytes:,.0f} | {kinds} |"
            )
    return int(over > 0)


if __name__ == "__main__":
    raise SystemExit(main())
