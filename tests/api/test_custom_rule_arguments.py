"""The arguments of custom derivative rules, and the function that remat recomputes."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import custom_vjp3
from curta.custom_derivatives import SymbolicZero
from curta.errors import CustomVJPException, UnexpectedTracerError

ARRAY = jnp.ones(2)


def recorded(seen, symbolic_zeros=False):
    """A function of two arguments whose rules note what they get."""

    @curta.custom_jvp
    def f(x, y):
        return x * 1, y * 1

    def rule(primals, tangents):
        seen.append((primals, tangents))
        return f(*primals), tangents

    f.defjvp(rule, symbolic_zeros=symbolic_zeros)
    return f


CONTEXTS = {
    "grad": lambda f, x, y: curta.grad(lambda x: f(x, y)[0].sum())(x),
    "vjp": lambda f, x, y: curta.vjp(lambda x: f(x, y)[0], x),
    "jit": lambda f, x, y: curta.jit(curta.grad(lambda x: f(x, y)[0].sum()))(x),
    "remat": lambda f, x, y: curta.grad(curta.checkpoint(lambda x: f(x, y)[0].sum()))(
        x
    ),
    "vmap": lambda f, x, y: curta.vmap(curta.grad(lambda x: f(x, y)[0].sum()))(
        jnp.stack([x, x])
    ),
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("other", [2.0, jnp.float32(2.0), ARRAY, np.ones(2, "float32")])
def test_zero_tangents_are_arrays_or_symbolic(context, other):
    for symbolic_zeros in False, True:
        seen = []
        CONTEXTS[context](recorded(seen, symbolic_zeros), ARRAY, other)
        for _, (_, zero) in seen:
            if symbolic_zeros:
                assert type(zero) is SymbolicZero
            else:
                assert isinstance(zero, curta.Array)
            assert zero.shape == np.shape(other) and zero.dtype == jnp.float32


@pytest.mark.parametrize("symbolic_zeros", [False, True])
def test_numbers_stay_python_numbers(symbolic_zeros):
    seen = []
    f = recorded(seen, symbolic_zeros)
    curta.grad(lambda x: sum(f(x, 3)))(2.0)
    curta.vjp(f, 2.0, 3)
    curta.linearize(f, 2.0, 3)
    for (x, y), _ in seen:
        assert isinstance(x, float) and isinstance(y, int)
        assert x.dtype == jnp.float32 and y.shape == ()
    seen.clear()
    curta.jvp(f, (2.0, 3.0), (1.0, 0.0))
    ((primals, tangents),) = seen
    assert all(isinstance(x, float) for x in (*primals, *tangents))
    assert [*primals] == [2.0, 3.0]


def test_wide_numpy_arguments_are_narrowed():
    seen = []
    curta.grad(lambda x: recorded(seen)(x, 1.0)[0].sum())(np.ones(2))
    (((x, _), _),) = seen
    assert x.dtype == jnp.float32


def test_forward_derivative_of_numbers_in_python():
    primal, tangent = curta.jvp(lambda x: x, (2.0,), (1.0,))
    assert type(primal) is type(tangent) is float

    @curta.custom_jvp
    def f(x, y):
        return x + y

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), tangents[0] + 90

    assert curta.jvp(f, (1.0, 4.0), (1.0, 1.0)) == (5.0, 91.0)
    assert type(curta.jvp(f, (1.0, 4.0), (1.0, 1.0))[0]) is float
    # What was computed has an array for its tangent, though that was passed on.
    (_, total), (kept, tangent) = curta.jvp(lambda x: (x, x + 1), (2.0,), (1.0,))
    assert type(kept) is float
    assert isinstance(total, curta.Array) and isinstance(tangent, curta.Array)
    assert tangent == 1 and tangent.weak_type
    zero = curta.jvp(lambda x: 3.0, (2.0,), (1.0,))[1]
    assert isinstance(zero, curta.Array) and zero == 0


def test_residuals_have_shapes():
    @curta.custom_vjp
    def f(x, n):
        return x * n

    def backward(residuals, ct):
        assert [r.shape for r in residuals] == [(), ()]
        return ct * residuals[1], None

    f.defvjp(lambda x, n: (f(x, n), (x, n)), backward)
    assert curta.grad(f)(2.0, 3) == 3
    assert curta.jit(curta.grad(f))(2.0, 3) == 3
    assert curta.grad(lambda x: lax.scan(lambda c, _: (f(c, 3), None), x, None, 2)[0])(
        2.0
    ) == 9  # fmt: skip


def test_zero_tangents_pass_rules_under_vmap_as_symbols():
    @curta.custom_jvp
    def f(x, y):
        return y

    def rule(primals, tangents):
        assert type(tangents[1]) is SymbolicZero
        return primals[1], tangents[1]

    f.defjvp(rule, symbolic_zeros=True)
    x = jnp.ones(3)
    for transform in (lambda f: f), curta.jit:
        twice = transform(curta.vmap(lambda x: f(x, f(x, 1.0))))
        out, tangent = curta.jvp(twice, (x,), (x,))
        assert out.tolist() == [1, 1, 1] and tangent.tolist() == [0, 0, 0]


def told_apart(optimize_remat):
    """A function that is tan, and by its forward rule sin."""

    @curta.custom_vjp
    def f(x, y):
        return jnp.tan(x) * y

    f.defvjp(
        lambda x, y: (jnp.sin(x) * y, (x, y)),
        lambda saved, ct: (jnp.cos(saved[0]) * ct * saved[1], ct),
        optimize_remat=optimize_remat,
    )
    return f


PROGRAMS = {  # whether optimize_remat has the function itself computed
    "eager": (lambda f: lambda x: f(x, 2.0), False),
    "jitted": (lambda f: curta.jit(lambda x: f(x, 2.0)), True),
    "remat": (lambda f: curta.remat(lambda x: f(x, 2.0)), True),
    "cond": (
        lambda f: lambda x: lax.cond(x > 0, lambda x: f(x, 2.0), lambda x: x, x),
        True,
    ),
    "vmap of remat": (
        lambda f: lambda x: curta.vmap(curta.remat(f), (0, None))(x[None], 2.0).sum(),
        True,
    ),
    "scan": (
        lambda f: lambda x: lax.scan(lambda c, _: (c, f(c, 2.0)), x, None, 1)[1].sum(),
        True,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("optimize_remat", [False, True])
def test_optimize_remat(name, optimize_remat):
    program, replaced = PROGRAMS[name]
    x = jnp.float32(0.5)
    out, slope = curta.value_and_grad(program(told_apart(optimize_remat)))(x)
    itself = np.tan(0.5) if optimize_remat and replaced else np.sin(0.5)
    np.testing.assert_allclose(out, 2 * itself, rtol=1e-6)
    np.testing.assert_allclose(slope, 2 * np.cos(0.5), rtol=1e-6)


def test_optimize_remat_where_residuals_are_computed():
    @curta.custom_vjp
    def f(x):
        return jnp.tan(x)

    def forward(x):
        return jnp.sin(x), jnp.cos(x)

    f.defvjp(forward, lambda cos, ct: (cos * ct,), optimize_remat=True)
    out = curta.jit(lambda x: curta.vjp(f, x)[0])(0.5)
    np.testing.assert_allclose(out, np.tan(0.5), rtol=1e-6)
    out, slope = curta.jit(curta.value_and_grad(f))(0.5)
    np.testing.assert_allclose([out, slope], [np.sin(0.5), np.cos(0.5)], rtol=1e-6)
    batch = jnp.array([0.5, 0.25])
    slopes = curta.jit(curta.vmap(curta.grad(f)))(batch)
    np.testing.assert_allclose(slopes, np.cos(batch), rtol=1e-6)


def test_traced_values_closed_over():
    def outer(x):
        @curta.custom_vjp
        def f(y):
            return x * y

        f.defvjp(lambda y: (f(y), x), lambda x, ct: (ct * x,))
        return f

    xs = jnp.arange(3.0)
    assert curta.vmap(lambda x: outer(x)(3.0))(xs).tolist() == [0, 3, 6]
    with custom_vjp3(True):
        assert outer(2.0)(3.0) == 6
        for fun in (lambda x: outer(x)(3.0), lambda x: curta.grad(outer(x))(3.0)):
            for transform in curta.vmap, curta.jit, curta.grad:
                with pytest.raises(UnexpectedTracerError, match="can't close over"):
                    transform(fun)(xs if transform is curta.vmap else 2.0)


def test_the_older_name_of_tangent_avals():
    for x in 1.0, 1, jnp.ones((2, 3)), jnp.arange(3), True:
        aval = curta.typeof(x)
        assert aval.at_least_vspace() is aval.to_tangent_aval()


def constant_rule(y):
    @curta.custom_vjp
    def f(x):
        return x * y

    f.defvjp(lambda x: (x * y, None), lambda _, ct: (ct,))
    return f


def constant_tangent(y):
    @curta.custom_jvp
    def f(x):
        return x * y

    f.defjvp(lambda p, t: (p[0] * y, t[0]))
    return f


@pytest.mark.parametrize("made", [constant_rule, constant_tangent])
@pytest.mark.parametrize("within", [lambda f: f, curta.jit])
def test_differentiated_values_closed_over(made, within):
    """The rules say nothing of them: their derivative would be lost."""
    uses = [
        lambda y: made(y)(2.0),
        lambda y: made(y)(y),
        lambda y: curta.vmap(made(y))(jnp.ones(3) * y).sum(),
        lambda y: made(y)(2.0) + y,
    ]
    for use in uses:
        for derivative in curta.grad, curta.jacfwd:
            if derivative is curta.jacfwd and made is constant_rule:
                continue
            with pytest.raises(UnexpectedTracerError, match="pass it as an argument"):
                within(derivative(use))(3.0)


def test_differentiated_values_closed_over_by_jitted_functions():
    for use in (
        lambda y: curta.jit(constant_rule(y))(2.0),
        lambda y: curta.jit(constant_rule(y))(y),
        lambda y: curta.checkpoint(constant_rule(y))(y),
    ):
        with pytest.raises(CustomVJPException, match="closed-over value"):
            curta.jit(curta.grad(use))(3.0)


def test_backward_rules_may_close_over_differentiated_values():
    def outer(y):
        @curta.custom_vjp
        def f(x):
            return 2 * x

        f.defvjp(lambda x: (2 * x, None), lambda _, ct: (ct * y,))
        return curta.grad(f)(2.0)

    for run in curta.grad(outer), curta.jit(curta.grad(outer)):
        assert float(run(3.0)) == 1.0
