"""The ops that derivatives and batches are made of, as jaxprs print them.

The golden files agree with JAX to the letter: 0.10.2, except for the derivatives of
asinh, acosh and expm1, which are those of 0.12; and 0.12.0.1 where it prints something
else, except for the derivatives of error functions.
"""

import numpy as np

import curta
from curta import lax

X = np.full(3, 0.5, np.float32)
Y = np.full(3, 0.25, np.float32)
MATRIX = np.ones((2, 3), np.float32)
CHOICE = np.array([True, False, True])

UNARY = (
    "neg sign abs square sqrt rsqrt cbrt exp exp2 expm1 log log1p tanh logistic sin cos"
    " tan asin acos atan sinh cosh asinh acosh atanh floor ceil round erf erfc erf_inv"
    " lgamma digamma stop_gradient"
).split()
BINARY = "add sub mul div rem max min pow atan2".split()


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


def gradient(fun, *args):
    places = tuple(range(len(args)))
    return curta.make_jaxpr(curta.grad(lambda *a: total(fun(*a)), places))(*args)


def listing(programs):
    return "\n".join(f"{name}\n{text}\n" for name, text in programs)


def test_gradients_of_one_operand(golden_by_version):
    golden_by_version(lambda: listing((n, gradient(getattr(lax, n), X)) for n in UNARY))


def test_gradients_of_two_operands(golden_by_version):
    golden_by_version(
        lambda: listing((n, gradient(getattr(lax, n), X, Y)) for n in BINARY)
    )


def test_gradients_of_broadcast_operands(golden_by_version):
    rows, columns = np.ones((2, 1), np.float32), np.ones((1, 3), np.float32)
    golden_by_version(
        lambda: listing((n, gradient(getattr(lax, n), rows, columns)) for n in BINARY)
    )


def test_gradients_of_weak_scalars(golden_by_version):
    golden_by_version(
        lambda: listing(
            (n, curta.make_jaxpr(curta.grad(getattr(lax, n), (0, 1)))(0.5, 0.25))
            for n in BINARY
        )
    )


def test_gradients_of_powers_and_choices(golden_by_version):
    functions = {
        "integer_pow 3": lambda x, y: lax.integer_pow(x, 3),
        "integer_pow -2": lambda x, y: lax.integer_pow(x, -2),
        "pow of an integer": lambda x, y: lax.pow(x, 3),
        "clamp": lambda x, y: lax.clamp(y, x, 1.0),
        "select": lambda x, y: lax.select(CHOICE, x, y),
        "select_n": lambda x, y: lax.select_n(np.int32([0, 1, 2]), x, y, x),
        "half": lambda x, y: lax.convert_element_type(x, "float16"),
        "complex": lambda x, y: lax.abs(lax.mul(lax.complex(x, y), 2j)),
        "conj": lambda x, y: lax.imag(lax.conj(lax.complex(x, y))),
        "reduce_precision": lambda x, y: lax.reduce_precision(x, 5, 3),
        "accurate tanh": lambda x, y: lax.tanh(x, accuracy=lax.AccuracyMode.HIGHEST),
    }
    golden_by_version(
        lambda: listing((n, gradient(f, X, Y)) for n, f in functions.items())
    )


def test_second_derivatives(golden_by_version):
    def make():
        programs = []
        for name in "tanh", "log", "sqrt", "logistic", "div", "max", "pow":
            arity = 2 if name in BINARY else 1
            fun, args = getattr(lax, name), (X, Y)[:arity]
            first = curta.grad(lambda *a, f=fun: total(f(*a)))
            second = curta.grad(lambda *a, f=first: total(f(*a)))
            programs.append((name, curta.make_jaxpr(second)(*args)))
        return listing(programs)

    golden_by_version(make)


def test_batches(golden_by_version):
    def make():
        programs = []
        dims_of_two = [(0, 0), (0, 1), (1, 1), (0, None), (None, 1)]
        for dims in dims_of_two:
            args = [(X if d is None else MATRIX.T if d else MATRIX) for d in dims]
            text = curta.make_jaxpr(curta.vmap(lax.add, dims))(*args)
            programs.append((f"add {dims}", text))
        for dims in [(0, 0, 0), (0, 1, 0), (None, 0, 0), (0, None, None)]:
            args = [(X if d is None else MATRIX.T if d else MATRIX) for d in dims]
            for name in "clamp", "select":
                first = args[0] > 0 if name == "select" else args[0]
                fun = curta.vmap(getattr(lax, name), dims)
                text = curta.make_jaxpr(fun)(first, *args[1:])
                programs.append((f"{name} {dims}", text))
        return listing(programs)

    golden_by_version(make)
