"""The examples for several hosts, small; one process prints the curves as JSON."""

import importlib
import itertools
import json
import sys
from pathlib import Path

import curta

FOLDER = Path(__file__).parents[3] / "examples" / "hosts"


def example(name):
    """One of the examples."""
    sys.path[:0] = [] if str(FOLDER) in sys.path else [str(FOLDER)]
    return importlib.import_module(name)


def heat():
    _, plate, means = example("heat").solve(32, 6, 3)
    return [*means, float((plate**2).sum())]


def transformer():
    losses, _ = example("transformer").train(curta.random.key(0), 3, 16)
    return losses


def digits(folder=None, epochs=3):
    """Training for three epochs, or for the next ones of those."""
    module = example("classifier")
    key = curta.random.key(0)
    train_set, held_out = module.digits.load(key)
    train_set = [x[:256] for x in train_set]

    def first(every):
        return itertools.islice(every, epochs)

    curves = module.train(key, 3, 64, train_set, held_out, first, folder)
    return curves.tolist()


def main():
    curta.distributed.initialize()
    found = {f.__name__: f() for f in (heat, transformer, digits)}
    if curta.process_index() == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
