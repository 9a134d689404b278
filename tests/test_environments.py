"""The declared groups, the locks, and the check of imports."""

import tomllib

import pytest

from tools import dist, imports, locks
from tools.groups import LOCKS, ROOT, Declared


@pytest.fixture(scope="module")
def declared():
    return Declared()


def test_the_locks_fit_the_declared_requirements(declared):
    assert locks.check(declared) == []


@pytest.mark.parametrize(
    "folder", ["examples", "tests/multiprocess", "tests/browser", "docs"]
)
def test_folders_import_packages_of_their_groups(folder, declared):
    paths = [p for p in imports.sources() if p.is_relative_to(ROOT / folder)]
    assert paths
    assert [f for p in paths for f in imports.faults_in(p, declared)] == []


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A function that writes a program of `tests` and returns the faults found."""
    monkeypatch.setattr(imports, "ROOT", tmp_path)

    def faults(text, declared):
        path = tmp_path / "tests" / "test_it.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return imports.faults_in(path, declared)

    return faults


@pytest.mark.parametrize(
    "text",
    [
        "import requests",
        "from requests.sessions import Session",
        "def f():\n    import requests.sessions",
        "import pytest\npytest.importorskip('requests')",
        "import importlib\nimportlib.import_module('requests.sessions')",
        "requests = late('requests')",
        "SCRIPT = '''\n    import requests\n    print(1)\n'''",
    ],
)
def test_undeclared_imports_are_found(text, program, declared):
    (fault,) = program(text, declared)
    assert "tests/test_it.py:" in fault and "requests is not in test" in fault


@pytest.mark.parametrize(
    "text",
    [
        "import os, numpy, pytest, curta.numpy, tests.seeds",
        "from . import other",
        "import absl.testing",  # of the package absl-py
        "'''import requests, said by a docstring that is prose'''",
    ],
)
def test_declared_and_local_imports_are_no_faults(text, program, declared):
    assert program(text, declared) == []


def test_a_lock_that_excludes_a_requirement_is_found(tmp_path, monkeypatch, declared):
    text = (LOCKS / "lock.txt").read_text()
    monkeypatch.setattr(locks, "LOCKS", tmp_path)
    monkeypatch.setattr(locks, "ROOT", tmp_path)
    (tmp_path / "lock.txt").write_text(text.replace("uv==", "uv==0.1#"))
    (fault,) = locks.faults("lock", declared)
    assert "for uv>=" in fault
    (tmp_path / "lock.txt").write_text(text.replace("uv==", "vu=="))
    (fault,) = locks.faults("lock", declared)
    assert "has nothing for uv" in fault
    (tmp_path / "lock.txt").write_text(text.partition("\n")[2])
    (fault,) = locks.faults("lock", declared)
    assert "does not fit the table" in fault


def test_locked_versions_have_hashes():
    for path in LOCKS.glob("*.txt"):
        pins = [x for x in path.read_text().split("\n") if "==" in x]
        assert pins and all(x.endswith("\\") for x in pins), path


def test_each_environment_of_the_makefile_is_declared(declared):
    text = (ROOT / "Makefile").read_text()
    named = {part.partition(")")[0] for part in text.split("$(call ready,")[1:]}
    literal = {name for name in named if name.isidentifier() and name != "NAME"}
    assert literal and literal <= {*declared.environments()}


def test_the_makefile_lists_its_targets():
    """Each is in `make help`, of about ten, or in CONTRIBUTING.md."""
    text = (ROOT / "Makefile").read_text()
    phony = text.partition(".PHONY:")[2].partition("\n\n")[0].replace("\\", "").split()
    shown = [x.split()[2] for x in text.splitlines() if x.startswith("#   make ")]
    assert 8 <= len(shown) <= 12
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    hidden = {*phony} - {*shown, "help"}
    assert [t for t in sorted(hidden) if f"`{t}`" not in contributing] == []


def test_one_address_of_the_repository():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    site = tomllib.loads((ROOT / "docs" / "site.toml").read_text())
    assert urls.get("Source", "") == site["repository"]


def test_supported_pythons_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    named = [c.removeprefix(prefix) for c in project["classifiers"] if prefix in c]
    versions = [f"3.{n}" for n in named]
    script = (ROOT / ".ci" / "test-pythons").read_text()
    default = script.partition("${VERSIONS:-")[2].partition("}")[0].split()
    assert [v for v in default if v[-1] != "t"] == versions == [*dist.PYTHONS]
    assert project["requires-python"] == f">={versions[0]}"
