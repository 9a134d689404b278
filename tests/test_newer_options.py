"""Options and methods that JAX 0.11 and 0.12 added to older functions."""

import pickle

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import export
from curta._settings.api_version import jax_api_version
from curta.experimental import sparse
from curta.extend import backend
from curta.sharding import ManualAxisType, NamedSharding, UnreducedKind


class TestManualAxisType:
    def test_kind_of_unreduced_axes(self):
        sums = ManualAxisType(unreduced={"i"})
        assert sums.unreduced_kind is UnreducedKind.sum
        assert sums == ManualAxisType(unreduced={"i"}, unreduced_kind=UnreducedKind.sum)
        most = ManualAxisType(unreduced={"i"}, unreduced_kind=UnreducedKind.max)
        assert most != sums and hash(pickle.loads(pickle.dumps(most))) == hash(most)
        assert most.update(unreduced_kind=None) == sums
        assert most.update(unreduced=set()).unreduced_kind is None
        assert ManualAxisType(reduced={"i"}).to_ct_mat() == sums

    def test_refusals(self):
        with pytest.raises(ValueError, match="`unreduced_kind` should be `None`"):
            ManualAxisType(varying={"i"}, unreduced_kind=UnreducedKind.max)
        with pytest.raises(TypeError, match="Expected unreduced_kind"):
            ManualAxisType(unreduced={"i"}, unreduced_kind=3)  # type: ignore[arg-type]
        most = ManualAxisType(unreduced={"i"}, unreduced_kind=UnreducedKind.max)
        like = curta.ShapeDtypeStruct((), "float32", manual_axis_type=most)
        for use in most.to_ct_mat, lambda: curta.eval_shape(jnp.sin, like):
            with pytest.raises(NotImplementedError, match="max along unreduced axes"):
                use()

    def test_text(self):
        for version, kind in ("0.10", ""), ("0.12", ", unreduced_kind=None"):
            with jax_api_version(version):
                assert repr(ManualAxisType(varying={"i"})) == (
                    "ManualAxisType(varying=frozenset({'i'}), unreduced=frozenset(),"
                    f" reduced=frozenset(){kind})"
                )


def test_a_spec_takes_none_for_a_sum():
    spec = curta.P("x", unreduced={"y"}, unreduced_kind=UnreducedKind.max)
    assert spec.update().unreduced_kind is UnreducedKind.max
    assert spec.update(unreduced_kind=None).unreduced_kind is UnreducedKind.sum
    with pytest.raises(TypeError, match="unexpected keyword argument 'kind'"):
        spec.update(kind=None)


def test_the_memory_of_a_struct():
    host = curta.memory.Space.Host
    like = curta.ShapeDtypeStruct((2,), "float32", _memory_space=host)
    assert curta.typeof(like).memory_space is host
    assert str(curta.make_jaxpr(lambda x: x)(like).in_avals[0]) == "float32<host>[2]"
    moved = curta.eval_shape(lambda x: curta.device_put(x, host), 1.0)
    assert curta.typeof(moved.update(shape=(3,))).memory_space is host


@pytest.mark.parametrize("wrap", [True, None])
def test_negative_indices_count_from_the_end_unless_none_says_otherwise(wrap):
    x, i = jnp.array([1.0, 2.0, 3.0]), jnp.array([0, 2])

    def taken(x, i):
        how = {"mode": "promise_in_bounds", "wrap_negative_indices": wrap}
        return jnp.take_along_axis(x, i, 0, **how)

    np.testing.assert_array_equal(taken(x, i), [1.0, 3.0])
    assert ("select_n" in str(curta.make_jaxpr(taken)(x, i))) is bool(wrap)


def test_where_arguments_of_an_exported_function_are_expected():
    mesh = curta.make_mesh((1,), ("x",))
    place = NamedSharding(mesh, curta.P("x"))
    found = export.export(curta.jit(jnp.sin, in_shardings=place))(jnp.ones(2))
    assert found.in_shardings_jax(mesh) == (place,)
    (abstract,) = found.in_shardings_jax()
    assert abstract.mesh == mesh.abstract_mesh and abstract.spec == curta.P("x")


@pytest.mark.parametrize("make", [sparse.jacfwd, sparse.jacrev, sparse.jacobian])
def test_jacobians_by_sparse_arguments_pass_options_on(make):
    x = sparse.BCOO.fromdense(jnp.array([1.0, 0.0, 3.0], "complex64"))
    rows = make(lambda x: x.todense() ** 2, holomorphic=True)(x)
    np.testing.assert_array_equal(rows.todense(), np.diag([2.0, 0.0, 6.0]))
    with pytest.raises(TypeError, match="options"):
        make(jnp.sin, options=3)


def test_arrays_have_data_and_traced_arrays_have_none():
    x = jnp.ones(2)
    assert x.copy_to_host_async() is None
    np.testing.assert_array_equal(x.addressable_data(0), [1.0, 1.0])
    for name in "addressable_data", "copy_to_host_async":
        assert hasattr(curta.Array, name)
    with pytest.raises(curta.errors.ConcretizationTypeError, match="addressable_data"):
        curta.jit(lambda x: x.addressable_data(0))(x)
    with pytest.raises(AttributeError, match="copy_to_host_async"):
        curta.jit(lambda x: x.copy_to_host_async())(x)


def test_caches_of_programs_are_cleared_with_the_others():
    class Kept:
        cleared = 0

        def cache_clear(self):
            self.cleared += 1

    kept = Kept()
    backend.register_backend_cache(kept, "a test")
    curta.clear_caches()
    backend.clear_backends()
    assert kept.cleared == 2
