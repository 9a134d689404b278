"""Pickling of arrays, scalars with a dtype, and types of arrays."""

import copy
import pickle

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.core.avals import TypedComplex, TypedFloat, TypedInt
from curta.errors import ConcretizationTypeError
from curta.experimental import sparse
from curta.export import export

DTYPES = (
    "bool int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e4m3fn"
    " bfloat16 float16 float32 float64 complex64 complex128"
).split()


def again(x, protocol=None):
    return pickle.loads(pickle.dumps(x, protocol))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)])
def test_arrays(dtype, shape):
    with curta.enable_x64(True):
        x = jnp.ones(shape, dtype)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            y = again(x, protocol)
            assert y.aval is x.aval and not y.committed
            np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_weak_types_and_keys():
    assert again(jnp.asarray(2.0)).weak_type
    keys = curta.random.split(curta.random.key(1, impl="rbg"))
    assert (again(keys) == keys).all()


@pytest.mark.parametrize(
    "wide, narrow",
    [("int64", "int32"), ("uint64", "uint32"), ("float64", "float32")],
)
def test_64_bit_arrays_are_halved_where_arrays_are(wide, narrow):
    with curta.enable_x64(True):
        stored = pickle.dumps(jnp.arange(3).astype(wide))
        assert pickle.loads(stored).dtype == wide
    found = pickle.loads(stored)
    assert found.dtype == found.aval.dtype == np.asarray(found).dtype == narrow
    assert found.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "number",
    [
        TypedInt(3, np.dtype("int32")),
        TypedFloat(2.0, np.dtype("float32")),
        TypedComplex(1j, np.dtype("complex64")),
    ],
)
def test_typed_numbers_keep_their_dtype(number):
    for duplicate in again, copy.copy, copy.deepcopy:
        found = duplicate(number)
        assert type(found) is type(number) and found == number
        with curta.enable_x64(True):
            assert found.dtype == number.dtype == jnp.asarray(found).dtype
            assert (jnp.asarray(found) * 2).weak_type


def test_tracers_refuse():
    def stored(x):
        pickle.dumps({"x": x})
        return x

    x = jnp.ones(2)
    for transform in curta.jit, curta.vmap, curta.linearize, curta.make_jaxpr:
        with pytest.raises(ConcretizationTypeError, match="__reduce__"):
            transform(*(stored, x) if transform is curta.linearize else (stored,))(x)
    assert curta.jit(copy.copy)(1.0) == curta.jit(copy.deepcopy)(1.0) == 1.0


def test_what_describes_arrays():
    mesh = curta.make_mesh((1,), ("x",))
    spec = curta.sharding.PartitionSpec("x", None, ("y", "z"))
    named = curta.sharding.NamedSharding(mesh, curta.sharding.PartitionSpec("x"))
    for described in (
        curta.ShapeDtypeStruct((2,), "float32", sharding=named),
        curta.typeof(jnp.ones((2, 3))),
        curta.devices()[0],
        spec,
        mesh,
        mesh.abstract_mesh,
        named,
        curta.tree.structure({"a": [1, (2, None)]}),
        curta.random.key(0).dtype,
        jnp.ones(2).format,
        curta.lax.GatherScatterMode.CLIP,
        curta.lax.Precision.HIGH,
        jnp.finfo("bfloat16").dtype,
        jnp.float32,
        jnp.int4,
    ):
        assert again(described) == described
    assert str(again(curta.make_jaxpr(jnp.sin)(1.0))) == str(
        curta.make_jaxpr(jnp.sin)(1.0)
    )
    assert again(export(curta.jit(jnp.square))(3.0)).call(3.0) == 9
    matrix = sparse.BCOO.fromdense(jnp.eye(2))
    np.testing.assert_array_equal(again(matrix).todense(), jnp.eye(2))
    assert curta.jit(again(curta.tree_util.Partial(jnp.add, 1)))(2) == 3
