"""Complex functions against mpmath, at some points of the plane."""

import numpy as np
import pytest
from tests.accuracy.complex_table import FUNCTIONS
from tests.accuracy.sweep import GOAL
from tests.stress.complex_values import DTYPES, arguments, measure

BY_PATH = {f.path: f for f in FUNCTIONS}
ENDS = [0.0, 1.0, -3.0, 2.2e-308, 5e-324, -2e-323, 1.7e308, -5e307]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.path)
def test_errors_are_below_the_goal(function):
    args = arguments(function, "complex128", 12, seed=3)
    for mode, (worst, where) in measure(function, args, "complex128").items():
        assert worst <= GOAL["float64"], f"{mode} {where}"


@pytest.mark.parametrize("name", ["divide", "sign", "arcsin", "arccosh", "sqrt"])
def test_ends_of_the_range(name):
    """Where sums of two parts overflow, or are subnormal numbers."""
    function = BY_PATH[f"numpy.{name}"]
    numbers = np.array([complex(x, y) for x in ENDS for y in ENDS])
    args = [numbers]
    if function.arity == 2:
        args = [numbers[::5], numbers[::-1][::5]]
    for mode, (worst, where) in measure(function, args, "complex128").items():
        assert worst <= GOAL[DTYPES["complex128"]], f"{mode} {where}"


def test_powers_whose_angle_overflows():
    z, w = np.array([0.999j, 2.0]), np.array([complex(1e308, -350), complex(1e308, 1)])
    function = BY_PATH["numpy.power"]
    for mode, (worst, where) in measure(function, [z, w], "complex128").items():
        assert worst == 0, f"{mode} {where}"
