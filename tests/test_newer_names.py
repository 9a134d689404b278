"""Functions that JAX 0.11 and 0.12 added; values from NumPy and SciPy."""

import pickle

import numpy as np
import pytest
import scipy.special as sp

import curta
import curta.numpy as jnp
from curta import ad_checkpoint, export, ffi, lax, random
from curta.experimental import EArray, xla_metadata
from curta.extend import core as extend_core
from curta.interpreters import batching, partial_eval as pe
from curta.scipy import special
from curta.test_util import check_grads
from curta.transforms.vmap import BatchAxis


def every_way(function, *args, atol=0):
    """The results of `function`: eager, compiled, and mapped over a first axis of 1."""
    plain = function(*args)
    mapped = curta.vmap(function)(*(jnp.asarray(x)[None] for x in args))
    for other in curta.jit(function)(*args), curta.tree.map(lambda x: x[0], mapped):
        for ours, its in zip(curta.tree.leaves(plain), curta.tree.leaves(other)):
            assert ours.dtype == its.dtype
            np.testing.assert_allclose(ours, its, rtol=1e-6, atol=atol)
    return plain


# ---- lax


@pytest.mark.parametrize("terms", [1, 2, 5, 8, 9, 20])
def test_polynomial_is_that_of_numpy(terms):
    coefficients = np.linspace(-1, 2, terms).astype("f4")
    x = np.linspace(-1.1, 0.9, 7).astype("f4")
    wanted = np.polynomial.polynomial.polyval(x, coefficients)
    # Where terms cancel, a fused multiply-add rounds otherwise than the two.
    got = every_way(lambda x: lax.polynomial(x, [*coefficients]), x, atol=1e-6)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    check_grads(lambda x: lax.polynomial(x, [*coefficients]), (x,), 2, rtol=0.05)


def test_polynomial_of_arrays_of_coefficients():
    x, c = jnp.arange(3.0)[None], jnp.array([[1.0], [2.0]])
    assert lax.polynomial(x, [0.0, c]).tolist() == [[0, 1, 2], [0, 2, 4]]
    assert lax.polynomial(2.0, [1, 2]).dtype == np.float32
    assert lax.polynomial(2, [1, 2]).dtype == np.int32
    assert lax.polynomial(jnp.array([2, 0]), [1.0, 2.5]).tolist() == [5, 1]
    assert lax.polynomial(x, []).tolist() == [[0, 0, 0]]
    assert lax.polynomial(jnp.inf, [0.0, 1.0]) == np.inf
    with pytest.raises(TypeError, match="same number of dimensions, got"):
        lax.polynomial(jnp.ones(3), [1.0, c])


def test_jaxprs_have_one_op_for_each():
    def printed(function):
        return str(curta.make_jaxpr(function)(2.0))

    coefficients = [1.0, 2.0, 3.0]
    assert "polynomial a 1.0:f32[] 2.0" in printed(
        lambda x: lax.polynomial(x, coefficients)
    )
    unrolled = printed(lambda x: lax.polynomial(x, coefficients, unroll=2))
    assert "polynomial[unroll=2] a" in unrolled
    assert lax.polynomial(2.0, coefficients, unroll=2) == 17
    slope = curta.grad(lambda x: lax.polynomial(x, coefficients))
    assert printed(slope).count("polynomial") == 2
    assert "log2 a" in printed(lax.log2)
    assert "= one_minus_square a" in printed(lax.one_minus_square)
    for name in "log2_p", "polynomial_p", "one_minus_square_p":
        assert getattr(lax, name) is getattr(extend_core.primitives, name)


def test_coefficients_are_differentiated():
    x, c = jnp.array([0.5, 2.0]), jnp.array([1.0, 2.0, 3.0])
    slopes = curta.jacobian(lambda c: lax.polynomial(x, [*c]))(c)
    np.testing.assert_allclose(slopes, [[1, 0.5, 0.25], [1, 2, 4]])
    check_grads(lambda x, c: lax.polynomial(x, [*c]), (x, c), 2, rtol=0.05)


@pytest.mark.parametrize(("dtype", "least"), [("f4", -149), ("f8", -1074)])
def test_log2_of_powers_of_two_is_exact(dtype, least):
    with curta.enable_x64(True):
        powers = np.arange(least, np.finfo(dtype).maxexp, dtype=dtype)
        x = np.ldexp(np.ones((), dtype), powers.astype("i4"))
        np.testing.assert_array_equal(curta.jit(lax.log2)(x), powers)
        np.testing.assert_array_equal(jnp.log2(x), powers)


