"""Operators and methods of arrays and tracers."""

import operator

import numpy as np
import pytest
from tests.numpy.test_against_numpy import assert_same, sample

import curta
from curta import numpy as jnp

BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.eq, operator.ne, operator.lt, operator.le, operator.gt),
    operator.ge,
]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
def test_binary(op):
    x, y = sample((2, 3), "float32"), sample((3,), "float32", 1) + 9
    theirs = op(x, y)
    for a, b in (
        (jnp.asarray(x), jnp.asarray(y)),
        (jnp.asarray(x), y),
        (x, jnp.asarray(y)),
    ):
        ours = op(a, b)
        assert isinstance(ours, curta.Array)
        assert_same(ours, theirs)
    assert_same(curta.jit(op)(x, y), theirs)
    assert_same(op(jnp.asarray(x), 2), op(x, 2))
    assert_same(op(20, jnp.asarray(y)), op(20, y))


@pytest.mark.parametrize("op", BITS, ids=lambda f: f.__name__)
def test_bits(op):
    x, y = sample((3,), "int32", high=90), sample((3,), "uint8", 1).astype("int32")
    assert_same(op(jnp.asarray(x), jnp.asarray(y)), op(x, y))
    assert_same(op(jnp.asarray(x), 3), op(x, 3))
    assert_same(op(3, jnp.asarray(y)), op(3, y))


def test_unary_and_builtins():
    x = jnp.array([-1.5, 2.25])
    assert (-x).tolist() == [1.5, -2.25]
    assert (+x).tolist() == [-1.5, 2.25]
    assert abs(x).tolist() == [1.5, 2.25]
    assert (~jnp.array([0, 1])).tolist() == [-1, -2]
    assert round(x).dtype == "int32"
    assert round(x, 1).tolist() == pytest.approx([-1.5, 2.2])
    assert [a.tolist() for a in divmod(jnp.array([7, -7]), 2)] == [[3, -4], [1, 1]]
    assert (x @ x).item() == 7.3125
    assert 2.25 in x
    assert 9 not in x
    assert (x**2).tolist() == [2.25, 5.0625]


@pytest.mark.parametrize("other", [[1, 2], (1, 2)])
def test_lists_are_refused(other):
    x = jnp.arange(2)
    for op in operator.add, operator.mul, operator.sub, operator.truediv:
        with pytest.raises(TypeError, match="unsupported operand type"):
            op(x, other)
        with pytest.raises(TypeError, match="unsupported operand type"):
            curta.jit(lambda x, op=op: op(other, x))(x)
    with pytest.raises(TypeError, match="unsupported operand type"):
        operator.eq(x, other)


def test_unknown_operands_get_their_turn():
    class Other:
        def __radd__(self, x):
            return "radd"

        def __eq__(self, x):
            return "eq"

    x = jnp.arange(2)
    assert x + Other() == "radd"
    assert (x == Other()) == "eq"
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        x + None


def test_jax_array_protocol():
    class Wrapped:
        def __jax_array__(self):
            return jnp.arange(2)

    assert (jnp.ones(2) + Wrapped()).tolist() == [1, 2]
    assert (Wrapped.__jax_array__(None) * jnp.asarray(Wrapped())).tolist() == [0, 1]
    assert jnp.stack([Wrapped()]).shape == (1, 2)
    with pytest.raises(ValueError, match="__jax_array__"):
        jnp.sin(Wrapped())  # a jitted function, as in JAX


