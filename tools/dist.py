"""Build the wheel and the source distribution, and try them as users get them.

    python tools/dist.py            # on every Python from 3.11 on that the machine has
    python tools/dist.py --no-try   # build and look into them only

Both are built twice and must be the same bytes: their times are those of the last
commit. The wheel is installed in a fresh environment for each Python, away from the
sources, and so is the source distribution in one; there the smoke test and the demo
run. The last line says on which Pythons, and which were not found.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
SMOKE = """
import curta, curta.numpy as jnp
assert "site-packages" in curta.__file__, curta.__file__
step = curta.jit(curta.value_and_grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)))
value, grad = step(jnp.arange(4.0))
assert abs(float(value) - 2.4996) < 1e-3, value
assert curta.vmap(jnp.linalg.inv)(2 * jnp.stack([jnp.eye(3)] * 2)).shape == (2, 3, 3)
print("curta", curta.__version__, "runs")
"""


def run(*command: object, **options: object) -> str:
    """Return the output of a command; show it if the command fails."""
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, **options
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> list[Path]:
    """The wheel and the source distribution, made with the time of the last commit."""
    seconds = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    environment = os.environ | {"SOURCE_DATE_EPOCH": seconds}
    for kind in ("wheel", "sdist"):
        command = (sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder)
        run(*command, cwd=ROOT, env=environment)
    return sorted(folder.iterdir())


def check_wheel(wheel: Path) -> None:
    """Raise SystemExit unless the wheel has what it must, and nothing of the tests."""
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    package = {f for f in folders if not f.endswith(".dist-info")}
    tests = [n for n in names if re.search(r"(^|/)(tests?|conftest)(/|\\.py$)", n)]
    if package != {"curta"} or tests:
        raise SystemExit(f"{wheel.name} holds {sorted(package)} and tests {tests[:5]}")
    for name in ("py.typed", "core/array_interface.pyi", "command_line/__init__.py"):
        if f"curta/{name}" not in names:
            raise SystemExit(f"{wheel.name} lacks curta/{name}")


def check_version(wheel: Path, sdist: Path) -> None:
    """Raise SystemExit unless all places that tell a version tell the same one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    told = {
        "src/curta/version.py": f'__version__ = "{version}"',
        "CITATION.cff": f"version: {version}",
        "CHANGELOG.md": f"## {version}",
    }
    for name, line in told.items():
        if line not in (ROOT / name).read_text():
            raise SystemExit(f"{name} does not say {line}")
    for path in (wheel, sdist):
        if f"-{version}" not in path.name:
            raise SystemExit(f"{path.name} is not of version {version}")
    members = {name.split("/")[1] for name in tarfile.open(sdist).getnames()}
    for name in ("pyproject.toml", "LICENSE", "CITATION.cff", "tests", "examples"):
        if name not in members:
            raise SystemExit(f"{sdist.name} lacks {name}")


def interpreter(version: str) -> str | None:
    """A Python of this version, if the machine has one."""
    search = [ROOT / ".ci" / "find-python", version]
    return subprocess.run(search, capture_output=True, text=True).stdout.strip() or None


def try_in(python: str, archive: Path) -> None:
    """Install an archive in a fresh environment; run the smoke test and the demo."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        inside = Path(folder) / "bin" / "python"
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        examples = project["dependency-groups"]["examples"]
        wanted = f"curta @ {archive.resolve().as_uri()}"
        run(inside, "-m", "pip", "install", "--quiet", wanted, *examples)
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        print(run(inside, "-c", SMOKE, cwd=folder, env=clean), end="", flush=True)
        demo = (inside, ROOT / "examples" / "digits.py", "--out", folder)
        print(run(*demo, cwd=folder, env=clean), end="", flush=True)
        run(Path(folder) / "bin" / "curta", "info", cwd=folder, env=clean)


def digest(paths: list[Path]) -> list[str]:
    return [hashlib.sha256(p.read_bytes()).hexdigest() for p in paths]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-try", action="store_true", help="install them nowhere")
    options = parser.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    sdist, wheel = sorted(build(DIST), key=lambda p: p.suffix == ".whl")
    with tempfile.TemporaryDirectory() as folder:
        if digest(sorted(DIST.iterdir())) != digest(build(Path(folder))):
            raise SystemExit("a second build gives other bytes")
    check_wheel(wheel)
    check_version(wheel, sdist)
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size:,} bytes, twice the same")
    tried, missing = [], []
    for version in () if options.no_try else PYTHONS:
        python = interpreter(version)
        if python is None:
            missing.append(version)
            continue
        print(f"== Python {version}: the wheel", flush=True)
        try_in(python, wheel)
        if not tried:
            print(f"== Python {version}: the source distribution", flush=True)
            try_in(python, sdist)
        tried.append(version)
    said = [", ".join(v) or "none" for v in (tried, missing)]
    print(f"tried on Python: {said[0]}; not found here, so not tried: {said[1]}")


if __name__ == "__main__":
    main()
