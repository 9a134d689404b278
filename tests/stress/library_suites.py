"""Find the test suite of a library: in a clone, a source distribution or a wheel."""

import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.stress.library_list import Library

HERE = Path(__file__).resolve().parent


def suite(library: Library, scratch: Path, given: dict[str, Path]) -> Path:
    """Return the folder of a library's tests, which is fetched if need be.

    Raises PackageNotFoundError if the library is not installed, CalledProcessError if
    its tests cannot be fetched, FileNotFoundError if there are none.
    """
    release = version(library.distribution)
    if library.name in given:
        return given[library.name]
    if library.of_ours:
        return HERE / "suites" / library.of_ours
    if not (library.of_source or library.repository):
        return _installed(library)
    folder = scratch / "sources" / f"{library.name}-{release}"
    if not folder.exists():
        try:
            (_clone if library.repository else _take_source)(library, folder)
        except subprocess.CalledProcessError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    found = folder / (library.tests if library.repository else library.of_source)
    if not found.exists():
        raise FileNotFoundError(f"no {found.name} in {folder.name}")
    return found


def _installed(library: Library) -> Path:
    spec = find_spec(library.package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"no package {library.package}")
    return Path(next(iter(spec.submodule_search_locations)))


def _clone(library: Library, folder: Path) -> None:
    """Clone the library's repository at the tag of the installed release."""
    tag = library.tag.format(version=version(library.distribution))
    address = f"https://github.com/{library.repository}"
    options = ("--quiet", "--depth=1", f"--branch={tag}")
    subprocess.run(["git", "clone", *options, address, str(folder)], check=True)


def _take_source(library: Library, folder: Path) -> None:
    """Put the tests of a source distribution, and their settings, into `folder`."""
    folder.mkdir(parents=True)
    pinned = f"{library.distribution}=={version(library.distribution)}"
    options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder))
    command = [sys.executable, "-m", "pip", "download", *options, pinned]
    subprocess.run(command, check=True)
    (packed,) = folder.glob("*.tar.gz")
    settings = ("conftest.py", "pyproject.toml", "setup.cfg", "pytest.ini")
    with tarfile.open(packed) as archive:
        for member in archive.getmembers():
            _, _, path = member.name.partition("/")
            if path in settings or path.startswith(f"{library.of_source}/"):
                member.name = path
                archive.extract(member, folder, filter="data")
    packed.unlink()


def test_files(library: Library, folder: Path) -> list[Path]:
    """The test files below `folder`, without those that the library leaves out."""
    found = {*folder.rglob("*_test.py"), *folder.rglob("test_*.py")}
    out = library.left_out
    return sorted(f for f in found if not any(part in str(f) for part in out))
