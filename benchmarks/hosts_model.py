"""The time of a training step on 8 to 4,096 hosts, predicted by a stated model.

    python -m benchmarks.hosts_model

A step of a transformer layer is partitioned for meshes of (data, model) and its
collectives are counted; nothing is run. The prediction is flops / rate + bytes /
bandwidth + rounds * latency (curta/partition/costs.py), where nothing overlaps; and, in
the order in which compiled code begins and ends collectives, with a host that computes
while its network carries one collective after the other. Weak scaling: each row of
hosts along `data` has a batch of its own.
"""

from __future__ import annotations

from typing import Any

import curta
from benchmarks.hosts_bytes import OF_WEIGHTS, f32, layer, program, weights
from curta import P
from curta.api.cost import eqn_flops, flops
from curta.compiler.rewrite.overlap import overlapped
from curta.compiler.rewrite.prepare import prepare
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.partition.costs import traffic_of
from curta.primitives.host_collectives import HostDone, HostStart

RATE = 1e12  # flops a second of one host
BANDWIDTH = 12.5e9  # bytes a second out of one host: 100 Gbit/s
LATENCY = 5e-6  # seconds a message
BATCH, LENGTH, WIDTH, HEADS = 8, 512, 1024, 16
MESHES = ((8, 1), (1, 8), (8, 8), (64, 8), (512, 8), (4096, 1))


def step(x, *weights):
    """Gradient descent on the weights of the layer."""

    def loss(*weights):
        return (layer(x, *weights) ** 2).mean()

    grads = curta.grad(loss, tuple(range(len(weights))))(*weights)
    return [w - 1e-3 * g for w, g in zip(weights, grads, strict=True)]


def predicted(data: int, model: int) -> ClosedJaxpr:
    """The program of one host."""
    args = [f32(BATCH * data, LENGTH, WIDTH), *weights(WIDTH, HEADS)]
    axes, specs = {"data": data, "model": model}, [P("data"), *OF_WEIGHTS]
    return program(step, args, axes, specs, OF_WEIGHTS)


def overlapping(closed: ClosedJaxpr) -> float:
    """The seconds of a step whose communication overlaps with computation."""
    host = network = 0.0  # until when each is busy
    ends: dict[Any, float] = {}
    jaxpr = overlapped(prepare(closed, host()).jaxpr)
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, HostDone):
            host = max(host, ends[eqn.invars[-1]])
            continue
        begun = isinstance(eqn.op, HostStart)
        alone = eqn.replace(op=eqn.op.each) if begun else eqn
        part = ClosedJaxpr(Jaxpr((), eqn.invars, eqn.outvars, (alone,)))
        sent = traffic_of(part).seconds(BANDWIDTH, LATENCY)
        if sent:
            network = max(host, network) + sent
            ends[eqn.outvars[0]] = network
        if sent and not begun:
            host = network
        host += 0.0 if begun else eqn_flops(eqn) / RATE
    return host


def main() -> None:
    """Print a row for each mesh, as a table of Markdown."""
    print(
        "| hosts | data x model | Gflop | MB sent | rounds | predicted step"
        " | overlapping |"
    )
    print("|---|---|---|---|---|---|---|")
    for data, model in MESHES:
        closed = predicted(data, model)
        work, traffic = flops(closed), traffic_of(closed)
        busy = work / RATE
        seconds = busy + traffic.seconds(BANDWIDTH, LATENCY)
        print(
            f"| {data * model} | {data} x {model} | {work / 1e9:.1f}"
            f" | {traffic.total / 1e6:.1f} | {traffic.rounds}"
            f" | {seconds * 1e3:.1f} ms, {busy / seconds:.0%} computing"
            f" | {overlapping(closed) * 1e3:.1f} ms |"
        )


if __name__ == "__main__":
    main()
