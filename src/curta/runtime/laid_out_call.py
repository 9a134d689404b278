"""Calls of programs whose arguments or results are not all in row-major order.

The program that is compiled takes and gives the arrays as they are stored: transposes
at both its ends say what is which dim. They become the indices of its loops, so that an
order costs no pass over the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from curta.compiler.layout_assignment import Order, computed_orders, row_major
from curta.core.array_layout import Layout
from curta.core.avals import placed_aval
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr
from curta.core.mesh import Mesh
from curta.core.sharding import Sharding
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.partition.named_devices import Shardings
from curta.primitives.structure import Transpose
from curta.runtime.array import ArrayImpl, held, wrap
from curta.runtime.backends import overwriting
from curta.runtime.debug_checks import checked
from curta.runtime.dispatch import CompiledCall, hosts_call
from curta.runtime.donation import refuse_twice
from curta.runtime.executables import Executable
from curta.runtime.host_runs import several_hosts
from curta.runtime.hosts_data import HostsData, sharding_in_order
from curta.runtime.laid_out import LaidOutData, in_order, inverse
from curta.runtime.queue import Pending
from curta.runtime.relayout import check_donated_layouts, check_layout
from curta.runtime.transfer import to_array

Layouts = Sequence[Any]
"""For each value a `Layout`, `Layout.AUTO`, or None where nothing is said."""


def chosen_orders(
    closed: ClosedJaxpr, in_layouts: Layouts, out_layouts: Layouts
) -> tuple[list[Order], list[Order]]:
    """How arguments and results are stored: as is said, else in row-major order.

    What is left to the compiler is so for arguments; results are as computed.
    """
    ins = _said(in_layouts, [row_major(a) for a in closed.in_avals])
    outs = [row_major(a) for a in closed.out_avals]
    if Layout.AUTO in out_layouts:
        computed = computed_orders(closed.jaxpr, ins)
        outs = [
            c if wanted is Layout.AUTO else order
            for c, wanted, order in zip(computed, out_layouts, outs, strict=True)
        ]
    return ins, _said(out_layouts, outs)


def _said(layouts: Layouts, orders: list[Order]) -> list[Order]:
    return [
        layout.order if isinstance(layout, Layout) else order
        for layout, order in zip(layouts or [None] * len(orders), orders, strict=True)
    ]


class LaidOutCall(CompiledCall):
    """A `CompiledCall` with arguments and results in the orders of these layouts.

    On devices of plugins arrays are in the orders of those.
    """

    def __init__(
        self, in_layouts: Layouts, out_layouts: Layouts, closed: ClosedJaxpr, *rest: Any
    ):
        self.in_layouts: Sequence[Any] = in_layouts or [None] * len(closed.in_avals)
        self.out_layouts: Sequence[Any] = out_layouts or [None] * len(closed.out_avals)
        orders = chosen_orders(closed, in_layouts, out_layouts)
        self.in_orders, self.out_orders = orders
        super().__init__(closed, *rest)
        self.special = self.known_destinations = True

    @cached_property
    def stored(self) -> ClosedJaxpr:
        """The program of arrays as they are stored."""
        closed, ins, outs = self.closed, self.in_orders, self.out_orders

        def run(*args: Any) -> list[Any]:
            given = map(_transposed, args, map(inverse, ins))
            result = eval_jaxpr(closed.jaxpr, closed.consts, *given)
            return [*map(_transposed, result, outs)]

        avals = stage(lambda *xs: [*map(_transposed, xs, ins)], closed.in_avals)
        return stage(run, avals.out_avals, closed.jaxpr.debug_info)

    @cached_property
    def executable(self) -> Executable:
        """What runs the program on this CPU."""
        if several_hosts():
            hosts_call.refuse_parts(self.closed.consts)
        return overwriting(self.stored, {} if self._checks else self._fitting)

    @property
    def _fitting(self) -> dict[int, int]:
        """The donated arguments that are stored as their results are."""
        stored = self.stored
        return {
            i: k
            for i, k in self.consumed.items()
            if stored.in_avals[i].strip_weak_type()
            == stored.out_avals[k].strip_weak_type()
        }

    @cached_property
    def run(self) -> Executable:
        """The same, with a look at the results if the settings ask for it."""
        run = self.executable
        return checked(self.name, self.stored, run) if self._checks else run

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """The arguments as the program takes them.

        Raises ValueError for arrays on devices that are stored in another order than
        `jit` was told.
        """
        self.check_layouts(args)
        return [*map(self._input, args, self.in_orders)]

    def _input(self, x: Any, order: Order) -> Any:
        buffer = getattr(x, "_pending", None) if type(x) is ArrayImpl else None
        if type(buffer) is LaidOutData and buffer.major_to_minor == order:
            return buffer.stored
        (data,) = super().inputs([x])
        if order == tuple(range(len(order))):
            return data
        return in_order(data.wait() if type(data) is Pending else data, order)

    def check_layouts(self, args: Sequence[Any]) -> None:
        """Raise ValueError for arguments that are not stored as `jit` was told."""
        for x, layout in zip(args, self.in_layouts, strict=True):
            if layout is not None and type(x) is ArrayImpl and x.committed:
                check_layout(layout, x)
        placed = [type(x) is ArrayImpl and x.committed for x in args]
        check_donated_layouts(self.consumed, self.in_layouts, self.out_layouts, placed)

    def result(self, x: Any, k: int, sharding: Sharding | None) -> ArrayImpl:
        """The result of number `k` as an array."""
        order = self.out_orders[k]
        if order == tuple(range(len(order))):
            return super().result(x, k, sharding)
        aval = self.out_avals[k]
        data = x.wait() if type(x) is Pending else wrap(x, typeof(x))._storage()
        aval = aval if sharding is None else placed_aval(aval, sharding)
        return held(LaidOutData(data, order), aval, sharding)

    def _made_for_hosts(self, mesh: Mesh, given: Shardings, outs: Shardings) -> Any:
        call = hosts_call.HostsCall(
            self.stored,
            self.name,
            mesh,
            self._fitting,
            _in_order(given, self.in_orders),
            _in_order(outs, self.out_orders),
            self._checks,
        )
        return LaidOutOnHosts(self, call)

    def given_back(self, x: Any, i: int) -> Any:
        """The storage of argument `i`, which was not donated after all."""
        order = self.in_orders[i]
        return x if order == tuple(range(len(order))) else LaidOutData(x, order)


class LaidOutOnHosts:
    """A call on several hosts, in the orders of a program.

    `call` is that of its arrays as they are stored.
    """

    def __init__(self, program: LaidOutCall, call: Any) -> None:
        self._program = program
        self._call = call
        self.out_shardings: list[Sharding] = [
            sharding_in_order(s, inverse(order))
            for s, order in zip(call.out_shardings, program.out_orders, strict=True)
        ]

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """The elements of the results."""
        program = self._program
        program.check_layouts(args)
        refuse_twice(program.consumed, args)
        outs = self._call([*map(_as_stored, args, program.in_orders)])
        for i in program.consumed:
            if type(args[i]) is ArrayImpl:
                args[i].delete()
        return [
            x if order == tuple(range(len(order))) else LaidOutData(x, order)
            for x, order in zip(outs, program.out_orders, strict=True)
        ]


def _in_order(shardings: Shardings, orders: Sequence[Order]) -> list[Sharding | None]:
    return [
        None if s is None else sharding_in_order(s, order)
        for s, order in zip(shardings, orders, strict=True)
    ]


def _as_stored(x: Any, order: Order) -> ArrayImpl:
    """The array of the elements of an argument as a program takes them."""
    array = to_array(x)
    if order == tuple(range(len(order))):
        return array
    buffer = getattr(array, "_pending", None)
    if type(buffer) is LaidOutData and buffer.major_to_minor == order:
        data = buffer.stored
    else:
        data = array._buffer()
        remote = type(data) is HostsData
        data = in_order(data if remote else array._storage(), order)
    if type(data) is HostsData:
        return held(data, data.aval, data.sharding)
    return ArrayImpl(data, array.aval.update(shape=data.shape))


def _transposed(x: Any, order: Order) -> Any:
    return x if order == tuple(range(len(order))) else Transpose(order)(x)
