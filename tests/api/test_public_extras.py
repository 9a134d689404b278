"""Policies of checkpoint, pullbacks as pytrees, scopes, checks of gradients."""

import contextlib
import io

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import test_util
from curta.ad_checkpoint import checkpoint_name, print_saved_residuals
from curta.experimental import checkify
from curta.extend.core.primitives import dot_general_p, name_p

policies = curta.checkpoint_policies


def saved(fun, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_saved_residuals(fun, *args)
    return [line.split(" from ")[0] for line in out.getvalue().splitlines()]


def layer(w, x):
    return jnp.sin(checkpoint_name(jnp.sin(x @ w), "hidden")).sum()


NOTHING = ["f32[2,2]", "f32[3,2]"]


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (policies.nothing_saveable, []),
        (policies.dots_saveable, ["f32[3,2] output of dot_general"]),
        (
            policies.dots_with_no_batch_dims_saveable,
            ["f32[3,2] output of dot_general"],
        ),
        (policies.save_only_these_names("hidden"), ["f32[3,2] named 'hidden'"]),
        (policies.save_only_these_names("other"), []),
        (policies.save_any_names_but_these("hidden"), []),
        (
            policies.save_from_both_policies(
                policies.dots_saveable, policies.save_only_these_names("hidden")
            ),
            ["f32[3,2] output of dot_general", "f32[3,2] named 'hidden'"],
        ),
    ],
)
def test_policies(policy, kept):
    w, x = jnp.ones((2, 2)), jnp.ones((3, 2))
    f = curta.checkpoint(layer, policy=policy)
    assert sorted(saved(f, w, x)) == sorted(NOTHING + kept)
    np.testing.assert_allclose(curta.grad(f)(w, x), curta.grad(layer)(w, x), rtol=1e-6)


def test_policies_of_ones_own_see_primitives():
    seen = []
    f = curta.checkpoint(layer, policy=lambda prim, *_, **__: bool(seen.append(prim)))
    curta.grad(f)(jnp.ones((2, 2)), jnp.ones((3, 2)))
    assert dot_general_p in seen and name_p in seen


def test_pullbacks_cross_jit():
    f = curta.jit(lambda w, x: curta.vjp(layer, w, x))
    w, x = jnp.ones((2, 2)), jnp.ones((3, 2))
    out, pull = f(w, x)
    apply = curta.jit(lambda pull, ct: pull(ct))
    first = apply(pull, jnp.ones(()))
    apply(f(2 * w, x)[1], jnp.ones(()))
    assert apply.cache_statistics().signatures == 1
    np.testing.assert_allclose(first[0], curta.grad(layer)(w, x), rtol=1e-6)


def test_fwd_and_bwd_of_one_argument():
    fwd, bwd = curta.fwd_and_bwd(lambda x, y: (x * y, "aux"), 1, True, jitted=False)
    out, residuals, aux = fwd(2.0, 3.0)
    assert (out, aux, bwd(residuals, 1.0)) == (6, "aux", 2)


def test_pushforwards_cross_jit():
    _, push = curta.linearize(jnp.sin, 0.0)
    assert curta.jit(lambda push, t: push(t))(push, 2.0) == 2


def test_scopes():
    @curta.named_scope("outer")
    def f(x):
        with curta.named_scope("inner"):
            y = jnp.sin(x)
        return curta.named_call(jnp.cos, name="last")(y)

    names = [str(e.source_info.name_stack) for e in curta.make_jaxpr(f)(1.0).eqns]
    assert names == ["outer/inner", "outer/last"]
    with pytest.raises(TypeError, match="must be a string"):
        curta.named_scope(3)


def test_live_arrays():
    x = jnp.ones(3)
    assert any(y is x for y in curta.live_arrays())
    x.delete()
    assert not any(y is x for y in curta.live_arrays())


