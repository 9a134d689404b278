"""Exported functions as files that real JAX reads and runs (tier A)."""

from __future__ import annotations

import sys
from collections import OrderedDict

import jax
import numpy as np
import pytest
from tests.accelerators import xla

import curta
import curta.numpy as jnp
from curta import export
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P

assert xla  # whose import gives JAX its devices

X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=["bytecode", "text"])
def serialized(request):
    """Writes files: the module by jaxlib, or as without it, which JAX then needs."""

    def write(exported, order=0):
        with pytest.MonkeyPatch.context() as without:
            if request.param == "text":
                without.setitem(sys.modules, "jaxlib.mlir.ir", None)
            assert is_bytecode(exported) == (request.param == "bytecode")
            return exported.serialize(order, for_jax=True)

    return write


@pytest.fixture
def loaded(serialized):
    return lambda *args, **kwargs: jax.export.deserialize(serialized(*args, **kwargs))


def is_bytecode(exported):
    return exported.mlir_module_serialized[:4] == b"ML\xefR"


def test_trees_values_and_derivatives(loaded):
    def f(x, y=None, *, k):
        return {"a": jnp.sin(x) @ x.T, "b": [k["q"].sum(), (x, None)]}

    again = loaded(export.export(curta.jit(f))(X, k={"q": X}), order=1)
    got, want = again.call(X, k={"q": X}), f(X, k={"q": X})
    assert again.fun_name == "f"
    leaves, tree = jax.tree.flatten(got)
    assert str(tree) == str(jax.tree.structure(want))
    for a, b in zip(leaves, curta.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    grad = jax.grad(lambda x: again.call(x, k={"q": X})["a"].sum())(X)
    want = curta.grad(lambda x: f(x, k={"q": X})["a"].sum())(X)
    np.testing.assert_allclose(grad, want, rtol=1e-6)
    kept = loaded(export.export(curta.jit(lambda d: d))(OrderedDict(b=X, a=X)))
    assert [*kept.call(OrderedDict(b=X, a=X))] == ["b", "a"]


def test_open_sizes_and_platforms(loaded):
    (spec,) = export.symbolic_args_specs((X,), "b, 2*n + 1")
    f = curta.jit(lambda x: (x - x.mean(0)).reshape(-1))
    again = loaded(export.export(f, platforms=["cpu", "cuda"])(spec))
    assert again.platforms == ("cpu", "cuda")
    for rows in 1, 4:
        x = np.outer(np.arange(rows), np.ones(5)).astype(np.float32)
        np.testing.assert_allclose(again.call(x), f(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"2\*n \+ 1|evenly|Input shapes"):
        again.call(np.ones((2, 4), np.float32))


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint4", "bfloat16", "float8_e4m3fn", "complex64", "float16"],
)
def test_dtypes(dtype, loaded):
    x = jnp.ones(3, dtype)
    again = loaded(export.export(curta.jit(lambda x: (x,)))(x))
    (out,) = again.call(np.asarray(x))
    assert out.dtype == np.asarray(x).dtype
    np.testing.assert_array_equal(np.asarray(out), np.asarray(x))


def test_keys(loaded):
    again = loaded(
        export.export(curta.jit(lambda k: curta.random.uniform(k, (2,))))(
            curta.random.key(3)
        )
    )
    key = jax.random.key(3)
    np.testing.assert_array_equal(
        again.call(key), jax.random.uniform(key, (2,), "float32")
    )


def test_shardings(loaded):
    before = curta.config.jax_num_cpu_devices
    curta.config.update("jax_num_cpu_devices", 2)
    try:
        mesh = curta.make_mesh((2,), ("i",), (AxisType.Auto,))
        rows = NamedSharding(mesh, P("i"))
        f = curta.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows)
        again = loaded(export.export(f)(np.ones((4, 2), np.float32)))
    finally:
        curta.config.update("jax_num_cpu_devices", before)
    there = jax.make_mesh((2,), ("i",), (jax.sharding.AxisType.Auto,))
    place = jax.NamedSharding(there, jax.P("i"))
    out = again.call(jax.device_put(np.ones((4, 2), np.float32), place))
    assert out.sharding.is_equivalent_to(place, 2)
    np.testing.assert_array_equal(out, np.full((4, 2), 2))
