"""Options of transformations, rules and classes of trees: mistakes and answers."""

import functools

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import tree_util
from curta.experimental import checkify

X = jnp.ones(2)
ROW = jnp.ones((1, 3))
NOT_HASHABLE = "Non-hashable static arguments are not supported."
UNFIT = "incompatible function arguments:"


def product(x, y, z):
    return x * y * z


def traced_statically(argnums, *args):
    return curta.make_jaxpr(product, static_argnums=argnums)(*args)


class Keyed:
    """A container whose children come without keys."""


tree_util.register_pytree_with_keys(
    Keyed, lambda _: ((1, 2), None), lambda _, children: Keyed()
)


def zero_of(shape):
    @curta.custom_vjp
    def twice(x):
        return x * 2

    zero = np.zeros(shape, curta.dtypes.float0)
    twice.defvjp(lambda x: (x * 2, None), lambda _, g: (zero,))
    return curta.grad(lambda x: twice(x).sum())(X)


_BOTH = object()


def _keeping(residual, forward=_BOTH):
    f = curta.custom_vjp(lambda x: x * 2)
    f.defvjp(
        (lambda x: (x * 2, residual)) if forward is _BOTH else forward,
        lambda residual, g: (g,),
    )
    return f


MISTAKES = {
    "text traced": (
        lambda: curta.make_jaxpr(lambda x: x)("abc"),
        TypeError,
        "Error interpreting argument to <lambda> at",
    ),
    "shape of text": (
        lambda: curta.eval_shape(lambda d: d, {"a": "b"}),
        TypeError,
        "Error interpreting argument to <lambda> at",
    ),
    "static list traced": (
        lambda: traced_statically(1, 1.0, [2], 3.0), ValueError, NOT_HASHABLE,
    ),
    "static place as text": (
        lambda: traced_statically("y", 1.0, 2.0, 3.0),
        TypeError,
        "'str' object cannot be interpreted as an integer",
    ),
    "static place beyond": (
        lambda: traced_statically(5, 1.0, 2.0, 3.0),
        ValueError,
        "Jitted function has static_argnums=(5,), but only accepts 3 positional",
    ),
    "static place before all": (
        lambda: curta.jit(lambda x, *more: x, static_argnums=-3)(1.0, 2.0),
        ValueError,
        "Positional argument indices, e.g. for `static_argnums`,",
    ),
    "staticmethod": (
        lambda: curta.grad(staticmethod(product)),
        TypeError,
        "staticmethod arguments are not supported",
    ),
    "list of axis names": (
        lambda: curta.vmap(lambda x: x, axis_name=["i"]),
        TypeError,
        "unhashable type: 'list'",
    ),
    "size as text": (
        lambda: curta.vmap(lambda x: x, axis_size="a"),
        TypeError,
        "vmap axis_size must be an int, but got 'a'",
    ),
    "list of axes of pmap": (
        lambda: curta.pmap(lambda x: x, in_axes=[0])(ROW),
        ValueError,
        "pytree structure error: different types at key path pmap in_axes[0]",
    ),
    "static list of pmap": (
        lambda: curta.pmap(lambda x, n: x, static_broadcasted_argnums=1)(ROW, [1]),
        ValueError,
        NOT_HASHABLE,
    ),
    "unknown field of a struct": (
        lambda: curta.ShapeDtypeStruct((2,), float, nope=1),
        TypeError,
        "ShapeDtypeStruct.__init__() got an unexpected keyword argument 'nope'",
    ),
    "size of a struct": (
        lambda: curta.eval_shape(lambda x: x, curta.ShapeDtypeStruct((2.5,), float)),
        TypeError,
        "Error interpreting argument to <lambda> at",
    ),
    "unknown backend": (
        lambda: curta.devices("tape"),
        RuntimeError,
        "Unknown backend tape. Available backends are ['cpu']",
    ),
    "shardings without a mesh": (
        lambda: curta.jit(lambda x, y: x, in_shardings=(curta.P("i"),))(X, X),
        RuntimeError,
        "jit requires a non-empty mesh in context if you are passing `PartitionSpec`s",
    ),
    "kind of accelerator": (
        lambda: curta.devices("gpu"),
        RuntimeError,
        "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu",
    ),
    "device as a sharding": (
        lambda: curta.make_array_from_callback(
            (2,), curta.devices()[0], lambda _: np.ones(2)
        ),
        TypeError,
        "sharding should be an instance of `jax.sharding`. Got cpu:0",
    ),
    "number for a flag": (
        lambda: curta.checkpoint(product, prevent_cse=3),
        TypeError,
        "prevent_cse must be a bool or tuple of bools",
    ),
    "text as errors": (
        lambda: checkify.checkify(product, errors="nan"),
        TypeError,
        "checkify errors must be a set of error types, got 'nan'",
    ),
    "nothing to compile": (
        lambda: curta.jit(None), TypeError, "Expected a callable value, got None",
    ),
    "fractional place": (
        lambda: curta.fwd_and_bwd(product, (1.0,)),
        TypeError,
        "'float' object cannot be interpreted as an integer",
    ),
    "device as a constraint": (
        lambda: curta.lax.with_sharding_constraint(X, (curta.devices()[0],)),
        TypeError,
        "shardings leaf specifications are expected to be PartitionSpec instances",
    ),
    "derivative in nothing": (
        lambda: curta.jacfwd(lambda x: 1.0)(None),
        ValueError,
        "at least one array or dtype is required",
    ),
    "derivative of nothing": (
        lambda: curta.hessian(lambda x: None)(X),
        ValueError,
        "at least one array or dtype is required",
    ),
    "converted number": (
        lambda: curta.closure_convert(3, 1.0),
        TypeError,
        "Expected a callable value, got 3",
    ),
    "number as a rule": (
        lambda: curta.custom_jvp(product).defjvp(3),
        TypeError,
        "Expected a callable value, got 3",
    ),
    "text as a residual": (
        lambda: curta.grad(_keeping("text"))(1.0),
        TypeError,
        "Argument 'text' of type <class 'str'> is not a valid JAX type",
    ),
    "no rule after all": (
        lambda: _keeping(None, forward=None)(1.0),
        AttributeError,
        "No VJP defined for custom_vjp function",
    ),
    "axis of pmap's output": (
        lambda: curta.pmap(lambda x: x, out_axes=2)(ROW),
        ValueError,
        "axis 2 is out of bounds for array of dimension 2",
    ),
    "one fixed place": (
        lambda: curta.custom_jvp(product, nondiff_argnums=0),
        TypeError,
        "nondiff_argnums is a sequence of ints, got 0: write (0,)",
    ),
    "fixed place before all": (
        lambda: curta.custom_vjp(product, nondiff_argnums=(-4,)),
        ValueError,
        "nondiff_argnums=-4 names no argument of product",
    ),
    "unknown fixed name": (
        lambda: curta.custom_vjp(product, nondiff_argnames="q"),
        ValueError,
        "nondiff_argnames names 'q', which is not an argument of product",
    ),
    "mapped without arguments": (
        lambda: curta.custom_batching.custom_vmap(lambda x: x)(),
        TypeError,
        "The input arguments to the custom_vmap-decorated function <lambda>",
    ),
    "mapped number": (
        lambda: curta.custom_batching.sequential_vmap(3)(1.0),
        TypeError,
        "The input arguments to the custom_vmap-decorated function",
    ),
    "zero of another shape": (
        lambda: zero_of((3,)),
        ValueError,
        "Custom VJP bwd rule must produce an output with the same type",
    ),
    "index as a key": (
        lambda: tree_util.SequenceKey("a"), TypeError, f"__init__(): {UNFIT}",
    ),
    "number as an attribute": (
        lambda: tree_util.GetAttrKey(3), TypeError, f"__init__(): {UNFIT}",
    ),
    "number as is_leaf": (
        lambda: curta.tree.flatten([1], is_leaf=3), TypeError, f"flatten(): {UNFIT}",
    ),
    "no leaves": (
        lambda: curta.tree.structure([1]).unflatten(None),
        TypeError,
        f"unflatten(): {UNFIT}",
    ),
    "no function of nodes": (
        lambda: curta.tree.structure([1]).walk(None, None, [1]),
        TypeError,
        f"walk(): {UNFIT}",
    ),
    "leaves of a number": (
        lambda: tree_util.all_leaves(3), TypeError, f"all_leaves(): {UNFIT}",
    ),
    "registered again": (
        lambda: tree_util.register_dataclass(dict, ["a"], []),
        ValueError,
        "Duplicate custom dataclass PyTreeDef type registration for <class 'dict'>",
    ),
    "children without keys": (
        lambda: curta.tree.leaves(Keyed()),
        ValueError,
        "The to_iterable_with_keys function for a custom PyTree node should return",
    ),
    "paths without keys": (
        lambda: curta.tree.leaves_with_path(Keyed()),
        ValueError,
        "The to_iterable_with_keys function for a custom PyTree node should return",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    mistake, kind, opening = MISTAKES[name]
    check_message(mistake, kind, opening, "")


@pytest.mark.parametrize("platform", ["gpu", "cuda", "tpu"])
def test_missing_platforms_say_what_to_install(platform):
    with pytest.raises(RuntimeError, match=r"pip install 'curta\[cuda13\]'"):
        curta.devices(platform)


def test_places_in_arrays():
    for place in (jnp.array(1), np.int64(1), np.array([1]), {1}, iter([1])):
        assert curta.jit(lambda x, n: x * n, static_argnums=place)(2.0, 3) == 6.0
    assert curta.vmap(lambda x: x, axis_size=jnp.array(2))(X).shape == (2,)


def test_static_arguments_may_be_left_out():
    jaxpr = curta.make_jaxpr(lambda x, n=2: x * n, static_argnums=1)(1.0)
    assert len(jaxpr.jaxpr.invars) == 1


def test_fixed_places_from_the_end():
    f = curta.custom_jvp(product, nondiff_argnums=(-1,))
    f.defjvp(lambda z, xy, dots: (product(*xy, z), dots[0] * z))
    assert f(1.0, 2.0, 3.0) == 6.0
    assert curta.grad(f)(1.0, 2.0, 3.0) == 3.0


def test_traced_values_are_not_fetched():
    assert curta.jit(lambda x: curta.device_get(x) + 1)(1.0) == 2.0


def test_types_of_scalars_are_true():
    assert curta.typeof(1.0) and curta.typeof(jnp.ones((0, 3)))


def test_types_of_structs():
    struct = curta.ShapeDtypeStruct((2,), "float32", weak_type=True)
    assert curta.typeof(struct).weak_type and curta.typeof(struct).shape == (2,)


def test_flags_of_checkpoint_may_be_several():
    f = curta.checkpoint(product, prevent_cse=(True, False, True), static_argnames=None)
    assert curta.grad(f)(1.0, 2.0, 3.0) == 6.0


def test_one_level_of_a_leaf():
    assert tree_util.default_registry.flatten_one_level(1) is None
    assert tree_util.default_registry.flatten_one_level([1]) == ([1], None)


def test_a_partial_function_is_no_static_method():
    double = functools.partial(product, 2.0, 1.0)
    assert curta.grad(double)(3.0) == 2.0


def test_lists_of_shardings():
    here = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    assert curta.jit(lambda x: [x], out_shardings=[here])(1.0) == [1.0]
    assert curta.jit(lambda x, y: x, in_shardings=[here, None])(1.0, 2.0) == 1.0
    with pytest.raises(ValueError, match="pjit out_shardings"):
        curta.jit(lambda x: (x, x), out_shardings=[here, here])(1.0)
