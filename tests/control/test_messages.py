"""`psend` and `precv`: what one device sends is what another receives."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import P, grad, jit, lax, shard_map, vmap
from curta.errors import JaxRuntimeError
from curta.sharding import AxisType

X = np.arange(1.0, 5.0, dtype=np.float32)
DOWN = [(0, 1), (1, 2), (2, 3)]


def mapped(body, **options):
    mesh = curta.make_mesh((4,), ("x",), (AxisType.Auto,))
    return shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), **options)


def handed_down(x):
    return lax.precv(lax.psend(x, "x", DOWN), x, "x", DOWN)


def circle(x):
    """All devices hand on what they have, the last one to the first."""
    down = handed_down(x)
    back = lax.psend(x, "x", [(3, 0)])
    return down + lax.precv(back, x, "x", [(3, 0)])


@pytest.mark.parametrize("check_vma", [True, False])
def test_values(check_vma):
    f = mapped(circle, check_vma=check_vma)
    for call in (f, jit(f)):
        np.testing.assert_array_equal(call(X), np.roll(X, 1))
    many = np.stack([X, 2 * X])
    np.testing.assert_array_equal(vmap(f)(many), np.roll(many, 1, axis=1))
    np.testing.assert_array_equal(curta.pmap(circle, axis_name="x")(X), np.roll(X, 1))


def test_the_first_that_is_sent_is_received_first():
    def body(x):
        first = lax.psend(x, "x", [(0, 1), (2, 3)])
        again = lax.psend(10 * x, "x", [(0, 1)])
        other = lax.psend(-x, "x", [(3, 0)])
        found = lax.precv(other, x, "x", [(0, 1), (3, 0)])
        return found + 100 * lax.precv((first, again)[1], x, "x", [(0, 1), (2, 3)])

    np.testing.assert_array_equal(mapped(body)(X), [-4, 1 + 1000, 0, 300])


def test_calls_loops_and_what_is_received_before_it_is_sent():
    def early(x):
        found = lax.precv(lax.create_token(), x, "x", DOWN)
        lax.psend(x, "x", DOWN)
        return found

    np.testing.assert_array_equal(mapped(early)(X), [0, 1, 2, 3])

    def split(x):
        token = jit(lambda x: lax.psend(x, "x", DOWN))(x)
        return jit(lambda t: lax.precv(t, x, "x", DOWN))(token)

    np.testing.assert_array_equal(mapped(split)(X), [0, 1, 2, 3])

    def loop(x):
        return lax.fori_loop(0, 2, lambda _, v: handed_down(v), x)

    np.testing.assert_array_equal(jit(mapped(loop))(X), [0, 0, 1, 2])


def test_jaxpr_and_types():
    jaxpr = curta.make_jaxpr(mapped(handed_down))(X)
    (body,) = curta.extend.core.jaxprs_in_params(jaxpr.eqns[0].params)
    send, receive = body.eqns
    assert send.params == {"axis_name": ("x",), "perm": tuple(DOWN)}
    assert receive.params["out_shape"].str_short() == "float32[1]"
    assert str(send.outvars[0].aval) == "Tok[]"
    assert receive.outvars[0].aval.vma == {"x"}
    tokens = []
    mapped(lambda x: tokens.append(lax.psend({"a": x}, "x", [])) or x)(X)
    assert list(tokens[0]) == ["a"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: lax.precv(lax.create_token(), x, "x", DOWN), "Expected send to mat"),
        (
            lambda x: lax.precv(lax.psend(x, "x", [(0, 1)]), x, "x", [(1, 0)]),
            "Deadlock detected. Last checked instructions: psend",
        ),
        (lambda x: (lax.psend(x, "x", DOWN), x)[1], "Deadlock detected"),
        (
            lambda x: lax.precv(
                lax.psend(x, "x", [(0, 1), (1, 0)]), x, "x", [(0, 1), (1, 0)]
            ),
            "non-cyclical source-target pairs",
        ),
        (
            lambda x: (
                v := lax.precv(lax.create_token(), x, "x", DOWN),
                lax.psend(v, "x", DOWN),
            )[0],
            "Deadlock detected. A message depends on its own receiver",
        ),
    ],
)
def test_what_would_hang_is_refused(body, message):
    with pytest.raises(JaxRuntimeError, match=message):
        jit(mapped(body))(X)


def test_errors():
    with pytest.raises(ValueError, match="psend sources and destinations must be uniq"):
        mapped(lambda x: lax.psend(x, "x", [(0, 1), (0, 2)]) and x)(X)
    with pytest.raises(ValueError, match=r"precv expects float32\[2\], but what psend"):
        mapped(lambda x: lax.precv(lax.psend(x, "x", DOWN), jnp.ones(2), "x", DOWN))(X)
    with pytest.raises(NameError, match="unbound axis name"):
        lax.psend(X, "x", [])
    with pytest.raises(NotImplementedError, match="only supports manual sharding"):
        vmap(handed_down, axis_name="x")(X)
    with pytest.raises(NotImplementedError, match="'psend' not implemented"):
        grad(lambda x: mapped(handed_down)(x).sum())(X)
    with pytest.raises(TypeError, match="precv comes after a token"):
        mapped(lambda x: lax.precv(x, x, "x", []))(X)
