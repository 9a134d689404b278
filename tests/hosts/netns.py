"""Two hosts in network namespaces of their own train over TCP, and one is lost.

    python -m tests.hosts.netns

As root on Linux, with `ip`. A host is lost in two ways: its processes are killed, or
its cable is pulled. Each time the other host must end by itself and say why, and a
restart must go on from what was saved last, along the curve of a training that nothing
disturbed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

NAMES = ("curta-a", "curta-b")
ADDRESSES = ("10.217.0.1", "10.217.0.2")
PROGRAM = "tests.hosts.programs.restarting"
PATIENCE = 120.0
LOST_AT = 12


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def two_hosts() -> Iterator[None]:
    """Two namespaces and a cable between them."""
    try:
        for name in NAMES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        one, other = (f"{name}-eth" for name in NAMES)
        ip("link", "add", one, "type", "veth", "peer", "name", other)
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            ip("link", "set", f"{name}-eth", "netns", name)
            ip("-n", name, "address", "add", f"{address}/24", "dev", f"{name}-eth")
            ip("-n", name, "link", "set", f"{name}-eth", "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False)


class Host:
    """A host that trains."""

    def __init__(self, index: int, folder: str, steps: int, port: int) -> None:
        self.name = NAMES[index]
        self.said = open(os.path.join(folder, f"said{index}"), "w+")
        self._process = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.name, sys.executable, "-m", "curta"),
                *("run", "-n", "1", "--of", "2", "--from", str(index)),
                *("--coordinator", f"{ADDRESSES[0]}:{port}", "-m", PROGRAM),
                *(os.path.join(folder, "state"), str(steps)),
            ],
            stdout=self.said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def text(self) -> str:
        self.said.seek(0)
        return self.said.read()

    def losses(self) -> dict[int, str]:
        rows = [line.split() for line in self.text().splitlines()]
        return {int(r[1]): r[2] for r in rows if r[:1] == ["step"]}

    def wait(self) -> int:
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SystemExit(f"{self.name} hangs:\n{self.text()}") from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def start(folder: str, steps: int, port: int) -> list[Host]:
    return [Host(i, folder, steps, port) for i in (0, 1)]


def train(folder: str, steps: int, port: int) -> dict[int, str]:
    """The losses of a training that nothing disturbs."""
    hosts = start(folder, steps, port)
    for host in hosts:
        status = host.wait()
        assert status == 0, f"{host.name} ended with {status}:\n{host.text()}"
    first, second = (host.losses() for host in hosts)
    assert first == second, (first, second)
    return first


def lose(folder: str, port: int, how: str) -> tuple[dict[int, str], str, float]:
    """Lose host 1: the losses until then, what host 0 says, and after how long."""
    hosts = start(folder, 1_000_000, port)
    end = time.monotonic() + PATIENCE
    while max(hosts[1].losses(), default=0) < LOST_AT:
        if time.monotonic() > end:
            for host in hosts:
                host.kill()
            raise SystemExit(f"no step {LOST_AT}:\n{hosts[0].text()}{hosts[1].text()}")
        time.sleep(0.01)
    if how == "killed":
        hosts[1].kill()
    else:
        ip("-n", NAMES[1], "link", "set", f"{NAMES[1]}-eth", "down")
    lost = time.monotonic()
    status = hosts[0].wait()
    seconds = time.monotonic() - lost
    if how == "unplugged":
        assert hosts[1].wait() != 0, "host 1 ended as if all were well"
        ip("-n", NAMES[1], "link", "set", f"{NAMES[1]}-eth", "up")
    assert status != 0, "host 0 ended as if all were well"
    return hosts[0].losses(), hosts[0].text(), seconds


def main() -> None:
    os.environ["CURTA_HOSTS_TOKEN"] = secrets.token_hex(16)
    os.environ.pop("OMPI_COMM_WORLD_RANK", None)
    said = {"killed": "process 1 is gone", "unplugged": "has not been heard of for 5"}
    with two_hosts(), tempfile.TemporaryDirectory() as root:
        whole = os.path.join(root, "whole")
        os.mkdir(whole)
        wanted = train(whole, 30, 4321)
        print(f"30 steps on two hosts: loss {wanted[0]} to {wanted[29]}", flush=True)
        for port, how in enumerate(said, 4322):
            folder = os.path.join(root, how)
            os.mkdir(folder)
            before, text, seconds = lose(folder, port, how)
            assert said[how] in text, text
            line = next(x for x in text.splitlines() if said[how] in x)
            print(f"host 1 {how}: host 0 ended after {seconds:.1f} s: {line}")
            last = max(before)
            after = train(folder, max(30, last + 10), port + 100)
            assert min(after) <= last + 1 and min(after) % 5 == 0, (last, min(after))
            for i, value in {**before, **after}.items():
                assert wanted.get(i, value) == value, (i, value, wanted[i])
            for i in before.keys() & after.keys():
                assert before[i] == after[i], i
            print(f"restarted at step {min(after)}: the same curve", flush=True)


if __name__ == "__main__":
    main()
