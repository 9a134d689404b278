"""The text of jaxprs is that of JAX: the golden files are its output.

A file for 0.12 (0.12.0.1) exists if it differs from the file for 0.10 (0.10.2).

One thing differs: where its parameters show `np.int64(0)`, ours are plain integers.
"""

import re

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import grad, jit, lax, make_jaxpr, nn, scipy, vmap
from curta.core.pretty import format_eqn, format_jaxpr

VECTOR = np.ones(5, np.float32)
MATRIX = np.ones((3, 4), np.float32)


def twice(f):
    return lambda x: (f(x), f(x))


def long(x):
    for _ in range(11):
        x = jnp.sin(x)
    return x


def many(x):
    total = x
    for _ in range(30):
        total = total + x
    return total


def wide_row(*xs):
    return lax.concatenate(xs, 0)


def shadowed(a):
    return jit(lambda x: (x, x + 1, x))(a)


def a(x):
    return x + 1


PROGRAMS = {
    "empty": (lambda: (), []),
    "identity": (lambda x: x, [VECTOR]),
    "literal_outputs": (lambda x: (x, 1, 2.5, True, 1j), [1.0]),
    "special_literals": (lambda x: x * np.inf - np.nan, [VECTOR]),
    "one_line": (lambda x: jnp.sin(x), [VECTOR]),
    "one_line_of_two_eqns": (lambda x: -x + 1, [1.0]),
    "no_operands": (lambda: jnp.arange(3), []),
    "unused": (lambda x: (jnp.sin(x), jnp.cos(x))[1], [VECTOR]),
    "scalars_and_weak_types": (lambda x, y: x + 2 * y, [1, 2.0]),
    "dtypes": (
        lambda x: [x.astype(t) for t in (bool, "int8", "uint16", "bfloat16", complex)],
        [VECTOR],
    ),
    "closed_over": (lambda x: x + VECTOR, [VECTOR]),
    "nested": (lambda x: jit(lambda y: jnp.sin(y) * 2)(x) + 1, [MATRIX]),
    "nested_returns_input": (shadowed, [1.0]),
    "nested_twice": (lambda x: jit(lambda y: jit(jnp.sin)(y))(x), [MATRIX]),
    "shared": (twice(jit(a)), [VECTOR]),
    "shared_lambda": (twice(jit(lambda x: x + 1)), [VECTOR]),
    "shared_takes_a_letter": (lambda x: twice(jit(a))(x) + (jnp.sin(x),), [VECTOR]),
    "two_shared": (lambda x: twice(jit(a))(x) + twice(jit(long))(x), [VECTOR]),
    "long_is_printed_first": (jit(long), [1.0]),
    "many_letters": (many, [1.0]),
    "many_operands": (wide_row, [np.ones((2, 3), np.float32)] * 30),
    "dot": (lambda x, y: x @ y, [MATRIX, MATRIX.T.copy()]),
    "slice_and_squeeze": (lambda x: x[1, ::2], [MATRIX]),
    "gather": (lambda x, i: x[i], [VECTOR, np.array([0, 2], np.int32)]),
    "scatter": (lambda x: x.at[1].set(2.0), [VECTOR]),
    "scatter_add_shares": (lambda x: x.at[1].add(1.0).at[2].add(2.0), [VECTOR]),
    "dynamic_slice": (lambda x, i: x[i], [MATRIX, np.int32(1)]),
    "reductions": (lambda x: (x.sum(), x.max(0), x.argmin(1), x.mean()), [MATRIX]),
    "sort": (lambda x: jnp.argsort(x), [VECTOR]),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), [VECTOR]),
    "relu": (nn.relu, [VECTOR]),
    "cond": (lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), [1.0]),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x), [VECTOR]),
    "while_loop": (lambda x: lax.while_loop(lambda y: y < 3, a, x), [1.0]),
    "grad_of_dot": (
        grad(lambda x, y: (x @ y).sum(), (0, 1)),
        [MATRIX, MATRIX.T.copy()],
    ),
    "grad_of_max": (grad(lambda x: x.max(1).sum()), [MATRIX]),
    "grad_of_prod": (grad(jnp.prod), [VECTOR]),
    "grad_of_gather": (
        grad(lambda x, i: x[i].sum()),
        [MATRIX, np.array([0, 2], np.int32)],
    ),
    "grad_of_update": (grad(lambda x: x.at[1].set(2.0).sum()), [VECTOR]),
    "grad_of_concatenate": (
        grad(lambda x: lax.concatenate([x, x * 2], 0).sum()),
        [VECTOR],
    ),
    "grad_of_sort": (grad(lambda x: jnp.sort(x)[1:].sum()), [VECTOR]),
    "grad_of_cumsum": (grad(lambda x: (lax.cumsum(x) ** 2).sum()), [VECTOR]),
    "grad_through_jit": (grad(jit(lambda x: jnp.sin(x).sum())), [VECTOR]),
    "vmap_of_dot": (vmap(lambda x, y: x @ y, (0, None)), [MATRIX, MATRIX.T.copy()]),
    "vmap_of_index": (
        vmap(lambda x, i: x[i]),
        [MATRIX, np.array([0, 1, 2], np.int32)],
    ),
    "vmap_of_update": (
        vmap(lambda x, i: x.at[i].set(0.0)),
        [MATRIX, np.array([0, 1, 2], np.int32)],
    ),
    "cholesky": (lambda x: lax.linalg.cholesky(x), [MATRIX[:, :3]]),
    "least_squares": (lambda a: jnp.linalg.lstsq(a, a), [MATRIX]),
    "log_density": (lambda x: scipy.stats.vonmises.logpdf(x, x), [VECTOR]),
    "convolution": (lambda x: scipy.signal.convolve2d(x, x), [MATRIX]),
    "activations": (lambda x: (nn.tanh(x), nn.logmeanexp(x)), [VECTOR]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name, golden_by_version):
    fun, args = PROGRAMS[name]
    golden_by_version(lambda: str(make_jaxpr(fun)(*args)))


