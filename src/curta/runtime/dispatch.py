"""Calling compiled functions: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import late
from curta._base.once import cached_property
from curta.config import config
from curta.core.avals import ShapedArray, placed_aval
from curta.core.compile_log import timed
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import Mesh
from curta.core.sharding import Sharding
from curta.core.trace import typeof
from curta.errors import CancelledError, OutOfMemoryError
from curta.partition.destinations import Destinations
from curta.partition.device_effects import (
    refuse_ordered,
    showing_parts,
    shows_parts,
)
from curta.partition.named_devices import Shardings
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.backends import overwriting
from curta.runtime.debug_checks import check_results, checked
from curta.runtime.devices import (
    default_is_host,
    may_be_remote,
)
from curta.runtime.donation import (
    donate,
    find_donation,
    give_up,
    refuse_twice,
    take_back,
)
from curta.runtime.executables import Executable
from curta.runtime.guard import guard_transfer
from curta.runtime.host_runs import several_hosts
from curta.runtime.plans import Plan
from curta.runtime.queue import Pending
from curta.runtime.remote_data import RemoteData
from curta.runtime.transfer import to_array
from curta.transforms.dce import used_inputs
from curta.transforms.lowering import lower_jaxpr

device_call: Any = late("curta.runtime.device_call")
elsewhere: Any = late("curta.runtime.elsewhere")
hosts_call: Any = late("curta.runtime.hosts_call")
memory_errors: Any = late("curta.runtime.memory_errors")


class CompiledCall:
    """An executable with what is needed to call it on arrays.

    `donated` marks the inputs whose memory the caller gives up; () for none.
    `in_shardings` and `out_shardings` say where inputs and outputs are to be; None, or
    an empty sequence, leaves that to the arguments, or to the `mesh`. With `moves`
    arguments are brought there, however they are split.
    """

    special: bool

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        donated: Sequence[bool] = (),
        in_shardings: Shardings = (),
        out_shardings: Shardings = (),
        mesh: Mesh | None = None,
        moves: bool = False,
    ):
        checks = config.jax_debug_nans or config.jax_debug_infs
        closed = lower_jaxpr(closed)
        self.closed = closed
        self.consumed: Any = find_donation(closed, donated) if any(donated) else {}
        self._read: list[bool] = used_inputs(closed.jaxpr) if self.consumed else []
        self.watched: bool = bool(closed.effects)  # effects depend on the devices
        self.made_of: tuple[Any, ...] = (
            *(closed, name, donated, in_shardings, out_shardings, mesh, moves),
        )
        self.checks: bool = checks
        #: What to call when it runs on devices that have no native entry.
        self.on_other_devices: Callable[[], Callable[[], None] | None] = _nothing
        # Over several hosts each host's part is compiled, not the whole program.
        self.on_host: bool = default_is_host() and not several_hosts()
        self.out_avals: tuple[ShapedArray, ...] = closed.out_avals
        self.without_bits: list[int] = [
            i for i, a in enumerate(closed.out_avals) if a.dtype == dtypes.float0
        ]
        self.name = name
        self.arg_names: tuple[str, ...] = closed.jaxpr.debug_info.arg_names
        self.in_avals: tuple[ShapedArray, ...] = closed.in_avals
        self.destinations: Destinations = Destinations(
            closed, in_shardings, out_shardings, mesh, moves
        )
        self.known_destinations: bool = self.destinations.known
        self.special = True
        if self.on_host:
            self.special = bool(
                self.run.is_async or self.known_destinations or self.without_bits
            )

    @property
    def does_more(self) -> bool:
        """Whether a call does more than to run the program on its arguments."""
        return bool(self.without_bits or self.checks or self.watched)

    @cached_property
    def _elsewhere(self) -> Any:
        """How the program runs on devices of plugins, and on several hosts."""
        return elsewhere.Elsewhere()

    @cached_property
    def executable(self) -> Executable:
        """What runs the program on this CPU."""
        if several_hosts():
            hosts_call.refuse_parts(self.closed.consts)
        # Checks for NaN may run the program again, so nothing is donated.
        consumed = {} if self.checks else self.consumed
        with timed(f"compilation of {self.name}"):
            return overwriting(self.closed, consumed)

    @cached_property
    def run(self) -> Executable:
        """The same, with a look at the results if the settings ask for it."""
        run = self.executable
        return checked(self.name, self.closed, run) if self.checks else run

    @cached_property
    def overwritten(self) -> Collection[int]:
        """The arguments in whose memory results lie."""
        return self.run.overwrites.values()

    @cached_property
    def storage(self) -> Callable[[Any], Any]:
        """How NumPy arrays and scalars are read."""
        return borrowed if self.executable.borrows else copied

    @cached_property
    def loop(self) -> Executable | None:
        """The program if nobody knows how long it runs."""
        return self.run if self.run.measured else None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        try:
            if self.special or (self.loop is not None and self.loop.is_async):
                return self._start(args)
            inputs = []
            for x in args:
                if type(x) is not ArrayImpl:
                    inputs.append(self.storage(x))
                    continue
                data = x._data
                if data is None or x._sharding is not None:
                    return self._start(args)
                inputs.append(data)
            if not self.consumed:
                outs = self.run(*inputs)
            else:
                data = None  # arguments are overwritten if nobody else refers to them
                outs = self._consuming(args, inputs)
        except OutOfMemoryError as error:
            memory_errors.note_line(error, self.closed.jaxpr, self.name)
            raise
        return [ArrayImpl(x, a) for x, a in zip(outs, self.out_avals)]

    def _start(self, args: Sequence[Any]) -> list[Any]:
        """A call that may have to wait, or need not be waited for."""
        if not self.on_host or may_be_remote():
            made: list[Any] | None = self._elsewhere.call(self, args)
            if made is not None:
                return made
        where: Shardings = [None] * len(self.out_avals)
        if self.known_destinations or any(map(is_placed, args)):
            known = self.destinations.of_call(shardings_of(args))
            if self.watched and (other := self.over_devices(known.given)):
                return other._start(args)
            where = self.destinations.results_of(known)
        inputs = [
            self._input(i, x) if type(x) is ArrayImpl else self.storage(x)
            for i, x in enumerate(args)
        ]
        outs = (
            self._consuming(args, inputs) if self.consumed else self._run(args, inputs)
        )
        results: list[Any] = [*map(placed, outs, self.out_avals, where)]
        # Tangents of integers have no bits: they are NumPy arrays everywhere.
        for i in self.without_bits:
            results[i] = outs[i]
        return results

    def _input(self, number: int, x: ArrayImpl) -> Any:
        """The elements of an array, or memory for those that nobody reads here."""
        if is_here(x) or self.destinations.reads(number):
            return host_buffer(x)
        return np.empty(x.shape, dtypes.physical_dtype(x.dtype))

    def _run(self, args: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        borrowed = [i for i, x in enumerate(args) if x is inputs[i]]
        return self.run.start(inputs, borrowed)

    def _consuming(self, args: Sequence[Any], inputs: list[Any]) -> Sequence[Any]:
        """A call that takes over donated arguments, unless there is no room for it."""
        taken: list[Pending] = []
        try:
            refuse_twice(self.arg_names, self.consumed, inputs, self._read)
            donate(self.consumed, args, inputs, self.overwritten, taken)
            return self._run(args, inputs)
        except (MemoryError, CancelledError):  # raised before anything ran
            take_back(self.consumed, args, inputs, taken)
            raise

    def look_at(self, outs: Sequence[Any], args: Sequence[Any]) -> None:
        """Check what devices have computed of arguments, as the settings ask."""

        def given() -> list[Any] | None:
            arrays = [*map(to_array, args)]
            return [x._storage() for x in arrays] if all(map(is_here, arrays)) else None

        try:
            check_results(self.name, self.closed, [*map(own_part, outs)], given)
        finally:
            give_up(self.consumed, args)

    def read_alone(self, placed: Shardings) -> Shardings:
        """The shardings of the arguments, None for those that are not read."""
        return self.destinations.read_alone(placed)

    def over_devices(self, given: Shardings) -> CompiledCall | None:
        """What runs instead over several devices, if callbacks show parts of arrays.

        Raises ValueError for effects that programs over several devices may not have.
        """
        mesh = self.destinations.mesh(given)
        if mesh is None or mesh.size < 2:
            return None
        closed, name, *rest = self.made_of
        refuse_ordered(closed.effects)
        if not shows_parts(closed.jaxpr):
            return None
        key = mesh, tuple(given)
        plan = self._elsewhere.get(key)
        if plan is None:
            call = CompiledCall(showing_parts(closed, given, mesh), name, *rest)
            plan = self._elsewhere.keep(key, Plan(call=call))
        result: CompiledCall = plan.call
        return result

    def call_on_device(self, args: Sequence[Any]) -> tuple[Any, bool] | None:
        """The `DeviceCall` that these arguments go by, and whether results are placed.

        None for programs of this host, and for those of which the call is more.
        """
        if self.does_more or (self.on_host and not may_be_remote()):
            return None
        call: tuple[Any, bool] | None = self._elsewhere.on_device(self, args)
        return call

    def on_devices(self, given: Shardings, devices: tuple[Any, ...]) -> Any:
        """The program compiled for devices of a plugin, and arguments there.

        With no devices that is the default one, and results are placed nowhere.
        """
        return self._elsewhere.on_devices(self, given, devices).call


def is_here(x: ArrayImpl) -> bool:
    """Whether this process has all elements of an array."""
    data = x._buffer()
    return not isinstance(data, RemoteData) or data.is_here


def own_part(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The elements of an array that this process has, in any shape."""
    if is_here(x):
        return x._storage()
    parts: list[Any] = [s.data for s in x.addressable_shards]
    flat = [part._storage().ravel() for part in parts]
    return np.concatenate(flat) if flat else np.zeros(0)


