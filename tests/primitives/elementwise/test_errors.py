"""Messages of elementwise ops for invalid operands."""

import re

import numpy as np
import pytest

import curta
from curta import lax

X = np.ones(3, np.float32)
FLOAT0 = np.zeros(2, curta.dtypes.float0)

CASES = [
    (
        lambda: lax.add(X, 1),
        TypeError,
        "lax.add requires arguments to have the same dtypes, got float32, int32. (Tip:"
        " jnp.add is a similar function that does automatic type promotion on inputs).",
    ),
    (
        lambda: lax.clamp(0.0, X, 1),
        TypeError,
        "lax.clamp requires arguments to have the same dtypes, got float32, float32,",
    ),
    (
        lambda: lax.sin(np.ones(3, np.int32)),
        TypeError,
        "sin does not accept dtype int32. Accepted dtypes are subtypes of floating,",
    ),
    (
        lambda: lax.bitwise_and(X, X),
        TypeError,
        "and does not accept dtype float32 at position 0. Accepted dtypes at position",
    ),
    (
        lambda: lax.abs(np.uint8(1)),
        TypeError,
        "abs does not accept dtype uint8. Accepted dtypes are subtypes of",
    ),
    (
        lambda: lax.lt(1j, 2j),
        TypeError,
        "lt does not accept dtype complex64 at position 0.",
    ),
    (
        lambda: lax.add(X, np.ones((2, 3), np.float32)),
        TypeError,
        "add: arrays must have the same number of dimensions, got {1, 2}",
    ),
    (
        lambda: lax.add(X, np.ones(2, np.float32)),
        TypeError,
        "add got incompatible shapes for broadcasting: (3,), (2,).",
    ),
    (
        lambda: lax.pow(X, np.ones(3, np.float16)),
        TypeError,
        "the first argument to pow must have an inexact dtype",
    ),
    (
        lambda: lax.integer_pow(2, -1),
        TypeError,
        "Integers cannot be raised to negative powers, got integer_pow(",
    ),
    (
        lambda: lax.select(X, X, X),
        TypeError,
        "select `which` must be boolean or integer type, got float32.",
    ),
    (
        lambda: lax.select(np.ones(2, bool), X, X),
        TypeError,
        "select `which` must be scalar or have the same shape as cases, got `which`"
        " shape (2,) but case shape (3,).",
    ),
    (
        lambda: lax.select(True, X, np.ones(2, np.float32)),
        TypeError,
        "select cases must have the same shapes, got [(2,), (3,)].",
    ),
    (
        lambda: lax.select_n(True, X, X, X),
        TypeError,
        "select with boolean `which` cannot have > 2 cases.",
    ),
    (
        lambda: lax.select_n(True),
        ValueError,
        "select_n() must have at least one case",
    ),
    (
        lambda: lax.clamp(X, np.ones(2, np.float32), X),
        TypeError,
        "clamp requires min.shape == operand.shape or min.shape == (), got"
        " min.shape=(3,), operand.shape=(2,).",
    ),
    (
        lambda: lax.bitcast_convert_type(X, bool),
        TypeError,
        "lax.bitcast_convert_type does not support bool or complex values unless the"
        " operand and destination types match. Got operand dtype=float32,",
    ),
    (
        lambda: lax.bitcast_convert_type(np.ones(3, np.int8), np.int16),
        ValueError,
        "Attempting to convert array of shape (3,) from int8 of size 8 bits to int16",
    ),
    (
        lambda: lax.reduce_precision(X, 0, 1),
        ValueError,
        "reduce_precision: exponent_bits must be positive; got 0",
    ),
    (
        lambda: lax.sin(FLOAT0),
        TypeError,
        "Called sin with a float0 array. float0s do not support any operations by",
    ),
    (
        lambda: lax.add(FLOAT0, FLOAT0),
        TypeError,
        "Called add with a float0 at position 0. float0s do not support",
    ),
    (
        lambda: lax.exp(X, accuracy="high"),
        NotImplementedError,
        "Accuracy high not supported",
    ),
    (
        lambda: lax.Tolerance(),
        ValueError,
        "At least one of atol, rtol, or ulps must be set.",
    ),
    (
        lambda: curta.grad(lambda m: lax.polygamma(m, 1.0))(1.0),
        ValueError,
        "polygamma gradient with respect to m is not supported",
    ),
]


@pytest.mark.parametrize(("mistake", "kind", "text"), CASES)
def test_the_message(mistake, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        mistake()
