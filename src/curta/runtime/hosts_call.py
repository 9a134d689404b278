"""Calls of programs on several hosts: arrays in, arrays out.

The program is partitioned into that of one host, which is compiled once and runs on
every host that this process is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.collective_sequence import check_in_order
from curta.control.stacked_terms import has_terms, stacked
from curta.core.avals import ShapedArray, placed_aval
from curta.core.buffers import is_last_reference
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding
from curta.hosts.engine import of_process
from curta.partition.host_mesh import HostMesh, host_mesh
from curta.partition.own_host import one_program
from curta.partition.partition import LocalProgram, partition
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.backends import overwriting
from curta.runtime.debug_checks import checked
from curta.runtime.donation import Donation, give_up, refuse_twice
from curta.runtime.host_runs import on_each_host
from curta.runtime.hosts_data import (
    HostLayout,
    HostsData,
    hosts_here,
    layout_on,
    moved,
    one_of_equal,
    own_copy,
    sliced,
    split,
    stored_shape,
    stored_sharding,
)
from curta.runtime.remote_data import NDArray
from curta.runtime.same_programs import check_same_collectives, check_same_program
from curta.runtime.transfer import to_array

Shardings = Sequence[Sharding | None]


class HostsCall:
    """A program partitioned for hosts, with what it takes to call it on arrays.

    `in_shardings` and `out_shardings` are those of all arguments and results; the
    arguments are brought there. With `checks` results are looked at for special values.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        mesh: Mesh,
        donation: Donation,
        in_shardings: Shardings,
        out_shardings: Shardings,
        checks: bool = False,
    ) -> None:
        shardings = [*in_shardings, *out_shardings]
        self._name = check_same_program(closed, name, mesh, shardings)
        whole = NamedSharding(mesh, PartitionSpec())
        self.out_avals: tuple[ShapedArray, ...] = closed.out_avals
        self.out_shardings: list[Sharding | NamedSharding] = [
            s or whole for s in out_shardings
        ]
        self._donation = donation
        self._arg_names = closed.jaxpr.debug_info.arg_names
        closed, self._captured = _with_captured(closed)
        arg_shardings = [*[x._sharding for x in self._captured], *in_shardings]
        local, self._with_bits = local_program(
            closed, mesh, arg_shardings, self.out_shardings, host_mesh(mesh)
        )
        self.local = local
        hosts = local.hosts
        self.hosts = hosts
        self.in_layouts: Any = [layout_on(hosts, s) for s in local.in_splits]
        self.out_layouts: Any = [layout_on(hosts, s) for s in local.out_splits]
        pairs = zip(self.out_avals, self.out_shardings, strict=True)
        shapes = [stored_shape(a, s) for a, s in pairs]
        self._shapes = [shapes[k] for k in self._with_bits]
        here = of_process()
        # A NumPy array for these is refused: each process may have another one.
        self._told_split = [
            i
            for i, s in enumerate(in_shardings)
            if here.count > 1 and s is not None and not s.is_fully_replicated
        ]
        program = one_program(local.closed)
        own = program.closed
        self._numbers = {h: program.numbers(h) for h in hosts_here(hosts)}
        pairs_in_place = {} if checks else self._in_place(own)
        run = overwriting(own, pairs_in_place)
        self._communicates = bool(run.collectives)
        check_in_order(run.collectives)
        check_same_collectives(run.collectives, self._name, mesh)
        # Arguments whose memory it may overwrite, even if no result stays there.
        self._overwritten = [*pairs_in_place]
        self.run: Any = checked(name, own, run) if checks else run

    def __call__(self, args: Sequence[Any]) -> list[HostsData | NDArray]:
        """The elements of the results; NumPy arrays of those without bits."""
        args = [*self._captured, *args]
        rows = self._rows(args)

        def run(host: int) -> Sequence[NDArray]:
            row = rows.pop(host)
            for i in self._overwritten:
                if not is_last_reference(row, i):
                    row[i] = own_copy(row[i])
            return self.run(*row, *self._numbers[host])

        name = self._name if self._communicates else ""
        result = on_each_host(sorted(self.hosts.hosts), run, what=name)
        results: list[Any] = [
            np.zeros(a.shape, dtypes.float0) if a.dtype == dtypes.float0 else None
            for a in self.out_avals
        ]
        for n, k in enumerate(self._with_bits):
            layout = self.out_layouts[n]
            parts = {host: outs[n] for host, outs in result.items()}
            parts = one_of_equal(parts, layout, self._shapes[n])
            aval, sharding = self.out_avals[k], self.out_shardings[k]
            results[k] = HostsData(aval, sharding, layout, parts)
        return results

    def _rows(self, args: Sequence[Any]) -> dict[int, list[NDArray]]:
        """The parts of all arguments on each host; donated arrays are deleted.

        Raises ValueError for NumPy arrays that were told to be split over processes.
        """
        first = len(self._captured)
        if any(type(args[first + i]) is np.ndarray for i in self._told_split):
            raise ValueError(
                "Passing non-trivial shardings for numpy inputs is not allowed: each"
                " process would take its part of an array of its own. Make one of them,"
                " with jax.make_array_from_process_local_data or jax.device_put."
            )
        refuse_twice(self._arg_names, self._donation, args[first:])
        given = [on_hosts(x, y) for x, y in zip(args, self.in_layouts, strict=True)]
        hosts = hosts_here(self.hosts)
        rows = {host: [parts[host] for parts in given] for host in hosts}
        give_up(self._donation, args[first:])
        return rows

    def _in_place(self, own: ClosedJaxpr) -> Donation:
        """The donated arguments of the local program, with results of their types."""
        result = {}
        for i, k in self._donation.items():
            if k in self._with_bits:
                i, n = i + len(self._captured), self._with_bits.index(k)
                if own.in_avals[i].unplaced() is own.out_avals[n].unplaced():
                    result[i] = n
        return result


