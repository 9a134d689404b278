"""Calls of programs whose arguments or results are not all in row-major order.

The program that is compiled takes and gives the arrays as they are stored: transposes
at both its ends say what is which dim. They become the indices of its loops, so that an
order costs no pass over the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from curta.compiler.layout_assignment import Order, computed_orders, row_major
from curta.core.array_layout import Layout
from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr
from curta.core.sharding import Sharding
from curta.core.stage import stage
from curta.primitives.structure import Transpose
from curta.runtime.array import ArrayImpl, held
from curta.runtime.devices import default_device
from curta.runtime.dispatch import CompiledCall, shardings_of
from curta.runtime.donation import give_up, refuse_twice
from curta.runtime.executables import Executable
from curta.runtime.hosts_data import HostsData, sharding_in_order
from curta.runtime.laid_out import LaidOutData, in_order, inverse
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

    On devices of plugins arrays are in the orders of those. Elsewhere it calls the
    program of arrays as they are stored.
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
    def stored(self) -> CompiledCall:
        """The call of the program of arrays as they are stored."""
        closed, ins, outs = self.closed, self.in_orders, self.out_orders

        def run(*args: Any) -> list[Any]:
            given = map(_transposed, args, map(inverse, ins))
            result = eval_jaxpr(closed.jaxpr, closed.consts, *given)
            return [*map(_transposed, result, outs)]

        avals = stage(lambda *xs: [*map(_transposed, xs, ins)], closed.in_avals)
        program = stage(run, avals.out_avals, closed.jaxpr.debug_info)
        types = [a.strip_weak_type() for a in (*program.in_avals, *program.out_avals)]
        first, taken = len(ins), self.consumed
        donated = [
            i in taken and types[i] == types[first + taken[i]] for i in range(first)
        ]
        to = self.destinations
        in_shardings = [*map(sharding_in_order, to.in_shardings, ins)]
        out_shardings = [*map(sharding_in_order, to.out_shardings, outs)]
        rest = in_shardings, out_shardings, to.around, to.moves
        return CompiledCall(program, self.name, donated, *rest)

    @property
    def executable(self) -> Executable:
        """What runs the program on this CPU."""
        return self.stored.executable

    def _start(self, args: Sequence[Any]) -> list[Any]:
        devices = self.destinations.of_call(shardings_of(args)).devices
        if (devices or (default_device(),))[0].hardware is not None:
            return super()._start(args)
        self._check_layouts(args)
        refuse_twice(self.consumed, args)
        stored = [*map(_as_stored, args, self.in_orders)]
        lent = [i for i in self.consumed if stored[i] is not args[i]]
        give_up(lent, args)
        try:
            outs = self.stored(stored)
        except Exception:
            for i in lent:  # what was not used up
                if type(args[i]) is ArrayImpl and not stored[i].is_deleted():
                    data = LaidOutData(stored[i]._buffer(), self.in_orders[i])
                    args[i].revive(data)
            raise
        return [*map(_as_told, outs, self.out_orders, self.out_avals)]

    def _check_layouts(self, args: Sequence[Any]) -> None:
        """Raise ValueError for arguments that are not stored as `jit` was told."""
        for x, layout in zip(args, self.in_layouts, strict=True):
            if layout is not None and type(x) is ArrayImpl and x.committed:
                check_layout(layout, x)
        placed = [type(x) is ArrayImpl and x.committed for x in args]
        check_donated_layouts(self.consumed, self.in_layouts, self.out_layouts, placed)


def _as_stored(x: Any, order: Order) -> ArrayImpl:
    """The array of the elements of an argument as a program takes them."""
    array = to_array(x)
    if _is_row_major(order):
        return array
    buffer = getattr(array, "_pending", None)
    if type(buffer) is LaidOutData and buffer.major_to_minor == order:
        data = buffer.stored
    else:
        data = array._buffer()
        remote = type(data) is HostsData
        data = in_order(data if remote else array._storage(), order)
    where = sharding_in_order(array._sharding, order)
    aval = array.aval.unplaced().update(shape=tuple(array.shape[d] for d in order))
    if type(data) is HostsData:
        data = data.shared()
    return _placed(data, aval, where)


def _as_told(x: Any, order: Order, aval: ShapedArray) -> ArrayImpl:
    """A result, which a program gives as it is to be stored, with the dims it has."""
    if _is_row_major(order) or type(x) is not ArrayImpl:
        return x
    data = x._buffer()
    data = data if type(data) is HostsData else x._storage()
    where = sharding_in_order(x._sharding, inverse(order))
    return _placed(LaidOutData(data, order), aval, where)


def _placed(data: Any, aval: ShapedArray, sharding: Sharding | None) -> ArrayImpl:
    aval = aval if sharding is None else placed_aval(aval, sharding)
    if type(data) is np.ndarray:
        return ArrayImpl(data, aval, sharding)
    return held(data, aval, sharding)


def _is_row_major(order: Order) -> bool:
    return order == tuple(range(len(order)))


def _transposed(x: Any, order: Order) -> Any:
    return x if _is_row_major(order) else Transpose(order)(x)
