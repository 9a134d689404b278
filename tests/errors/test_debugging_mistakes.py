"""Settings and tools for debugging: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import config
from curta.experimental import checkify, io_callback, key_reuse

X = jnp.arange(3.0)
KEY = curta.random.key(0)
SCALAR = curta.ShapeDtypeStruct((), np.float32)


def with_setting(setting, value, run):
    with setting(value):
        return run()


def sample_in_a_loop(key):
    return lax.map(lambda x: x + curta.random.normal(key), X)


# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "check in jit",
        lambda: curta.jit(lambda x: checkify.check(x > 0, "no"))(1.0),
        ValueError,
        "Cannot abstractly evaluate a checkify.check which was not functionalized",
        f"The check is at {__file__}",
    ),
    (
        "check of an array",
        lambda: checkify.check(X > 0, "no"),
        TypeError,
        "check takes a scalar pred as argument, got",
        "Join the booleans of an array with jnp.all",
    ),
    (
        "check with text",
        lambda: checkify.check(True, "{}", "text"),
        TypeError,
        "Formatting arguments to checkify.check need to be PyTrees of arrays",
        "Put it into the text itself",
    ),
    (
        "checkify of a mapped loop",
        lambda: checkify.checkify(
            curta.vmap(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0)),
            errors=checkify.all_checks,
        )(jnp.arange(3)),
        ValueError,
        "Checkify does not support batched while-loops (checkify-of-vmap-of-while)",
        "vmap-of-checkify-of-while",
    ),
    (
        "key used twice",
        lambda: key_reuse.check_key_reuse(
            lambda k: curta.random.bits(k) + curta.random.bits(k), KEY
        ),
        curta.errors.KeyReuseError,
        "In random_bits, argument 0 is already consumed.",
        "make a key for every use with curta.random.split(key)",
    ),
    (
        "key in a loop",
        lambda: key_reuse.check_key_reuse(sample_in_a_loop, KEY),
        curta.errors.KeyReuseError,
        "scan body function leads to key reuse when repeatedly executed",
        "carry the key along and split it in each step",
    ),
    (
        "index out of range",
        lambda: with_setting(curta.debug_index, True, lambda: X[jnp.array([0, 5])]),
        IndexError,
        "index 5 is out of bounds for axis 0 with size 3",
        f"indexed at {__file__}",
    ),
    (
        "index out of range in jit",
        lambda: with_setting(
            curta.debug_index, True, lambda: curta.jit(lambda x, i: x[i])(X, -4)
        ),
        IndexError,
        "index -4 is out of bounds for axis 0 with size 3",
        f"indexed at {__file__}",
    ),
    (
        "nan in jit",
        lambda: with_setting(curta.debug_nans, True, lambda: curta.jit(jnp.log)(-1.0)),
        FloatingPointError,
        "invalid value (nan) encountered in log",
        f"at {__file__}",
    ),
    (
        "nan given",
        lambda: with_setting(
            curta.debug_nans, True, lambda: curta.jit(lambda x: (x, jnp.nan))(1.0)
        ),
        FloatingPointError,
        "invalid value (nan) encountered in jit(<lambda>)",
        "it is an input or a literal",
    ),
    (
        "grad of a callback",
        lambda: curta.grad(lambda x: curta.pure_callback(np.sin, SCALAR, x))(1.0),
        ValueError,
        "Pure callbacks do not support JVP. Please use `jax.custom_jvp`",
        "to use callbacks while taking gradients",
    ),
    (
        "vmap of an ordered callback",
        lambda: curta.vmap(lambda x: io_callback(print, None, x, ordered=True))(X),
        ValueError,
        "Cannot `vmap` ordered IO callback.",
        "",
    ),
    (
        "f-string",
        lambda: curta.jit(lambda x: curta.debug.print("x", x=x))(1.0),
        ValueError,
        "Unused keyword arguments to `jax.debug.print`",
        "pass a plain string",
    ),
    (
        "breakpoint with token and order",
        lambda: curta.debug.breakpoint(token=X, ordered=True),
        ValueError,
        "`ordered` and `token` are mutually exclusive arguments.",
        "",
    ),
    (
        "unknown setting",
        lambda: config.update("jax_enable_x65", True),
        AttributeError,
        "Unrecognized config option: jax_enable_x65",
        "",
    ),
    (
        "setting without a value",
        lambda: curta.numpy_rank_promotion(),
        TypeError,
        "Context manager for jax_numpy_rank_promotion config option requires an",
        "argument representing the new value",
    ),
    (
        "setting of no such value",
        lambda: curta.numpy_rank_promotion("perhaps"),
        ValueError,
        "new enum value must be in ['allow', 'warn', 'raise']",
        "got 'perhaps'",
    ),
    (
        "execution refused",
        lambda: with_setting(curta.no_execution, True, lambda: jnp.sin(X)),
        RuntimeError,
        "Tried to execute function",
        "eval_shape and make_jaxpr run nothing",
    ),
    (
        "no trace to stop",
        curta.profiler.stop_trace,
        RuntimeError,
        "No profile started",
        "Call start_trace first",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [case[1:] for case in MISTAKES],
    ids=[case[0] for case in MISTAKES],
)
def test_what_the_error_says(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)
