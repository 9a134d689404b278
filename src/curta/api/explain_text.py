"""The printed form of an explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from curta.api.explain_costs import KernelCost, ProgramCost
from curta.api.readable import sized, timed

_KERNELS = 20
_INNER = 3  # kernels of each body
_TITLE = 44  # characters
AROUND = "the call around the kernels"


def text(cost: ProgramCost) -> str:
    """All of it, the most expensive kernels first."""
    return "\n".join(_lines(cost))


def _lines(cost: ProgramCost) -> Iterator[str]:
    yield headline(cost)
    yield limits(cost)
    yield ""
    yield f"{'#':>3} {'time':>9} {'share':>6} {'limit':>10}  kernel"
    total = cost.seconds or 1.0
    kernels = sorted(cost.kernels, key=lambda k: -k.seconds)
    for kernel in kernels[:_KERNELS]:
        yield from _kernel_lines(kernel, total)
    if rest := kernels[_KERNELS:]:
        seconds = sum(k.seconds for k in rest)
        yield _row("", seconds, total, "", f"{len(rest):,} more, in `kernels`")
    if (around := cost.around_kernels) is not None:
        yield _row("", around, total, "", AROUND)
    for title, items in (("collectives", cost.collectives), ("hints", cost.hints)):
        if items:
            yield f"{title}:"
            yield from (f"  - {item}" for item in items)


def headline(cost: ProgramCost) -> str:
    """How long the program takes, in how many kernels, and its memory."""
    count, steps = len(cost.kernels), len(cost.python_steps)
    python = f", {steps} in Python" if steps else ""
    typical = "" if cost.typical is None else f" (median {timed(cost.typical)})"
    return (
        f"{cost.name}: {timed(cost.seconds)}{typical} in {count}"
        f" kernel{'s' * (count != 1)}{python}; peak {sized(cost.memory['peak'])}"
    )


def memory(cost: ProgramCost) -> str:
    """The bytes of a call by kind."""
    sizes = ", ".join(f"{name} {sized(n)}" for name, n in cost.memory.items())
    return f"memory: {sizes}; {cost.allocations} allocations per call"


def limits(cost: ProgramCost) -> str:
    """The limits of the machine."""
    top = cost.limits
    return (
        f"limits: {sized(top.bytes)}/s, {top.flops / 1e9:.0f} Gflop/s,"
        f" {top.threads} threads"
    )


def _row(number: str, seconds: float, total: float, limit: str, what: str) -> str:
    return (
        f"{number:>3} {timed(seconds):>9} {seconds / total:>6.1%} {limit:>10}  {what}"
    )


def _kernel_lines(kernel: KernelCost, total: float) -> Iterator[str]:
    what = f"{short_title(kernel)}  {main_line(kernel)}".rstrip()
    limit = short_limit(kernel)
    yield _row(str(kernel.index), kernel.seconds, total, limit, what)
    if kernel.reason:
        yield f"{'':>32} in Python: {kernel.reason}"
    bodies = [k for program in kernel.inner for k in program]
    shown = sorted(bodies, key=lambda k: -k.seconds)[:_INNER]
    for inner in [k for k in bodies if k in shown or k.reason]:
        what = f"  {short_title(inner)}  {main_line(inner)}".rstrip()
        yield _row("", inner.seconds, total, "", what)
        if inner.reason:
            yield f"{'':>34} in Python: {inner.reason}"


def main_line(kernel: KernelCost) -> str:
    """The user's line that takes most of a kernel's time, as `model.py:12`."""
    shares = kernel.shares
    return str(max(shares, key=shares.__getitem__)) if shares else ""


def short_title(kernel: KernelCost) -> str:
    """The title, cut to what fits in a line."""
    full = title(kernel)
    return full if len(full) <= _TITLE else f"{full[: _TITLE - 3]}..."


def short_limit(kernel: KernelCost) -> str:
    """The share of the nearest limit, as `43% memory`."""
    kind = "memory" if kernel.bound == "memory" else "flops"
    share = kernel.share_of_limit
    return f"{min(share, 1):.0%} {kind}" if share >= 0.005 else ""


def title(kernel: KernelCost) -> str:
    """The kind of a kernel, and its ops."""
    return f"{kernel.kind}: {' '.join(kernel.ops)}"


def share_of_limit(kernel: KernelCost) -> str:
    """How near it comes to what the machine can do."""
    if kernel.share_of_limit < 0.01:
        return ""
    if kernel.share_of_limit > 1:
        cached = ": arrays are in caches" if kernel.bound == "memory" else ""
        return f"at the limit of {kernel.bound}{cached}"
    return f"{kernel.share_of_limit:.0%} of the limit of {kernel.bound}"


def counted(count: float) -> str:
    """A number of operations as people read it: `1.2M`."""
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}T"


def difference(first: ProgramCost, second: ProgramCost) -> str:
    """Two programs side by side: kernels of the same ops in one line."""
    lines = [f"{'':<12}{first.name[:20]:>20}{second.name[:20]:>20}"]
    rows = [("kernels", str(len(first.kernels)), str(len(second.kernels)))]
    rows.append(("time", timed(first.seconds), timed(second.seconds)))
    python = [str(len(c.python_steps)) for c in (first, second)]
    rows.append(("in Python", python[0], python[1]))
    for name, size in first.memory.items():
        rows.append((name, sized(size), sized(second.memory[name])))
    lines += [f"{a:<12}{b:>20}{c:>20}" for a, b, c in rows]
    lines.append("")
    left = list(second.kernels)
    for kernel in first.kernels:
        same = next((k for k in left if _same(k, kernel)), None)
        if same is not None:
            left.remove(same)
        lines.append(_compared(kernel, same))
    lines += [_compared(None, kernel) for kernel in left]
    for sign, one, other in (("-", first, second), ("+", second, first)):
        lines += [f"{sign} {hint}" for hint in _only(one.hints, other.hints)]
    return "\n".join(lines)


def _same(a: KernelCost, b: KernelCost) -> bool:
    return a.kind == b.kind and a.ops == b.ops


def _compared(first: KernelCost | None, second: KernelCost | None) -> str:
    sign = " " if first and second else "-" if first else "+"
    times = [timed(k.seconds) if k else "" for k in (first, second)]
    kernel = first or second
    assert kernel is not None
    return f"{sign} {times[0]:>9} {times[1]:>9}  {title(kernel)}"


def _only(these: Sequence[str], those: Sequence[str]) -> list[str]:
    return [hint for hint in these if hint not in those]
