"""Calls of programs whose arguments or results are not all in row-major order.

The program that is compiled takes and gives the arrays as they are stored: transposes
at both its ends say what is which dim. They become the indices of its loops, so that an
order costs no pass over the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta._base.once import cached_property
from curta.compiler.layout_assignment import (
    Layouts,
    Order,
    chosen_orders,
    inverse,
    is_sorted,
    stored_program,
)
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.partition.named_devices import Shardings
from curta.runtime.array import ArrayImpl
from curta.runtime.dispatch import CompiledCall, placed
from curta.runtime.donation import refuse_twice
from curta.runtime.executables import Executable
from curta.runtime.laid_out import LaidOutData, in_order, sharding_in_order
from curta.runtime.relayout import check_donated_layouts, check_layout
from curta.runtime.remote_data import RemoteData
from curta.runtime.transfer import to_array


class LaidOutCall(CompiledCall):
    """A `CompiledCall` with arguments and results in the orders of these layouts.

    It calls the program of arrays as they are stored, wherever these are.
    """

    def __init__(
        self, in_layouts: Layouts, out_layouts: Layouts, closed: ClosedJaxpr, *rest: Any
    ):
        self.in_layouts: Sequence[Any] = in_layouts or [None] * len(closed.in_avals)
        self.out_layouts: Sequence[Any] = out_layouts or [None] * len(closed.out_avals)
        orders = chosen_orders(closed, in_layouts, out_layouts)
        self.in_orders, self.out_orders = orders
        self._back = [*map(inverse, self.out_orders)]
        super().__init__(closed, *rest)
        self.special = self.known_destinations = True

    @cached_property
    def stored(self) -> CompiledCall:
        """The call of the program of arrays as they are stored."""
        ins, outs = self.in_orders, self.out_orders
        program = stored_program(self.closed, ins, outs)
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
        self._check_layouts(args)
        refuse_twice(self.arg_names, self.consumed, args)
        stored = [*map(_as_stored, args, self.in_orders)]
        borrowed = [i for i in self.consumed if stored[i] is not args[i]]
        for i in borrowed:  # the elements are now those of the array as it is stored
            if type(args[i]) is ArrayImpl:
                args[i]._data = args[i]._pending = None
        try:
            outs = self.stored(stored)
        except Exception:
            for i in borrowed:  # arguments that were not donated after all
                if type(args[i]) is ArrayImpl and not stored[i].is_deleted():
                    data = LaidOutData(stored[i]._buffer(), self.in_orders[i])
                    args[i].revive(data)
            raise
        return [*map(_as_told, outs, self.out_orders, self._back, self.out_avals)]

    def call_on_device(self, args: Sequence[Any]) -> None:
        """Native code knows nothing of layouts."""

    def on_devices(self, given: Shardings, devices: tuple[Any, ...]) -> Any:
        """The program compiled for devices of a plugin, and arguments there."""
        stored = [*map(sharding_in_order, given, self.in_orders)]
        return self.stored.on_devices(stored, devices)

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
    if is_sorted(order):
        return array
    buffer = getattr(array, "_pending", None)
    if type(buffer) is LaidOutData and buffer.major_to_minor == order:
        data = buffer.stored
    else:
        data = in_order(_elements(array), order)
    where = sharding_in_order(array._sharding, order)
    aval = array.aval.unplaced().update(shape=tuple(array.shape[d] for d in order))
    return placed(data, aval, where)


def _elements(x: ArrayImpl) -> Any:
    """The elements of an array, on this CPU or on devices."""
    data = x._buffer()
    return data if isinstance(data, RemoteData) else x._storage()


def _as_told(x: Any, order: Order, back: Order, aval: ShapedArray) -> ArrayImpl:
    """A result, which a program gives as it is to be stored, with the dims it has."""
    if is_sorted(order) or type(x) is not ArrayImpl:
        return x
    where = sharding_in_order(x._sharding, back)
    return placed(LaidOutData(_elements(x), order), aval, where)
