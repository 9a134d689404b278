"""Fixtures of all tests."""

import dataclasses
import gc
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# Suites with environments or time limits of their own: they run when they are named.
collect_ignore = ["accelerators", "browser", "multiprocess", "stress"]

# Kernels made by the tests stay out of the user's cache, and are there the next time.
os.environ.setdefault(
    "CURTA_CACHE_DIR", str(TESTS.parent / ".pytest_cache" / "kernels")
)

# Processes that tests start compile the modules once between them, whatever the user
# has said of files beside the sources.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(TESTS.parent / ".pytest_cache" / "bytecode")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The objects of pytest for 23,000 tests are excluded from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _small_heap(request):
    """Tests that collect garbage search their own objects, not those of all modules.

    A full collection takes half a second after some thousand tests.
    """
    if getattr(request.module, "gc", None) is gc:
        gc.collect()
        gc.freeze()


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files with what the programs print now",
    )


@pytest.fixture
def limits():
    """`limits(tile=4, ...)` gives limits of `Tuning` other values for the test."""
    from curta.config import config, tuning

    with ExitStack() as blocks:

        def replace(**values: int) -> None:
            changed = dataclasses.replace(config.tuning, **values)
            blocks.enter_context(tuning(changed))

        yield replace


@pytest.fixture
def golden(request):
    """`golden(text)` or `golden(text, "part")`: the text must equal the file.

    The file is named after the test, in the folder `golden` next to it.
    """

    def check(text: str, part: str = "") -> None:
        name = request.node.name.removeprefix("test_") + (part and f"-{part}")
        path = request.path.parent / "golden" / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no {path}: run pytest with --update-golden"
        assert text == path.read_text()

    return check


@pytest.fixture
def golden_by_version(request, golden):
    """`golden_by_version(make)`: `make()` must give the file's text under JAX 0.10.

    Under 0.12 the text must equal the file for 0.12, or the same file if there is none.
    """
    from curta._settings.api_version import jax_api_version

    def check(make) -> None:
        with jax_api_version("0.10"):
            before = make()
        golden(before)
        with jax_api_version("0.12"):
            text = make()
        name = request.node.name.removeprefix("test_")
        path = request.path.parent / "golden" / f"{name}-0.12.txt"
        update = request.config.getoption("--update-golden")
        if text != before if update else path.exists():
            golden(text, "0.12")
        else:
            assert text == before

    return check