def test_log2():
    x = np.array([1e-30, 0.5, 1.0, 8.0], "f4")
    np.testing.assert_allclose(every_way(lax.log2, x), np.log2(x), rtol=1e-6)
    assert lax.log2(0.0) == -np.inf and np.isnan(lax.log2(-1.0))
    z = np.complex64(1 + 2j)
    np.testing.assert_allclose(lax.log2(z), np.log2(z), rtol=1e-6)
    with pytest.raises(TypeError, match="log2 does not accept dtype int32"):
        lax.log2(3)


def test_one_minus_square_cancels_nowhere():
    x = np.array([0.5, 1 - 2.0**-20, -3.0], "f4")
    wanted = (1 - x.astype("f8") ** 2).astype("f4")
    np.testing.assert_allclose(every_way(lax.one_minus_square, x), wanted, rtol=1e-6)
    np.testing.assert_allclose(curta.grad(lax.one_minus_square)(1e-30), -2e-30)
    assert lax.one_minus_square(3) == -8


# ---- numpy


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_minmax(axis, keepdims):
    x = np.array([[3, -7, 2], [8, 4, 1]], "i4")
    low, high = every_way(lambda x: jnp.minmax(x, axis, None, keepdims), x)
    assert low.tolist() == x.min(axis, keepdims=keepdims).tolist()
    assert high.tolist() == x.max(axis, keepdims=keepdims).tolist()


def test_minmax_with_initial_and_where():
    x = jnp.array([3.0, -7.0, 2.0])
    assert jnp.minmax(x, initial=(-9, 9)) == (-9, 9)
    assert jnp.minmax(x, initial=0) == (-7, 3)
    assert jnp.minmax(x, where=x > 0, initial=(5, 0)) == (2, 3)
    assert np.isnan(jnp.minmax(jnp.array([1.0, np.nan]))).all()
    with pytest.raises(ValueError, match="zero-size array"):
        jnp.minmax(jnp.zeros(0))


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u1", "bool"])
@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("axis", [0, -1])
def test_top_k(dtype, mode, axis):
    x = np.array([[3, 0, 2, 0], [9, 7, 0, 8]]).astype(dtype)
    count = x.shape[axis] - 1
    order = np.argsort(x, axis, kind="stable")
    if mode == "largest":
        order = np.argsort(-x.astype("f8"), axis, kind="stable")
    order = np.take(order, range(count), axis)
    values, places = every_way(lambda x: jnp.top_k(x, count, axis=axis, mode=mode), x)
    assert values.dtype == x.dtype and places.dtype == np.int32
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


def test_top_k_refuses():
    with pytest.raises(ValueError, match="not compatible with complex"):
        jnp.top_k(jnp.array([1j]), 1)
    with pytest.raises(ValueError, match="mode must be 'largest' or 'smallest'"):
        jnp.top_k(jnp.ones(2), 1, mode="best")


# ---- scipy.special


def test_erfcinv():
    y = np.array([1e-30, 1e-6, 0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 1.9], "f4")
    np.testing.assert_allclose(
        every_way(special.erfcinv, y), sp.erfcinv(y), rtol=2e-6, atol=1e-12
    )
    assert np.signbit(special.erfcinv(1.0)) == 0
    assert special.erfcinv(jnp.array([0.0, 2.0])).tolist() == [np.inf, -np.inf]
    assert np.isnan(special.erfcinv(jnp.array([-0.1, 2.1]))).all()
    assert special.erfcinv(jnp.float16(0.5)).dtype == np.float16
    check_grads(special.erfcinv, (y[2:],), 2, rtol=0.05)
    with pytest.raises(ValueError, match="complex-valued"):
        special.erfcinv(1j)


# ---- the rest


def test_inline_options():
    def names(inline):
        half = curta.jit(lambda x: x / 2, inline=inline)
        return [e.primitive.name for e in curta.make_jaxpr(half)(1.0).jaxpr.eqns]

    assert names(curta.Inline.JAX_EARLY) == ["div"]
    for option in set(curta.Inline) - {curta.Inline.JAX_EARLY} | {True, False}:
        assert names(option) == ["jit"]
    with pytest.raises(ValueError, match="Invalid inline option: 'early'"):
        curta.jit(len, inline="early")


def test_effort_levels():
    assert curta.CompilerEffortLevel("O2") is curta.CompilerEffortLevel(29)
    with pytest.raises(ValueError, match="O9"):
        curta.CompilerEffortLevel("O9")


def test_meshes_in_scope_by_their_newer_names():
    assert curta.get_mesh is curta.sharding.get_mesh
    assert curta.get_abstract_mesh is curta.sharding.get_abstract_mesh
    with curta.use_abstract_mesh(curta.sharding.AbstractMesh((1,), ("x",))):
        assert curta.get_abstract_mesh().axis_names == ("x",)


