"""What the operating system says of this machine (Linux; elsewhere it says less)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

_NO_LIMIT = 1 << 60  # version 1 of control groups says so by a large number


class Machine:
    """Reads the files of `/proc` and `/sys`, under another root in tests."""

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self._root = Path(root)

    def _read(self, path: str) -> str:
        """The text of a file; empty if it cannot be read."""
        try:
            return (self._root / path).read_text(errors="replace").strip()
        except OSError:
            return ""

    def processor(self) -> str:
        """The name of the processor's model."""
        for line in self._read("proc/cpuinfo").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
        return platform.processor() or platform.machine()

    def cgroup_processors(self) -> float | None:
        """How many processors' time the control groups allow; None without limit."""
        limits = []
        for folder in self._cgroups("cpu"):
            quota, _, period = self._read(f"{folder}/cpu.max").partition(" ")
            if not quota:
                quota = self._read(f"{folder}/cpu.cfs_quota_us")
                period = self._read(f"{folder}/cpu.cfs_period_us")
            if quota.isdigit() and period.isdigit():
                limits.append(int(quota) / int(period))
        return min(limits, default=None)

    def cgroup_memory(self) -> int | None:
        """The bytes that the control groups allow; None without limit."""
        limits = []
        for folder in self._cgroups("memory"):
            for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
                text = self._read(f"{folder}/{name}")
                if text.isdigit() and int(text) < _NO_LIMIT:
                    limits.append(int(text))
        return min(limits, default=None)

    def _cgroups(self, controller: str) -> Iterator[str]:
        """The folders of this process's group for a controller, and those around it."""
        for line in self._read("proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            top = f"sys/fs/cgroup/{controller}" if controllers else "sys/fs/cgroup"
            parts = [p for p in path.split("/") if p and p != ".."]
            for count in range(len(parts) + 1):
                yield "/".join([top, *parts[:count]])

    def memory(self) -> int | None:
        """The bytes of memory that the machine has."""
        for line in self._read("proc/meminfo").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
        return None

    def huge_pages(self) -> str:
        """When memory comes as huge pages: `always`, `madvise`, `never`, or ""."""
        text = self._read("sys/kernel/mm/transparent_hugepage/enabled")
        return text.partition("[")[2].partition("]")[0]

    def governor(self) -> str:
        """What chooses the processor's frequency, `performance` for one; or ""."""
        return self._read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

    def driver(self) -> str:
        """What sets the processor's frequency; or ""."""
        return self._read("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver")

    def load(self) -> float | None:
        """How many threads of all processes wanted to run in the last minute."""
        text = self._read("proc/loadavg").partition(" ")[0]
        return float(text) if text else None
