"""However a process ends, the others end too, and say why."""

import re

import pytest
from tests.multiprocess.launch import ENGINES, launch, lines

PROGRAM = "tests.hosts.programs.ending"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["none", "all-exit", "caught"])
def test_in_order(engine, how):
    ended = launch(engine, 3, PROGRAM, how)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("done") == (0 if how == "all-exit" else 3)


# What is said: by the process that ends, by all engines; and by those that wait.
SAID = {
    "raise": ("ValueError: process 1 gives up", None),
    "asleep": ("ValueError: process 1 gives up", None),
    "exit": (None, "process 1 failed: sys.exit(3), while host 0"),
    "raise-exit": ("process 1 has ended", None),
    "return": ("process 1 has ended", None),
    "kill": (None, "process 1 is gone, while host 0"),
    "time-out": ("time-out after 3 s: ", None),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", SAID)
def test_by_an_error(engine, how):
    ended = launch(engine, 3, PROGRAM, how)
    assert ended.returncode != 0
    by_all, over_tcp = SAID[how]
    assert by_all is None or by_all in ended.stderr
    assert over_tcp is None or engine != "tcp" or over_tcp in ended.stderr
    if how == "exit":
        assert ended.returncode == 3
    if how == "time-out":
        assert "process 1 is at ending.py:" in ended.stderr
        assert re.search(r"process [02] has waited \d s in all_reduce", ended.stderr)


@pytest.mark.parametrize("where", ["compiled", "begun"])
@pytest.mark.parametrize("how", ["exit", "return", "kill", "time-out"])
def test_while_compiled_code_is_in_mpi(how, where):
    ended = launch("mpi", 3, PROGRAM, how, where)
    assert ended.returncode != 0
    if how == "return":
        waits = r"waits in all_reduce\(sum, float32\[3\]\) between hosts 0, 1, 2, at"
        assert re.search(waits + r" ending.py:\d+, but", ended.stderr)
    if how == "time-out":
        assert "process 1 is at ending.py:" in ended.stderr


@pytest.mark.parametrize("how", ["exit", "return", "kill", "time-out"])
def test_while_a_thread_is_in_a_collective(how):
    ended = launch("tcp", 3, PROGRAM, how, "begun")
    assert ended.returncode != 0
    if SAID[how][1] is not None:
        assert SAID[how][1] in ended.stderr
    if how == "time-out":
        assert "process 1 is at ending.py:" in ended.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_an_exception_while_collectives_go_on(engine):
    """All processes catch it, and go on together."""
    said = lines(engine, 2, "tests.multiprocess.programs.leaving")
    assert said == ["process 0: stop, then 3.0", "process 1: stop, then 3.0"]
