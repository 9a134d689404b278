"""The pages' examples, as tests: each page in a folder of its own."""

import shutil
from pathlib import Path

import pytest

from curta import config

collect_ignore = [str(path) for path in Path(__file__).parent.glob("*.py")]
if not shutil.which("cc"):  # the page compiles C
    collect_ignore.append(str(Path(__file__).parent / "ship.md"))
if not shutil.which("node"):  # the page runs JavaScript
    collect_ignore.append(str(Path(__file__).parent / "web.md"))


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """An empty folder, figures without windows, devices and hosts as before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    devices, hosts = config.jax_num_cpu_devices, config.curta_simulate_hosts
    yield
    config.update("jax_num_cpu_devices", devices)
    config.update("curta_simulate_hosts", hosts)