METHODS = [
    ("all", ()), ("any", ()), ("argmax", ()), ("argmin", (0,)), ("argsort", ()),
    ("clip", (0, 1)), ("conj", ()), ("cumprod", (0,)), ("cumsum", ()), ("diagonal", ()),
    ("flatten", ()), ("max", (0,)), ("mean", ()), ("min", ()), ("prod", (1,)),
    ("ravel", ()), ("repeat", (2,)), ("reshape", (3, 2)), ("reshape", ((6,),)),
    ("round", (1,)), ("squeeze", ()), ("std", ()), ("sum", (0,)),
    ("swapaxes", (0, 1)), ("take", (np.array([0, 3]),)), ("trace", ()),
    ("transpose", ()), ("transpose", (1, 0)), ("var", (1,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), METHODS, ids=str)
def test_methods(name, args):
    x = sample((2, 3), "float32")
    theirs = getattr(x, name)(*args)
    assert_same(getattr(jnp.asarray(x), name)(*args), theirs)
    assert_same(curta.jit(lambda x: getattr(x, name)(*args))(x), theirs)


def test_properties():
    x = jnp.array([[1 + 2j, 3.0]])
    assert x.T.shape == (2, 1)
    assert x.mT.shape == (2, 1)
    assert x.real.tolist() == [[1, 3]]
    assert x.imag.tolist() == [[2, 0]]
    assert (x.size, x.ndim, x.nbytes, x.itemsize) == (2, 2, 16, 8)
    with pytest.raises(NotImplementedError, match=r"consider arr.flatten\(\)"):
        x.flat  # noqa: B018


def test_astype_and_view():
    x = jnp.array([1.7, -1.7])
    assert x.astype(int).tolist() == [1, -1]
    assert x.astype(bool).tolist() == [True, True]
    assert x.astype(None).dtype == "float32"
    with pytest.raises(TypeError, match="bool, and string dtypes are supported"):
        x.astype(str)
    data = np.arange(8, dtype="uint8").reshape(2, 4)
    for dtype in "uint8", "int8", "uint16", "int32", "float32", "bool":
        assert_same(
            jnp.asarray(data).view(dtype).view("uint8"),
            data.astype(bool) if dtype == "bool" else data,
        )
    z = jnp.array([1 + 2j])
    assert z.view("float32").tolist() == [1, 2]
    assert z.view("float32").view("complex64")[0] == 1 + 2j


def test_iterating_over_a_tracer():
    assert curta.jit(lambda x: sum(row * row for row in x))(jnp.arange(3)) == 5


def test_strict_promotion():
    with curta.numpy_dtype_promotion("strict"):
        with pytest.raises(
            curta.dtypes.TypePromotionError, match="dtype promotion path"
        ):
            jnp.arange(2) + jnp.ones(2)
        assert (jnp.ones(2) + 1).dtype == "float32"


def test_rank_promotion():
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    with curta.numpy_rank_promotion("raise"):
        with pytest.raises(
            ValueError, match="Operands could not be broadcast together"
        ):
            jnp.add(x, y)
        assert jnp.add(x, 1.0).shape == (2, 3)
    with curta.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank"):
        jnp.add(x, y)


ERRORS = [
    (lambda x: jnp.add(x, [1]), TypeError, "add requires ndarray or scalar arguments"),
    (lambda x: jnp.sin("a"), TypeError, "sin requires ndarray or scalar arguments"),
    (lambda x: x + jnp.ones(4), TypeError, "incompatible shapes for broadcasting"),
    (
        lambda x: x @ jnp.ones(4),
        TypeError,
        "dot_general requires contracting dimensions",
    ),
    (lambda x: x @ 2.0, ValueError, "matmul input operand 1 must have ndim at least 1"),
    (lambda x: x.reshape(2, 2), TypeError, r"cannot reshape array of shape \(3,\)"),
    (lambda x: x.reshape(-1, -1), TypeError, "can only specify one unknown axis size"),
    (lambda x: jnp.zeros((2.0,)), TypeError, "Shapes must be 1D sequences of concrete"),
    (lambda x: jnp.zeros(2, 3), TypeError, "Did you accidentally write"),
    (
        lambda x: jnp.concatenate([]),
        ValueError,
        "Need at least one array to concatenate",
    ),
    (lambda x: jnp.stack([]), ValueError, "Need at least one array to stack"),
    (lambda x: jnp.split(x, 2), ValueError, "array split does not result in an equal"),
    (lambda x: jnp.array(None), ValueError, "None is not a valid value for jnp.array"),
    (lambda x: jnp.array([[1], [1, 2]]), ValueError, "inhomogeneous"),
    (lambda x: jnp.array(["a"]), TypeError, "not a valid JAX array type"),
    (lambda x: jnp.array(object()), TypeError, "not a valid JAX array type"),
    (lambda x: jnp.squeeze(x, 0), ValueError, "cannot select an axis to squeeze out"),
    (lambda x: jnp.expand_dims(x, 5), ValueError, "axis 5 is out of bounds"),
    (
        lambda x: jnp.broadcast_to(x, (4,)),
        ValueError,
        "Incompatible types for broadcast",
    ),
    (
        lambda x: jnp.where(x, x),
        TypeError,
        "where requires ndarray or scalar arguments",
    ),
    (lambda x: jnp.clip(1j, 0), ValueError, "Clip received a complex value"),
    (
        lambda x: jnp.tril(x),
        ValueError,
        "Argument to jax.numpy.tril must be at least 2D",
    ),
    (lambda x: jnp.linspace(0, 1, -1), ValueError, "must be non-negative"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(jnp.arange(3.0))


def test_errors_under_jit():
    with pytest.raises(
        curta.errors.ConcretizationTypeError, match="jnp.arange argument"
    ):
        curta.jit(jnp.arange)(3)
    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete"):
        curta.jit(jnp.zeros)(3)
    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete"):
        curta.jit(lambda x, n: x.reshape(n, -1))(jnp.ones(3), 1)


def test_masked_arrays():
    masked = np.ma.array([1, 2], mask=[True, False])
    assert jnp.array(masked).tolist() == [1, 2]
    with pytest.raises(ValueError, match="numpy masked arrays are not supported"):
        curta.jit(jnp.sin)(masked)
