"""A small fixed part of `make stress-files`, and what it found."""

import json

import pytest
from tests.stress import files

import curta
import curta.numpy as jnp
from curta import export
from curta.export.serialization import HEADER


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_raise_value_errors(seed):
    counts = files.load_batch(seed, files.blobs())
    assert counts["refused"] > files.BATCH / 2


def changed(change):
    """An exported sort whose JSON was changed."""
    exported = export.export(curta.jit(jnp.sort))(jnp.arange(3.0))
    blob = bytes(exported.serialize())
    magic, version, length = HEADER.unpack(blob[: HEADER.size])
    body = blob[HEADER.size :]
    tables = json.loads(body[:length])
    change(tables)
    text = json.dumps(tables).encode()
    return HEADER.pack(magic, version, len(text)) + text + body[length:]


def set_field(name, value):
    def change(tables):
        for program in tables["jaxprs"]:
            for op, _, _ in program["eqns"]:
                if op["op"][0] == "Sort":
                    op["op"][1][name] = value

    return change


@pytest.mark.parametrize(
    "field, value, said",
    [
        ("dimension", "0", "Sort.dimension cannot be '0'"),
        ("is_stable", None, "Sort.is_stable cannot be None"),
        ("num_keys", 0, "sort of 1 arrays by 0 keys"),
        ("num_keys", 7, "sort of 1 arrays by 7 keys"),
    ],
)
def test_parameters_of_ops_are_checked(field, value, said):
    with pytest.raises(ValueError, match=said):
        export.deserialize(changed(set_field(field, value)))


def test_the_tree_of_the_arguments_is_checked():
    def change(tables):
        tables["function"]["in_tree"] = "leaf"

    with pytest.raises(ValueError, match="not a pair of args and kwargs"):
        export.deserialize(changed(change))
