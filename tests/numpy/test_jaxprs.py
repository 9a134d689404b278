"""The jaxprs that functions record: the ops, and the text, of JAX 0.10."""

from pathlib import Path

import pytest
from tests.numpy.programs import PROGRAMS, arguments

import curta


def _expected():
    text = (Path(__file__).parent / "jaxprs.txt").read_text()
    parts = ("\n" + text).split("\n# ")[1:]
    return {
        name: body.strip("\n") for name, _, body in (p.partition("\n") for p in parts)
    }


EXPECTED = _expected()


@pytest.mark.parametrize("name", PROGRAMS)
def test_jaxpr(name):
    fun, *given = PROGRAMS[name]
    assert str(curta.make_jaxpr(fun)(*arguments(given))) == EXPECTED[name]
