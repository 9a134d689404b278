"""Arrays freed as part of reference cycles are reported on request."""

import gc
import subprocess
import sys

import curta
import curta.numpy as jnp

WORDS = "was deleted by the Python garbage collector"


class Node:
    def __init__(self, data):
        self.data = data
        self.itself = self


def make_cycle():
    Node(jnp.ones((2, 2)))


def test_nothing_is_said_by_default(capsys):
    make_cycle()
    gc.collect()
    assert WORDS not in capsys.readouterr().err


def test_arrays_in_cycles_are_logged(capsys):
    with curta.array_garbage_collection_guard("log"):
        make_cycle()
        gc.collect()
    said = capsys.readouterr().err
    assert WORDS in said and "1 of type f32[2,2]" in said


def test_arrays_that_die_at_once_are_not(capsys):
    with curta.array_garbage_collection_guard("log"):
        x = jnp.array([1, 2, 3])
        del x
        gc.collect()
    assert WORDS not in capsys.readouterr().err


def test_fatal_ends_the_process():
    program = (
        "import gc, curta, curta.numpy as jnp\n"
        "curta.config.update('jax_array_garbage_collection_guard', 'fatal')\n"
        "cycle = [jnp.ones(2)]; cycle.append(cycle); del cycle\n"
        "gc.collect(); print('alive')"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert found.returncode != 0
    assert b"alive" not in found.stdout and WORDS.encode() in found.stderr
