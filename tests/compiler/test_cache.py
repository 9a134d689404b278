"""The kernel cache: what is found again, and what is never trusted."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from curta.compiler.machine_code import cache
from curta.config import config

IR = "define i32 @answer() {\n  ret i32 42\n}\n"


@pytest.fixture
def folder(tmp_path):
    """A cache folder of its own, with the counters at zero."""
    before = {
        name: config.read(name)
        for name in ("jax_enable_compilation_cache", "jax_compilation_cache_dir")
    }
    config.update("jax_enable_compilation_cache", True)
    config.update("jax_compilation_cache_dir", str(tmp_path / "kernels"))
    cache.statistics.__init__()
    yield tmp_path / "kernels"
    for name, value in before.items():
        config.update(name, value)


def entries(folder):
    return [p for p in folder.iterdir() if not p.name.startswith(".")]


def test_a_kernel_compiles_once(folder):
    first = cache.object_file(IR)
    assert cache.object_file(IR) == first
    assert (cache.statistics.misses, cache.statistics.hits) == (1, 1)
    assert cache.statistics.compiles == 1
    assert len(entries(folder)) == 1


def test_level_and_text_are_part_of_the_key(folder):
    cache.object_file(IR, 0)
    cache.object_file(IR, 1)
    cache.object_file(IR.replace("42", "43"))
    assert len(entries(folder)) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_the_folder_is_private(folder):
    cache.object_file(IR)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entries(folder)[0].stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage",
    [lambda d: d[:100], lambda d: d[:-1] + b"x", lambda d: b"", lambda d: d * 2],
)
def test_a_damaged_file_is_written_anew(folder, damage):
    good = cache.object_file(IR)
    path = entries(folder)[0]
    path.write_bytes(damage(path.read_bytes()))
    assert cache.object_file(IR) == good
    assert cache.statistics.compiles == 2
    assert cache.object_file(IR) == good
    assert cache.statistics.compiles == 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_what_others_may_write_is_not_trusted(folder):
    cache.object_file(IR)
    entries(folder)[0].chmod(0o622)
    cache.object_file(IR)
    assert cache.statistics.compiles == 2
    folder.chmod(0o777)
    cache.object_file(IR)
    assert cache.statistics.compiles == 3


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")
def test_links_are_not_followed(folder):
    cache.object_file(IR)
    path = entries(folder)[0]
    moved = folder / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    cache.object_file(IR)
    assert cache.statistics.compiles == 2


def test_ir_of_fixed_modules_is_written_once(folder):
    written = []

    def write():
        written.append(1)
        return IR

    for parts in (("a",), ("a",), ("b",)):
        assert cache.fixed_object_file(write, 0, [cache.__name__], *parts)
    assert len(written) == cache.statistics.compiles == 2


def test_an_unusable_folder_is_no_error(folder):
    folder.write_text("not a folder")
    assert cache.object_file(IR)
    assert cache.object_file(IR)
    assert cache.statistics.compiles == 2


def test_the_off_switch(folder):
    config.update("jax_enable_compilation_cache", False)
    cache.object_file(IR)
    assert not folder.exists()


def test_the_oldest_go_when_it_is_full(folder):
    for i in range(4):
        cache.object_file(IR.replace("42", str(i)))
    for age, path in enumerate(sorted(entries(folder))):
        os.utime(path, (1000 - age, 1000 - age))
    newest, *_, oldest = sorted(entries(folder))
    cache._sweep(folder, sum(p.stat().st_size for p in entries(folder)) - 1)
    assert newest.exists() and not oldest.exists()
    cache.clear()
    assert entries(folder) == []
