"""The results as a table in Markdown and as JSON."""

import importlib.metadata
import json
import platform
import statistics
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.harness import Timing
from benchmarks.machine import LARGE, Machine

SLOW = 1.0  # the ratio above which a row is named beside the mean of its group


@dataclass(frozen=True)
class Row:
    name: str
    target: float
    timing: Timing
    floor: float = 0.0  # seconds; 0 where none is defined
    is_size: bool = False
    group: str = ""

    @property
    def ratio(self) -> float:
        return self.timing.curta / self.timing.jax

    @property
    def met(self) -> bool:
        return self.ratio <= self.target

    def cells(self) -> list[str]:
        if self.timing.problem:
            problem = self.timing.problem.replace("|", "/")
            return [self.name, "", "", "", f"{self.target:g}", "no", problem]
        show = size_text if self.is_size else time_text
        share = f"{self.floor / self.timing.curta:.0%}" if self.floor else ""
        return [
            self.name,
            show(self.timing.curta),
            show(self.timing.jax),
            f"{self.ratio:.2f}",
            f"{self.target:g}",
            "yes" if self.met else "no",
            share,
        ]


HEADER = ["case", "Curta", "JAX", "ratio", "target", "met", "of the limit"]


def time_text(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def size_text(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def machine_text(machine: Machine) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in versions_used().items())
    read, copy = (machine.bandwidth(LARGE, copying) / 1e9 for copying in (False, True))
    return (
        f"{date.today()}, {machine.processor}, {machine.cores} cores; {versions}. "
        f"Measured: float32 peak {machine.peak / 1e9:.0f} GFLOP/s, memory read "
        f"{read:.0f} GB/s, copied {copy:.0f} GB/s."
    )


def versions_used() -> dict[str, str]:
    names = ("curta", "jax", "jaxlib", "numpy", "llvmlite")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in names
    }


def markdown(rows: list[Row], machine: Machine) -> str:
    lines = [
        machine_text(machine),
        "",
        "| " + " | ".join(HEADER) + " |",
        "|---|" + "---:|" * (len(HEADER) - 1),
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
        "",
        f"{sum(row.met for row in rows)} of {len(rows)} targets met.",
        "",
        *means(rows),
    ]
    return "\n".join(lines) + "\n"


def means(rows: list[Row]) -> list[str]:
    """A line for each group: its geometric mean, and the rows slower than JAX."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if not row.timing.problem:
            groups.setdefault(row.group, []).append(row)
    lines = [
        f"| geometric means | rows | ratio | above {SLOW:g} |",
        "|---|---:|---:|---|",
    ]
    for group, members in groups.items():
        mean = statistics.geometric_mean(row.ratio for row in members)
        slow = [f"{row.name} {row.ratio:.2f}" for row in members if row.ratio > SLOW]
        lines.append(f"| {group} | {len(members)} | {mean:.2f} | {'; '.join(slow)} |")
    return lines


def as_json(rows: list[Row], machine: Machine) -> str:
    def record(row: Row) -> dict[str, Any]:
        numbers = asdict(row) | {"ratio": row.ratio, "met": row.met}
        return {k: None if v != v else v for k, v in numbers.items()}

    document = {
        "machine": machine_text(machine),
        "versions": versions_used(),
        "rows": [record(row) for row in rows],
    }
    return json.dumps(document, indent=1)


def save(
    rows: list[Row], machine: Machine, directory: Path, name: str = "results"
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.md").write_text(markdown(rows, machine))
    (directory / f"{name}.json").write_text(as_json(rows, machine))
