"""The command line: `curta COMMAND`, and the examples of its page."""

import doctest
import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from curta.api import readable
from curta.command_line import bench, doctor, main, measured, programs
from curta.command_line.machine import Machine
from curta.compiler.machine_code import cache
from curta.config import config

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """An empty folder for the kernel cache."""
    before = config.jax_compilation_cache_dir
    config.update("jax_compilation_cache_dir", str(tmp_path / "kernels"))
    yield tmp_path / "kernels"
    config.update("jax_compilation_cache_dir", before)


EXAMPLE = re.compile(r"^\$ (.*)\n((?:[^$].*\n)*)", re.MULTILINE)


def examples():
    """The commands of the page, with what they print."""
    return [e for kind, b in BLOCKS if kind == "console" for e in EXAMPLE.findall(b)]


@pytest.mark.parametrize("command, wanted", examples(), ids=lambda x: x.split("\n")[0])
def test_examples_of_the_page(command, wanted, folder, tmp_path, capfd):
    program, *words = command.split()
    assert program == "curta"
    if words[0] == "run":
        (tmp_path / words[1]).write_text(next(b for k, b in BLOCKS if k == "python"))
        line = [sys.executable, "-m", "curta", *words]
        printed = subprocess.run(
            line, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
    else:
        cache.object_file("define void @f() { ret void }")
        assert main(words) == 0
        printed = capfd.readouterr().out
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(wanted, printed, flags), printed


def test_programs_see_their_arguments_and_end_with_their_status(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, helper\n"
        "import jax\n"
        "assert __name__ == '__main__' and jax.__name__ == 'curta'\n"
        "assert sys.argv[1:] == ['-n', '4'] and helper.there\n"
        "sys.exit(7)\n"
    )
    (tmp_path / "helper.py").write_text("there = True\n")
    line = [sys.executable, "-m", "curta.run", program, "-n", "4"]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 7, ended.stderr


@pytest.mark.parametrize(
    "words, message",
    [
        (["run"], "which program?"),
        (["run", "no-such.py"], "there is no file 'no-such.py'. A module is run by -m"),
        (["bench", "no-such.py"], "there is no file"),
        (["bench", "--runs", "0", __file__], "--runs must be at least 1, not 0"),
        (["run", "docs"], "'docs' is a folder without a __main__.py"),
        (["run", "-m", "no_such_module"], "there is no module 'no_such_module' here"),
        (["run", "-m", "os.path.no_such"], "there is no module 'os.path.no_such'"),
        (["run", "-m", "email"], "'email' is a package without a __main__"),
        (["bench", "-m", "no_such.part"], "there is no module 'no_such.part'"),
        (["bench", "--json", "/no/such/x", __file__], "there is no folder '/no/such'"),
        (["bench", "--json", "/", __file__], "'/' is a folder, not a file"),
        (["explain", "--html", "/no/x", "math:sin", "1"], "there is no folder '/no'"),
        (["run", "-n", "0", __file__], "-n must be at least 1, not 0"),
        (["run", "--from", "-1", "-n", "2", __file__], "--from must be at least 0"),
        (["run", "-n", "3", "--of", "2", __file__], "0 to 2 are not among 2"),
        (["run", "--of", "3", __file__], "--coordinator HOST:PORT says where"),
        (["run", "-n", "1", "--coordinator", "host", __file__], "HOST:PORT, as first"),
        (["explain", "operator:add", "f32[2]", "f32[3]"], "operator:add refuses these"),
        (["explain", "math:pi", "1"], "math:pi is not a function, but 3.14"),
        (["explain", "operator:add", "1"], "operator:add(a, b, /) and 1 arguments"),
        (["explain", "operator:neg", "f32[99999999999999]"], "there is no room for"),
    ],
)
def test_arguments_that_make_no_sense(words, message, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"curta {words[0]}: ") and message in error


@pytest.mark.parametrize(
    "source, wanted",
    [
        ("def f():\n    1 / 0\nf()\n", ["in <module>", "in f", "ZeroDivisionError"]),
        ("x = (", ["line 1", "SyntaxError: '(' was never closed"]),
        ("import jax; jax.jit(lambda x: x + 'a')(1.0)", ["in <lambda>", "TypeError"]),
    ],
)
def test_errors_of_programs_show_the_programs_lines(source, wanted, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(source)
    line = [sys.executable, "-m", "curta", "run", program]
    given = {**os.environ, "JAX_TRACEBACK_FILTERING": "auto"}
    ended = subprocess.run(line, capture_output=True, text=True, check=False, env=given)
    assert ended.returncode == 1
    files = re.findall(r'File "(.*?)"', ended.stderr)
    assert {Path(f).name for f in files} == {"program.py"}
    assert all(text in ended.stderr for text in wanted)
    assert "raised in" not in ended.stderr


def test_processes_that_a_program_starts_have_it_too(tmp_path):
    """By a method of `multiprocessing` that imports the program again."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, jax.numpy\n"
        "from jaxlib import xla_client\n"
        "def name(): print(jax.__name__, jax.numpy.__name__, __name__)\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=name)\n"
        "    child.start(), child.join()\n"
    )
    line = [sys.executable, "-m", "curta", "run", program]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.stdout == "curta curta.numpy __mp_main__\n", ended.stderr


def test_other_pythons_that_a_program_starts_keep_their_jax(tmp_path):
    (tmp_path / "jax.py").write_text("own = True\n")
    paths = os.pathsep.join([programs._FOR_CHILDREN, str(tmp_path)])
    line = [sys.executable, "-S", "-c", "import jax; print(jax.own)"]
    given = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run(line, capture_output=True, text=True, check=False, env=given)
    assert ended.stdout == "True\n", ended.stderr


def test_no_cache_is_said(capsys):
    config.update("jax_enable_compilation_cache", False)
    try:
        assert main(["cache", "list"]) == 2
    finally:
        config.update("jax_enable_compilation_cache", True)
    assert "CURTA_CACHE=0" in capsys.readouterr().err


def test_damaged_files_are_found_and_removed(folder, capsys):
    for i in range(3):
        cache.object_file(f"define i32 @f() {{ ret i32 {i} }}")
    damaged, other, sound = folder.iterdir()
    damaged.write_bytes(damaged.read_bytes()[:-1])
    other.write_bytes(b"what another version wrote")
    (folder / ".new-1-2-3").write_bytes(b"unfinished")
    assert main(["cache", "verify"]) == 1
    printed = capsys.readouterr().out
    assert f"{damaged.name}: damaged" in printed
    assert "3 files, 1 damaged, 1 of other versions" in printed
    assert main(["cache", "verify", "--remove"]) == 0
    assert "2 files removed" in capsys.readouterr().out
    assert sound.exists() and not damaged.exists() and not other.exists()
    assert main(["cache", "verify"]) == 0


def test_files_of_others_in_the_folder_are_left_alone(folder, capsys, monkeypatch):
    cache.object_file("define void @f() { ret void }")
    (sound,) = folder.iterdir()
    kept = folder / "thesis.txt", folder / ".new-plan", folder / "0123abc", folder / "d"
    for path in kept[:3]:
        path.write_text("mine")
    kept[3].mkdir()
    assert main(["cache", "verify", "--remove"]) == 0
    assert "1 files, 0 damaged" in capsys.readouterr().out
    cache._sweep(str(folder), 0)  # as when the cache is full
    assert not sound.exists()
    cache.object_file("define void @f() { ret void }")
    assert main(["cache", "clear"]) == 0 and not sound.exists()
    assert all(path.exists() for path in kept)


# ---- bench


def test_what_one_run_measures(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import jax\n"
        "def twice(x): return x * 2\n"
        "f = jax.jit(twice)\n"
        "for _ in range(3): f(1.0)\n"
    )
    options = Namespace(program=[str(program)], module=False)
    report = bench._measured(options, str(tmp_path), calls=True)
    (function,) = report["functions"]
    assert function["name"] == "jit(twice)" and function["calls"] == 3
    assert 0 < function["median"] <= function["total"] < report["wall"]
    assert report["kernels"] > 0  # the folder was empty
    assert 0 < report["tracing"] < report["wall"] > report["importing"] > 0
    json.dumps(report)
    text = bench._text({"cold": report, "warm": [report], **report})
    assert "jit(twice)" in text and "the whole process" in text
    text = bench._text({"cold": report, "warm": [report], "functions": []})
    assert "No compiled function was called" in text


def test_nested_intervals_count_once():
    assert measured.covered([(1, 2), (0, 4), (3, 5), (7, 8)]) == 6
    assert measured.covered([]) == 0


@pytest.mark.parametrize(
    "seconds, text",
    [(123.4, "123 s"), (0.05, "50.0 ms"), (2e-6, "2.00 µs"), (0.0, "0.00 ns")],
)
def test_durations_have_three_digits(seconds, text):
    assert readable.timed(seconds) == text


# ---- the doctor, on machines made of files


GOOD = {
    "proc/cpuinfo": "processor : 0\nmodel name : A processor\n",
    "proc/meminfo": "MemTotal:       1024 kB\n",
    "proc/loadavg": "0.00 0.01 0.05 1/100 42",
    "proc/self/cgroup": "0::/a/b\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
}


def machine(root: Path, files: dict[str, str]) -> Machine:
    for path, text in (GOOD | files).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Machine(root)


def slow(at: Machine) -> str:
    checks = (doctor._threads, doctor._memory, doctor._frequency)
    found = [f for check in checks for f in check(at)]
    return "\n".join(f"{f.text}: {f.remedy}" for f in found if f.level == "slow")


def test_a_good_machine_has_nothing_slow(tmp_path):
    assert slow(machine(tmp_path, {})) == ""


FREQUENCY = "sys/devices/system/cpu/cpu0/cpufreq/scaling_"


@pytest.mark.parametrize(
    "files, message",
    [
        ({"sys/fs/cgroup/a/b/cpu.max": "50000 100000"}, "time of 0.5 processors"),
        ({"sys/fs/cgroup/a/cpu.max": "50000 100000"}, "CURTA_NUM_THREADS=1"),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/c\n2:memory:/c\n",
                "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "25000",
                "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000",
            },
            "time of 0.25 processors",
        ),
        (
            {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"},
            "no huge pages",
        ),
        ({"proc/loadavg": "9999.00 0.01 0.05 1/100 42"}, "the machine is busy: 9999"),
        (
            {
                f"{FREQUENCY}governor": "powersave",
                f"{FREQUENCY}driver": "acpi-cpufreq",
            },
            "lowest frequency",
        ),
    ],
)
def test_what_is_slow_about_a_machine(files, message, tmp_path):
    assert message in slow(machine(tmp_path, files))


def test_limits_that_are_none(tmp_path):
    files = {
        "sys/fs/cgroup/a/b/cpu.max": "max 100000",
        "sys/fs/cgroup/a/b/memory.max": "max",
    }
    at = machine(tmp_path, files)
    assert at.cgroup_processors() is None and at.cgroup_memory() is None
    assert Machine(tmp_path / "nothing").cgroup_processors() is None


def test_the_smallest_limit_of_memory_counts(tmp_path):
    files = {
        "sys/fs/cgroup/a/b/memory.max": "4096",
        "sys/fs/cgroup/a/memory.max": "2048",
        "sys/fs/cgroup/a/b/memory.high": "max",
    }
    assert machine(tmp_path, files).cgroup_memory() == 2048


def test_settings_for_debugging_are_slow():
    config.update("jax_debug_nans", True)
    try:
        found = [*doctor._settings(Machine())]
    finally:
        config.update("jax_debug_nans", False)
    assert any("jax_debug_nans" in f.text for f in found)


def test_wrong_numbers_are_a_fault(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_program", lambda x: x.sum(1))
    assert main(["doctor"]) == 1
    assert "fault a compiled function gives wrong numbers" in capsys.readouterr().out


def test_build_makes_a_library_for_a_target(tmp_path, monkeypatch, capsys):
    (tmp_path / "shipped.py").write_text(
        "import curta.numpy as jnp\n"
        "def scaled(params, x, n):\n    return {'y': jnp.tanh(x @ params['w']) * n}\n"
        "def printed(x):\n    import curta\n    curta.debug.print('{}', x)\n"
        "    return x\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    given = ["--args", "{'w': 'f32[3,2]'}", "f32[4,3]", "2", "--static", "2"]
    where = ["--target", "riscv64-linux-gnu", "-o", "dist", "--name", "shipped"]
    assert main(["build", "shipped:scaled", *given, *where]) == 0
    assert "-Ldist -lshipped" in capsys.readouterr().out
    header = (tmp_path / "dist" / "shipped.h").read_text()
    assert "const float *w; /* float32[3, 2]" in header
    assert main(["build", "shipped:printed", "--args", "1.0", "-o", "dist"]) == 2
    assert "debug_print" in capsys.readouterr().err
    options = ["--args", "1.0", "--drop-prints", "-o", "dist"]
    assert main(["build", "shipped:printed", *options]) == 0
