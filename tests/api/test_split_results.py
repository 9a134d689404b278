"""How results say that they are split, as JAX 0.10.2 does on the same meshes."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import P, lax
from curta.config import remove_size_one_mesh_axis_from_type
from curta.errors import ShardingTypeError
from curta.extend.core import jaxpr_as_fun
from curta.sharding import AxisType, NamedSharding

pytestmark = pytest.mark.usefixtures("eight_devices")
EXPLICIT, AUTO = AxisType.Explicit, AxisType.Auto


def mesh_of(sizes, names, kind=AUTO):
    return curta.make_mesh(sizes, tuple(names), (kind,) * len(sizes))


def put(x, mesh, *spec):
    return curta.device_put(np.float32(x), NamedSharding(mesh, P(*spec)))


X = np.arange(64.0).reshape(8, 8)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (("a", "b"), [("a", "b"), (None, "a"), ("a",), ("a",)]),
        ((("a", "b"),), [(("a", "b"),), (None, "a"), ("a",), ("a",)]),
        (("b",), [("b",), ("b",), (), ()]),
        (((("b", "a")), "c"), [(("b", "a"), "c"), ("c", "a"), ("a",), ("a", "c")]),
    ],
)
def test_axes_of_one_device_are_told_as_they_were_given_alone(spec, expected):
    x = put(X, mesh_of((4, 1, 2), "abc"), *spec)
    functions = [
        lambda x: 2 * x,
        lambda x: x.T,
        lambda x: x.sum(1),
        lambda x: jnp.sin(x).reshape(8, 8, 1),
    ]
    found = [curta.jit(f)(x).sharding.spec for f in functions]
    assert found == [P(*e) for e in expected]


def test_types_tell_of_axes_of_one_device():
    with curta.set_mesh(mesh := mesh_of((4, 1), "ab", EXPLICIT)):
        x = put(X, mesh, "b")
        assert curta.jit(lambda x: x)(x).sharding.spec == P("b", None)
        assert (2 * x).sharding.spec == P("b", None)
        with remove_size_one_mesh_axis_from_type(True):
            x = curta.device_put(X, P("b"))
            assert curta.jit(lambda x: 2 * x)(x).sharding.spec == P(None, None)


def test_axes_left_to_the_compiler_beside_explicit_ones():
    mesh = curta.make_mesh((4, 2), ("a", "c"), (EXPLICIT, AUTO))
    with curta.set_mesh(mesh):
        x = put(X, mesh, "a", "c")
        assert curta.jit(lambda x: 2 * x)(x).sharding.spec == P("a", "c")
        assert curta.jit(lambda x: x.T)(x).sharding.spec == P("c", "a")
        assert (2 * x).sharding.spec == P("a", "c")


def test_axes_that_a_shard_map_leaves_to_the_compiler():
    mesh = mesh_of((2, 2, 2), "ijk")
    x = put(X, mesh, "i")

    def body(x):
        return lax.with_sharding_constraint(x * x, NamedSharding(mesh, P("i")))

    mapped = curta.shard_map(
        body,
        mesh=mesh,
        in_specs=P(),
        out_specs=P(),
        axis_names=frozenset("jk"),
        check_vma=False,
    )
    result = curta.jit(mapped)(x)
    assert result.sharding == NamedSharding(mesh, P("i"))
    np.testing.assert_array_equal(result, X * X)


def test_a_shard_map_called_at_once_gives_its_specs_as_written():
    mesh = mesh_of((2,), "x", EXPLICIT)
    with curta.set_mesh(mesh):
        x = put(X, mesh, "x")
        for spec in (P("x"), P("x", None)):
            f = curta.shard_map(lambda x: 2 * x, out_specs=spec)
            assert f(x).sharding.spec == spec
            assert curta.jit(f)(x).sharding.spec == P("x", None)
        terms = curta.shard_map(
            lambda x: lax.pcast(x, "x", to="unreduced"), out_specs=P(unreduced={"x"})
        )
        assert terms(x).sharding.spec == P(unreduced={"x"})
        whole = curta.reshard(terms(x), P())
        np.testing.assert_array_equal(whole, X[:4] + X[4:])


RESHAPES = [
    ((4, 6, 8), ("x",), (4, 2, 3, 8), "4@x,2,3,8"),
    ((4, 6, 8), ("x",), (4, 2, 3, 4, 2), None),  # two dims become several
    ((4, 6, 8), ("x",), (6, 4, 8), None),
    ((4, 6, 8), ("x",), (2, 12, 8), None),
    ((4, 6, 8), ("x", "y"), (24, 8), "24@(x,y),8"),
    ((4, 6, 8), ("x", "y"), (192,), "192@(x,y)"),
    ((4, 6, 8), (None, "x", "y"), (4, 48), "4,48@(x,y)"),
    ((4, 6, 8), (None, "x"), (24, 8), None),
    ((4, 12, 8), (None, ("x", "y")), (4, 4, 3, 8), "4,4@(x,y),3,8"),
    ((4, 12, 8), (None, ("x", "y")), (4, 2, 6, 8), "4,2@x,6@y,8"),
    ((4, 8, 9), ("x",), (4, 2, 2, 3, 3, 2), None),
    ((1, 10), (None, "x"), (1, 2, 5), "1,2@x,5"),
    ((4, 6, 8), ("x",), (1, 4, 6, 1, 8), "1,4@x,6,1,8"),
]


@pytest.mark.parametrize("hosts", [1, 4])
@pytest.mark.parametrize(("before", "spec", "after", "expected"), RESHAPES)
def test_reshapes(before, spec, after, expected, hosts):
    """One dim becomes several, or several one; else types ask for the split."""
    values = np.arange(np.prod(before), dtype=np.float32).reshape(before)
    curta.config.update("curta_simulate_hosts", hosts)
    try:
        mesh = mesh_of((2, 2), "xy", EXPLICIT)
        with curta.set_mesh(mesh):
            x = put(values, mesh, *spec)
            f = curta.jit(lambda x: lax.reshape(x, after) * 2)
            if expected is None:
                with pytest.raises(ShardingTypeError, match="reshape is not supported"):
                    f(x)
                return
            out = f(x)
            assert str(curta.typeof(out)) == f"float32[{expected}]"
            np.testing.assert_array_equal(out, 2 * values.reshape(after))
            back = curta.jit(curta.grad(lambda x: (f(x) ** 2).sum()))(x)
            assert back.sharding == x.sharding.update(spec=x.aval.sharding.spec)
            np.testing.assert_array_equal(back, 8 * values)
    finally:
        curta.config.update("curta_simulate_hosts", 1)


def test_arguments_donated_to_a_jit_are_given_up_where_its_jaxpr_is_applied():
    f = curta.jit(lambda x: (x, x * 2), donate_argnums=0)
    x = jnp.zeros(64, "int32")
    closed = curta.make_jaxpr(f)(x)
    first, second = jaxpr_as_fun(closed)(x)
    assert x.is_deleted()
    assert first.tolist() == second.tolist() == [0] * 64


def test_derivatives_of_windows_over_explicit_axes():
    values = np.random.default_rng(0).normal(size=(16, 12, 8)).astype("f4")

    def pooled(x):
        return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 1), (1, 2, 1), "SAME")

    expected = curta.grad(lambda x: (pooled(x) ** 2).sum())(values)
    for spec in [("x", "y"), ("x", None, "y"), (None, "x", "y"), (("x", "y"),)]:
        with curta.set_mesh(mesh := mesh_of((2, 2), "xy", EXPLICIT)):
            x = put(values, mesh, *spec)
            found = curta.jit(curta.grad(lambda x: (pooled(x) ** 2).sum()))(x)
            assert found.sharding.spec == P(*spec, *[None] * (3 - len(spec)))
            np.testing.assert_array_equal(found, expected)
            tangent = curta.jit(lambda x: curta.jvp(pooled, (x,), (x,))[1])(x)
            np.testing.assert_array_equal(tangent, pooled(values))


def test_types_are_cut_evenly():
    mesh = curta.sharding.AbstractMesh((2,), ("x",), (EXPLICIT,))
    with pytest.raises(ValueError, match="does not evenly divide the dimension size"):
        curta.core.ShapedArray((5, 2), "int32", sharding=NamedSharding(mesh, P("x")))


def test_a_constraint_does_not_move_an_array_to_other_devices():
    one, two = (
        curta.sharding.Mesh(curta.devices()[:2][::step], ("x",)) for step in (1, -1)
    )
    x = curta.device_put(np.arange(8), NamedSharding(one, P()))
    with pytest.raises(ValueError, match="Received incompatible devices"):
        lax.with_sharding_constraint(x, NamedSharding(two, P("x")))
    assert lax.with_sharding_constraint(
        jnp.arange(8), NamedSharding(two, P("x"))
    ).sharding == NamedSharding(two, P("x"))


@pytest.mark.filterwarnings("ignore:.*context manager has been deprecated")
def test_a_mesh_within_a_function_has_as_many_devices():
    def f(x):
        with curta.sharding.Mesh(curta.devices()[:1], ("x",)):
            return curta.jit(lambda x: x)(x)

    with curta.sharding.Mesh(curta.devices()[:2], ("x",)):
        with pytest.raises(ValueError, match="cannot change the size of the mesh"):
            curta.jit(f)(jnp.arange(4))
        assert f(jnp.arange(4)).shape == (4,)