def test_settings():
    jaxpr = make_jaxpr(lambda x: jnp.broadcast_to(jnp.sin(x), (2, 5)))(VECTOR).jaxpr
    assert jaxpr.pretty_print(print_shapes=False) == (
        "{ lambda ; a. let\n"
        "    b = sin a\n"
        "    c = broadcast_in_dim[broadcast_dimensions=(1,)] b\n"
        "  in (c,) }"
    )
    assert "shape=(2, 5)" in jaxpr.pretty_print(custom_pp_eqn_rules=False)
    assert format_jaxpr(jaxpr, print_effects=True).endswith("in (c,) : {  } }")
    coloured = format_jaxpr(jaxpr, use_color=True)
    assert coloured.startswith("{ \x1b[34;1mlambda \x1b[39;22m; a\x1b[35m:f32[5]")
    with pytest.raises(TypeError):
        jaxpr.pretty_print(colour=True)


def test_source_info_ends_the_lines_in_one_column():
    jaxpr = make_jaxpr(lambda x: jnp.exp(jnp.sin(x) * 2.5))(VECTOR)
    lines = jaxpr.pretty_print(source_info=True).splitlines()
    assert {line.index(" # ") for line in lines if " # " in line} == {
        max(len(line.split(" # ")[0].rstrip()) for line in lines)
    }
    assert sum("test_pretty.py:" in line for line in lines) == 3


def test_eqns_have_names_of_their_own():
    jaxpr = make_jaxpr(lambda x: jnp.sin(jnp.cos(x)))(VECTOR)
    assert str(jaxpr.eqns[1]) == "a:f32[5] = sin b"
    assert format_eqn(jaxpr.eqns[0]) == "a:f32[5] = cos b"


def test_places_have_columns():
    jaxpr = make_jaxpr(lambda x: 2.0 + jnp.sin(x))(VECTOR)
    sin, add = (str(eqn.source_info) for eqn in jaxpr.eqns)
    assert re.search(r"test_pretty\.py:\d+:39 \(test_places.*<lambda>\)$", sin)
    assert ":33 (" in add


def test_variables_show_their_types():
    (x,) = make_jaxpr(jnp.sin)(VECTOR).jaxpr.invars
    assert repr(x) == f"Var(id={id(x)}):float32[5]"


def test_addresses_are_hidden():
    def rule(x):
        return x

    text = str(make_jaxpr(curta.checkpoint(rule, policy=lambda *_: True))(1.0))
    assert "0xXX" in text
