"""Calls of a program where this CPU does not run it alone: on plugins' devices, hosts.

Arguments that a program is called with say where it runs (`Destinations`). For each
such sharding it is compiled once, as a `DeviceCall` or a `HostsCall`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta._base.on_demand import late
from curta.config import config
from curta.core.avals import placed_aval
from curta.core.compile_log import timed
from curta.core.mesh import Mesh
from curta.partition.destinations import Placed
from curta.partition.device_effects import refuse_ordered
from curta.partition.named_devices import Shardings
from curta.runtime import native_call
from curta.runtime.array import wrap
from curta.runtime.backends import CompileOptions, refuse_checks
from curta.runtime.devices import default_device
from curta.runtime.dispatch import CompiledCall, is_placed, shardings_of
from curta.runtime.host_runs import spans_hosts
from curta.runtime.plans import Plan, PlanTable

device_call: Any = late("curta.runtime.device_call")
hosts_call: Any = late("curta.runtime.hosts_call")


class Elsewhere(PlanTable):
    """The plans of one program by devices and shardings.

    That of None is for arguments on no particular device, where the default device is
    that of a plugin.
    """

    def __init__(self) -> None:
        super().__init__()
        # Native code that makes such calls on one device.
        self._native: Callable[..., Any] | None = None

    def call(self, program: CompiledCall, args: Sequence[Any]) -> list[Any] | None:
        """The results; None where this CPU runs the program."""
        if self._native is not None:
            outs: list[Any] = self._native(*args)
            if outs is not native_call.MISS:
                return outs
        plan = self.get(None)
        if plan is not None and not any(map(is_placed, args)):
            return self._on_device(program, plan, args, False)
        placed = program.destinations.of_call(shardings_of(args))
        where = placed.devices or (default_device(),)
        if where[0].hardware is not None:
            plan = self.on_devices(program, placed.given, placed.devices)
            return self._on_device(program, plan, args, bool(placed.devices))
        if not spans_hosts(where):
            return None
        if program.watched and (other := program.over_devices(placed.given)):
            return other(args)
        plan = self.get(placed)
        if plan is None:
            plan = self.keep(placed, _for_hosts(program, placed, where))
        call: Any = plan.call
        triples = zip(call(args), plan.out, call.out_shardings)
        return [x if type(x) is np.ndarray else wrap(x, a, s) for x, a, s in triples]

    # ---- devices of plugins

    def on_device(
        self, program: CompiledCall, args: Sequence[Any]
    ) -> tuple[Any, bool] | None:
        """The `DeviceCall` that arguments go by, and whether results are placed.

        None where that is no device of a plugin.
        """
        plan = self.get(None)
        if plan is not None and not any(map(is_placed, args)):
            return plan.call, False
        placed = program.destinations.of_call(shardings_of(args))
        if (placed.devices or (default_device(),))[0].hardware is None:
            return None
        plan = self.on_devices(program, placed.given, placed.devices)
        return plan.call, bool(placed.devices)

    def _on_device(
        self, program: CompiledCall, plan: Plan, args: Sequence[Any], commit: bool
    ) -> list[Any]:
        """A call on devices, which native code makes the next time."""
        call: Any = plan.call
        outs: list[Any] = call(args, commit)
        if program.checks:
            program.look_at(outs, args)
        # Tangents of integers, which have no bits, are on the host.
        for i in program.without_bits:
            outs[i] = outs[i]._storage()
        # Native entries compare shardings by identity: equal ones may take several.
        if call.entered < config.tuning.native_entries and not program.does_more:
            call.entered += 1
            entry = native_call.device_entry.entry(
                tuple(args), args, call, commit, list
            )
            if entry is not None:
                self.call_natively(plan, entry)
                self._native = native_call.native_caller(self.entries)
        return outs

    def on_devices(
        self, program: CompiledCall, given: Shardings, devices: tuple[Any, ...]
    ) -> Plan:
        """The plan of calls on devices; on the default one, for want of others."""
        commit, devices = bool(devices), devices or (default_device(),)
        refuse_checks(program.closed)
        if len(devices) > 1:
            refuse_ordered(program.closed.effects)
        key = devices, tuple(given)
        plan: Plan | None = self.get(key)
        if plan is None:
            outs = program.destinations.results(given)
            # Donated arguments that no result can take stay, as on the CPU; all stay
            # where checks for NaN may run the ops again.
            taken = {} if program.checks else program.consumed
            where = CompileOptions(program.name, devices, given, outs, taken)
            with timed(f"compilation of {program.name}"):
                call = device_call.DeviceCall(program.closed, where)
            plan = self.keep(key, Plan(call=call))
            if not (program.on_host or commit or program.known_destinations):
                self.keep(None, plan)
        told: Any = plan.call
        known = told.told >= config.tuning.native_entries or program.does_more
        if not known and (tell := program.on_other_devices()):
            tell()
        return plan


def _for_hosts(program: CompiledCall, placed: Placed, devices: Sequence[Any]) -> Plan:
    """The plan of a program that is partitioned for several hosts."""
    to = program.destinations
    given, outs = placed.given, to.results_of(placed)
    mesh = to.mesh(given) or Mesh([*devices], ("devices",))
    of_hosts = program.consumed, given, outs, program.checks
    pairs = zip(program.out_avals, outs, strict=True)
    with timed(f"compilation of {program.name}"):
        call = hosts_call.HostsCall(program.closed, program.name, mesh, *of_hosts)
    return Plan(
        call=call,
        out=[a if s is None else placed_aval(a, s) for a, s in pairs],
    )
