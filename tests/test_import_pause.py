"""The garbage collector during the import, and after it."""

import gc
import subprocess
import sys

import pytest

from curta.import_pause import collector_at_rest


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
