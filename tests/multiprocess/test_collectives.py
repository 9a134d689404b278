"""Collectives and programs of several processes."""

import re
from pathlib import Path

import pytest
from tests.multiprocess.launch import ENGINES, launch, lines

COLLECTIVES = "tests.multiprocess.programs.collectives"
TRAINING = "tests.multiprocess.programs.training"
PAGE = Path(__file__).parents[2] / "docs" / "hosts.md"


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_collectives(engine, count):
    name = {"mpi": "MPIEngine", "tcp": "TCP"}[engine]
    said = lines(engine, count, COLLECTIVES)
    assert len(said) == count and len(set(said)) == 1
    assert said[0].startswith(name)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_compiled_program_is_one_file_for_all_ranks(engine, tmp_path, monkeypatch):
    said = lines(engine, 3, "tests.multiprocess.programs.cached", str(tmp_path))
    assert len(said) == 3 and len(set(said)) == 1
    assert int(said[0].split()[0]) > 3
    monkeypatch.setenv("CURTA_LOG", "cache")
    ended = launch(engine, 3, "tests.multiprocess.programs.cached", str(tmp_path))
    assert ended.returncode == 0 and sorted(ended.stdout.splitlines()) == said
    assert ended.stderr.count("program at ") == ended.stderr.count(": hit: ") == 9


@pytest.mark.parametrize("how", ["data", "weights"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_training(engine, count, how):
    said = lines(engine, count, TRAINING, how)
    assert len(said) == count and len(set(said)) == 1
    assert said[0].startswith(f"processes {count} ")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_program_of_the_page_on_hosts(engine, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PAGE.read_text().partition("```py\n")[2].partition("```")[0])
    said = lines(engine, 4, str(program))
    for i, line in enumerate(said):
        about, _, weights = line.partition(" [")
        assert about == f"{i} of 4 (4000, 3)"
        found = [float(x) for x in weights.rstrip("]").split()]
        assert found == pytest.approx([1, -2, 3], abs=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_in_another_order_are_named(engine):
    """They have collectives of the same shape, which must not meet."""
    ended = launch(engine, 2, "tests.multiprocess.programs.reordered")
    assert ended.returncode != 0
    assert "HostsError: hosts " in ended.stderr
    for name, line in (("one", 13), ("two", 18)):
        lines = {"mpi": 27, "tcp": line}
        assert re.search(
            rf"jit\({name}\) \(\w+\), at reordered.py:{lines[engine]}", ended.stderr
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_that_differ_are_named(engine):
    ended = launch(engine, 2, "tests.multiprocess.programs.differing")
    assert ended.returncode != 0
    assert "process 1 traced a program that differs at eqn " in ended.stderr
    assert "differing.py:" in ended.stderr
