"""Exported functions: what they say of themselves, calls, derivatives, errors."""

import re

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import core, export
from curta.export.exporting import UnexpectedDimVar
from curta.sharding import AxisType


def exported(f, *specs, constraints=(), **arrays):
    """`f` for float32 arguments of the shapes that the strings describe."""
    scope = export.SymbolicScope(constraints)
    args = [
        curta.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), np.float32)
        for s in specs
    ]
    return export.export(curta.jit(f))(*args, **arrays)


def test_description():
    @curta.jit
    def scale(pair, *, by):
        return {"out": pair[0] * by}

    found = export.export(scale)((np.ones(3, np.float32), 2), by=np.float32(3))
    assert found.fun_name == "scale"
    assert found.platforms == (export.default_export_platform(),) == ("cpu",)
    assert found.in_tree == curta.tree.structure((((0, 0),), {"by": 0}))
    assert [a.str_short() for a in found.in_avals] == [
        "float32[3]",
        "int32[]",
        "float32[]",
    ]
    assert found.out_avals == (core.ShapedArray((3,), np.dtype(np.float32)),)
    assert found.nr_devices == 1 and found.module_kept_var_idx == (0, 2)
    assert not found.uses_global_constants
    assert str(found) == "Exported(fun_name=scale, ...)"
    text = found.mlir_module()
    assert "stablehlo.multiply" in text and "%arg1" in text and "%arg2" not in text
    assert found.mlir_module_serialized == text.encode()
    assert "stablehlo.multiply" in str(found.mlir_module(serialized=False))
    np.testing.assert_array_equal(
        found.call((np.ones(3, np.float32), 2), by=np.float32(3))["out"], 3.0
    )


def test_symbolic_types():
    found = exported(lambda x, y: jnp.concatenate([x, y]), "2*w, h", "w, h")
    assert [str(a.shape) for a in found.in_avals] == ["(2*w, h)", "(w, h)"]
    assert str(found.out_avals[0].shape) == "(3*w, h)"
    assert found.uses_global_constants
    for w, h in [(1, 2), (3, 4)]:
        out = found.call(jnp.zeros((2 * w, h)), jnp.ones((w, h)))
        assert out.shape == (3 * w, h) and float(out.sum()) == w * h


def test_in_other_transformations():
    found = exported(lambda x: jnp.sin(x) * x.shape[0], "n")
    x = jnp.arange(4.0)
    np.testing.assert_allclose(curta.jit(found.call)(x), 4 * np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(
        curta.vmap(found.call)(x.reshape(2, 2)), 2 * np.sin(x).reshape(2, 2), rtol=1e-6
    )
    again = exported(lambda y: found.call(y[1:]), "m", constraints=["m >= 2"])
    assert str(again.out_avals[0].shape) == "(m - 1,)"
    np.testing.assert_allclose(again.call(x), 3 * np.sin(x[1:]), rtol=1e-6)


def test_derivatives():
    f = curta.jit(lambda x: jnp.sum(x**3))
    for found in (export.export(f)(jnp.ones(2)), exported(f, "n")):
        x = jnp.array([2.0, 3.0])
        np.testing.assert_allclose(curta.grad(found.call)(x), [12.0, 27.0])
        second = curta.grad(lambda x, f=found: curta.grad(f.call)(x).sum())
        np.testing.assert_allclose(second(x), [12.0, 18.0])
        assert found.has_vjp() and found.vjp().fun_name.endswith("_vjp")


def test_derivative_of_integers():
    f = curta.jit(lambda i, x: (2 * i, x * x))
    found = export.export(f)(np.int32(2), np.float32(3))
    (_, y), pull = curta.vjp(found.call, 2, 3.0)
    zero = np.zeros((), curta.float0)
    di, dx = pull((zero, np.float32(1)))
    assert float(y) == 9.0 and float(dx) == 6.0 and di.dtype == curta.float0


def test_static_arguments_and_constants():
    table = jnp.arange(3.0)
    f = curta.jit(lambda x, n: x * n + table, static_argnums=1)
    np.testing.assert_allclose(export.export(f)(table, 3).call(table), 4 * table)


def test_keys():
    key = curta.random.key(0)
    found = export.export(curta.jit(curta.random.split))(key)
    assert (found.call(key) == curta.random.split(key)).all()


def test_library_functions_need_no_jit():
    assert float(export.export(jnp.sin)(1.0).call(0.0)) == 0.0
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export.export(lambda x: x)


def test_wrong_arguments():
    found = export.export(curta.jit(lambda a, *, b: a + b))(jnp.ones(4), b=jnp.ones(4))
    x = jnp.ones(4)
    for args, b, message in [
        ((jnp.ones(6),), x, r"Shape mismatch for args\[0\].shape\[0\]"),
        ((x,), jnp.ones(6), r"Shape mismatch for kwargs\['b'\].shape\[0\]"),
        ((x.reshape(1, 4),), x, r"Rank mismatch for args\[0\]"),
        ((x.astype(np.float16),), x, r"Dtype mismatch for args\[0\]"),
        ((x, x), x, "must have the same pytree structure"),
    ]:
        with pytest.raises(ValueError, match=message):
            found.call(*args, b=b)


@pytest.mark.parametrize(
    "spec, shape, message",
    [
        ("3, a, a + 8", (3, 4, 12), None),
        ("a + 2*b, a, a + b + c", (8, 2, 9), None),
        ("3, 4, a + 1", (3, 4, 1), "Expected value >= 1 for dimension variable 'a'"),
        ("3, 4, 6*a", (3, 4, 13), "Division had remainder 1 when computing"),
        (
            "3, a, a + 8",
            (3, 4, 13),
            "Found inconsistency between dimension size args[0].shape[2] (= 13) and the"
            " specification 'a + 8' (= 12)",
        ),
        (
            "a, a, c*c",
            (2, 2, 4),
            "Cannot solve for values of dimension variables {'c'}",
        ),
    ],
)
def test_sizes_are_solved(spec, shape, message):
    def run():
        found = exported(lambda x: 2 * x, spec)
        return found.call(np.ones(shape, np.float32))

    if message is None:
        assert run().shape == shape
    else:
        with pytest.raises(ValueError, match=re.escape(message)):
            run()


def test_constraints_are_checked():
    found = exported(lambda x: x, "a", constraints=["a >= 2", "a <= 4"])
    assert found.call(jnp.ones(3)).shape == (3,)
    with pytest.raises(
        ValueError, match="Expected 'a - 2' to be greater or equal to 0"
    ):
        found.call(jnp.ones(1))
    with pytest.raises(ValueError, match="but found -1"):
        found.call(jnp.ones(5))
    square = exported(lambda x: x, "a, b", constraints=["a == b"])
    assert square.call(jnp.ones((3, 3))).shape == (3, 3)
    with pytest.raises(ValueError, match="Encountered dimension variable 'z'"):
        exported(lambda x: x, "a", constraints=["a >= z"])


def test_scopes_of_arguments():
    with pytest.raises(ValueError, match="(?s)when exporting f.*from args\\[0\\]"):

        def f(x, y):
            return x, y

        one, two = (
            curta.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32)
            for _ in range(2)
        )
        export.export(curta.jit(f))(one, two)


