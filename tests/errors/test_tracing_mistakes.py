"""Values unknown while tracing, and arguments of jit: mistakes and answers."""

import math

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import errors

X = jnp.arange(3.0)

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "jit bool",
        lambda: curta.jit(lambda x: 1 if x > 0 else 2)(1.0),
        errors.TracerBoolConversionError,
        "Attempted boolean conversion of traced array",
        "choose between values with curta.numpy.where, branch",
    ),
    (
        "jit while",
        lambda: curta.jit(lambda x: [1 for _ in iter(lambda: bool(x > 0), False)])(1.0),
        errors.TracerBoolConversionError,
        "Attempted boolean conversion of traced array",
        "choose between values with curta.numpy.where, branch",
    ),
    (
        "jit int",
        lambda: curta.jit(lambda x: int(x))(1),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit float",
        lambda: curta.jit(lambda x: float(x))(1.0),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit complex",
        lambda: curta.jit(lambda x: complex(x))(1.0),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit index",
        lambda: curta.jit(lambda i: [1, 2][i])(0),
        errors.TracerIntegerConversionError,
        "The __index__() method was called on traced",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit range",
        lambda: curta.jit(lambda i: [1 for _ in range(i)])(3),
        errors.TracerIntegerConversionError,
        "The __index__() method was called on traced",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit numpy",
        lambda: curta.jit(lambda x: np.sin(x))(1.0),
        errors.TracerArrayConversionError,
        "The numpy.ndarray conversion method",
        "to index a NumPy array with a traced value,",
    ),
    (
        "jit np asarray",
        lambda: curta.jit(lambda x: np.asarray(x))(X),
        errors.TracerArrayConversionError,
        "The numpy.ndarray conversion method",
        "to index a NumPy array with a traced value,",
    ),
    (
        "jit np index",
        lambda: curta.jit(lambda i: np.arange(3)[i])(0),
        errors.TracerArrayConversionError,
        "The numpy.ndarray conversion method",
        "to index a NumPy array with a traced value,",
    ),
    (
        "jit mask",
        lambda: curta.jit(lambda x: x[x > 0])(X),
        errors.NonConcreteBooleanIndexError,
        "Array boolean indices must be concrete; got",
        "keep the full shape with curta.numpy.where(mask,",
    ),
    (
        "jit nonzero",
        lambda: curta.jit(jnp.nonzero)(X),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "give the size of the result (size=...)",
    ),
    (
        "jit unique",
        lambda: curta.jit(jnp.unique)(X),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "give the size of the result (size=...)",
    ),
    (
        "jit where1",
        lambda: curta.jit(lambda x: jnp.where(x > 0))(X),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "give the size of the result (size=...)",
    ),
    (
        "jit shape",
        lambda: curta.jit(jnp.zeros)(3),
        TypeError,
        "Shapes must be 1D sequences of concrete",
        "This concrete value was not available in",
    ),
    (
        "jit reshape",
        lambda: curta.jit(lambda x, n: x.reshape(n))(X, 3),
        TypeError,
        "Shapes must be 1D sequences of concrete",
        "This concrete value was not available in",
    ),
    (
        "jit arange",
        lambda: curta.jit(jnp.arange)(3),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit slice",
        lambda: curta.jit(lambda x, n: x[:n])(X, 2),
        IndexError,
        "Slice entries must be static integers. Got",
        "Use lax.dynamic_slice for a slice of known",
    ),
    (
        "jit axis",
        lambda: curta.jit(lambda x, a: x.sum(a))(X, 0),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit item",
        lambda: curta.jit(lambda x: x.item())(1.0),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit tolist",
        lambda: curta.jit(lambda x: x.tolist())(1.0),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where",
        "mark the argument as static (static_argnums",
    ),
    (
        "jit str arg",
        lambda: curta.jit(lambda x: x)("a"),
        TypeError,
        "Error interpreting argument to",
        "This typically means that a jit-wrapped",
    ),
    (
        "jit none ok obj",
        lambda: curta.jit(lambda x: x)(object()),
        TypeError,
        "Error interpreting argument to",
        "This typically means that a jit-wrapped",
    ),
    (
        "jit fun arg",
        lambda: curta.jit(lambda f, x: f(x))(jnp.sin, 1.0),
        TypeError,
        "Error interpreting argument to",
        "This typically means that a jit-wrapped",
    ),
    (
        "jit str out",
        lambda: curta.jit(lambda x: "a")(1.0),
        TypeError,
        "function <lambda> at",
        "Return arrays, scalars and pytrees of them",
    ),
    (
        "jit obj out",
        lambda: curta.jit(lambda x: (x, {"k": object()}))(1.0),
        TypeError,
        "function <lambda> at",
        "Return arrays, scalars and pytrees of them",
    ),
    (
        "jit static unhashable",
        lambda: curta.jit(lambda x, y: x, static_argnums=1)(1.0, [1]),
        ValueError,
        "Non-hashable static arguments are not",
        "pass a tuple instead of a list, or leave",
    ),
    (
        "jit static array",
        lambda: curta.jit(lambda x, y: x, static_argnums=1)(1.0, X),
        ValueError,
        "Non-hashable static arguments are not",
        "pass a tuple instead of a list, or leave",
    ),
    (
        "jit static name unknown",
        lambda: curta.jit(lambda x: x, static_argnames="z"),
        ValueError,
        "Jitted function has invalid argnames {'z'} in",
        "Function does not take these args",
    ),
    (
        "jit static num range",
        lambda: curta.jit(lambda x: x, static_argnums=5),
        ValueError,
        "Jitted function has static_argnums=(5,), but",
        "",
    ),
    (
        "jit static str",
        lambda: curta.jit(lambda x: x, static_argnums="x"),
        TypeError,
        "'str' object cannot be interpreted as an",
        "",
    ),
    (
        "jit not callable",
        lambda: curta.jit(3),
        TypeError,
        "Expected a callable value, got 3",
        "",
    ),
    (
        "jit generator",
        lambda: curta.jit(lambda x: (yield x)),
        TypeError,
        "Expected a function, got a generator",
        "",
    ),
    (
        "jit missing arg",
        lambda: curta.jit(lambda x, y: x)(1.0),
        TypeError,
        "<lambda>.<locals>.<lambda>() missing 1",
        "'y'",
    ),
    (
        "jit overflow",
        lambda: curta.jit(lambda x: x)(2**100),
        OverflowError,
        "An overflow was encountered while parsing an",
        "Got <class 'int'> with value",
    ),
    (
        "compiled shape",
        lambda: curta.jit(lambda x: x).lower(X).compile()(jnp.ones(4)),
        TypeError,
        "Argument types differ from the types for",
        "Argument 'x' compiled with float32[3] and",
    ),
    (
        "compiled tree",
        lambda: curta.jit(lambda x: x).lower(X).compile()((X,)),
        TypeError,
        "Function compiled with input pytree does not",
        "Arguments that were static are left out of",
    ),
    (
        "sds arg",
        lambda: curta.jit(lambda x: x)(curta.ShapeDtypeStruct((3,), "float32")),
        TypeError,
        "Argument 'x' of shape float32[3] of type",
        "use .lower(...) or eval_shape, which need",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


@pytest.mark.parametrize("convert", [float, complex, math.sin, curta.Array.tolist])
def test_numbers_that_would_lose_their_derivative(convert):
    """The value is known under `grad`, but Python's arithmetic has no derivatives."""
    with pytest.raises(errors.ConcretizationTypeError, match="Abstract tracer value"):
        curta.grad(lambda x: jnp.real(x * convert(x)))(3.0)
    assert curta.grad(lambda x: x * int(x))(3.0) == 3
