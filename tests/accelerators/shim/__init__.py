"""A plugin for the CPU, for tests: XLA's client of the tensorflow-cpu wheel.

It is the only wheel that exports that client. The shim is built where there is a C++
compiler and the wheel, installed or unpacked in a folder that CURTA_TENSORFLOW names;
tests that need it are skipped elsewhere, saying so.
"""

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent
INCLUDES = (
    "",
    "external/farmhash_archive/src",
    "external/local_xla",
    "external/highwayhash",
    "external/com_google_highway",
)


def compiler() -> str:
    """The C++ compiler; skips the test where there is none."""
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not found:
        pytest.skip("tier C not run: no C++ compiler for the shim")
    return found


def tensorflow() -> Path:
    """Where the wheel is; skips the test where it is not."""
    named = os.environ.get("CURTA_TENSORFLOW")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip(
            "tier C not run: install tensorflow-cpu==2.21.0 (270 MB), or unpack its"
            " wheel and say where by CURTA_TENSORFLOW"
        )
    return Path(spec.origin).parent


def header() -> Path:
    """The header of the interface."""
    named = os.environ.get("PJRT_HEADER")
    return Path(named or tensorflow() / "include/xla/pjrt/c/pjrt_c_api.h")


@functools.cache
def build() -> Path:
    """The shim's library, built if there is none of this source yet."""
    cxx, wheel = compiler(), tensorflow()
    headers = [SOURCE / "collectives.h", SOURCE / "include/mlir/IR/BuiltinOps.h"]
    sources = [SOURCE / "cpu_plugin.cc", *headers]
    key = hashlib.sha256(b"".join(p.read_bytes() for p in sources))
    key.update(f"{cxx} {wheel}".encode())
    folder = SOURCE / "build"
    target = folder / f"cpu_plugin-{key.hexdigest()[:16]}.so"
    if target.exists():
        return target
    folder.mkdir(exist_ok=True)
    made = target.with_suffix(f".{os.getpid()}")
    include = [f"-I{wheel / 'include' / part}" for part in INCLUDES]
    options = ["-std=c++17", "-O1", "-DNDEBUG", "-fPIC", "-shared", "-w"]
    options += ["-fvisibility=hidden", f"-I{SOURCE / 'include'}", *include]
    libraries = [f"-L{wheel}", "-l:libtensorflow_cc.so.2"]
    libraries += ["-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{wheel}"]
    command = [cxx, *options, str(sources[0]), "-o", str(made), *libraries]
    subprocess.run([*command, "-Wl,--no-undefined"], check=True)
    made.replace(target)
    return target
