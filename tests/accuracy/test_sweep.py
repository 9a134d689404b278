"""Special functions and distributions against mpmath, at one point of some regions."""

import numpy as np
import pytest
from tests.accuracy.special_table import FUNCTIONS
from tests.accuracy.sweep import GOAL, error, points
from tests.stress.special_values import evaluate

import curta

# Where mpmath takes long, the stress test looks.
SLOW = ("hyp", "owens_t", "betainc", "beta.", "gennorm", "zeta", "polygamma", "comb")
QUICK = [f for f in FUNCTIONS if not any(name in f.path for name in SLOW)]


@pytest.mark.parametrize("part", range(8))
def test_errors_are_below_the_goal(part):
    for function in QUICK[part::8]:
        regions = [*function.regions]
        region = regions[part % len(regions)]
        some = list(points(function, region, "float64", 2))
        if not some:
            continue
        columns = [np.array(c) for c in zip(*(p.args for p in some), strict=True)]
        got = evaluate(curta, function, columns)
        for value, point in zip(got, some, strict=True):
            miss = error(value, point, "float64")
            assert miss <= GOAL["float64"], f"{function.path} {point.args}: {value}"
