"""Calling compiled functions: arrays in, arrays out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.config import config
from curta.control.call_exported import refuse_devices
from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.mesh import Mesh
from curta.core.sharding import Sharding
from curta.core.trace import typeof
from curta.errors import CancelledError
from curta.on_demand import late
from curta.partition.destinations import Destinations
from curta.partition.device_effects import (
    refuse_ordered,
    showing_parts,
    shows_parts,
)
from curta.partition.named_devices import NamedDevices, Shardings
from curta.runtime.array import ArrayImpl, held, wrap
from curta.runtime.backends import CompileOptions, overwriting, refuse_checks
from curta.runtime.debug_checks import check_results, checked
from curta.runtime.devices import (
    default_device,
    default_is_host,
    may_be_remote,
)
from curta.runtime.donation import donate, find_donation, take_back
from curta.runtime.executables import Executable
from curta.runtime.guard import guard_transfer
from curta.runtime.host_runs import several_hosts, spans_hosts
from curta.runtime.plans import Plan, PlanTable
from curta.runtime.queue import Pending
from curta.runtime.remote_data import RemoteData
from curta.runtime.transfer import to_array

device_call: Any = late("curta.runtime.device_call")
hosts_call: Any = late("curta.runtime.hosts_call")
native_call: Any = late("curta.runtime.native_call")


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
        self.closed = closed
        self.consumed: Any = find_donation(closed, donated) if any(donated) else {}
        self.watched: bool = bool(closed.effects)  # what they do depends on the devices
        self.made_of: tuple[Any, ...] = (
            *(closed, name, donated, in_shardings, out_shardings, mesh, moves),
        )
        self._checks = checks
        # By devices and shardings; by None for arguments on no particular device, where
        # the default device is that of a plugin.
        self._elsewhere = PlanTable()
        # Native code that makes such calls on one device.
        self._native: Callable[..., Any] | None = None
        #: Gives what to call when it runs where native code was not told of it.
        self.on_other_place: Callable[[], Callable[[], None] | None] = _nothing
        # What is for several hosts is not compiled as one program here.
        self.on_host: bool = default_is_host() and not several_hosts()
        self.out_avals: tuple[ShapedArray, ...] = closed.out_avals
        self.without_bits: list[int] = [
            i for i, a in enumerate(closed.out_avals) if a.dtype == dtypes.float0
        ]
        self.name = name
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
        return bool(self.without_bits or self._checks or self.watched)

    @functools.cached_property
    def executable(self) -> Executable:
        """What runs the program on this CPU."""
        if several_hosts():
            hosts_call.refuse_parts(self.closed.consts)
        # Who looks for special values may have to run the program again.
        return overwriting(self.closed, {} if self._checks else self.consumed)

    @functools.cached_property
    def run(self) -> Executable:
        """The same, with a look at the results if the settings ask for it."""
        run = self.executable
        return checked(self.name, self.closed, run) if self._checks else run

    @functools.cached_property
    def overwritten(self) -> Collection[int]:
        """The arguments in whose memory results lie."""
        return self.run.overwrites.values()

    @functools.cached_property
    def storage(self) -> Callable[[Any], Any]:
        """How NumPy arrays and scalars are read."""
        return borrowed if self.executable.borrows else copied

    @functools.cached_property
    def loop(self) -> Executable | None:
        """The program if nobody knows how long it runs."""
        return self.run if self.run.measured else None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
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
        return [ArrayImpl(x, a) for x, a in zip(outs, self.out_avals)]

    def _start(self, args: Sequence[Any]) -> list[Any]:
        """A call that may have to wait, or need not be waited for."""
        if self._native is not None:
            outs = self._native(*args)
            if outs is not native_call.MISS:
                return outs
        plan = self._elsewhere.get(None)
        if plan is not None and not any(map(is_placed, args)):
            return self._called(plan, args, False)
        if not self.on_host or may_be_remote():
            placed_as = shardings_of(args)
            plan = self._elsewhere.get(_same(placed_as)) if several_hosts() else None
            if plan is not None and plan.call is not None:
                return _held(plan.call(args), plan.out[0], plan.call)
            given, devices = self.devices(args)
            where = devices or (default_device(),)
            if where[0].hardware is not None:
                commit = bool(devices)
                plan = self._plan_on_devices(given, where, commit)
                return self._called(plan, args, commit)
            if spans_hosts(where):
                return self._on_hosts(
                    args, given, where, placed_as if devices else None
                )
        inputs = self.inputs(args)
        destined: Shardings = [None] * len(self.out_avals)
        if self.known_destinations or any(map(is_placed, args)):
            given, _ = self.devices(args)
            if self.watched and (other := self.over_devices(given)):
                return other._start(args)
            destined = self.destinations.results(given)
        outs = (
            self._consuming(args, inputs) if self.consumed else self._run(args, inputs)
        )
        results: list[Any] = [*map(self.result, outs, range(len(outs)), destined)]
        # Tangents of integers have no bits: they are NumPy arrays everywhere.
        for i in self.without_bits:
            results[i] = outs[i]
        return results

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """The storage of the arguments, or where it will be."""
        return [
            host_buffer(x) if type(x) is ArrayImpl else self.storage(x) for x in args
        ]

    def result(self, x: Any, k: int, sharding: Sharding | None) -> ArrayImpl:
        """The result of number `k` as an array that is laid out by `sharding`."""
        return placed(x, self.out_avals[k], sharding)

    def given_back(self, x: Any, i: int) -> Any:
        """The storage of argument `i`, which was not donated after all."""
        return x

    def _run(self, args: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        borrowed = [i for i, x in enumerate(args) if x is inputs[i]]
        return self.run.start(inputs, borrowed)

    def _consuming(self, args: Sequence[Any], inputs: list[Any]) -> Sequence[Any]:
        """A call that takes over donated arguments, unless there is no room for it."""
        taken: list[Pending] = []
        try:
            donate(self.consumed, args, inputs, self.overwritten, taken)
            return self._run(args, inputs)
        except (MemoryError, CancelledError):  # which come before anything ran
            stored = [self.given_back(x, i) for i, x in enumerate(inputs)]
            take_back(self.consumed, args, stored, taken)
            raise

    def read_alone(self, placed: Shardings) -> Shardings:
        """The shardings of the arguments, None for those that are not read."""
        return self.destinations.read_alone(placed)

    def devices(self, args: Sequence[Any]) -> tuple[Shardings, tuple[Any, ...]]:
        """Where the arguments are to be, and the devices of the program.

        There are none if nothing was placed. Raises ValueError if arguments are on
        other devices than the others.
        """
        to = self.destinations
        given = to.arguments(shardings_of(args), self.in_avals)
        needed = to.needed(given)
        check_devices(
            to.function, self.in_avals, given, needed, to.arg_names, to.closed.jaxpr
        )
        return given, to.devices(given)

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

    def _called(self, plan: Plan, args: Sequence[Any], commit: bool) -> list[Any]:
        """A call on devices of a plugin, which native code makes the next time."""
        call: Any = plan.call
        outs = self._looked_at(call(args, commit))
        # The same arrays may be known by several shardings that are equal.
        if call.entered < config.tuning.native_entries and not self.does_more:
            call.entered += 1
            entry = native_call.device_entry.entry(
                tuple(args), args, call, commit, list
            )
            if entry is not None:
                self._elsewhere.call_natively(plan, entry)
                self._native = native_call.native_caller(self._elsewhere.entries)
        return outs

    def on_devices(
        self, given: Shardings, devices: tuple[Any, ...], commit: bool
    ) -> Any:
        """The program compiled for devices of a plugin, and arguments there.

        With `commit` results are placed on them.
        """
        return self._plan_on_devices(given, devices, commit).call

    def _plan_on_devices(
        self, given: Shardings, devices: tuple[Any, ...], commit: bool
    ) -> Plan:
        """The plan of calls there."""
        refuse_checks(self.closed)
        key = devices, tuple(given)
        plan = self._elsewhere.get(key)
        if plan is None:
            outs = self.destinations.results(given)
            # Those that no result can take stay, as on the CPU.
            where = CompileOptions(self.name, devices, given, outs, self.consumed)
            made = Plan(call=device_call.DeviceCall(self.closed, where))
            plan = self._elsewhere.keep(key, made)
            if not (self.on_host or commit or self.known_destinations):
                self._elsewhere.keep(None, plan)
        known = plan.call.told >= config.tuning.native_entries or self.does_more
        if not known and (tell := self.on_other_place()):
            tell()
        result: Plan = plan
        return result

    def _on_hosts(
        self,
        args: Sequence[Any],
        given: Shardings,
        devices: tuple[Any, ...],
        placed_as: Shardings | None,
    ) -> list[Any]:
        """A call on several hosts.

        That arguments which were placed so are run so is remembered.
        """
        if self.watched and (other := self.over_devices(given)):
            return other._start(args)
        outs = self.destinations.results(given)
        avals = [
            a if s is None else placed_aval(a, s) for a, s in zip(self.out_avals, outs)
        ]
        call = self.call_on_hosts(given, devices, outs)
        if placed_as is not None:  # kept with the plan, as their ids are its key
            plan = Plan(call=call, out=(avals, placed_as))
            self._elsewhere.keep(_same(placed_as), plan)
        return _held(call(args), avals, call)

    def run_on_hosts(
        self,
        args: Sequence[Any],
        given: Shardings,
        devices: tuple[Any, ...],
        outs: Shardings,
        avals: Sequence[ShapedArray],
    ) -> list[Any]:
        """The results of a call on several hosts, which are to be at `outs`."""
        call = self.call_on_hosts(given, devices, outs)
        return _held(call(args), avals, call)

    def call_on_hosts(
        self, given: Shardings, devices: tuple[Any, ...], outs: Shardings
    ) -> Any:
        """The program partitioned for several hosts."""
        key = tuple(given), tuple(outs), config.context
        plan = self._elsewhere.get(key)
        if plan is None:
            mesh = self.destinations.mesh(given) or Mesh(list(devices), ("devices",))
            made = self._made_for_hosts(mesh, given, outs)
            plan = self._elsewhere.keep(key, Plan(call=made))
        return plan.call

    def _made_for_hosts(self, mesh: Mesh, given: Shardings, outs: Shardings) -> Any:
        return hosts_call.HostsCall(
            self.closed, self.name, mesh, self.consumed, given, outs, self._checks
        )

    def call_on_device(self, args: Sequence[Any]) -> tuple[Any, bool] | None:
        """The `DeviceCall` that these arguments go by, and whether results are placed.

        None for programs of this host, and for those of which the call is more.
        """
        if self.does_more or (self.on_host and not may_be_remote()):
            return None
        plan = self._elsewhere.get(None)
        if plan is not None and not any(map(is_placed, args)):
            return plan.call, False
        given, devices = self.devices(args)
        where = devices or (default_device(),)
        if where[0].hardware is None:
            return None
        return self.on_devices(given, where, bool(devices)), bool(devices)

    def _looked_at(self, results: list[Any]) -> list[Any]:
        """The results; tangents of integers, which have no bits, on the host."""
        if self._checks:
            check_results(self.name, [x._storage() for x in results], self.out_avals)
        for i in self.without_bits:
            results[i] = results[i]._storage()
        return results


def _nothing() -> None:
    """Nobody wants to know."""


def _same(shardings: Shardings) -> tuple[Any, ...]:
    """A key of shardings, by which ones they are, and of the settings."""
    return (*map(id, shardings), config.context)


def _held(outputs: Sequence[Any], avals: Sequence[ShapedArray], call: Any) -> list[Any]:
    """Arrays of what a call on hosts gives."""
    triples = zip(outputs, avals, call.out_shardings)
    return [x if type(x) is np.ndarray else held(x, a, s) for x, a, s in triples]


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


def check_devices(
    name: str,
    avals: Sequence[ShapedArray],
    shardings: Shardings,
    needed: Sequence[NamedDevices] = (),
    arg_names: Sequence[str] = (),
    jaxpr: Jaxpr | None = None,
) -> None:
    """Raise ValueError if the arguments are not all on the same devices.

    `needed` are the devices that the program needs, and who needs them; `jaxpr` is the
    program, whose calls of exported functions say more.
    """
    devices_of = {i: s.devices for i, s in enumerate(shardings) if s is not None}
    for i, named in enumerate(needed):
        devices_of[~i] = named.devices
    if len({*devices_of.values()}) < 2:
        return
    if jaxpr is not None:
        placed = [len(d) for i, d in devices_of.items() if i >= 0]
        refuse_devices(jaxpr, max(placed, default=1))
    result = []
    first = next(iter(devices_of.values()))
    other = next(i for i, devices in devices_of.items() if devices != first)
    for i in (next(iter(devices_of)), other):
        devices = devices_of[i]
        ids = [d.id for d in devices]
        platform = devices[0].platform.upper()
        where = f"with device ids {ids} on platform {platform}"
        if i < 0:
            result.append(f"{needed[~i].by} {where}")
            continue
        arg = arg_names[i] if i < len(arg_names) else f"args[{i}]"
        shape = avals[i].unplaced().str_short()
        result.append(f"argument {arg} of {name} with shape {shape} and {where}")
    raise ValueError(
        "Received incompatible devices for jitted computation. Got"
        f" {' and '.join(result)}. Bring them to the same devices with device_put."
    )
