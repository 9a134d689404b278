"""Exported functions as bytes, and back."""

import collections
import json
import struct
from typing import Any, NamedTuple

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import export, lax
from curta.export.encoding import HEADER


def again(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


def check(f, *args):
    f = curta.jit(f)
    found = again(export.export(f)(*args))
    expected, tree = curta.tree.flatten(f(*args))
    leaves, found_tree = curta.tree.flatten(found.call(*args))
    assert found_tree == tree
    for a, b in zip(leaves, expected, strict=True):
        assert a.dtype == b.dtype and a.weak_type == b.weak_type
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


X = jnp.arange(6.0).reshape(2, 3)
FUNCTIONS = {
    "elementwise": lambda x: jnp.sin(x) + jnp.where(x > 2, x, jnp.nan),
    "infinities": lambda x: jnp.maximum(x, -jnp.inf) + jnp.float32(-0.0),
    "constants": lambda x: x + jnp.array([1.5, 2.5, 3.5]),
    "dtypes": lambda x: [x.astype(d) for d in ("bfloat16", "int8", "complex64")],
    "indexing": lambda x: x.at[0, jnp.array([0, 2])].set(x[1, 1]),
    "loops": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.cos(y + i), x),
    "branches": lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c.sum()), x[0], x),
    "custom rules": lambda x: (curta.nn.relu(x), curta.nn.gelu(x), jnp.logaddexp(x, x)),
    "products": lambda x: x @ x.T,
    "windows": lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME"),
    "random": lambda x: curta.random.normal(curta.random.key(3), x.shape),
    "linear algebra": lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(3)),
    "jit": lambda x: curta.jit(jnp.tanh)(x),
    "checkpoint": curta.grad(curta.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())),
    "sorting": lambda x: (jnp.sort(x), lax.top_k(x, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_round_trip(name):
    check(FUNCTIONS[name], X)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys(impl):
    key = curta.random.key(42, impl=impl)
    found = again(export.export(curta.jit(lambda k: curta.random.split(k)))(key))
    assert (found.call(key) == curta.random.split(key)).all()


def test_gathers_that_fill_with_keys():
    keys = curta.random.split(curta.random.key(1), 3)
    read = curta.jit(lambda keys, i: keys.at[i].get(mode="fill"))
    places = jnp.array([2, 7])
    found = again(export.export(read)(keys, places))
    assert (found.call(keys, places) == read(keys, places)).all()


def test_symbolic_dims():
    spec = export.symbolic_args_specs(
        X, "2*b, n", constraints=["mod(n, 3) == 0", "b <= 9"]
    )
    first = export.export(
        curta.jit(lambda x: x[: x.shape[0] // 2] * (x.shape[1] // 3))
    )(spec)
    found = again(first)
    assert str(found.in_avals) == str(first.in_avals)
    np.testing.assert_array_equal(found.call(X), X[:1])
    with pytest.raises(ValueError, match="mod\\(n, 3\\) == 0"):
        found.call(jnp.ones((2, 4)))


def test_derivatives():
    f = curta.jit(lambda x: x**3)
    found = again(export.export(f)(2.0), vjp_order=2)
    df = curta.grad(found.call)
    assert float(df(2.0)) == 12.0 and float(curta.grad(df)(2.0)) == 12.0
    with pytest.raises(ValueError, match="No VJP is available"):
        curta.grad(curta.grad(df))(2.0)
    assert not again(export.export(f)(2.0)).has_vjp()


class Pair(NamedTuple):
    a: Any
    b: Any


def test_trees():
    export.register_namedtuple_serialization(Pair, serialized_name="test.Pair")
    tree = (Pair(1, [2.0]), {"k": None, "j": (3,)}, collections.OrderedDict(z=1, y=2))
    exported = export.export(curta.jit(lambda t: (t, t)))(tree)
    found = again(exported)
    assert (found.in_tree, found.out_tree) == (exported.in_tree, exported.out_tree)
    assert type(found.call(tree)[1][0]) is Pair
    with pytest.raises(
        ValueError, match="Duplicate serialization registration for type"
    ):
        export.register_namedtuple_serialization(Pair, serialized_name="other")
    with pytest.raises(ValueError, match="Duplicate .* for serialized_name"):
        other = collections.namedtuple("other", "x")
        export.register_namedtuple_serialization(other, serialized_name="test.Pair")


def test_trees_that_cannot_be_stored():
    other = collections.namedtuple("other", "x")
    with pytest.raises(ValueError, match="Cannot serialize .* unregistered type"):
        export.export(curta.jit(lambda t: t))(other(1.0)).serialize()
    with pytest.raises(TypeError, match="only for dictionaries with string keys"):
        export.export(curta.jit(lambda t: t))({(0, 1): 1.0}).serialize()
    with pytest.raises(ValueError, match="Use .*register_pytree_node_serialization"):
        export.register_namedtuple_serialization(str, serialized_name="str")
    with pytest.raises(ValueError, match="If `from_children` is not present"):
        export.register_pytree_node_serialization(
            set, serialized_name="s", serialize_auxdata=bytes, deserialize_auxdata=bytes
        )


def test_callbacks_cannot_be_stored():
    shape = curta.ShapeDtypeStruct((), np.float32)
    f = curta.jit(lambda x: curta.pure_callback(np.sin, shape, x))
    with pytest.raises(NotImplementedError, match="calls back into Python"):
        export.export(f)(1.0).serialize()


def stored():
    return export.export(curta.jit(lambda x: jnp.sin(x) + X))(X).serialize()


def with_text(change):
    """Stored bytes with their JSON changed."""
    data = stored()
    magic, version, length = HEADER.unpack(data[: HEADER.size])
    tables = json.loads(data[HEADER.size : HEADER.size + length])
    change(tables)
    text = json.dumps(tables).encode()
    rest = data[HEADER.size + length :]
    return HEADER.pack(magic, version, len(text)) + text + rest


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "data is truncated"),
        (b"x" * 100, "not an exported function of Curta"),
        (struct.pack("<8sIQ", b"CURTAEXP", 999, 0), "version 999 of the format"),
        (struct.pack("<8sIQ", b"CURTAEXP", 1, 10**12) + b"{}", "cannot be loaded"),
    ],
)
def test_not_a_function(data, message):
    with pytest.raises(ValueError, match=message):
        export.deserialize(data)


def test_nothing_is_executed_and_all_is_checked():
    def set_op(form):
        def change(tables):
            tables["jaxprs"][-1]["eqns"][0][0] = form

        return change

    def set_buffer(tables):
        tables["buffers"] = [8]

    def set_output(tables):
        tables["jaxprs"][-1]["outputs"] = [99]

    def set_shape(tables):
        tables["jaxprs"][-1]["inputs"][0]["aval"][0] = {"tuple": [1000, 3]}

    for change in (
        set_op({"op": ["system", {"command": "true"}]}),
        set_op({"record": ["Popen", {"args": "true"}]}),
        set_op({"op": ["Sin", {"unknown": 1}]}),
        set_op({"op": ["Reshape", {}]}),
        set_op({"enum": ["os", "system"]}),
        set_op({"code": "print()"}),
        set_op(7),
        set_buffer,
        set_output,
        set_shape,
    ):
        with pytest.raises(ValueError, match="cannot be loaded"):
            export.deserialize(with_text(change))
    assert export.deserialize(with_text(lambda tables: None)).call(X).shape == (2, 3)


def test_damaged_bytes():
    data = stored()
    rng = np.random.default_rng(0)
    for place in rng.integers(HEADER.size, len(data), 60):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        try:
            found = export.deserialize(damaged)
        except ValueError:
            continue
        assert found.out_avals
