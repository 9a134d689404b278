"""The compiler's work per equation must not grow with the program.

Counted in steps, not in seconds; `make stress-compile-time` goes to larger programs.
"""

import pytest
from tests.stress.compile_time import FAMILIES, growing


@pytest.mark.parametrize("name", FAMILIES)
def test_steps_for_an_equation_do_not_grow(name):
    assert not growing(name, 80, 320)