def _nothing() -> None:
    """The default hook: does nothing."""


def is_placed(x: Any) -> bool:
    """Whether an argument was placed on devices."""
    return type(x) is ArrayImpl and x._sharding is not None


def host_buffer(x: ArrayImpl) -> Any:
    """The elements of an array on this CPU, or where they will be."""
    buffer = x._buffer()
    return x._storage() if isinstance(buffer, RemoteData) else buffer


def copied(x: Any) -> Any:
    """The elements of a NumPy array or scalar in memory of their own."""
    return to_array(x)._storage()


def borrowed(x: Any) -> Any:
    """The elements of a NumPy array or scalar, for as long as a call lasts."""
    if type(x) is np.ndarray and x.dtype.num in _AS_THEY_ARE and x.flags.carray:
        if config.jax_transfer_guard_host_to_device != "allow":
            guard_transfer("host_to_device", typeof(x))
        return x
    return copied(x)


# NumPy's own types that are not halved, in the order of bytes of the machine.
_AS_THEY_ARE = frozenset(
    np.dtype(t).num
    for t in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")
)


def placed(x: Any, aval: ShapedArray, sharding: Sharding | None) -> ArrayImpl:
    """A result as an array that is laid out by `sharding`."""
    if sharding is not None:
        aval = placed_aval(aval, sharding)
    return wrap(x, aval, sharding)


def shardings_of(args: Sequence[Any]) -> Shardings:
    """Where each argument was placed; None if nowhere in particular."""
    return [x._sharding if type(x) is ArrayImpl else None for x in args]