def test_specs_of_trees():
    args = ({"x": jnp.ones((2, 3))}, [jnp.ones(3)])
    specs = export.symbolic_args_specs(args, ("b, _", "c"))
    assert str(specs[0]["x"].shape) == "(b, 3)" and str(specs[1][0].shape) == "(c,)"
    assert export.symbolic_args_specs(args, None)[0]["x"].shape == (2, 3)
    with pytest.raises(ValueError, match="pytree structure error"):
        export.symbolic_args_specs(args, {"x": "b"})
    with pytest.raises(ValueError, match="should be None or a string"):
        export.symbolic_args_specs(args, 5)


def test_platforms():
    found = export.export(curta.jit(jnp.sin), platforms=("tpu",))(1.0)
    with pytest.raises(ValueError, match="was exported for platforms"):
        found.call(1.0)
    check = export.DisabledSafetyCheck.platform()
    found = export.export(
        curta.jit(jnp.sin), platforms=("tpu",), disabled_checks=[check]
    )(1.0)
    assert float(found.call(0.0)) == 0.0
    assert export.DisabledSafetyCheck.custom_call("f").is_custom_call() == "f"


def test_platforms_that_cannot_donate():
    f, x = curta.jit(jnp.sin, donate_argnums=0), np.ones(3, np.float32)
    assert export.export(f, platforms=["cpu", "tpu"])(x).platforms == ("cpu", "tpu")
    assert export.export(f, platforms=["other"])(x).platforms == ("other",)
    assert export.export(f, platforms=[])(x).platforms == ("cpu",)
    with pytest.raises(NotImplementedError, match="either all or no lowering plat"):
        export.export(f, platforms=["cpu", "other"])(x)
    with pytest.raises(NotImplementedError, match="either all or no lowering plat"):
        f.trace(x).lower(lowering_platforms=("cpu", "other"))


def test_effects():
    def f(x):
        curta.debug.print("{}", x, ordered=True)
        curta.debug.print("{}", x)
        return curta.experimental.io_callback(np.sin, x, x, ordered=True)

    found = export.export(curta.jit(f))(np.float32(1))
    assert [*map(str, found.ordered_effects)] == ["OrderedDebug", "OrderedIO"]
    assert [*map(str, found.unordered_effects)] == ["Debug"]


def test_arguments_that_are_used():
    def f(x, y, z):
        return jnp.sin(y), x[0] + z

    x = np.ones(3, np.float32)
    first = curta.jit(lambda *args: f(*args)[1])
    assert export.export(first)(x, x, x).module_kept_var_idx == (0, 2)
    kept = curta.jit(lambda *args: f(*args)[1], keep_unused=True)
    assert export.export(kept)(x, x, x).module_kept_var_idx == (0, 1, 2)


