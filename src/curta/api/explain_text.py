"""The printed form of an explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from curta.api.explain_costs import KernelCost, ProgramCost
from curta.api.readable import sized, timed

_LINES = 3  # of the user's, for each kernel
_KERNELS = 20
AROUND = "the call: arguments, memory for results, starting the program"


def text(cost: ProgramCost) -> str:
    """All of it, the most expensive kernels first."""
    return "\n".join(_lines(cost))


def _lines(cost: ProgramCost) -> Iterator[str]:
    yield headline(cost)
    yield from facts(cost)
    yield ""
    yield f"{'#':>3} {'time':>9} {'share':>6} {'bytes':>10} {'flops':>8}  kernel"
    total = cost.seconds or 1.0
    kernels = sorted(cost.kernels, key=lambda k: -k.seconds)
    for kernel in kernels[:_KERNELS]:
        yield from _kernel_lines(kernel, kernel.seconds / total)
    if rest := kernels[_KERNELS:]:
        seconds = sum(k.seconds for k in rest)
        yield (
            f"    {timed(seconds):>9} {seconds / total:>6.1%}{'':>21}{len(rest):,}"
            " kernels more, which `kernels` and the page of `save` list"
        )
    if (around := cost.around_kernels) is not None:
        yield f"    {timed(around):>9} {around / total:>6.1%}{'':>21}{AROUND}"
    for title, items in (("collectives", cost.collectives), ("hints", cost.hints)):
        if items:
            yield ""
            yield f"{title}:"
            yield from (f"  - {item}" for item in items)


def headline(cost: ProgramCost) -> str:
    """How long the program takes, in how many kernels."""
    count, steps = len(cost.kernels), len(cost.python_steps)
    whole = "" if cost.call is None else f"{timed(cost.seconds)} in all, "
    python = f", {steps} in Python" if steps else ""
    typical = ""
    if cost.typical is not None:
        typical = f"; half of the calls took more than {timed(cost.typical)}"
    return (
        f"{cost.name}: {whole}{timed(cost.sum_of_kernels)} in {count}"
        f" kernel{'s' * (count != 1)}{python}{typical}"
    )


def facts(cost: ProgramCost) -> Iterator[str]:
    """Memory, and the limits of the machine."""
    sizes = ", ".join(f"{name} {sized(n)}" for name, n in cost.memory.items())
    yield f"memory: {sizes}; {cost.allocations} allocations a call"
    top = cost.limits
    yield (
        f"limits: {sized(top.bytes)}/s of memory, {top.flops / 1e9:.0f} Gflop/s in"
        f" products of float32, {top.threads} threads"
    )


def _kernel_lines(kernel: KernelCost, share: float) -> Iterator[str]:
    limit = share_of_limit(kernel)
    yield (
        f"{kernel.index:>3} {timed(kernel.seconds):>9} {share:>6.1%}"
        f" {sized(kernel.bytes):>10} {counted(kernel.flops):>8}"
        f"  {title(kernel)}{f' ({limit})' if limit else ''}"
    )
    if kernel.reason:
        yield f"      in Python: {kernel.reason}"
    for line in kernel.lines[:_LINES]:
        yield f"      {line}"
    if len(kernel.lines) > _LINES:
        yield f"      and {len(kernel.lines) - _LINES} lines more"
    if kernel.apart:
        yield f"      apart: {'; '.join(kernel.apart)}"
    for number, program in enumerate(kernel.inner):
        for inner in program:
            python = f", in Python: {inner.reason}" if inner.reason else ""
            yield f"      program {number}: {title(inner)}{python}"


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
        lines.append(_row(kernel, same))
    lines += [_row(None, kernel) for kernel in left]
    for sign, one, other in (("-", first, second), ("+", second, first)):
        lines += [f"{sign} {hint}" for hint in _only(one.hints, other.hints)]
    return "\n".join(lines)


def _same(a: KernelCost, b: KernelCost) -> bool:
    return a.kind == b.kind and a.ops == b.ops


def _row(first: KernelCost | None, second: KernelCost | None) -> str:
    sign = " " if first and second else "-" if first else "+"
    times = [timed(k.seconds) if k else "" for k in (first, second)]
    kernel = first or second
    assert kernel is not None
    return f"{sign} {times[0]:>9} {times[1]:>9}  {title(kernel)}"


def _only(these: Sequence[str], those: Sequence[str]) -> list[str]:
    return [hint for hint in these if hint not in those]
