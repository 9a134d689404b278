"""Compiled kernels on disk, so that the second run of a program compiles nothing.

A kernel is found by the SHA-256 of everything that its code depends on: Curta's
version, the processor, the optimisation level and the kernel's own text. A file holds
an object file, or what is known of a whole program (programs.py), and a checksum of
that and of its own name, so that a file under another's name is not taken for it.
Files are written beside their path and renamed, so that a reader never sees half of
one; what is damaged, foreign or too open is ignored and written anew. The folder
belongs to the user alone: who could write there could run code as the user.
`CURTA_LOG=cache` prints which programs were found, and why others were not.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from curta._base.lazy_dataclass import dataclass
from curta._base.once import Lock
from curta.compiler.code_generator import GOOD, ModuleText, compile_texts
from curta.compiler.host_target import host
from curta.compiler.targets import Target
from curta.config import config
from curta.version import __version__

_MAGIC = b"curta-kernel-2\n"
_DIGEST = hashlib.sha256().digest_size
_DEFAULT_SIZE = 1 << 30
_UNFINISHED = ".new-"
# Nothing else in the folder is removed, which may be one that the user has chosen.
_OWN_NAME = re.compile(r"[0-9a-f]{64}|\.new-\d+-\d+-[0-9a-f]{1,16}")
# The folder is measured at the first write of a process and then every so often.
_WRITES_BETWEEN_SWEEPS = 256
_SECONDS_BETWEEN_TOUCHES = 86400.0
# The modules whose code decides what any IR looks like.
_IR_MODULES = tuple(
    f"curta.compiler.llvm.{name}"
    for name in (
        *("builder", "control_flow", "folding", "functions"),
        *("instructions", "types", "vectors"),
    )
)


@dataclass
class Statistics:
    """Counters of the cache in this process."""

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    compile_seconds: float = 0.0


statistics: Statistics = Statistics()
_lock = Lock()
_writes = 0


def object_file(ir: str, level: int = GOOD) -> bytes:
    """The object file of some LLVM IR: from the cache, or compiled and kept.

    Raises:
        ImportError: it is not in the cache and llvmlite is not installed.
        CompileError: LLVM does not accept the IR.
    """
    target = host()
    name = text_key(target, ir, level)
    return kept_object_file(Code(name, lambda: ir, level, target))


def fixed_object_file(
    write: Callable[[], str], level: int, modules: Sequence[str], *parts: str
) -> bytes:
    """The object file of IR that modules write for this machine, given some parts.

    Found again without writing the IR, as long as the files of the modules are the
    same: by size and time of change, which is what Python goes by for its own caches.

    Raises:
        ImportError: it is not in the cache and llvmlite is not installed.
    """
    target = host()
    name = fixed_key(target, write, level, modules, *parts)
    return kept_object_file(Code(name, write, level, target))


@dataclass(frozen=True, eq=False)
class Code:
    """The name of an object file, and what it is compiled from: IR for a target."""

    name: str
    write: Callable[[], str]
    level: int
    target: Target


def kept_object_file(code: Code) -> bytes:
    """The object file of some code: from the cache, or compiled from IR and kept."""
    return object_files([code])[0]


def object_files(codes: Sequence[Code]) -> list[bytes]:
    """The object files of several names; what is compiled is at the same time."""
    result = {c.name: read(c.name) for c in codes}
    missing = [c for c in codes if result[c.name] is None]
    texts = [ModuleText(c.write(), c.level, c.target) for c in missing]
    start = time.perf_counter()
    compiled = compile_texts(texts, config.curta_num_threads)
    spent = time.perf_counter() - start
    folder = usable_folder() if missing else None
    for code, data in zip(missing, compiled, strict=True):
        result[code.name] = data
        _count(misses=int(folder is not None), compiles=1)
        if folder is not None:
            _write(folder, code.name, data)
    _count(compile_seconds=spent)
    return [result[c.name] or b"" for c in codes]


def read(name: str) -> bytes | None:
    """What is kept under a name; None if it is not there or not to be trusted."""
    folder = usable_folder()
    result = None if folder is None else _read(os.path.join(folder, name))
    if result is not None:
        _count(hits=1)
    return result


def write(name: str, content: bytes) -> None:
    """Keep something under a name, if there is a cache."""
    folder = usable_folder()
    if folder is not None:
        _write(folder, name, content)


def text_key(target: Target, ir: str, level: int) -> str:
    """The name under which the object file of some IR is kept."""
    return key(target, ir, str(level))


def fixed_key(
    target: Target,
    write: Callable[[], str],
    level: int,
    modules: Sequence[str],
    *parts: str,
) -> str:
    """The name for IR that modules write; see `fixed_object_file`."""
    files = [sys.modules[name].__file__ or "" for name in (*_IR_MODULES, *modules)]
    try:
        stamps = [f"{os.stat(f).st_mtime_ns} {os.stat(f).st_size}" for f in files]
    except OSError:  # a package that is no folder
        return text_key(target, write(), level)
    return key(target, str(level), *modules, *stamps, *parts)


def key(target: Target, *parts: str) -> str:
    """The name under which something made of these parts for a target is kept."""
    digest = hashlib.sha256(f"{__version__}\n{target.identity}".encode())
    for part in parts:
        encoded = part.encode()
        digest.update(b"\n%d\n" % len(encoded) + encoded)
    return digest.hexdigest()


def log(title: str, outcome: str) -> None:
    """Say what became of the search for a program, if `CURTA_LOG` names the cache."""
    if "cache" in os.environ.get("CURTA_LOG", "").split(","):
        print(f"curta: cache: {title}: {outcome}", file=sys.stderr)


def clear() -> None:
    """Remove every kernel from the folder."""
    folder = usable_folder()
    if folder is not None:
        _sweep(folder, 0)


@dataclass(frozen=True)
class CachedFile:
    """A file of the cache; `used` is the second of its last use, to about a day."""

    path: str
    size: int
    used: float

    @property
    def name(self) -> str:
        """The hash of what it was made of."""
        return os.path.basename(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether it was written completely; partial files have temporary names."""
        return not self.name.startswith(_UNFINISHED)

    def is_sound(self) -> bool:
        """Whether the file is what was written, and nobody else could write to it."""
        return _read(self.path, touch=False) is not None

    def is_of_this_version(self) -> bool:
        """Whether the file has the form that this version of Curta writes."""
        try:
            with open(self.path, "rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
        except OSError:
            return False

    def remove(self) -> bool:
        """Remove the file; whether that succeeded."""
        try:
            os.unlink(self.path)
        except OSError:
            return False
        return True


def entries(folder: str) -> Iterator[CachedFile]:
    """The files of the cache in a folder, in any order; others may lie there too."""
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for entry in listing:
            if not _OWN_NAME.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    yield CachedFile(entry.path, info.st_size, info.st_mtime)


def _count(**changes: float) -> None:
    with _lock:
        for name, change in changes.items():
            setattr(statistics, name, getattr(statistics, name) + change)


def usable_folder() -> str | None:
    """The folder, made and checked; None when the cache is off or not usable."""
    if not config.jax_enable_compilation_cache:
        return None
    path = chosen_folder()
    return path if fault_of_folder(path) is None else None


def chosen_folder() -> str:
    """Where kernels are to be kept."""
    return os.path.expanduser(config.jax_compilation_cache_dir or _default_folder())


def fault_of_folder(path: str) -> str | None:
    """Make the folder if there is none; why kernels cannot be kept in it."""
    if path.startswith("~"):
        return "the user has no home"
    try:
        info = _lstat(path)
        if info is None:
            os.makedirs(path, mode=0o700, exist_ok=True)
            info = _lstat(path)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    if info is None or not stat.S_ISDIR(info.st_mode):
        return "it is no folder"
    return None if _is_private(info) else "others own it, or may write to it"


def _default_folder() -> str:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join("~", "AppData", "Local")
        return os.path.join(base, "curta", "cache")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "curta")


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _is_private(info: os.stat_result) -> bool:
    """Whether it is owned by the user and not writable by others."""
    if sys.platform == "win32":
        return True
    return info.st_uid == os.geteuid() and not info.st_mode & 0o022


