"""The dependency groups, extras and environments that pyproject.toml declares."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"


class Environment(NamedTuple):
    """An environment that `make` sets up from locks/NAME.txt.

    `members` are groups and extras. Without `curta`, it holds these alone: neither
    Curta, nor its dependencies, nor what building it takes. Without `dependencies`,
    only the packages named by the groups are locked, not what they require. `python`
    is the oldest version that can be used.
    """

    members: tuple[str, ...]
    python: str
    curta: bool = True
    dependencies: bool = True


class Declared:
    """The requirements in pyproject.toml."""

    def __init__(self, path: Path = ROOT / "pyproject.toml"):
        data = tomllib.loads(path.read_text())
        project = data["project"]
        self.tool = data["tool"]["curta"]
        self.python = project["requires-python"].removeprefix(">=")
        self.dependencies: list[str] = project["dependencies"]
        self.extras: dict[str, list[str]] = project["optional-dependencies"]
        self.groups: dict[str, list[str | dict[str, str]]] = data["dependency-groups"]

    def requirements(self, members: Iterable[str]) -> list[Requirement]:
        """The requirements of groups and extras, included groups too."""
        found: list[Requirement] = []
        for member in members:
            for line in [*self.extras.get(member, ()), *self.groups.get(member, ())]:
                if isinstance(line, dict):
                    found += self.requirements([line["include-group"]])
                else:
                    found.append(Requirement(line))
        return found

    def packages(self, members: Iterable[str]) -> set[str]:
        """The names of the packages that groups and extras name, dependencies too."""
        lines = [Requirement(line) for line in self.dependencies]
        wanted = [*lines, *self.requirements(members)]
        return {canonicalize_name(requirement.name) for requirement in wanted}

    def environments(self) -> dict[str, Environment]:
        """The environments by name."""
        found = {}
        for name, entry in self.tool["environments"].items():
            options = dict(entry) if isinstance(entry, dict) else {"members": entry}
            members = tuple(options.pop("members"))
            unknown = {*members} - {*self.extras} - {*self.groups}
            if unknown:
                raise SystemExit(f"environment {name}: no such groups: {unknown}")
            options.setdefault("python", self.python)
            found[name] = Environment(members, **options)
        return found