# ---- interpreters, export, notes for XLA: the values are those of JAX 0.12


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", (3, np.inf)),
        ("b", (1, 7)),
        ("a + b", (4, np.inf)),
        ("2*a - b", (-1, np.inf)),
        ("floordiv(a, 2)", (1, np.inf)),
        ("mod(a, 3)", (0, 2)),
        ("a*b", (3, np.inf)),
        ("max(b, 4)", (4, 7)),
    ],
)
def test_bounds_of_symbolic_dims(text, wanted):
    scope = export.SymbolicScope(["a >= 3", "b <= 7"])
    (dim,) = export.symbolic_shape(text, scope=scope)
    assert export.symbolic_dim_bounds(dim) == wanted


@pytest.mark.parametrize("no_dim", ["x", 2.5, None])
def test_bounds_of_what_is_no_dim(no_dim):
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        export.symbolic_dim_bounds(no_dim)


def noted(f, x):
    """The lines of a program that have notes for XLA."""
    text = curta.jit(f).lower(x).as_text()
    return [line for line in text.splitlines() if "frontend_attributes" in line]


def test_notes_of_a_call_are_on_its_ops_and_their_derivatives():
    f = xla_metadata.xla_metadata_call(lambda x: jnp.sin(x) * x, key="a", n=3, b=True)
    for g, least in (f, 2), (curta.grad(f), 4), (curta.vmap(f), 2):
        x = jnp.ones(3) if g is not f and least == 2 else 1.0
        lines = noted(lambda x, g=g: g(x) + 1, x)
        assert len(lines) >= least
        assert all('b = "true", key = "a", n = "3"' in line for line in lines)
        assert not any("tensor<f32> + 1" in line for line in lines)
    assert f(2.0) == jnp.sin(2.0) * 2
    with pytest.raises(TypeError, match="expected a callable"):
        xla_metadata.xla_metadata_call(3)


def test_notes_of_fusions():
    @curta.jit
    def limited(x):
        y = jnp.cos(x)
        with xla_metadata.fuse_limit():
            return jnp.sin(y)

    assert ["sine" in line for line in noted(limited, 1.0)] == [True]
    fused = xla_metadata.must_fuse_call("7")(lambda x: jnp.sin(x) + 1)
    assert all('MUST_FUSE = "7"' in line for line in noted(fused, 1.0))


def test_jaxprs_with_other_inputs_and_outputs():
    table = np.arange(3.0, dtype="f4")
    closed = curta.make_jaxpr(lambda x, y: (x - y, x * table))(2.0, 3)
    opened = pe.convert_constvars_jaxpr(closed.jaxpr)
    outs = extend_core.jaxpr_as_fun(pe.close_jaxpr(opened))(*closed.consts, 5.0, 2)
    assert outs[0] == 3
    assert outs[1].tolist() == [0, 5, 10]
    moved = pe.move_binders_to_back(closed, [True])
    assert extend_core.jaxpr_as_fun(moved)(2, 5.0)[0] == 3
    pruned = pe.prune_closed_jaxpr_outputs(closed, [False, True])
    (out,) = extend_core.jaxpr_as_fun(pruned)(5.0, 2)
    assert out.tolist() == [0, 5, 10]
    with pytest.raises(ValueError, match="zip"):
        pe.prune_closed_jaxpr_outputs(closed, [True])


def test_other_spellings():
    x = jnp.array([3.0, 1.0, 3.0, 2.0])
    for stable in True, False:
        assert lax.top_k(x, 2, is_stable=stable)[1].tolist() == [0, 2]
    policy = curta.checkpoint_policies.save_only_these_names("y")
    f = curta.checkpoint(
        lambda x: jnp.sin(ad_checkpoint.checkpoint_name_fwd(jnp.sin(x), "y")),
        policy=policy,
    )
    assert curta.grad(f)(0.0) == 1
    jaxpr = curta.make_jaxpr(lambda x: ad_checkpoint.checkpoint_name(x, "y"))(1.0)
    assert jaxpr.eqns[0].primitive is ad_checkpoint.name_p
    assert random.Key(random.key(0)).dtype == random.key(0).dtype


# ---- tokens, futures, extended arrays


def test_tokens_and_their_type():
    token = lax.create_token()
    assert isinstance(token, extend_core.Token)
    assert isinstance(ffi.abstract_token, extend_core.AbstractToken)
    assert curta.typeof(token) == ffi.abstract_token == extend_core.AbstractToken()
    for other in jnp.ones(2), curta.typeof(1.0), 3:
        assert not isinstance(other, (extend_core.Token, extend_core.AbstractToken))


def test_a_collective_that_was_started():
    x = jnp.arange(8.0).reshape(2, 4)

    def start(x):
        future = lax.psum_scatter_start({"a": x}, "i", tiled=True)["a"]
        assert future.shape == (2,) and future.dtype == x.dtype
        return future.done()

    wanted = curta.vmap(lambda x: lax.psum_scatter(x, "i", tiled=True), axis_name="i")
    for mapped in (curta.vmap(start, axis_name="i"),):
        np.testing.assert_array_equal(mapped(x), wanted(x))
        np.testing.assert_array_equal(curta.jit(mapped)(x), wanted(x))
    with pytest.raises(NotImplementedError, match="tiled=True"):
        curta.vmap(lambda x: lax.psum_scatter_start(x, "i"), axis_name="i")(x)


