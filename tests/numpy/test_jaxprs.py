"""The jaxprs that functions record: the ops, and the text, of JAX 0.10 and 0.12."""

from pathlib import Path

import pytest
from tests.numpy.programs import PROGRAMS, arguments

import curta
from curta._settings.api_version import jax_api_version

# Functions with one formula under each version, which JAX has not.
OWN_FORMULA = {"0.10": {"hypot"}, "0.12": {"hypot", "power_ints", "round"}}


def _texts(file):
    text = (Path(__file__).parent / file).read_text()
    parts = ("\n" + text).split("\n# ")[1:]
    return {
        name: body.strip("\n") for name, _, body in (p.partition("\n") for p in parts)
    }


EXPECTED = {"0.10": _texts("jaxprs.txt")}
EXPECTED["0.12"] = EXPECTED["0.10"] | _texts("jaxprs_of_0.12.txt")


@pytest.mark.parametrize("version", EXPECTED)
@pytest.mark.parametrize("name", PROGRAMS)
def test_jaxpr(name, version):
    fun, *given = PROGRAMS[name]
    with jax_api_version(version):
        found = str(curta.make_jaxpr(fun)(*arguments(given)))
    same = found == EXPECTED[version][name]
    assert same is (name not in OWN_FORMULA[version]), found
