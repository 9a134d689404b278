"""Types of results if arrays are split over explicit axes."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.errors import ShardingTypeError
from curta.sharding import AbstractMesh, AxisType, explicit_axes, use_abstract_mesh

X = np.arange(24.0, dtype=np.float32).reshape(8, 3)


@pytest.fixture(autouse=True)
def mesh():
    found = curta.make_mesh((2,), ("x",))
    with curta.set_mesh(found):
        yield found


def split(x, *spec):
    return curta.device_put(np.asarray(x, np.float32), P(*spec))


def convolved(kernel, x):
    numbers = lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1))
    return lax.conv_general_dilated(x, kernel, (1,), "VALID", dimension_numbers=numbers)


MATRICES = np.stack([np.eye(3)] * 8)
UPPER = np.eye(4)
OPS = {
    "cumsum": lambda: (jnp.cumsum(split(X, "x"), axis=1), P("x", None)),
    "argmax along": lambda: (jnp.argmax(split(X, "x"), axis=0), P(None)),
    "top_k": lambda: (lax.top_k(split(X, "x"), 2)[1], P("x", None)),
    "fft": lambda: (jnp.fft.fft(split(X, "x"), axis=1), P("x", None)),
    "windows": lambda: (
        lax.reduce_window(split(X, "x"), 0.0, lax.add, (1, 2), (1, 1), "VALID"),
        P("x", None),
    ),
    "cholesky": lambda: (
        lax.linalg.cholesky(split(MATRICES, "x"), symmetrize_input=False),
        P("x", None, None),
    ),
    "qr": lambda: (lax.linalg.qr(split(MATRICES, "x"))[1], P("x", None, None)),
    "triangular_solve": lambda: (
        lax.linalg.triangular_solve(
            jnp.eye(4), split(np.ones((4, 8)), None, "x"), left_side=True
        ),
        P(None, "x"),
    ),
    "reduce": lambda: (
        lax.reduce(split(X, "x"), 0.0, lax.add, (1,), out_sharding=P("x")),
        P("x"),
    ),
    "ragged_dot": lambda: (
        lax.ragged_dot(
            split(X, "x"),
            jnp.ones((2, X.shape[1], 3)),
            jnp.array([3, 5]),
            out_sharding=P("x"),
        ),
        P("x", None),
    ),
    "convolution": lambda: (
        convolved(jnp.ones((2, 1, 5)), split(np.ones((8, 6, 1)), "x")),
        P("x", None, None),
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_results(name):
    out, spec = OPS[name]()
    assert curta.typeof(out).sharding.spec == spec
    assert out.sharding.spec == spec


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("unsharded over the axis", lambda: jnp.cumsum(split(X, "x"), axis=0)),
        ("to sort must be unsharded", lambda: jnp.sort(split(X, "x"), axis=0)),
        ("fft must be unsharded", lambda: jnp.fft.fft(split(X, "x"), axis=0)),
        ("when the tiling is non-triv", lambda: jnp.tile(split(X, "x"), (2, 1))),
        ("sharded on the unstacking ax", lambda: jnp.unstack(split(X, "x"))),
        ("top_k must be unsharded", lambda: lax.top_k(split(X, "x"), 2, axis=0)),
        (
            "must be unsharded on non-batch dimensions",
            lambda: lax.linalg.qr(split(UPPER, "x")),
        ),
        (
            "`a` must be unsharded on the contracting axis",
            lambda: lax.linalg.triangular_solve(
                split(UPPER, None, "x"), jnp.ones((4, 2)), left_side=True
            ),
        ),
        (
            "same batch sharding",
            lambda: lax.linalg.triangular_solve(
                split(MATRICES, "x"), jnp.ones((8, 3, 1)), left_side=True
            ),
        ),
        (
            "specify the output sharding",
            lambda: convolved(
                split(np.ones((2, 2, 4)), None, "x"), jnp.ones((8, 6, 2))
            ),
        ),
    ],
)
def test_refused(message, call):
    with pytest.raises(ShardingTypeError, match=message):
        call()


class TestDerivatives:
    def test_of_what_is_whole_are_whole(self):
        whole, rows = split(X[:, 0]), split(X[:, 1], "x")

        def f(x, y):
            return (x * y + x).sum()

        for differentiate in (curta.grad, lambda *a: curta.jit(curta.grad(*a))):
            x, y = differentiate(f, (0, 1))(whole, rows)
            assert (x.sharding.spec, y.sharding.spec) == (P(None), P("x"))
            np.testing.assert_allclose(x, X[:, 1] + 1)

    def test_of_convolutions(self):
        kernel, x = jnp.ones((3, 1, 4)), split(np.ones((8, 6, 1)), "x")
        f = curta.jit(curta.grad(lambda k, x: convolved(k, x).sum(), (0, 1)))
        dk, dx = f(kernel, x)
        assert (dk.sharding.spec, dx.sharding.spec) == (
            P(None, None, None),
            P("x", None, None),
        )


class TestVmap:
    def test_the_split_of_the_batch_is_kept(self):
        rows = split(X, "x")
        mask = rows > 3

        def pick(x, m):
            return jnp.where(m, x, 0.0)

        out = curta.jit(curta.vmap(pick))(rows, mask)
        assert out.sharding.spec == P("x", None)
        np.testing.assert_array_equal(out, np.where(X > 3, X, 0))
        flat = curta.vmap(lambda r: lax.reshape(r, (3, 1), out_sharding=P(None, None)))
        assert flat(rows).sharding.spec == P("x", None, None)

    def test_axes_must_agree(self):
        rows, whole = split(X, "x"), split(X)
        with pytest.raises(ValueError, match="should be sharded the same"):
            curta.vmap(jnp.add)(rows, whole)
        same = curta.vmap(jnp.add, spmd_axis_name="x")(rows, rows)
        assert same.sharding.spec == P("x", None)
        with pytest.raises(ValueError, match="Only one of spmd_axis_name"):
            curta.vmap(jnp.add, spmd_axis_name="y")(rows, rows)

    def test_an_axis_of_the_batch_in_a_constraint(self):
        mesh = curta.make_mesh((2,), ("x",), (AxisType.Auto,))
        where = NamedSharding(mesh, P("x"))
        with curta.set_mesh(mesh):
            f = curta.vmap(
                lambda x: lax.with_sharding_constraint(x, where), spmd_axis_name="x"
            )
            with pytest.raises(ValueError, match="spmd_axis_name"):
                f(X[:, :2])


class TestIndexing:
    def test_out_sharding(self):
        columns = split(np.arange(32.0).reshape(8, 4), None, "x")
        index = curta.device_put(np.array([[1, 0], [2, 2]]), P("x", None))

        def get(c, i):
            return c.at[i].get(out_sharding=P("x", None, None))

        for run in (get, curta.jit(get)):
            out = run(columns, index)
            assert out.sharding.spec == P("x", None, None)
            np.testing.assert_array_equal(out, np.asarray(columns)[np.asarray(index)])
        grad = curta.jit(curta.grad(lambda c, i: get(c, i).sum()))(columns, index)
        assert grad.sharding.spec == P(None, "x")
        np.testing.assert_array_equal(np.asarray(grad)[:4, 0], [1, 1, 2, 0])

    def test_of_percentiles_and_segments(self):
        rows = split(X[:, 0], "x")
        median = jnp.percentile(rows, 50, out_sharding=P())
        np.testing.assert_allclose(median, np.percentile(X[:, 0], 50))
        ids = curta.device_put(np.arange(8) // 2, P("x"))
        out = curta.ops.segment_max(rows, ids, num_segments=4, out_sharding=P("x"))
        assert out.sharding.spec == P("x")
        np.testing.assert_array_equal(out, X[1::2, 0])
        with pytest.raises(NotImplementedError, match="has no unreduced results"):
            curta.ops.segment_max(rows, ids, 4, out_sharding=P(unreduced={"x"}))

    def test_broadcast_like(self):
        out = lax.broadcast_like(np.arange(3), split(X, "x"))
        assert out.sharding.spec == P("x", None)
        with pytest.raises(ValueError, match="Incompatible types for broadcasting"):
            lax.broadcast_like(split([1, 2], "x"), split(np.ones((8, 2)), "x"))


class TestMeshes:
    """Meshes of the same devices whose axes are of other types or names."""

    def test_parts_with_other_axis_types(self, mesh):
        rows = split(X, "x")
        auto = mesh.abstract_mesh.update_axis_types({"x": AxisType.Auto})

        def f(x):
            with use_abstract_mesh(auto):
                y = jnp.sin(curta.reshard(x, P()))
            return curta.reshard(y, P("x"))

        for run in (f, curta.jit(f)):
            assert run(rows).sharding == NamedSharding(mesh, P("x", None))

    def test_an_abstract_mesh_in_scope(self, mesh):
        with use_abstract_mesh(AbstractMesh((2,), ("y",))):
            where = jnp.arange(8).sharding
        auto = mesh.update(axis_names=("y",), axis_types=(AxisType.Auto,))
        assert where == NamedSharding(auto, P())

    def test_constraints_over_some_axes(self):
        kinds = (AxisType.Explicit, AxisType.Auto)
        mixed = curta.make_mesh((4, 2), ("x", "y"), kinds)
        with curta.set_mesh(mixed):
            rows = split(X, "x")
            f = curta.jit(lambda x: lax.with_sharding_constraint(x, P("y")))
            assert f(rows).sharding == NamedSharding(mixed, P(("x", "y")))

    def test_results_are_spelt_as_the_first_argument(self):
        mesh = curta.make_mesh((2,), ("x",), (AxisType.Auto,))
        for spec in (P("x"), P("x", None)):
            x = curta.device_put(X, NamedSharding(mesh, spec))
            f = curta.jit(lambda x: x * 2)
            with curta.set_mesh(mesh):
                assert (x + 1).sharding.spec is spec and f(x).sharding.spec is spec
                assert x.T.sharding.spec == P(None, "x")
                assert x.sum(1).sharding.spec == P("x")

    def test_refused(self, mesh):
        with pytest.raises(ValueError, match="cannot contain `P.UNCONSTRAINED`"):
            NamedSharding(mesh, P(P.UNCONSTRAINED))
        auto = curta.make_mesh((2,), ("x",), (AxisType.Auto,))
        with pytest.raises(ValueError, match="axis names that are of type Auto"):
            curta.reshard(
                X, NamedSharding(mesh.update(axis_types=auto.axis_types), P("x"))
            )
        rows = NamedSharding(auto.abstract_mesh, P("x"))
        with curta.set_mesh(None):
            with pytest.raises(ValueError, match="should be a `jax.Array`"):
                lax.with_sharding_constraint(X, rows)
            with pytest.raises(TypeError, match="must be a `NamedSharding`"):
                lax.with_sharding_constraint(jnp.array(X), rows)
            x = curta.device_put(X, NamedSharding(auto, P()))
            other = NamedSharding(AbstractMesh((2,), ("y",)), P("y"))
            with pytest.raises(ValueError, match="does not match the mesh shape"):
                lax.with_sharding_constraint(x, other)
            assert lax.with_sharding_constraint(x, rows).sharding.spec == P("x")

    def test_inlined_constants_are_arrays(self):
        early = curta.Inline.JAX_EARLY
        inner = curta.jit(lambda x: jnp.array(1), inline=early)
        assert curta.jit(lambda x: inner(x).shape == () and x)(X).shape == X.shape

    def test_explicit_parts_of_other_programs(self):
        auto = curta.make_mesh((2,), ("x",), (AxisType.Auto,))
        double = explicit_axes(lambda x: x * 2)
        with curta.set_mesh(auto):
            out = double(X, in_sharding=P("x"))
            in_program = curta.jit(lambda x: double(x, in_sharding=P("x")))(X)
        assert out.sharding == in_program.sharding == NamedSharding(auto, P("x"))

    def test_axes_of_size_one(self):
        mesh = curta.make_mesh((2, 1), ("x", "one"))
        with curta.set_mesh(mesh), curta.remove_size_one_mesh_axis_from_type(True):
            rows = split(X, ("x", "one"))
            assert curta.typeof(rows).sharding.spec == P("x", None)
            lax.with_sharding_constraint(rows, P(("x", "one")))
            out = curta.vmap(jnp.sin, spmd_axis_name=("x", "one"))(rows)
            assert out.sharding.spec == P("x", None)


def test_draws_of_a_batch_of_keys():
    keys = curta.device_put(curta.random.split(curta.random.key(0), 8), P("x"))
    out = curta.vmap(lambda k: curta.random.normal(k, (3,)))(keys)
    assert out.sharding.spec == P("x", None)
    same = curta.vmap(lambda k: curta.random.normal(k, (3,)))(curta.reshard(keys, P()))
    np.testing.assert_array_equal(out, same)


def test_rows_of_a_scan_are_split_as_their_array():
    with curta.set_mesh(curta.make_mesh((2,), ("x",))):
        xs = curta.device_put(
            np.arange(12.0, dtype=np.float32).reshape(3, 4), P(None, "x")
        )
        types = []

        def step(carry, x):
            types.append(str(curta.typeof(x)))
            return carry + x, 2 * x

        def run(xs):
            return lax.scan(step, jnp.zeros_like(xs[0]), xs)

        for call in (run, curta.jit(run)):
            total, twice = call(xs)
            np.testing.assert_array_equal(total, np.sum(xs, 0))
            assert total.sharding.spec == P("x")
            np.testing.assert_array_equal(twice, 2 * xs)
            assert twice.sharding.spec == P(None, "x")
        assert set(types) == {"float32[4@x]"}
        found = curta.grad(lambda xs: (run(xs)[0] ** 2).sum())(xs)
        np.testing.assert_array_equal(found, np.tile(2 * np.sum(xs, 0), (3, 1)))
        assert found.sharding.spec == P(None, "x")
        with pytest.raises(ValueError, match="0th dimension of all xs should be repl"):
            lax.scan(step, jnp.zeros(3), curta.reshard(jnp.ones((4, 3)), P("x")))


def test_arrays_like_others_are_split_alike():
    with curta.set_mesh(curta.make_mesh((2,), ("x",))):
        x = curta.device_put(np.arange(4.0, dtype=np.float32), P("x"))
        for like in (jnp.zeros_like, jnp.ones_like, lambda x: jnp.full_like(x, 3)):
            assert str(curta.typeof(like(x))) == "float32[4@x]"
            assert str(*curta.make_jaxpr(like)(x).out_avals) == "float32[4@x]"
            np.testing.assert_array_equal(curta.jit(like)(x), like(x))
        (whole,) = curta.make_jaxpr(lambda x: jnp.zeros_like(x, shape=3))(x).out_avals
        assert str(whole) == "float32[3]"


def test_operands_of_another_mesh_are_refused():
    mesh = curta.make_mesh((2, 1), ("x", "y"))
    x = curta.device_put(np.ones((8, 2)), NamedSharding(mesh, P("x", "y")))
    with curta.set_mesh(curta.make_mesh((2, 1), ("a", "b"))):
        for call in (jnp.sin, curta.jit(jnp.sin)):
            with pytest.raises(
                ValueError, match="For primitive .*context mesh.*aval mesh"
            ):
                call(x)
    other = AbstractMesh((2,), ("x",), (AxisType.Explicit,))
    single = NamedSharding(other.update(axis_sizes=(1,)), P("x"))
    given = curta.ShapeDtypeStruct((8, 2), np.float32, sharding=single)
    with use_abstract_mesh(other), pytest.raises(ValueError, match="should match"):
        curta.jit(lambda x: x * 2).trace(given)


def test_parts_with_axes_of_other_types_are_applied_again():
    """Eqns know which types the axes had where they were recorded."""
    mesh = curta.make_mesh((2, 2), ("x", "y"))
    with curta.set_mesh(mesh):
        x = curta.device_put(
            np.arange(16.0, dtype=np.float32).reshape(8, 2), P("x", "y")
        )

        @curta.sharding.auto_axes(axes="x", out_sharding=P("x", "y"))
        def partly(y):
            assert curta.typeof(y).sharding.spec == P(None, "y")
            return jnp.einsum("xy,yz->xz", y, y.T, out_sharding=P(None, "y"))

        jaxpr = curta.jit(partly).trace(x).jaxpr
        again = curta.extend.core.jaxpr_as_fun(jaxpr)
        (out,) = again(x)
        assert out.sharding.spec == P("x", "y")
        np.testing.assert_array_equal(out, np.asarray(x) @ np.asarray(x).T)
        whole, replayed = (str(curta.make_jaxpr(f)(x)) for f in (partly, again))
        assert "f32[8,8] = dot_general" in whole and whole == replayed
        tangent = curta.grad(lambda x: partly(x).sum())(x)
        assert tangent.sharding.spec == P("x", "y")
        np.testing.assert_array_equal(tangent, 2 * np.asarray(x).sum(0) + 0 * x)
        assert curta.sharding.get_abstract_mesh() is mesh.abstract_mesh
        assert str(*curta.make_jaxpr(range_by_spec)().out_avals) == "float32[8@x]"


def test_operands_whose_axes_are_of_other_types_than_in_scope_are_refused():
    mesh = curta.make_mesh((2, 2), ("x", "y"))
    mixed = mesh.abstract_mesh.update_axis_types({"x": AxisType.Auto})

    def product(x, y):
        x = x * 2
        with use_abstract_mesh(mixed):
            return x @ y

    with curta.set_mesh(mesh):
        x = curta.device_put(np.ones((8, 2), np.float32), P("x", "y"))
        for call in (product, curta.jit(product)):
            with pytest.raises(
                ValueError, match="For primitive dot_general, context mesh.*aval mesh"
            ):
                call(x, x.T)


def range_by_spec():
    return jnp.arange(8, dtype=np.float32, out_sharding=P("x"))


def test_what_changes_sizes_of_dims_that_are_split_is_named_as_in_jax():
    mesh = curta.make_mesh((2,), ("x",))
    with curta.set_mesh(mesh):
        x = curta.device_put(np.ones(8, np.float32), P("x"))
        for fun, word in (
            (lambda x: lax.slice(x, (0,), (3,)), "slicing"),
            (lambda x: lax.pad(x, 0.0, ((2, 3, 0),)), "padding"),
        ):
            with pytest.raises(ShardingTypeError, match=f"{word} on sharded dims"):
                curta.jit(fun).trace(x)


@pytest.mark.parametrize(
    ("index", "spec"),
    [
        (0, P("y")),
        ((slice(None), 0), P("x")),
        (None, P(None, "x", "y")),
        (slice(0, 2), P("x", "y")),
    ],
    ids=str,
)
def test_elements_on_a_mesh_of_one_device_are_of_the_kept_dims(index, spec):
    mesh = curta.make_mesh((1, 1), ("x", "y"))
    with curta.set_mesh(mesh):
        x = curta.device_put(np.ones((4, 4), np.float32), P("x", "y"))
        assert x[index].sharding.spec == spec
        if index is not None:
            assert curta.typeof(curta.new_ref(x)[index]).sharding.spec == spec
        assert (x + x[0] == 2).all()
        if index == 0:
            assert next(iter(x)).sharding.spec == spec


def test_the_type_of_a_reference_says_where_the_elements_read_are():
    x = curta.new_ref(split(X, "x"))
    types = []

    @curta.jit
    def read(ref):
        types.extend(curta.typeof(v).sharding.spec for v in (ref, ref[...]))
        ref[...] = ref[...] + 1
        return ref[:, 0]

    assert read(x).sharding.spec == P("x")
    assert types == [P("x", None)] * 2
    assert x[...].sharding.spec == P("x", None)
