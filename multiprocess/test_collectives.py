"""Collectives and programs of several processes."""

import pytest

from multiprocess.launch import ENGINES, launch, lines

COLLECTIVES = "multiprocess.programs.collectives"
TRAINING = "multiprocess.programs.training"


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_collectives(engine, count):
    name = {"mpi": "MPIEngine", "tcp": "TCP"}[engine]
    said = lines(engine, count, COLLECTIVES)
    assert len(said) == count and len(set(said)) == 1
    assert said[0].startswith(name)


@pytest.mark.parametrize("how", ["data", "weights"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_training(engine, count, how):
    said = lines(engine, count, TRAINING, how)
    assert len(said) == count and len(set(said)) == 1
    assert said[0].startswith(f"processes {count} ")


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_that_differ_are_named(engine):
    ended = launch(engine, 2, "multiprocess.programs.differing")
    assert ended.returncode != 0
    assert "process 1 traced a program that differs at eqn " in ended.stderr
    assert "differing.py:" in ended.stderr
