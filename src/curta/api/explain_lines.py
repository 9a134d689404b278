"""The user's source with the time that each line takes: a heat map.

The time of a kernel is divided among the lines fused into it by estimated cost, since
its machine code mixes them. The time of a loop is the time of its body's kernels.
"""

from __future__ import annotations

import inspect
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from curta._base.lazy_dataclass import dataclass
from curta.api.cost import eqn_flops, eqn_transcendentals
from curta.core.jaxpr import Eqn, jaxprs_in_params

_TRANSCENDENTAL = 8  # simple operations


class UserLine(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


@dataclass(frozen=True)
class SourceLines:
    """Lines of a file from `first` on: one function, or several that overlap."""

    file: str
    first: int
    lines: tuple[str, ...]


def line_shares(eqns: Sequence[Eqn], inner: Any) -> Mapping[UserLine, float]:
    """The part of a kernel's time at each line; `inner` are its programs' kernels."""
    weights: defaultdict[UserLine, float] = defaultdict(float)
    for program in inner:
        for kernel in program:
            for place, share in kernel.shares.items():
                weights[place] += kernel.seconds * share
    if not sum(weights.values()):
        for place, weight in _weights(eqns):
            weights[place] += weight
    total = sum(weights.values())
    return {place: weight / total for place, weight in weights.items()} if total else {}


def _weights(eqns: Iterable[Eqn]) -> Iterator[tuple[UserLine, float]]:
    """Estimated costs of eqns at their lines; those of a loop are its body's."""
    for eqn in eqns:
        inner = [*jaxprs_in_params(eqn.params)]
        if inner:
            for jaxpr in inner:
                yield from _weights(jaxpr.eqns)
            continue
        info = eqn.source_info
        if info.code is not None:
            count = sum(v.aval.size for v in eqn.outvars if hasattr(v.aval, "size"))
            work = eqn_flops(eqn) + _TRANSCENDENTAL * eqn_transcendentals(eqn)
            yield UserLine(info.code.co_filename, info.line), 1.0 + work + count


def seconds_by_line(kernels: Iterable[Any]) -> dict[UserLine, float]:
    """The seconds of kernels at each of the user's lines."""
    result: defaultdict[UserLine, float] = defaultdict(float)
    for kernel in kernels:
        for place, share in kernel.shares.items():
            result[place] += kernel.seconds * share
    return dict(result)


def sources(
    codes: Iterable[CodeType], seconds: Mapping[UserLine, float]
) -> tuple[SourceLines, ...]:
    """The functions that take time, those that take most first."""
    found: dict[str, list[tuple[int, list[str]]]] = {}
    for code in dict.fromkeys(codes):
        try:
            lines, first = inspect.getsourcelines(code)
        except (OSError, TypeError, IndexError):  # not in a file
            continue
        found.setdefault(code.co_filename, []).append((max(first, 1), lines))
    made = [s for file, parts in found.items() for s in _merged(file, parts)]
    timed = [(_time_of(source, seconds), source) for source in made]
    timed.sort(key=lambda pair: -pair[0])
    return tuple(source for time, source in timed if time)


def _merged(file: str, parts: list[tuple[int, list[str]]]) -> Iterator[SourceLines]:
    """Functions of a file; one within another is part of that."""
    last = 0
    for first, lines in sorted(parts, key=lambda part: (part[0], -len(part[1]))):
        if first > last:
            yield SourceLines(file, first, tuple(x.rstrip("\n") for x in lines))
        last = max(last, first + len(lines) - 1)


def _time_of(source: SourceLines, seconds: Mapping[UserLine, float]) -> float:
    last = source.first + len(source.lines)
    return sum(
        time
        for (file, line), time in seconds.items()
        if file == source.file and source.first <= line < last
    )
