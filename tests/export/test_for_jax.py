"""Exported functions as JAX's files, read here field by field.

That JAX reads and runs them tests `tests/accelerators/test_exported_for_jax.py`.
"""

import struct
from collections import OrderedDict

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import export
from curta.export.flatbuffer import FlatTable, Scalar, Vector, flatbuffer
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


class Read:
    """A table of a buffer, by the numbers of its fields."""

    def __init__(self, data, at=None):
        self.data = data
        self.at = self._follow(0) if at is None else at
        (back,) = struct.unpack_from("<i", data, self.at)
        self.places = self.at - back
        (size,) = struct.unpack_from("<H", data, self.places)
        self.count = (size - 4) // 2

    def _follow(self, at):
        return at + struct.unpack_from("<I", self.data, at)[0]

    def _field(self, number):
        if number >= self.count:
            return None
        (place,) = struct.unpack_from("<H", self.data, self.places + 4 + 2 * number)
        return self.at + place if place else None

    def number(self, field, code):
        at = self._field(field)
        if at is None:
            return 0
        assert at % struct.calcsize(code) == 0  # aligned
        return struct.unpack_from(f"<{code}", self.data, at)[0]

    def numbers(self, field, code):
        at = self._follow(self._field(field))
        (count,) = struct.unpack_from("<I", self.data, at)
        return [*struct.unpack_from(f"<{count}{code}", self.data, at + 4)]

    def text(self, field):
        return bytes(self.numbers(field, "B")).decode()

    def _each(self, field):
        at = self._follow(self._field(field))
        (count,) = struct.unpack_from("<I", self.data, at)
        return [self._follow(at + 4 + 4 * i) for i in range(count)]

    def tables(self, field):
        return [Read(self.data, at) for at in self._each(field)]

    def texts(self, field):
        def text(at):
            (size,) = struct.unpack_from("<I", self.data, at)
            assert self.data[at + 4 + size] == 0
            return bytes(self.data[at + 4 : at + 4 + size]).decode()

        return [*map(text, self._each(field))]

    def table(self, field):
        at = self._field(field)
        return None if at is None else Read(self.data, self._follow(at))


def test_tables():
    inner = FlatTable({0: "text", 3: Scalar("q", -5)})
    whole = FlatTable(
        {1: [inner, FlatTable({})], 2: Vector("H", [1, 2, 65535]), 4: b"\0\1"}
    )
    root = Read(flatbuffer(whole))
    first, second = root.tables(1)
    assert (first.text(0), first.number(3, "q")) == ("text", -5)
    assert second.number(0, "b") == 0
    assert root.numbers(2, "H") == [1, 2, 65535]
    assert root.numbers(4, "B") == [0, 1]
    assert root.table(0) is None and root.table(9) is None


def stored(fun, *args, order=0, **kwargs):
    exported = export.export(curta.jit(fun))(*args, **kwargs)
    return Read(exported.serialize(order, for_jax=True))


X = np.ones((2, 3), np.float32)


def test_a_function():
    root = stored(lambda x, unused: {"a": x.T, "b": [x.sum(), None]}, X, 1, order=1)
    assert root.number(0, "H") == 3
    assert root.text(1) == "<lambda>"
    assert root.texts(9) == ["cpu"]
    assert "stablehlo.transpose" in root.text(13)
    assert root.numbers(15, "H") == [0]
    assert (root.number(16, "?"), root.number(18, "I")) == (False, 1)
    types = [(t.texts(1), t.number(2, "b"), t.number(3, "b")) for t in root.tables(19)]
    assert [types[i] for i in root.numbers(22, "I")] == [
        (["2", "3"], 10, 1),
        ([], 3, 1),
    ]
    assert [types[i] for i in root.numbers(23, "I")] == [
        (["3", "2"], 10, 1),
        ([], 10, 1),
    ]
    assert root.numbers(24, "I") == [0, 0]
    out = root.table(4)
    assert (out.number(0, "b"), out.texts(2)) == (4, ["a", "b"])
    leaf, many = out.tables(1)
    assert leaf.number(0, "b") == 0
    assert [t.number(0, "b") for t in (many, *many.tables(1))] == [3, 0, 1]
    assert root.table(17).numbers(22, "I") and root.table(17).table(17) is None


def test_sizes_that_are_open():
    (spec,) = export.symbolic_args_specs((X,), "b, 2*n + 1")
    root = stored(lambda x: x.sum(0), spec)
    assert root.number(16, "?") is True
    assert [t.texts(1) for t in root.tables(19)] == [["b", "2*n + 1"], ["2*n + 1"]]


def test_shardings():
    mesh = curta.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2)
    rows = NamedSharding(mesh, P(("x", "y"), None))
    f = curta.jit(lambda x: (x, x), in_shardings=rows, out_shardings=(rows, None))
    exported = export.export(f)(np.ones((4, 4)))
    root = Read(exported.serialize(for_jax=True))
    assert root.number(18, "I") == 4
    assert (root.numbers(24, "I"), root.numbers(25, "I")) == ([1], [1, 0])
    (grid,) = root.tables(20)
    assert (grid.numbers(0, "I"), grid.texts(1)) == ([2, 2], ["x", "y"])
    assert grid.numbers(2, "b") == [1, 1]
    (sharding,) = root.tables(21)
    spec = sharding.table(1)
    assert [p.texts(0) for p in spec.tables(0)] == [["x", "y"], []]
    assert spec.texts(1) == spec.texts(2) == []


def test_registered_trees_and_checks():
    checks = [
        export.DisabledSafetyCheck.custom_call("f"),
        export.DisabledSafetyCheck.platform(),
    ]
    f = curta.jit(lambda d: d["a"])
    exported = export.export(f, disabled_checks=checks)(OrderedDict(b=X, a=X))
    root = Read(exported.serialize(for_jax=True))
    assert [c.number(0, "b") for c in root.tables(12)] == [1, 0]
    assert root.tables(12)[0].text(1) == "f"
    args, _ = root.table(2).tables(1)
    (node,) = args.tables(1)
    assert (node.number(0, "b"), node.text(3)) == (5, "collections.OrderedDict")
    assert bytes(node.numbers(4, "B")) == b'["b", "a"]'


def test_what_cannot_be_stored():
    def shown(x):
        curta.debug.print("{}", x)
        return x

    with pytest.raises(NotImplementedError, match="function with effects"):
        stored(shown, X)
    with pytest.raises(TypeError, match="dictionaries with string keys"):
        stored(lambda d: d[1], {1: X})
    with pytest.raises(NotImplementedError, match="no number for int2"):
        stored(lambda x: x, jnp.zeros(2, "int2"))
