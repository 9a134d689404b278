"""The garbage collector during the import, and after it."""

import gc
import subprocess
import sys

import pytest

import curta
from curta._base.import_pause import collector_at_rest, rare_collections


def test_the_collector_works_afterwards():
    with collector_at_rest():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), collector_at_rest():
        raise ImportError
    assert gc.isenabled()


def test_the_programs_choice_stands():
    script = """
import gc
gc.disable()
gc.freeze()
frozen = gc.get_freeze_count()
import curta
print(gc.isenabled(), gc.get_freeze_count() > frozen // 2 > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False True\n"


def test_garbage_made_meanwhile_is_found():
    found = []

    class Node:
        def __del__(self):
            found.append(1)

    with collector_at_rest():
        node = Node()
        node.itself = node
        del node
    gc.collect()
    assert found


def test_tracing_and_compiling_make_collections_rare():
    seen = []

    def fun(x):
        seen.append(gc.get_threshold()[2])
        return curta.jit(lambda x: x + 1)(x)  # the block of the inner one ends nothing

    before = gc.get_threshold()
    curta.jit(fun)(1.0)
    with pytest.raises(ZeroDivisionError):
        curta.jit(lambda x: 1 / (seen.append(gc.get_threshold()[2]) or 0))(1.0)
    assert all(n > before[2] for n in seen) and len(seen) == 2
    assert gc.get_threshold() == before


@pytest.mark.parametrize("chosen", [(0, 10, 10), (10**6, 5, 5000)])
def test_the_programs_thresholds_stand(chosen):
    before = gc.get_threshold()
    try:
        gc.set_threshold(*chosen)
        with rare_collections():
            assert gc.get_threshold() == chosen
        gc.set_threshold(*before)
        with rare_collections():
            gc.set_threshold(*chosen)
        assert gc.get_threshold() == chosen
    finally:
        gc.set_threshold(*before)


def test_young_garbage_is_found_while_a_function_is_traced():
    class Large:
        alive = 0

        def __init__(self):
            self.itself = self
            Large.alive += 1

        def __del__(self):
            Large.alive -= 1

    most = []

    def fun(x):
        for _ in range(5000):
            Large()
            most.append(Large.alive)
        return x

    curta.jit(fun)(1.0)
    assert max(most) < 4000
