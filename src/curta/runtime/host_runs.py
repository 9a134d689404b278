"""Hosts: whether there are several, and running functions on those that are here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from curta.config import config
from curta.hosts.engine import of_process
from curta.hosts.simulated import run_on_hosts


def several_hosts() -> bool:
    """Whether there are hosts, other processes or simulated, with other memory."""
    return config.curta_simulate_hosts > 1 or of_process().count > 1


def spans_hosts(devices: Sequence[Any]) -> bool:
    """Whether devices are of several hosts, or of another one.

    Devices of plugins are not: their programs run over several hosts by themselves.
    """
    if not several_hosts() or devices[0].hardware is not None:
        return False
    host, here = devices[0].host, of_process()
    if here.count > 1 and host != here.index:
        return True
    return any(d.host != host for d in devices)


def on_each_host(
    hosts: Sequence[int],
    function: Callable[[int], Any],
    meet: bool = True,
    what: str = "",
) -> dict[int, Any]:
    """`function(host)` for those of the hosts that are here, with the results.

    `what` names the program whose collectives the function runs.

    Simulated hosts run at once, in threads of their own, unless they do not `meet`.
    """
    here = of_process()
    if here.count > 1:
        if here.index not in hosts:
            return {}
        index = here.index
        if not meet:
            return {index: function(index)}
        run = partial(function, index)
        return {index: here.in_thread_order(tuple(hosts), run, what)}
    if not meet or len(hosts) == 1:
        return {host: function(host) for host in hosts}
    return dict(zip(hosts, run_on_hosts(function, hosts), strict=True))
