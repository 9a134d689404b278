"""Detection of processes that have traced different programs, before these run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from curta.hosts.engine import current
from curta.hosts.failures import HostsError
from curta.hosts.group import HostGroup


def check(
    hosts: Sequence[int],
    head: Sequence[str],
    eqns: Sequence[str],
    line_of: Callable[[int], str],
    verb: str = "traced",
) -> str:
    """Raise HostsError, on all hosts, unless all have the same program; its digest.

    Args:
      hosts: those that are about to run it.
      head: what the program is called, the types of its arguments, its constants.
      eqns: its equations as texts.
      line_of: for the number of an equation, the line of the user that it is from.
      verb: what a host did to have the program.
    """
    group = HostGroup(("host",), (len(hosts),), tuple(hosts), ("host",))
    engine = current()
    texts = [*head, "", *eqns]
    digest = hashlib.sha256("\n".join(texts).encode()).digest()
    mine = np.frombuffer(digest, np.uint8)
    all_ = engine.all_gather(group, mine, 0).reshape(len(hosts), -1)
    if (all_ == all_[0]).all():
        return digest.hex()
    known = _gathered(group, texts)
    first = _first_difference(known)
    eqn = first - len(head) - 1
    own = line_of(eqn) if 0 <= eqn < len(eqns) else ""
    lines = [x[0] for x in _gathered(group, [own])]
    raise HostsError(_message(hosts, first, known, lines, verb))


def _gathered(group: HostGroup, texts: Sequence[str]) -> list[list[str]]:
    """The texts of all hosts."""
    engine = current()
    data = np.frombuffer("\0".join(texts).encode() + b"\0", np.uint8)
    sizes = engine.all_gather(group, np.array([data.size]), 0)
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: data.size] = data
    rows = engine.all_gather(group, padded, 0).reshape(group.size, -1)
    result = [row[: n - 1].tobytes() for row, n in zip(rows, sizes, strict=True)]
    return [text.decode().split("\0") for text in result]


def _first_difference(known: list[list[str]]) -> int:
    """Where the texts of any two hosts first differ."""
    for i in range(max(map(len, known))):
        if len({text[i] if i < len(text) else None for text in known}) > 1:
            return i
    raise AssertionError("programs with different fingerprints are equal")


def _message(
    hosts: Sequence[int],
    at: int,
    known: list[list[str]],
    lines: list[str],
    verb: str,
) -> str:
    def text(i: int) -> str:
        result = known[i][at] if at < len(known[i]) else "the end of the program"
        return result + (f" ({lines[i]})" if lines[i] else "")

    # Those that differ from most are the ones to look at.
    texts = [x[at] if at < len(x) else None for x in known]
    common = max(range(len(hosts)), key=lambda i: (texts.count(texts[i]), -i))
    other = next(i for i in range(len(hosts)) if texts[i] != texts[common])
    start = known[common].index("") + 1
    what = f"differs at eqn {at - start}" if at >= start else "differs"
    where = f", {lines[other]}" if lines[other] else ""
    return (
        f"process {hosts[other]} {verb} a program that {what}{where}:"
        f"\n  process {hosts[common]}: {text(common)}"
        f"\n  process {hosts[other]}: {text(other)}\n"
        "All processes must trace the same programs, in the same order."
    )