def local_program(
    closed: ClosedJaxpr,
    mesh: Mesh,
    in_shardings: Shardings,
    out_shardings: Shardings,
    hosts: HostMesh,
) -> tuple[LocalProgram, list[int]]:
    """The program of one host, on arrays as hosts store them.

    Second come the numbers of the results that it gives: those that have bits.
    """
    ins = _stored(in_shardings, closed.in_avals)
    outs = _stored(out_shardings, closed.out_avals)
    if has_terms(closed.jaxpr):
        closed = stacked(closed)
    closed, with_bits = _without_float0(closed)
    outs = [outs[k] for k in with_bits]
    return partition(closed, mesh, ins, outs, hosts), with_bits


def _stored(
    shardings: Shardings, avals: Sequence[ShapedArray]
) -> list[Sharding | None]:
    pairs = zip(shardings, avals, strict=True)
    return [None if s is None else stored_sharding(s, a) for s, a in pairs]


def _with_captured(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[ArrayImpl]]:
    """The program with its constants that lie on hosts as its first arguments.

    Raises RuntimeError for those of which other processes have parts.
    """
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, strict=True))
    apart = [(v, c) for v, c in pairs if _is_apart(c)]
    if not apart:
        return closed, []
    refuse_parts(c for _, c in apart)
    rest = [(v, c) for v, c in pairs if not _is_apart(c)]
    jaxpr = jaxpr.replace(
        constvars=tuple(v for v, _ in rest),
        invars=(*[v for v, _ in apart], *jaxpr.invars),
    )
    return ClosedJaxpr(jaxpr, [c for _, c in rest]), [c for _, c in apart]


def refuse_parts(consts: Iterable[Any]) -> None:
    """Raise RuntimeError for constants of which other processes have parts."""
    for c in consts:
        if _is_apart(c) and not c.is_fully_addressable:
            raise RuntimeError(
                "Closing over jax.Array that spans non-addressable (non process local)"
                " devices is not allowed. Please pass such arrays as arguments to the"
                f" function. Got jax.Array: {c.aval.str_short()}"
            )


def _is_apart(x: Any) -> bool:
    return type(x) is ArrayImpl and type(x._buffer()) is HostsData


def _without_float0(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[int]]:
    """The program without results that have no bits, and the numbers of the others."""
    kept = [k for k, a in enumerate(closed.out_avals) if a.dtype != dtypes.float0]
    if len(kept) == len(closed.out_avals):
        return closed, kept
    jaxpr = closed.jaxpr
    outvars = tuple(jaxpr.outvars[k] for k in kept)
    return ClosedJaxpr(jaxpr.replace(outvars=outvars), closed.consts), kept


def on_hosts(x: Any, layout: HostLayout) -> Any:
    """The parts of an argument that hosts have by a layout."""
    array = x if type(x) is ArrayImpl else to_array(x)
    buffer = array._buffer()
    if type(buffer) is HostsData:
        return buffer.at(layout)
    return sliced(array._storage(), layout)


def placed_on_hosts(x: ArrayImpl, sharding: Sharding) -> ArrayImpl:
    """An array where a sharding over several hosts says."""
    aval = placed_aval(x.aval, sharding)
    buffer = x._buffer()
    if type(buffer) is HostsData:
        data = moved(buffer, sharding)
    else:
        data = split(x._storage(), aval, sharding)
    return wrap(HostsData(aval, sharding, data.layout, data.parts), aval, sharding)
