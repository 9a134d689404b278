"""`custom_partitioning`: functions with rules of their own for split arrays."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, jit, lax
from curta.experimental.custom_partitioning import (
    BATCHING,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from curta.sharding import AxisType

X = np.arange(32.0, dtype=np.float32).reshape(8, 4)


def product(rule, seen):
    """A matrix product that gathers nothing, whichever way operands are split."""

    @custom_partitioning
    def f(x, y):
        return x @ y

    def partition(mesh, args, result):
        seen.append([a.sharding.spec for a in args])
        inner = args[1].sharding.spec[0]

        def lower(x, y):
            out = x @ y
            return out if inner is None else lax.psum(out, inner)

        return mesh, lower, result.sharding, tuple(a.sharding for a in args)

    f.def_partition(partition, **rule)
    return f


RULES = {
    "text": {"sharding_rule": "i j, j k -> i k", "reduction_factors": ("j",)},
    "rule": {"sharding_rule": SdyShardingRule((("i", "j"), ("j", "k")), (("i", "k"),))},
    "function": {"sharding_rule": lambda mesh, args, result: "i j, j k -> i k"},
    "callback": {
        "infer_sharding_from_operands": lambda mesh, args, result: NamedSharding(
            mesh, P(args[0].sharding.spec[0], args[1].sharding.spec[1])
        )
    },
}


@pytest.mark.parametrize("rule", RULES)
def test_devices_run_the_function_of_shards(rule):
    seen = []
    f = product(RULES[rule], seen)
    with curta.set_mesh(curta.make_mesh((4, 2), ("x", "y"))):
        x = curta.device_put(X, P("x", "y"))
        w = curta.device_put(X[:4], P("y", None))
        for call in (f, jit(f)):
            out = call(x, w)
            assert out.sharding.spec == P("x", None)
            np.testing.assert_allclose(out, X @ X[:4])
    assert seen == [[P("x", "y"), P("y", None)]] * 2


def test_whole_arrays_and_results():
    f = product(RULES["text"], [])
    np.testing.assert_allclose(f(X, X[:4]), X @ X[:4])
    auto = curta.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    x = curta.device_put(X, NamedSharding(auto, P("x")))
    out = jit(lambda x: f(x, X[:4]) + 1)(x)
    assert out.sharding.spec == P("x")
    inside = curta.shard_map(
        lambda x: f(x, X[:4]), mesh=auto, in_specs=P("x"), out_specs=P("x")
    )
    np.testing.assert_allclose(jit(inside)(x), X @ X[:4])


def test_static_arguments_trees_and_batching_dims():
    def scale(tree, k, offset=0.0):
        return {"out": tree["x"] * k + offset}

    f = custom_partitioning(scale, static_argnums=(1,))
    f.def_partition(
        lambda k, mesh, args, result: (
            mesh,
            lambda tree, offset: {"out": tree["x"] * k + offset},
            {"out": result["out"].sharding},
            ({"x": args[0]["x"].sharding}, args[1].sharding),
        ),
        sharding_rule="... i, -> ... i",
    )
    np.testing.assert_array_equal(f({"x": X}, 3)["out"], 3 * X)
    with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
        x = curta.device_put(X, P("x", "y"))
        out = f({"x": x}, 3, offset=1.0)["out"]
        assert out.sharding.spec == P("x", "y")
        np.testing.assert_array_equal(out, 3 * X + 1)
    with pytest.raises(curta.errors.UnexpectedTracerError, match="static_argnums"):
        jit(lambda k: f({"x": X}, k))(3)


def test_rules():
    rule = SdyShardingRule(
        ((BATCHING, CompoundFactor("i", "j")),), (("i", "j"),), i=2, j=2
    )
    assert rule.result_specs([P("x")], [1], [2]) == [P("x", None)]
    f = custom_partitioning(lambda x: x)
    for given, error, message in [
        ({"sharding_rule": "i"}, ValueError, "no -> in rule"),
        ({"sharding_rule": "1 -> i"}, ValueError, "start with a letter"),
        ({"sharding_rule": "(i j -> i"}, ValueError, "not balanced"),
        ({"sharding_rule": "i ... -> i"}, ValueError, "at the beginning"),
        ({"sharding_rule": "(i) -> i"}, ValueError, "at least two factors"),
        ({"i": 3}, ValueError, "Unknown keyword arguments"),
    ]:
        with pytest.raises(error, match=message):
            f.def_partition(lambda *_: None, **given)
    f.def_partition(
        lambda mesh, args, result: (
            mesh,
            lambda x: x,
            NamedSharding(mesh, P()),
            (args[0].sharding,),
        ),
        sharding_rule="i j -> i j",
    )
    with curta.set_mesh(curta.make_mesh((2,), ("x",))):
        x = curta.device_put(X, P("x"))
        with pytest.raises(ValueError, match="Mismatch in result shapes"):
            f(x)
        f.def_partition(lambda mesh, args, result: (mesh, jnp.sin, None, (None,)))
        with pytest.raises(ValueError, match="must return Sharding"):
            f(x)
