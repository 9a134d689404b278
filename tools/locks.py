"""Lock the versions of the development environments: locks/NAME.txt.

    python -m tools.locks [NAME ...]            # keep locked versions where they fit
    python -m tools.locks --upgrade [NAME ...]  # take the newest versions
    python -m tools.locks --check               # do the locks fit pyproject.toml?

A lock holds the version of each package of an environment, for all versions of Python
and all systems, with the hashes of its files. `.ci/environment` installs it by pip.
`--check` needs no network; `make lint` runs it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.groups import LOCKS, ROOT, Declared, Environment

PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def settings_of_pip() -> dict[str, str]:
    """The environment for uv, which does not read pip's index and certificates."""
    command = [sys.executable, "-m", "pip", "config", "get"]
    found = dict(os.environ, UV_CUSTOM_COMPILE_COMMAND="make lock")
    for variable, key in (
        ("UV_DEFAULT_INDEX", "global.index-url"),
        ("SSL_CERT_FILE", "global.cert"),
    ):
        asked = subprocess.run([*command, key], capture_output=True, text=True)
        if asked.returncode == 0:
            found.setdefault(variable, asked.stdout.strip())
    return found


def compile_lock(name: str, declared: Declared, upgrade: bool) -> None:
    """Write the lock of an environment."""
    environment = declared.environments()[name]
    path = LOCKS / f"{name}.txt"
    members = environment.members + (("build",) if environment.curta else ())
    wanted = [str(r) for r in declared.requirements(members)]
    wanted += declared.dependencies if environment.curta else []
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet"),
        *("--universal", "--python-version", environment.python),
        *("--generate-hashes", "--no-annotate", "--no-header"),
        *("--output-file", str(path)),
        *([] if environment.dependencies else ["--no-deps"]),
        *(["--upgrade"] if upgrade else []),
    ]
    LOCKS.mkdir(exist_ok=True)
    subprocess.run(
        command, input="\n".join(wanted), text=True, check=True, cwd=ROOT,
        env=settings_of_pip(),
    )  # fmt: skip
    path.write_text(header(name, environment) + path.read_text())
    print(f"{path.relative_to(ROOT)}: {len(PIN.findall(path.read_text()))} versions")


def header(name: str, environment: Environment) -> str:
    """The first lines of a lock, which `.ci/environment` reads."""
    return (
        f"# Environment {name}, locked by `make lock`; not edited by hand.\n"
        f"# python>={environment.python}\n"
        f"# curta: {'editable' if environment.curta else 'no'}\n"
    )


def faults(name: str, declared: Declared) -> list[str]:
    """List packages that a lock lacks, or has in a version that pyproject.toml
    excludes."""
    environment = declared.environments()[name]
    path = LOCKS / f"{name}.txt"
    if not path.exists():
        return [f"{path.relative_to(ROOT)} is missing"]
    text = path.read_text()
    if not text.startswith(header(name, environment)):
        return [f"{path.relative_to(ROOT)} does not fit the table of environments"]
    pins: dict[str, list[str]] = {}
    for package, version in PIN.findall(text):
        pins.setdefault(canonicalize_name(package), []).append(version)
    members = environment.members + (("build",) if environment.curta else ())
    wanted = declared.requirements(members)
    if environment.curta:
        wanted += [Requirement(line) for line in declared.dependencies]
    found = []
    for requirement in wanted:
        versions = pins.get(canonicalize_name(requirement.name), [])
        fits = [requirement.specifier.contains(v, prereleases=True) for v in versions]
        if not versions or not all(fits):
            said = " and ".join(versions) or "nothing"
            found.append(f"{path.relative_to(ROOT)} has {said} for {requirement}")
    return found


def check(declared: Declared) -> list[str]:
    """The faults of all locks, and locks of no environment."""
    names = declared.environments()
    found = [fault for name in names for fault in faults(name, declared)]
    for path in sorted(LOCKS.glob("*.txt")):
        if path.stem not in names:
            found.append(f"{path.relative_to(ROOT)} is of no environment")
    return found


def main() -> None:
    """Lock, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="environments; all without a name")
    parser.add_argument("--upgrade", action="store_true", help="take newest versions")
    parser.add_argument("--check", action="store_true", help="only look")
    options = parser.parse_args()
    declared = Declared()
    if options.check:
        found = check(declared)
        if found:
            raise SystemExit("\n".join([*found, "run `make lock`, and commit locks/"]))
        print(f"locks: {len(declared.environments())} fit pyproject.toml")
        return
    for name in options.names or declared.environments():
        compile_lock(name, declared, options.upgrade)


if __name__ == "__main__":
    main()