def test_arrays_by_the_array_of_their_elements():
    keys = curta.random.split(curta.random.key(0))
    x = EArray(curta.typeof(keys), curta.random.key_data(keys))
    assert (x.shape, x.ndim, x.size, len(x)) == ((2,), 1, 2, 2)
    assert x.dtype == keys.dtype and repr(x).startswith("EArray([[")
    assert x.block_until_ready() is x and x.copy().committed is False
    doubled = curta.jit(lambda x: curta.tree.map(lambda e: e + e, x))(x)
    assert isinstance(doubled, EArray) and doubled.aval == x.aval
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = x.nothing
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_notes_in_a_dict():
    for call in (
        xla_metadata.xla_metadata_call2(lambda x: jnp.sin(x) * x, {"key": 1}),
        xla_metadata.xla_metadata_call2({"key": 1})(lambda x: jnp.sin(x) * x),
    ):
        assert all('key = "1"' in line for line in noted(curta.grad(call), 1.0))
    with pytest.raises(TypeError, match="for key 'a'"):
        xla_metadata.xla_metadata_call2(jnp.sin, {"a": None})
    with pytest.raises(NotImplementedError, match="derivatives"):
        xla_metadata.xla_metadata_call2(jnp.sin, {"a": 1}, ad_metadata="drop")


# ---- calls and jaxprs for interpreters


@pytest.mark.parametrize("ways", ["plain", "jit", "grad", "vmap"])
def test_calls_of_a_name(ways):
    prim = extend_core.create_call_primitive("layer")
    body = curta.make_jaxpr(lambda x, y: [x * y, x])(1.0, 1.0)

    def f(x, y):
        return prim.bind(x, y, call_jaxpr=body, note=3)[0]

    closed = curta.make_jaxpr(f)(1.0, 2.0)
    (eqn,) = closed.eqns
    assert eqn.primitive is prim and eqn.params["note"] == 3
    if ways == "vmap":
        found = curta.vmap(f, (0, None))(jnp.arange(3.0), 2.0).tolist()
        assert found == [0, 2, 4]
    elif ways == "grad":
        assert curta.jit(curta.grad(f, (0, 1)))(2.0, 3.0) == (3, 2)
    else:
        assert (curta.jit(f) if ways == "jit" else f)(2.0, 3.0) == 6
    with pytest.raises(TypeError, match="needs the parameter call_jaxpr"):
        prim.bind(1.0)
    with pytest.raises(NotImplementedError, match="transpose rule"):
        extend_core.register_call_primitive_rules(prim, transpose_rule=len)


def test_batches_of_jaxprs_have_their_dims_where_asked_for():
    closed = curta.make_jaxpr(lambda x: (2 * x, 1.0))(jnp.ones(2))
    for axis in 0, 1:
        batched, mapped = batching.batch_jaxpr_axes(
            closed, BatchAxis(3), [0], [axis, batching.zero_if_mapped]
        )
        assert batched.out_avals[0].shape == ((3, 2), (2, 3))[axis]
        assert mapped == [True, False]
    with pytest.raises(ValueError, match="output 0 has a batch dim"):
        batching.batch_jaxpr_axes(closed, BatchAxis(3), [0], [None, None])


# ---- kinds of sums not yet taken


def test_kinds_of_unreduced_axes():
    kinds = curta.sharding.UnreducedKind
    spec = curta.P("x", unreduced={"y"}, unreduced_kind=kinds.max)
    assert repr(spec) == "P('x', unreduced={'y'}, unreduced_kind=max)"
    assert spec is pickle.loads(pickle.dumps(spec)) and spec != curta.P(
        "x", unreduced={"y"}
    )
    assert curta.P(unreduced={"y"}).unreduced_kind is kinds.sum
    assert spec.update(unreduced=set()).unreduced_kind is None
    with pytest.raises(ValueError, match="should be `None` when `unreduced` is an"):
        curta.P("x", unreduced_kind=kinds.max)
    with pytest.raises(TypeError, match="Expected unreduced_kind"):
        curta.P(unreduced={"y"}, unreduced_kind=3)
    with pytest.raises(TypeError, match="can't be added"):
        spec + curta.P("z")
    types = (curta.sharding.AxisType.Explicit,) * 2
    mesh = curta.sharding.AbstractMesh((1, 1), ("x", "y"), types)
    with pytest.raises(NotImplementedError, match="only sums"):
        curta.NamedSharding(mesh, spec)
