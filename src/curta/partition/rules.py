"""Partitioning rules of ops that their factors do not describe.

Loops, branches and calls hold jaxprs, which are partitioned too. Callbacks run once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.control.call import JaxprOp
from curta.control.callback import Debugging, IOCallback
from curta.control.cond import Cond
from curta.control.remat import Remat
from curta.control.scan import Scan
from curta.control.shard_map import ShardMap
from curta.control.while_loop import While
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.op import Op
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits
from curta.partition.collectives import Terms, hoisted, in_buckets, summed_after
from curta.partition.host_mesh import Split
from curta.partition.part import HostPart, resharded, whole
from curta.partition.shard_maps import on_one_host
from curta.primitives.composed import Composed
from curta.primitives.elementwise import eq
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.host_collectives import HostIndex, HostPermute
from curta.primitives.placing import InspectSharding, Placing
from curta.primitives.structure import add_any, zeros
from curta.transforms.jaxprs import run_closed

_ROUNDS = 4  # maximum passes over a loop's body to a fixed point of its carry


@functools.singledispatch
def local_results(
    op: Op, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """The results of an eqn on one host; None if they are found by its factors.

    They are split as `wanted` or otherwise.
    """
    return None


@local_results.register
def _placing(
    op: Placing, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    return [HostPart(resharded(parts[0], wanted[0], partitioner.hosts), wanted[0])]


@local_results.register
def _inspect(
    op: InspectSharding,
    partitioner: Partitioning,
    eqn: Eqn,
    parts: Parts,
    wanted: Splits,
) -> Sequence[HostPart]:
    return []  # handled where results are placed


# ---- ops that hold jaxprs


@local_results.register
def _call(
    op: JaxprOp, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    return partitioner.jaxpr(op.jaxpr, parts, hints=wanted)


@local_results.register
def _composed(
    op: Composed, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    closed = op.expansion([v.aval.unplaced() for v in eqn.invars])
    return partitioner.jaxpr(closed, parts, hints=wanted)


KEEP_WINDOWS = (local_results.dispatch(object), _placing, _call, _composed)
"""The rules that take parts with windows; others are given equal parts."""


@local_results.register
def _remat(
    op: Remat, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    local, splits = partitioner.staged(op.jaxpr, [part.split for part in parts])
    results = op.with_jaxpr(in_buckets(local))(*[part.value for part in parts])
    return [HostPart(x, split) for x, split in zip(results, splits, strict=True)]


@local_results.register
def _shard_map(
    op: ShardMap, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    result = on_one_host(op, partitioner.hosts, parts, [v.aval for v in eqn.outvars])
    return _call(op, partitioner, eqn, parts, wanted) if result is None else result


@local_results.register
def _scan(
    op: Scan, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    """Arrays are whole along the dim of the iterations."""
    consts, carry, xs = op.parts(parts)
    stacked = [((), *part.split[1:]) for part in xs]
    fixed = [part.split for part in consts], [split[1:] for split in stacked]
    splits = [*map(_finer, [part.split for part in carry], wanted)]
    for _ in range(_ROUNDS):
        ins = [*fixed[0], *splits, *fixed[1]]
        _, out_splits = partitioner.staged(op.jaxpr, ins)
        better = [*map(_finer, splits, out_splits)]
        if better == splits:
            break
        splits = better
    outs = [*splits, *out_splits[op.num_carry :]]
    body, _ = partitioner.staged(op.jaxpr, [*fixed[0], *splits, *fixed[1]], outs)
    values = _values(partitioner, parts, [*fixed[0], *splits, *stacked])
    results = _scanned(op, body, values)
    ys = [((), *split) for split in outs[op.num_carry :]]
    return [
        HostPart(x, split) for x, split in zip(results, [*splits, *ys], strict=True)
    ]


def _scanned(op: Scan, body: ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
    """The loop, with what need not be done in each iteration before and after it."""
    consts, carry, xs = op.parts(values)
    terms = summed_after(body, len(consts), len(carry))
    if terms is None:
        terms = Terms(body, (None,) * len(carry))
    begin = [
        x if fold is None else zeros(typeof(x))
        for x, fold in zip(carry, terms.folds, strict=True)
    ]
    body, consts = _with_hoisted(terms.body, consts)
    results = op.with_body(body, len(consts), len(carry))(*consts, *begin, *xs)
    sums = [
        out if fold is None else add_any(x, fold(out))
        for x, out, fold in zip(carry, results, terms.folds)
    ]
    return [*sums, *results[len(carry) :]]


def _with_hoisted(
    body: ClosedJaxpr, consts: list[Any]
) -> tuple[ClosedJaxpr, list[Any]]:
    """A body, and its constants, with collectives of constants taken out."""
    result = hoisted(body, len(consts))
    if result is None:
        return in_buckets(body), consts
    return in_buckets(result.body), [*consts, *run_closed(result.before, consts)]


@local_results.register
def _while(
    op: While, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    given = [part.split for part in parts]
    cond_consts, body_consts, splits = op.parts(given)
    splits = [*map(_finer, splits, wanted)]
    for _ in range(_ROUNDS):
        _, out_splits = partitioner.staged(op.body_jaxpr, [*body_consts, *splits])
        better = [*map(_finer, splits, out_splits)]
        if better == splits:
            break
        splits = better
    body, _ = partitioner.staged(op.body_jaxpr, [*body_consts, *splits], splits)
    cond, _ = partitioner.staged(op.cond_jaxpr, [*cond_consts, *splits], [()])
    values = _values(partitioner, parts, [*cond_consts, *body_consts, *splits])
    tested, consts, carry = op.parts(values)
    cond, tested = _with_hoisted(cond, tested)
    body, consts = _with_hoisted(body, consts)
    loop = While(cond, body, len(tested), len(consts), op.masked)
    results = loop(*tested, *consts, *carry)
    return [HostPart(x, split) for x, split in zip(results, splits, strict=True)]


@local_results.register
def _cond(
    op: Cond, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    ins = [part.split for part in parts[1:]]
    each = [partitioner.staged(branch, ins)[1] for branch in op.branches]
    outs = [
        splits[0] if len({*splits}) == 1 else want
        for *splits, want in zip(*each, wanted, strict=True)
    ]
    branches = tuple(
        in_buckets(partitioner.staged(b, ins, outs)[0]) for b in op.branches
    )
    values = _values(partitioner, parts, [part.split for part in parts])
    results = op.with_branches(branches)(*values)
    return [HostPart(x, split) for x, split in zip(results, outs, strict=True)]


def _finer(split: Split, other: Split) -> Split:
    """A split, or if it cuts nothing, another."""
    return split if any(split) else other


def _values(partitioner: Partitioning, parts: Parts, splits: Splits) -> list[Any]:
    pairs = zip(parts, splits, strict=True)
    return [resharded(part, split, partitioner.hosts) for part, split in pairs]


# ---- callbacks


@local_results.register
def _debugging(
    op: Debugging, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    return [whole(x) for x in _on_first(op, partitioner, parts)]


@local_results.register
def _io_callback(
    op: IOCallback, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart]:
    """The first host calls, and sends the others what comes of it."""
    group = partitioner.hosts.everyone
    send = HostPermute(group, tuple((0, i) for i in range(group.size)))
    return [whole(send(x)) for x in _on_first(op, partitioner, parts)]


def _on_first(op: Any, partitioner: Partitioning, parts: Parts) -> Sequence[Any]:
    """The results of an op that only the first host does; zeros on the others."""
    values = [
        resharded(part, ((),) * len(part.split), partitioner.hosts) for part in parts
    ]
    avals = [typeof(x) for x in values]

    def absent(*_: Any) -> list[Any]:
        return [zeros(a) for a in op.aval(*avals)]

    branches = (stage(absent, avals), stage(lambda *xs: op(*xs), avals))
    first = eq(HostIndex(partitioner.hosts.everyone)(), np.int32(0))
    index = convert_element_type(first, np.dtype("int32"))
    result: Sequence[Any] = Cond(branches)(index, *values)
    return result
