"""The examples run, on the real data, and do what they claim."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def digits_runs(tmp_path_factory):
    """The output of two runs of the digits example, the first with an empty cache."""
    out = tmp_path_factory.mktemp("digits")
    command = [sys.executable, ROOT / "examples" / "digits.py", "--out", out]
    environment = os.environ | {"CURTA_CACHE_DIR": str(out / "cache")}
    outputs = [
        subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    return out, outputs


def number(pattern: str, text: str) -> float:
    return float(re.search(pattern, text)[1].replace(",", ""))


def test_digits_are_learnt(digits_runs):
    _, outputs = digits_runs
    for output in outputs:
        assert number(r"held-out images: ([\d.]+) %", output) >= 97
        assert number(r"steps per second: ([\d,]+)", output) > 0
        assert number(r"compile time.*: ([\d.]+) s", output) >= 0


def test_digits_repeat_exactly(digits_runs):
    _, (first, second) = digits_runs
    assert first.splitlines()[0] == second.splitlines()[0]


def test_digits_second_run_compiles_nothing(digits_runs):
    _, (first, second) = digits_runs
    assert number(r"kernels compiled: (\d+)", first) > 0
    assert number(r"kernels compiled: (\d+)", second) == 0


def test_digits_pictures(digits_runs):
    out, _ = digits_runs
    for name in ("learning_curve.png", "mistakes.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


# Small runs: what is printed must hold on them too, up to the numbers.
SMALL = {
    "cart_pole": (["--updates", "2"], r"steps for a fall: 2\d ->"),
    "characters": (["--steps", "2"], r"nats for a letter: \d\.\d+ -> \d\.\d+"),
    "cnn": (["--epochs", "1"], r"held-out images: [\d.]+ %"),
    "flow": (["--steps", "5"], r"there and back again: 0\.300, -0\.200"),
    "vae": (["--epochs", "1"], r"nats for an image: \d+\.\d+"),
    "wave": (["--size", "32", "--steps", "2"], r"mean error of the speeds: 0\.0"),
    "control": (["--steps", "4"], r"height of the pole at the end: -[\d.]+"),
    "gaussian_process": (["--steps", "3"], r"loss -?[\d.]+ -> -?[\d.]+"),
    "life": (["--size", "32", "--steps", "20"], r"living cells: \d+"),
    "molecular_dynamics": (["--side", "5", "--steps", "30"], r"drifts by 0\.00\d+"),
    "navier_stokes": (["--size", "32", "--steps", "6"], r"energy at time .*: 0\.\d+"),
    "neural_ode": (["--steps", "2"], r"after 10: [\d.]+, after 30: [\d.]+"),
    "options": (["--paths", "500"], r"European call at the strike: 9\.413"),
    "ray_marching": (["--height", "18"], r"32 x 18 pixels"),
}


# Programs of libraries, which `make gallery` installs.
LIBRARIES = {
    "nuts": ("numpyro", ["--days", "20", "--draws", "20"], "80 draws of 23 unknowns"),
}


def test_all_examples_are_run():
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert names == {*SMALL, *LIBRARIES, "digits"}


@pytest.mark.parametrize("name", LIBRARIES)
def test_programs_of_libraries(name, tmp_path):
    library, options, printed = LIBRARIES[name]
    pytest.importorskip(library, reason="make gallery runs the program whole")
    command = [sys.executable, ROOT / "examples" / f"{name}.py", "--out", tmp_path]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=True
    )
    assert printed in done.stdout


@pytest.mark.parametrize("name", SMALL)
def test_small_runs(name, tmp_path, capsys):
    options, printed = SMALL[name]
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.main([*options, "--out", str(tmp_path)])
    assert re.search(printed, capsys.readouterr().out)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_shipped_examples_run_without_python(tmp_path):
    folder = ROOT / "examples" / "ship"
    for name, options in (("digits", ["--steps", "120"]), ("kalman", [])):
        command = [sys.executable, folder / f"{name}.py", "--out", tmp_path, *options]
        subprocess.run(command, check=True, capture_output=True)
    wanted = {
        "digits.c": ("gcc", ["-std=c11"], [tmp_path / "seven.pgm"], r"digit 7, "),
        "kalman.cpp": ("g++", ["-std=c++17"], ["fast"], r"velocity (3\.0|2\.99)"),
    }
    for file, (compiler, flags, words, printed) in wanted.items():
        program = tmp_path / Path(file).stem
        links = [f"-I{tmp_path}", f"-L{tmp_path}", f"-l{program.name}", "-lm"]
        subprocess.run(
            [
                compiler,
                *flags,
                "-Wall",
                "-Wextra",
                folder / file,
                *links,
                "-o",
                program,
            ],
            check=True,
        )
        out = subprocess.run([program, *words], capture_output=True, text=True)
        assert re.search(printed, out.stdout), out