@pytest.mark.parametrize("modes", [("fwd", "rev"), ("lin",)])
def test_check_grads_passes_what_is_right(modes):
    def f(tree, n):
        return {"out": jnp.tanh(tree["a"]) * n, "count": n}

    test_util.check_grads(f, ({"a": jnp.arange(3.0)}, 2), order=2, modes=modes)
    test_util.check_grads(lambda z: z * z, (1.0 + 2.0j,), order=1)


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("lin",)])
def test_check_grads_finds_what_is_wrong(modes):
    f = curta.custom_jvp(lambda x: x**2)
    f.defjvp(lambda primals, tangents: (f(*primals), 1.1 * primals[0] * tangents[0]))
    with pytest.raises(AssertionError):
        test_util.check_grads(f, (3.0,), order=1, modes=modes)


def test_linear_maps_of_integers_are_transposed():
    (found,) = curta.linear_transpose(lambda x: 2 * x, 1)(3)
    assert found == 6 and found.dtype == "int32"
    (found,) = curta.linear_transpose(curta.jit(jnp.cumsum), jnp.arange(3))(
        jnp.array([1, 2, 3])
    )
    assert found.tolist() == [6, 5, 3]
    with pytest.raises(
        TypeError, match="only supports .* but got .*int32.* -> .*float"
    ):
        curta.linear_transpose(lambda x: x.astype("float32"), 1)


def test_axes_to_reduce_are_refused():
    for transformed in curta.vjp, curta.linear_transpose:
        with pytest.raises(NotImplementedError, match="reduce_axes argument to"):
            transformed(jnp.negative, 1.0, reduce_axes=("i",))


def test_jacobians_of_integers_are_zeros_of_their_dtype():
    def f(x):
        return x, x.astype(int), 3, x > 0

    for run in (curta.jacfwd(f), curta.jit(curta.jacfwd(f))):
        _, whole, constant, flags = run(jnp.ones(3))
        assert (whole.dtype, constant.dtype, flags.dtype) == (np.int32, np.int32, bool)
        assert (whole.shape, constant.shape) == ((3, 3), (3,)) and constant.weak_type
        assert not whole.any() and not constant.any() and not flags.any()


def test_jacobians_at_python_scalars_are_weak():
    for jacobian in curta.jacfwd, curta.jacrev, curta.hessian:
        assert jacobian(lambda x: x**3)(1.0).weak_type
        assert not jacobian(lambda x: x**3)(jnp.float32(1.0)).weak_type


def test_arrays_that_are_there_already_stay():
    place = curta.devices()[0]
    x = curta.device_put(jnp.arange(3), place)
    assert curta.device_put(x, x.sharding) is x
    assert curta.device_put(x) is x
    assert curta.device_put(jnp.arange(3), place) is not x


def test_large_integers_as_floats():
    found = curta.lax.convert_element_type(2**100, "float32")
    assert found.dtype == "float32" and found == float(2**100)
    assert curta.lax.convert_element_type(2**100, bool)


def test_rules_of_primitives_are_checked():
    foo = curta.extend.core.Primitive("foo")
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'foo' not"):
        foo.bind(1.0)
    foo.def_impl(lambda x: x)
    foo.def_abstract_eval(lambda x: [x])
    with pytest.raises(ValueError, match=r"foo.abstract_eval\(\) method should return"):
        curta.jit(foo.bind)(1.0)
    foo.multiple_results = True
    foo.def_abstract_eval(lambda x: x)
    with pytest.raises(ValueError, match="should return a tuple or a list iff"):
        curta.jit(foo.bind)(1.0)


def test_axes_of_another_structure_are_shown():
    tree = curta.tree.structure({"a": 1, "b": 2})
    with pytest.raises(ValueError, match=r"(?s)1 found.*different types .*axes\['b'\]"):
        curta.api_util.flatten_axes("axes", tree, {"a": 0, "b": (1, 2)})


def test_every_device_of_a_replicated_array_has_all_of_it():
    x = jnp.ones(2)
    assert x.addressable_data(3).tolist() == [1.0, 1.0]


def test_checkified_functions_return_arrays():
    _, out = checkify.checkify(lambda x: x)(np.ones(2))
    assert isinstance(out, curta.Array) and out.dtype == np.float32
