"""Types of arrays say on which mesh these are, also one that is the compiler's."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.errors import ForbiddenCollectiveError
from curta.sharding import AxisType

X = np.arange(8, dtype=np.float32)
ROWS = P("x")


def of_type(kind):
    return curta.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit])
def mesh(request):
    return of_type(request.param)


@pytest.fixture
def auto():
    return of_type(AxisType.Auto)


def mesh_of(x):
    return curta.typeof(x).sharding.mesh


def traced(fun, *args):
    """The mesh of the type of a traced function's result, and of what comes out."""
    seen = []

    @curta.jit
    def run(*args):
        out = fun(*args)
        seen.append(mesh_of(out))
        return out

    after = mesh_of(run(*args))
    return seen[0], after


def on(mesh, spec=ROWS):
    return curta.device_put(X, NamedSharding(mesh, spec))


def test_arrays(mesh):
    x, whole = on(mesh), on(mesh, P())
    for y in (x, whole, x * 2, whole[0], x.sum(), jnp.sin(x), x + X, jnp.array(x)):
        assert mesh_of(y) is mesh.abstract_mesh
    for y in (X, 1.0, jnp.array(X), curta.device_put(x, curta.devices()[1])):
        assert mesh_of(y).empty
    explicit = mesh.explicit_axes
    assert curta.typeof(x).sharding.spec == (P("x") if explicit else P(None))
    assert str(curta.typeof(x)) == ("float32[8@x]" if explicit else "float32[8]")


def test_traced_values(mesh):
    x, here = on(mesh), mesh.abstract_mesh
    for fun in (
        lambda x: x,
        lambda x: x * 2,
        lambda x: x + X,
        lambda x: curta.jit(jnp.sin)(x),
        curta.grad(lambda x: (x * x).sum()),
        lambda x: lax.fori_loop(0, 2, lambda i, y: y * 2, x),
        lambda x: curta.vmap(lambda y: y + 1)(x),
    ):
        inside, outside = traced(fun, x)
        assert inside is here and outside is here


def test_what_has_no_operands_is_on_the_mesh_in_scope(mesh):
    numbers = jnp.arange(8.0)
    with curta.set_mesh(mesh):
        for x in (jnp.zeros(3), numbers * 2):
            assert mesh_of(x) is mesh.abstract_mesh and x.committed
        assert mesh_of(numbers).empty
        assert traced(lambda: jnp.zeros(3)) == (mesh.abstract_mesh,) * 2


def test_scalars_like_others_are_on_their_mesh():
    mesh = of_type(AxisType.Explicit)
    with curta.set_mesh(mesh):
        x = curta.device_put(1.0, P())
        for found in traced(lambda x: lax.full_like(x, 2), x):
            assert found is mesh.abstract_mesh


def test_device_put_without_a_device_stays_off_the_mesh_in_scope(mesh):
    with curta.set_mesh(mesh):
        for x in (curta.device_put(X), curta.device_put(1.0)):
            assert mesh_of(x).empty and not x.committed
            assert x.sharding.num_devices == 1
        assert mesh_of(curta.device_put(X, P("x"))) is mesh.abstract_mesh


def test_automatic_meshes_may_differ(auto):
    other = curta.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))
    x, y = on(auto), on(other, P("z"))
    np.testing.assert_array_equal(x + y, 2 * X)
    assert traced(lambda x, y: x + y, x, y)[0].empty
    with curta.set_mesh(other):
        assert mesh_of(x * x) is auto.abstract_mesh


def test_explicit_meshes_may_not(auto):
    explicit = of_type(AxisType.Explicit)
    words = "Mesh for all inputs should be equal. Got one mesh"
    for x in (on(explicit), on(explicit, P())):
        with pytest.raises(ValueError, match=words):
            on(auto) + x
    other = curta.make_mesh((8,), ("z",), axis_types=(AxisType.Explicit,))
    with curta.set_mesh(explicit):
        x = on(other, P())
        with pytest.raises(ValueError, match=r"For primitive neg, context mesh.*aval"):
            curta.jit(jnp.negative)(x)


def test_loops_and_branches_take_values_of_the_mesh_and_of_none(mesh):
    x = on(mesh, P())
    y, ys = lax.scan(lambda c, x: (c + x, c), 0.0, x)
    np.testing.assert_array_equal(y, 28)
    assert mesh_of(y) is mesh.abstract_mesh
    f = curta.jit(lambda p, x, y: lax.cond(p, lambda: x * 2, lambda: y * 3))
    np.testing.assert_array_equal(f(False, x, jnp.array(X)), 3 * X)
    end = lax.while_loop(lambda c: c[0] < 2, lambda c: c + x + 1, jnp.zeros(8))
    np.testing.assert_array_equal(end, 2 * (X + 1))


def test_constraints_name_a_mesh(auto):
    rows = NamedSharding(auto, ROWS)
    inside, _ = traced(lambda x: lax.with_sharding_constraint(x, rows), X)
    assert inside is auto.abstract_mesh


def test_shapes_say_how_explicit_axes_split_alone(auto):
    shape = curta.eval_shape(lambda x: x * 2, on(auto))
    assert shape.sharding is None
    shape = curta.eval_shape(lambda x: x * 2, on(of_type(AxisType.Explicit)))
    assert shape.sharding.spec == P("x")


def test_collectives_are_forbidden_along_axes():
    mesh = of_type(AxisType.Explicit)
    with curta.set_mesh(mesh), curta.sharding.no_collectives({"x"}):
        x = curta.device_put(np.ones((8, 4), np.float32), P("x", "y"))
        assert x.sum(1).sharding.spec == P("x")
        for fun, words in (
            (lambda x: x.sum(0), "`reduce_sum` loses sharding axis 'x'"),
            (lambda x: curta.reshard(x, P(None, "x")), "changes the sharded dim"),
            (lambda x: curta.reshard(x, P()), "`reshard` loses sharding axis 'x'"),
        ):
            for f in (fun, curta.jit(fun)):
                with pytest.raises(ForbiddenCollectiveError, match=words):
                    f(x)
        rows = {"in_specs": P("x", "y"), "out_specs": P("x", "y")}
        psum = curta.shard_map(lambda x: lax.psum(x, "x") + x, **rows)
        with pytest.raises(ForbiddenCollectiveError, match="acts on axis 'x'"):
            psum(x)
        index = curta.shard_map(lambda x: x + lax.axis_index("x"), **rows)
        assert index(x).sum(1).shape == (8,)
    with curta.set_mesh(mesh):
        np.testing.assert_array_equal(psum(x), 5)
    with pytest.raises(TypeError, match="as set or frozenset"):
        curta.sharding.no_collectives(["x"])


def test_a_jit_is_traced_once_a_mesh_and_donates_where_arrays_move(auto):
    traces = []

    @curta.jit
    def f(x):
        traces.append(mesh_of(x))
        return x + 1

    other = curta.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))
    for x in (on(auto), on(auto, P("y")), on(other, P("z")), jnp.array(X)):
        np.testing.assert_array_equal(f(x), X + 1)
    assert [m.axis_names for m in traces] == [("x", "y"), ("z",), ()]
    x = jnp.array(X)
    rows = NamedSharding(auto, ROWS)
    curta.jit(lambda x: x + 1, in_shardings=rows, donate_argnums=0)(x)
    assert x.is_deleted()
