"""No public function is left without a row, or a reason for having none."""

import importlib
import inspect
import re
from pathlib import Path

from tests.functions import random_rows
from tests.functions.tables import ROWS, WITHOUT_ROWS

import curta

LIST = Path(__file__).parents[2] / "tools" / "jax_names.txt"
SPACES = re.compile(r"^(numpy|lax|nn|random|scipy|image|ops)\b")
NOT_FUNCTIONS = {"lax.DotDimensionNumbers"}
CLASSES = {  # tested by what their methods give
    "scipy.interpolate.RegularGridInterpolator",
    "scipy.spatial.transform.Rotation",
    "scipy.spatial.transform.Slerp",
}


def public_functions():
    """The paths of all functions of the numerical namespaces."""
    for section in re.split(r"^\[", LIST.read_text(), flags=re.MULTILINE)[1:]:
        space, body = section.split("]\n", 1)
        if SPACES.match(space):
            module = importlib.import_module(f"curta.{space}")
            for name in body.split():
                value = getattr(module, name, None)
                if callable(value) and not inspect.isclass(value):
                    if not name.endswith("_p") and not is_dtype(value):
                        yield f"{space}.{name}"


def is_dtype(value):
    return isinstance(value, type(curta.numpy.float32)) or hasattr(value, "dtype")


def in_tables():
    return {row.path for row in ROWS} | set(random_rows.NAMES)


def test_every_function_has_a_row():
    public = set(public_functions()) - NOT_FUNCTIONS
    covered = in_tables()
    assert public - covered - set(WITHOUT_ROWS) == set()
    assert set(WITHOUT_ROWS) & covered == set(), "both in a table and excused"
    assert set(WITHOUT_ROWS) - public == set(), "excused, but not public"


def test_classes_of_functions_have_rows_too():
    assert CLASSES <= in_tables()


def test_rows_name_what_there_is():
    for row in ROWS:
        assert callable(row.function(curta)), row.name


def test_what_is_left_out_has_a_reason():
    checks = {"jit", "vmap", "grad"}
    for row in ROWS:
        assert set(row.without) <= checks
        assert all(len(reason) > 8 for reason in row.without.values()), row.name
