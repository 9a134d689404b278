"""Differentiation and vectorization: mistakes and messages."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import errors, lax
from curta.config import traceback_filtering
from curta.experimental import checkify
from curta.experimental.ode import odeint

X = jnp.arange(3.0)
N = jnp.arange(3)

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "grad vector",
        lambda: curta.grad(lambda x: x)(X),
        TypeError,
        "Gradient only defined for scalar-output",
        "Reduce it to a scalar, or use jacrev or vjp",
    ),
    (
        "grad int",
        lambda: curta.grad(lambda x: x * 2)(3),
        TypeError,
        "grad requires real- or complex-valued inputs",
        "If you want to use Boolean- or",
    ),
    (
        "grad int out",
        lambda: curta.grad(lambda x: jnp.int32(3))(3.0),
        TypeError,
        "grad requires real-valued outputs (output",
        "For differentiation of functions with",
    ),
    (
        "grad tuple",
        lambda: curta.grad(lambda x: (x, x))(3.0),
        TypeError,
        "Gradient only defined for scalar-output",
        "for others see jacrev, or has_aux=True",
    ),
    (
        "grad none",
        lambda: curta.grad(lambda x: None)(3.0),
        TypeError,
        "Gradient only defined for scalar-output",
        "for others see jacrev, or has_aux=True",
    ),
    (
        "grad complex",
        lambda: curta.grad(lambda x: x * 1j)(3.0),
        TypeError,
        "grad requires real-valued outputs (output",
        "For differentiation of non-holomorphic",
    ),
    (
        "grad complex in",
        lambda: curta.grad(lambda x: x)(3j),
        TypeError,
        "grad requires real-valued outputs (output",
        "For differentiation of non-holomorphic",
    ),
    (
        "grad holo",
        lambda: curta.grad(lambda x: x, holomorphic=True)(3.0),
        TypeError,
        "grad with holomorphic=True requires inputs",
        "",
    ),
    (
        "grad str",
        lambda: curta.grad(lambda x: 1.0)("a"),
        TypeError,
        "Argument 'a' of type <class 'str'> is not a",
        "",
    ),
    (
        "grad argnums",
        lambda: curta.grad(lambda x: x, argnums=2)(1.0),
        TypeError,
        "differentiating with respect to argnums=2",
        "",
    ),
    (
        "grad aux",
        lambda: curta.grad(lambda x: x, has_aux=True)(1.0),
        TypeError,
        "expected function with aux output to return a",
        "",
    ),
    (
        "grad np",
        lambda: curta.grad(lambda x: np.sin(x))(1.0),
        errors.TracerArrayConversionError,
        "The numpy.ndarray conversion method",
        "to index a NumPy array with a traced value,",
    ),
    (
        "grad uint",
        lambda: curta.grad(lambda x: x * 1.0)(jnp.uint8(3)),
        TypeError,
        "grad requires real- or complex-valued inputs",
        "If you want to use Boolean- or",
    ),
    (
        "grad bool",
        lambda: curta.grad(lambda x: x * 1.0)(True),
        TypeError,
        "grad requires real- or complex-valued inputs",
        "If you want to use Boolean- or",
    ),
    (
        "grad nothing",
        lambda: curta.grad(lambda: 1.0)(),
        TypeError,
        "differentiating with respect to argnums=0",
        "",
    ),
    (
        "value and grad str",
        lambda: curta.value_and_grad(lambda x: "a")(1.0),
        TypeError,
        "Argument 'a' of type <class 'str'> is not a",
        "",
    ),
    (
        "jvp tuple",
        lambda: curta.jvp(jnp.sin, 1.0, 1.0),
        TypeError,
        "primal and tangent arguments to jax.jvp must",
        "found float and float",
    ),
    (
        "jvp dtype",
        lambda: curta.jvp(jnp.sin, (1.0,), (1,)),
        TypeError,
        "primal and tangent arguments to jax.jvp do",
        "dtypes must be equal, or in case of",
    ),
    (
        "jvp shape",
        lambda: curta.jvp(jnp.sin, (X,), (jnp.ones(2),)),
        ValueError,
        "jvp called with different primal and tangent",
        "",
    ),
    (
        "jvp tree",
        lambda: curta.jvp(jnp.sin, (X,), (X, X)),
        TypeError,
        "primal and tangent arguments to jax.jvp must",
        "primals have tree structure PyTreeDef((*,))",
    ),
    (
        "vjp shape",
        lambda: curta.vjp(jnp.sin, X)[1](jnp.ones(2)),
        ValueError,
        "unexpected type (e.g. shape/dtype) for",
        "got float32[2], but expected float32[3]",
    ),
    (
        "vjp dtype",
        lambda: curta.vjp(jnp.sin, X)[1](N),
        ValueError,
        "unexpected type (e.g. shape/dtype) for",
        "got int32[3], but expected float32[3]",
    ),
    (
        "vjp tree",
        lambda: curta.vjp(jnp.sin, X)[1]((X,)),
        ValueError,
        "unexpected tree structure. The argument to a",
        "expected PyTreeDef(*), got PyTreeDef((*,))",
    ),
    (
        "vjp args",
        lambda: curta.vjp(jnp.sin, X)[1](X, X),
        TypeError,
        "The function returned by `jax.vjp` applied to",
        "Put the cotangents of several outputs into",
    ),
    (
        "jacfwd int",
        lambda: curta.jacfwd(lambda x: x)(3),
        TypeError,
        "jacfwd requires real-valued inputs (input",
        "For differentiation of non-holomorphic",
    ),
    (
        "jacrev int",
        lambda: curta.jacrev(lambda x: x)(3),
        TypeError,
        "jacrev requires real- or complex-valued",
        "If you want to use Boolean- or",
    ),
    (
        "hessian int",
        lambda: curta.hessian(lambda x: x)(3),
        TypeError,
        "jacfwd requires real-valued inputs (input",
        "For differentiation of non-holomorphic",
    ),
    (
        "vmap sizes",
        lambda: curta.vmap(jnp.add)(X, jnp.ones(4)),
        ValueError,
        "vmap got inconsistent sizes for array axes to",
        "axis 0 of args[1] of type float32[4]",
    ),
    (
        "vmap in axes len",
        lambda: curta.vmap(jnp.add, in_axes=(0,))(X, X),
        ValueError,
        "vmap in_axes must be an int, None, or a tuple",
        "",
    ),
    (
        "vmap in axes type",
        lambda: curta.vmap(jnp.sin, in_axes="a")(X),
        TypeError,
        "vmap in_axes must be an int, None, or a tuple",
        "",
    ),
    (
        "vmap in axes float",
        lambda: curta.vmap(jnp.sin, in_axes=0.5)(X),
        TypeError,
        "vmap in_axes must be an int, None, or a tuple",
        "",
    ),
    (
        "vmap in axes range",
        lambda: curta.vmap(jnp.sin, in_axes=2)(X),
        ValueError,
        "vmap was requested to map its argument along",
        "",
    ),
    (
        "vmap scalar",
        lambda: curta.vmap(jnp.sin)(1.0),
        ValueError,
        "vmap was requested to map its argument along",
        "",
    ),
    (
        "vmap none",
        lambda: curta.vmap(jnp.sin, in_axes=None)(1.0),
        ValueError,
        "vmap must have at least one non-None value in",
        "",
    ),
    (
        "vmap noargs",
        lambda: curta.vmap(lambda: 1)(),
        ValueError,
        "vmap wrapped function must be passed at least",
        "",
    ),
    (
        "vmap out axes none",
        lambda: curta.vmap(jnp.sin, out_axes=None)(X),
        ValueError,
        "at vmap out_axes, got axis spec None but",
        "",
    ),
    (
        "vmap out axes tree",
        lambda: curta.vmap(lambda x: x, out_axes=(0, 0))(X),
        ValueError,
        "vmap out_axes specification must be a tree",
        "different types at key path vmap out_axes",
    ),
    (
        "vmap out axes range",
        lambda: curta.vmap(lambda x: x, out_axes=3)(X),
        ValueError,
        "axis 3 is out of bounds for array of",
        "",
    ),
    (
        "vmap str",
        lambda: curta.vmap(lambda x: x)("a"),
        TypeError,
        "Argument 'a' of type <class 'str'> is not a",
        "close over other values",
    ),
    (
        "vmap out str",
        lambda: curta.vmap(lambda x: "a")(X),
        TypeError,
        "Output from batched function 'a' with type",
        "",
    ),
    (
        "vmap prefix",
        lambda: curta.vmap(lambda x: x["a"], in_axes=({"b": 0},))({"a": X}),
        ValueError,
        "vmap in_axes specification must be a tree",
        "different keys of dict at key path vmap",
    ),
    (
        "vmap bool",
        lambda: curta.vmap(lambda x: x if x > 0 else -x)(X),
        errors.TracerBoolConversionError,
        "Attempted boolean conversion of traced array",
        "choose between values with curta.numpy.where, branch",
    ),
    (
        "vmap mixed",
        lambda: curta.vmap(lambda d: d["a"])({"a": X, "b": jnp.ones(2)}),
        ValueError,
        "vmap got inconsistent sizes for array axes to",
        "axis 0 of argument d['b'] of type float32[2]",
    ),
    (
        "custom jvp norule",
        lambda: curta.custom_jvp(lambda x: x)(1.0),
        AttributeError,
        "No JVP defined for custom_jvp function",
        "",
    ),
    (
        "custom vjp norule",
        lambda: curta.custom_vjp(lambda x: x)(1.0),
        AttributeError,
        "No VJP defined for custom_vjp function",
        "",
    ),
    (
        "custom gradient without a rule",
        lambda: curta.grad(curta.custom_gradient(lambda x: (x, 3)))(1.0),
        TypeError,
        "Expected a callable value, got 3",
        "",
    ),
    (
        "names that are none",
        lambda: curta.custom_jvp(lambda x, n: x, nondiff_argnames=(3,)),
        TypeError,
        "argument is not a string: 3",
        "nondiff_argnames",
    ),
    (
        "static names that are none",
        lambda: curta.checkpoint(lambda x: x, static_argnames=3),
        TypeError,
        "'int' object is not iterable: static_argnames",
        "",
    ),
    (
        "options that are no dict",
        lambda: curta.jit(lambda x: x).lower(1.0).compile(1),
        TypeError,
        "compiler_options must be a dict",
        "",
    ),
    (
        "errors to look for that are no set of types",
        lambda: checkify.checkify(lambda x: x, jnp.ones(2)),
        TypeError,
        "checkify errors must be a set of error types",
        "",
    ),
    (
        "a tangent of another shape",
        lambda: curta.grad(
            lambda z: lax.custom_root(
                lambda x: x - z, 1.0, lambda f, x: x, lambda g, y: y[None]
            )
        )(1.0),
        TypeError,
        "Custom JVP rule must produce primal and tangent outputs with corresponding",
        "Expected float32[] (tangent type of float32[]) but got float32[1]",
    ),
    (
        "a solver that is none",
        lambda: lax.custom_root(lambda x: x, 1.0, lambda f, x: x, 3),
        TypeError,
        "Expected a callable value, got 3",
        "",
    ),
    (
        "a product that is none",
        lambda: lax.custom_linear_solve(lambda x: "a", 1.0, lambda mv, x: x),
        TypeError,
        "function <lambda> at ",
        "test_transformations_mistakes.py",
    ),
    (
        "more slopes than states",
        lambda: odeint(lambda y, t: jnp.ones(3), 1.0, jnp.arange(2.0)),
        ValueError,
        "odeint func must return a tree like the state y0",
        "has 1 elements in all, but returned 3",
    ),
    (
        "traced argnums",
        lambda: curta.jit(lambda n: curta.grad(lambda x: x, argnums=n)(1.0))(0),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete value is expected",
        "",
    ),
    (
        "one time that is no vector",
        lambda: odeint(lambda y, t: y, 1.0, 1.0),
        TypeError,
        "t must be a vector of times, but got the shape ().",
        "",
    ),
    (
        "tolerances that are lists",
        lambda: odeint(lambda y, t: y, 1.0, jnp.arange(2.0), rtol=[1.0]),
        TypeError,
        "odeint requires ndarray or scalar arguments, got <class 'list'>",
        "",
    ),
    (
        "complex slopes of a real state",
        lambda: odeint(lambda y, t: 1j * y, 1.0, jnp.arange(2.0)),
        TypeError,
        "odeint func returned complex64 for a state of float32",
        "complex y0",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_vmap_names_the_argument_without_the_axis():
    with pytest.raises(ValueError, match=r"its shape is \(3,\)\). It is argument y\."):
        curta.vmap(lambda x, y: x, in_axes=(0, 1))(jnp.ones(3), jnp.ones(3))


def test_transposing_what_is_not_linear_says_so():
    x = jnp.ones(3)
    with pytest.raises(TypeError, match="Only linear functions can be transposed"):
        curta.linear_transpose(lambda x: x * x, x)(x)
    with pytest.raises(NotImplementedError, match="Only linear functions"):
        curta.linear_transpose(jnp.sin, x)(x)


def test_callbacks_that_raise_show_their_own_frames_alone():
    def fail(x):
        raise ValueError("mine")

    shape = curta.ShapeDtypeStruct((), "float32")
    raising = pytest.raises(errors.JaxRuntimeError)
    with traceback_filtering("auto"), raising as raised:
        curta.block_until_ready(curta.pure_callback(fail, shape, 1.0))
    text = str(raised.value)
    assert "in fail" in text and "control/callback.py" not in text