def _read(path: str, touch: bool = True) -> bytes | None:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or not _is_private(info):
            return None
        try:
            data = file.read()
        except OSError:
            return None
    start = len(_MAGIC) + _DIGEST
    payload = data[start:]
    if data[:start] != _head(os.path.basename(path), payload):
        return None
    if touch and time.time() - info.st_mtime > _SECONDS_BETWEEN_TOUCHES:
        with contextlib.suppress(OSError):
            os.utime(path)
    return payload


def _write(folder: str, name: str, payload: bytes) -> None:
    """Keep a file; a full disk or a read-only folder is no error."""
    global _writes
    data = _head(name, payload) + payload
    try:
        own = f"{_UNFINISHED}{os.getpid()}-{threading.get_ident()}-{name[:16]}"
        temporary = os.path.join(folder, own)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, os.path.join(folder, name))
        except OSError:
            os.unlink(temporary)
            raise
    except OSError:
        return
    with _lock:
        due = _writes % _WRITES_BETWEEN_SWEEPS == 0
        _writes += 1
    if due:
        bound = config.jax_compilation_cache_max_size
        _sweep(folder, bound if bound >= 0 else _DEFAULT_SIZE)


def _head(name: str, payload: bytes) -> bytes:
    """What a file of a name begins with."""
    return _MAGIC + hashlib.sha256(name.encode() + b"\n" + payload).digest()


def _sweep(folder: str, bound: int) -> None:
    """Remove the files unused for longest until the folder is within the bound."""
    files = sorted(entries(folder), key=lambda entry: entry.used)
    total = sum(entry.size for entry in files)
    for entry in files:
        if total <= bound:
            break
        if entry.remove():
            total -= entry.size
