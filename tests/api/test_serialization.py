"""Compiled functions survive as bytes."""

import subprocess
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.experimental import topologies
from curta.experimental.serialize_executable import deserialize_and_load, serialize

CONST = jnp.arange(4.0)


def loop(tree, scale=2.0):
    def step(c, x):
        return jnp.sin(c) + x, c * scale

    return lax.scan(step, tree["a"], tree["b"][:, None] + CONST)


def compiled(fun, *args, **options):
    return curta.jit(fun, **options).lower(*args).compile()


def test_the_same_results():
    tree = {"a": jnp.ones(4), "b": jnp.arange(3.0)}
    made = compiled(loop, tree)
    found = deserialize_and_load(*serialize(made))
    assert found.as_text() == made.as_text()
    for a, b in zip(
        curta.tree.leaves(found(tree)), curta.tree.leaves(made(tree)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="Argument 'tree\\['a'\\]' compiled with"):
        found({"a": jnp.ones(5), "b": jnp.arange(3.0)})


def test_rules_of_derivatives_are_left_behind():
    made = compiled(curta.grad(curta.nn.relu), 1.0)
    assert deserialize_and_load(*serialize(made))(3.0) == 1.0
    made = compiled(curta.nn.silu, 1.0)
    assert deserialize_and_load(*serialize(made))(0.0) == 0.0


def test_another_process(tmp_path):
    data, _, _ = serialize(compiled(jnp.cumsum, jnp.arange(3)))
    (tmp_path / "program").write_bytes(data)
    program = (
        "import sys, curta, curta.numpy as jnp\n"
        "from curta.experimental.serialize_executable import deserialize_and_load\n"
        "trees = [curta.tree.structure(x) for x in (((0,), {}), 0)]\n"
        "run = deserialize_and_load(open(sys.argv[1], 'rb').read(), *trees)\n"
        "print(run(jnp.array([5, 6, 7])))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "program")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[ 5 11 18]"


def test_what_cannot_be_bytes():
    ref = curta.new_ref(0)

    def counts(x):
        ref[...] += x

    with pytest.raises(ValueError, match="can't serialize with a closed-over mutable"):
        serialize(compiled(counts, 1))

    def calls(x):
        shape = curta.ShapeDtypeStruct((), "float32")
        return curta.pure_callback(lambda x: np.sin(x), shape, x)

    with pytest.raises(ValueError, match="can't serialize calls: .*Callbacks"):
        serialize(compiled(calls, 1.0))


def test_trees_must_fit():
    data, in_tree, out_tree = serialize(compiled(jnp.add, 1.0, 2.0))
    with pytest.raises(ValueError, match="takes 2 arrays, but the tree"):
        deserialize_and_load(data, curta.tree.structure(((0,), {})), out_tree)


def test_topologies():
    there = topologies.get_attached_topology()
    assert there.devices == curta.devices()
    mesh = topologies.make_mesh(there, (1, len(there.devices)), ("x", "y"))
    assert mesh.shape == {"x": 1, "y": len(there.devices)}
    with pytest.raises(NotImplementedError, match="topology not implemented"):
        topologies.get_topology_desc(platform="cpu")
    with pytest.raises(RuntimeError, match="no plugin for it is installed"):
        topologies.get_topology_desc("2x2", "fridge")
