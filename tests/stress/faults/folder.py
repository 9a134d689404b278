"""Faults of the kernel cache's folder: right results, or a clear error, in any case.

Each case runs in a process of its own, which begins as a copy of one that has
imported Curta and run nothing.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import curta
import curta.numpy as jnp
from curta.compiler.machine_code import cache

SECONDS = 120  # after which a process is said to hang


class Wrong(Exception):
    """A result that is not right, a crash, or an error that says nothing."""


def results() -> bytes:
    """The results of a few programs, compiled or found in the cache."""
    x = jnp.linspace(0, 1, 3000)
    outs = [
        curta.jit(lambda x: jnp.sin(x) + 1)(x),
        curta.jit(lambda x: jnp.cumsum(jnp.sort(-x)))(x),
        curta.jit(lambda x: jnp.linalg.qr(x[:900].reshape(30, 30))[1])(x),
    ]
    return b"".join(np.asarray(out).tobytes() for out in outs)


def forked(folder: str, run: Callable[[], bytes] = results) -> int:
    """Start a process that computes with a folder as its cache; its id.

    It ends with 0 if its results are right, with 3 if they are not, and with 5 if there
    was an error of memory.
    """
    child = os.fork()
    if child:
        return child
    code = 4
    try:
        curta.config.update("jax_compilation_cache_dir", folder)
        code = 0 if run() == _expected else 3
    except MemoryError:
        code = 5
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def check(child: int, what: str, killed: bool = False, limited: bool = False) -> str:
    """Wait for a process, which may be killed or want memory; how it ended.

    Raises:
        Wrong: it crashed, hangs, or its results are wrong.
    """
    end = time.monotonic() + SECONDS
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            raise Wrong(f"{what}: hangs")
        time.sleep(0.001)
    code = os.waitstatus_to_exitcode(status)
    if killed and code == -signal.SIGKILL:
        return "killed"
    if limited and code == 5:
        return "errors"
    if code:
        raise Wrong(f"{what}: exit code {code}")
    return "right"


_expected = b""


def prepare() -> None:
    """Compute the right results, in a process of its own: this one starts no thread."""
    global _expected
    code = "from tests.stress.faults import folder; import sys;"
    code += "sys.stdout.buffer.write(folder.results())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CURTA_CACHE": "0"},
        capture_output=True,
        check=True,
    )
    _expected = done.stdout


def filled() -> str:
    """A folder with what the programs keep."""
    folder = tempfile.mkdtemp(prefix="curta-faults-")
    check(forked(folder), "an empty folder")
    assert files(folder), "nothing was kept"
    return folder


def files(folder: str) -> list[Path]:
    """The contents of a folder."""
    return sorted(Path(folder).iterdir())


# ---- the cases, each a number of processes


def damaged(rng: random.Random, count: int) -> Iterator[str]:
    """Files cut short, with changed bytes, exchanged, empty, too long."""
    folder = filled()
    whole = {path: path.read_bytes() for path in files(folder)}
    paths = list(whole)
    for i in range(count):
        for path, data in whole.items():
            other = whole[rng.choice(paths)]
            at = rng.randrange(len(data))
            flipped = bytearray(data)
            flipped[at] ^= 1 << rng.randrange(8)
            tails = data + b"x", data[:at] + b"\0" * (len(data) - at)
            path.write_bytes(
                rng.choice([data[:at], bytes(flipped), other, b"", data, *tails])
            )
        check(forked(folder), f"damaged files, {i}")
        yield "damaged"
    shutil.rmtree(folder)


def read_at_every_byte(step: int) -> Iterator[str]:
    """A reader believes no file that is cut short or changed, at any byte."""
    folder = filled()
    smallest = min(files(folder), key=lambda p: p.stat().st_size)
    for path in files(folder):
        data, name = path.read_bytes(), path.name
        one = step if path != smallest else 1
        for at in range(0, len(data), one):
            changed = bytearray(data)
            changed[at] ^= 0x10
            for content in (data[:at], bytes(changed)):
                path.write_bytes(content)
                if cache._read(str(path)) is not None:
                    raise Wrong(f"{name} is believed with a fault at byte {at}")
                yield "read"
        path.write_bytes(data)
    shutil.rmtree(folder)


def full(count: int) -> Iterator[str]:
    """Writing stops after some bytes, as on a full disk."""
    for i in range(count):
        folder = tempfile.mkdtemp(prefix="curta-faults-")

        def limited(most: int = 97 * i) -> bytes:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            return results()

        check(forked(folder, limited), f"no room after {97 * i} bytes")
        check(forked(folder), f"after no room from {97 * i} bytes on")
        yield "full"
        shutil.rmtree(folder)


def full_disk() -> Iterator[str]:
    """A file system of 16 KiB, where one may be mounted."""
    folder = tempfile.mkdtemp(prefix="curta-faults-")
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", folder]
    if (
        shutil.which("mount")
        and not subprocess.run(mount, capture_output=True).returncode
    ):
        try:
            check(forked(folder), "a full disk")
            check(forked(folder), "a full disk, once more")
            yield "full disk"
        finally:
            subprocess.run(["umount", folder], check=True)
    else:
        yield "full disk: not run, nothing may be mounted here"
    os.rmdir(folder)


def unwritable() -> Iterator[str]:
    """Folders without write permission, and paths that are not folders."""
    inside = tempfile.mkdtemp(prefix="curta-faults-")
    file = Path(inside, "file")
    file.write_bytes(b"")
    opened = Path(inside, "opened")
    opened.mkdir(mode=0o777)
    opened.chmod(0o777)
    for folder in ("/sys", "/sys/curta", "/proc/self", "/dev/null", "/dev/null/x",
                   str(file), str(opened), "", "\0", "x" * 5000):  # fmt: skip
        check(forked(folder), f"the folder {folder[:20]!r}")
        yield "unwritable"
    shutil.rmtree(inside)


def deleted(count: int) -> Iterator[str]:
    """The folder vanishes while programs are compiled."""
    for i in range(count):
        folder = tempfile.mkdtemp(prefix="curta-faults-")

        def deleting(folder: str = folder) -> bytes:
            done = threading.Event()

            def work() -> None:
                while not done.wait(0.001):
                    shutil.rmtree(folder, ignore_errors=True)

            deleter = threading.Thread(target=work)
            deleter.start()
            try:
                return results()
            finally:
                done.set()
                deleter.join()

        check(forked(folder, deleting), f"a folder that vanishes, {i}")
        yield "deleted"
        shutil.rmtree(folder, ignore_errors=True)


def limited_memory(step: int) -> Iterator[str]:
    """Processes that may grow by some MiB only, with all code kept and with none."""
    kept = filled()
    for room in range(0, 400, step):

        def limited(room: int = room) -> bytes:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            most = used + (room << 20)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            return results()

        for folder in (kept, ""):
            what = f"{room} MiB, {'a full' if folder else 'no'} cache"
            yield check(forked(folder, limited), what, limited=True)
    shutil.rmtree(kept)


def at_once(count: int) -> Iterator[str]:
    """Several processes write the same files."""
    for i in range(count):
        folder = tempfile.mkdtemp(prefix="curta-faults-")
        for child in [forked(folder) for _ in range(4)]:
            check(child, f"processes that write at once, {i}")
        check(forked(folder), f"after processes that wrote at once, {i}")
        yield "at once"
        shutil.rmtree(folder)


def killed(rng: random.Random, count: int) -> Iterator[str]:
    """Processes are killed while they compile and write; others go on in the folder."""
    folder, longest = tempfile.mkdtemp(prefix="curta-faults-"), 1.0
    for i in range(count):
        if i % 10 == 0:
            shutil.rmtree(folder)
            os.mkdir(folder, 0o700)
            start = time.monotonic()
            check(forked(folder), "an empty folder")
            longest = time.monotonic() - start
            for path in files(folder):
                path.unlink()
        elif i % 10 == 5:  # what was written last may be half of a file
            for path in files(folder)[: rng.randrange(5)]:
                path.unlink()
        child = forked(folder)
        time.sleep(rng.random() * longest)
        os.kill(child, signal.SIGKILL)
        check(child, f"killed, {i}", killed=True)
        if i % 10 in (4, 9):
            check(forked(folder), f"after processes were killed, {i}")
        yield "killed"
    shutil.rmtree(folder)
