"""Compiled code against `eval`; ops with no compiled form run `eval` inside of it.

The backend of CONTRIBUTING, which runs programs op by op, passes the same table.
"""

import doctest
import functools
from pathlib import Path

import numpy as np
import pytest
from tests.conformance.checks import array, as_list, assert_close, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

from curta.config import backend, enable_x64
from curta.core.stage import stage
from curta.runtime.backends import executable

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


@functools.cache
def register_example() -> None:
    """Register the backend that CONTRIBUTING shows, `op_by_op`."""
    page = CONTRIBUTING.read_text()
    section = page[page.index("## Add a backend") :]
    names = {"np": np}
    for example in doctest.DocTestParser().get_examples(section):
        exec(example.source, names)
        if example.source.startswith("register_backend"):
            return
    raise AssertionError("the example registers no backend")


@pytest.mark.parametrize("name", ["llvm", "numpy", "op_by_op"])
@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_compiled_agrees_with_eval(cls, name):
    if name == "op_by_op":
        register_example()
    found = cases(cls)
    with enable_x64(True), backend(name):
        for case, outs in zip(found, run_together(found), strict=True):
            wanted = evaluate(case.op, case.args)
            for n, (got, want) in enumerate(zip(outs, wanted, strict=True)):
                assert_close(np.asarray(got), want, f"{case}, output {n}")


def run_together(found: list[Case]) -> list[list[np.ndarray]]:
    """The outputs of all cases, from one program: compiling once is much faster."""

    def program(*flat):
        rest = iter(flat)
        outs = [as_list(c.op, c.op(*[next(rest) for _ in c.avals])) for c in found]
        counts[:] = map(len, outs)
        return [x for several in outs for x in several]

    counts: list[int] = []
    closed = stage(program, [a for c in found for a in c.avals])
    args = [array(x, a) for c in found for x, a in zip(c.args, c.avals, strict=True)]
    outs = iter(executable(closed)(*map(storage, args)))
    return [[next(outs) for _ in range(count)] for count in counts]
