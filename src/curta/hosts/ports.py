"""Ports for servers that another process will start."""

import random
import socket

# Below those that systems give to connections, which could take it meanwhile.
_PORTS = range(20_000, 32_000)
_TRIED = 100


def free_port() -> int:
    """A port of this machine that nobody uses now, nor soon but by chance.

    OSError if all that were tried are used.
    """
    for port in random.Random().sample(_PORTS, _TRIED):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"{_TRIED} ports of {_PORTS.start} to {_PORTS.stop - 1} are all used")