def test_uses_global_constants():
    """So do those that call a function exported for open sizes or platforms."""
    x = np.ones(3, np.float32)

    def uses(f, **options):
        found = export.export(curta.jit(f), **options)(x)
        return found.uses_global_constants

    sizes = exported(jnp.sin, "b")
    platforms = export.export(curta.jit(jnp.sin), platforms=("cpu", "tpu"))(x)
    for inner in sizes, platforms:
        assert inner.uses_global_constants and uses(inner.call)
        assert uses(lambda x, f=inner.call: curta.lax.cond(x[0] > 0, f, jnp.cos, x))
        assert uses(curta.grad(lambda x, f=inner.call: f(x).sum()))
        assert not uses(lambda x, f=inner.call: (f(x), x)[1])
        outer = export.export(curta.jit(inner.call))(x)
        assert outer.vjp().uses_global_constants and uses(outer.call)
        again = export.deserialize(outer.serialize(vjp_order=1))
        assert again.uses_global_constants and again.vjp().uses_global_constants
    assert not uses(export.export(curta.jit(jnp.sin))(x).call) and not uses(jnp.sin)


def test_calling_convention_versions():
    name = "jax_export_calling_convention_version"
    before = getattr(curta.config, name)
    curta.config.update(name, 8)
    try:
        with pytest.raises(ValueError, match="version 8 is outside the range"):
            export.export(curta.jit(jnp.sin))(1.0)
    finally:
        curta.config.update(name, before)


def test_traced_once_for_a_scope():
    traces = []

    @curta.jit
    def f(x):
        traces.append(x.shape)
        return x

    spec = curta.ShapeDtypeStruct(export.symbolic_shape("a"), np.float32)
    export.export(f)(spec)
    export.export(f)(spec)
    assert len(traces) == 1
    export.export(f)(curta.ShapeDtypeStruct(export.symbolic_shape("a"), np.float32))
    assert len(traces) == 2


def test_shardings():
    mesh = curta.make_mesh((1,), ("x",))
    place = curta.NamedSharding(mesh, curta.P("x"))
    found = export.export(curta.jit(lambda x: x + 1, in_shardings=place))(jnp.ones(4))
    assert found.in_shardings_jax(mesh) == (place,)
    assert found.out_shardings_jax(mesh) == (None,)
    np.testing.assert_array_equal(found.call(jnp.ones(4)), 2.0)


def test_arguments_in_the_memory_of_the_host():
    x = curta.device_put(jnp.ones((2, 3)), curta.memory.Space.Host)
    found = export.export(curta.jit(lambda x, y: (x, y)))(x, jnp.ones(4))
    mesh = curta.sharding.AbstractMesh((), ())
    place, whole = found.in_shardings_jax(mesh)
    assert place.mesh == mesh and place.spec == curta.P(None, None)
    assert place.memory_kind == "pinned_host" and whole is None
    assert found.out_shardings_jax(mesh) == (None, None)


def test_dims_that_no_argument_has():
    (k,) = export.symbolic_shape("k", constraints=["k <= 10"])
    f = curta.jit(lambda k, x: curta.lax.top_k(x, k)[0], static_argnums=0)
    with pytest.raises(UnexpectedDimVar, match="variable 'k' that is not appearing"):
        export.export(f)(k, jnp.arange(40).reshape(4, 10))


def test_devices_in_another_order():
    devices = np.array(curta.devices()[:2])
    mesh = curta.sharding.Mesh(devices, ("x",))
    place = curta.NamedSharding(mesh, curta.P("x"))
    found = export.export(curta.jit(jnp.sin, in_shardings=place))(jnp.ones(4))
    other = curta.sharding.Mesh(devices[::-1], ("x",))
    (place,) = found.in_shardings_jax(other)
    x = curta.device_put(jnp.ones(4), place)
    again = export.deserialize(found.serialize())
    for call in found.call, again.call, curta.jit(found.call):
        out = call(x)
        assert out.sharding.devices == (*devices[::-1],)
        np.testing.assert_allclose(out, np.sin(np.ones(4)), rtol=1e-6)


def test_dims_in_jaxprs():
    found = exported(lambda x: x * x.shape[0], "b")
    assert "f32[b]" in str(found.jaxpr) and "dim_as_value[dim=b]" in str(found.jaxpr)


def test_devices_asked_for_within():
    mesh = curta.make_mesh((1,), ("x",), (AxisType.Auto,))
    place = curta.NamedSharding(mesh, curta.P("x"))
    f = curta.jit(lambda x: curta.lax.with_sharding_constraint(x, place) * 2)
    found = export.export(f)(jnp.ones(4))
    assert found.nr_devices == 1
    np.testing.assert_array_equal(found.call(jnp.ones(4)), 2.0)


def test_programs_for_several_platforms():
    found = export.export(curta.jit(jnp.sin), platforms=("cpu", "cuda"))(jnp.ones(3))
    assert (
        '@main(%arg0: tensor<i32> {jax.global_constant = "_platform_index"},'
        " %arg1: tensor<3xf32>) -> (tensor<3xf32>"
    ) in str(found.mlir_module(serialized=False))
