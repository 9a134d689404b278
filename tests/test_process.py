"""Importing Curta changes what docs/design/process.md lists, and nothing else."""

import json
import subprocess
import sys

SCRIPT = """
import gc, json, os, signal, sys, threading, warnings
import numpy as np

def state():
    return {
        "excepthook": repr(sys.__excepthook__),
        "exit": repr(sys.exit),
        "unraisable": repr(sys.unraisablehook),
        "signals": [repr(signal.getsignal(s)) for s in signal.valid_signals()],
        "environment": dict(os.environ),
        "filters": repr(warnings.filters),
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
        "callbacks": repr(gc.callbacks),
        "numpy": [repr(np.geterr()), repr(np.get_printoptions())],
        "path": sys.path,
        "threads": threading.active_count(),
        "recursion": sys.getrecursionlimit(),
        "displayhook": repr(sys.displayhook),
    }

before = state()
import curta
after = state()
print(json.dumps([before, after]))
"""


def test_the_import_leaves_the_process_as_it_was():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    before, after = json.loads(done.stdout)
    assert {k: v for k, v in after.items() if v != before[k]} == {}
