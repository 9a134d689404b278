"""Primitives that programs define, through every transformation."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.extend.core import ClosedJaxpr, Primitive
from curta.extend.core.primitives import call_p, jit_p
from curta.interpreters import ad, batching


@pytest.fixture
def multiply_add():
    """x * y + z, by the tutorial of JAX's documentation."""
    primitive = Primitive("multiply_add")
    primitive.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    primitive.def_abstract_eval(lambda x, y, z: x)

    def apply(x, y, z):
        return primitive.bind(x, y, z)

    def jvp(primals, tangents):
        x, y, z = primals
        tx, ty, tz = map(ad.instantiate_zeros, tangents)
        zero = jnp.zeros_like(x)
        return apply(x, y, z), apply(tx, y, apply(x, ty, apply(zero, zero, tz)))

    def transpose(ct, x, y, z):
        if ad.is_undefined_primal(x):
            found = lax.mul(ct, y), None
        else:
            found = None, lax.mul(x, ct) if ad.is_undefined_primal(y) else None
        return *found, ct if ad.is_undefined_primal(z) else None

    def batch(args, dims):
        assert type(args) is type(dims) is tuple  # may be parameters of other ops
        assert dims[0] == dims[1] == dims[2]
        return apply(*args), dims[0]

    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    return apply


def test_transformations(multiply_add):
    def square_add(x, y):
        return multiply_add(x, x, y)

    assert square_add(2.0, 10.0) == 14
    assert curta.jit(square_add)(2.0, 10.0) == 14
    assert curta.jvp(square_add, (2.0, 10.0), (1.0, 1.0)) == (14, 5)
    assert curta.grad(square_add)(2.0, 10.0) == 4
    assert curta.jit(curta.grad(square_add))(2.0, 10.0) == 4
    x, y = jnp.array([2.0, 3.0]), jnp.array([10.0, 20.0])
    assert curta.vmap(square_add)(x, y).tolist() == [14, 29]
    text = str(curta.make_jaxpr(square_add)(2.0, 10.0))
    assert "multiply_add a a b" in text


def test_parameters_and_several_results():
    split = Primitive("split_at")
    split.multiple_results = True
    split.def_impl(lambda x, *, at: [x[:at], x[at:]])

    @split.def_abstract_eval
    def avals(x, *, at):
        return [x.update(shape=(at,)), x.update(shape=(x.shape[0] - at,))]

    def fun(x):
        first, rest = split.bind(x, at=1)
        return rest * first

    x = jnp.array([2.0, 3.0, 4.0])
    assert fun(x).tolist() == curta.jit(fun)(x).tolist() == [6, 8]
    (eqn, _) = curta.make_jaxpr(fun)(x).eqns
    assert eqn.primitive is split
    assert eqn.params == {"at": 1}


def test_missing_rules_are_named():
    bare = Primitive("bare")
    with pytest.raises(NotImplementedError, match="'bare'"):
        bare.bind(1.0)
    bare.def_abstract_eval(lambda x: x)
    bare.def_impl(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare'"):
        curta.grad(bare.bind)(1.0)
    with pytest.raises(TypeError, match="def_impl is for primitives made from a name"):
        curta.make_jaxpr(lax.sin)(1.0).eqns[0].primitive.def_impl(abs)


def _product():
    prim = Primitive("product")
    prim.def_impl(lambda x, y: x * y)
    prim.def_abstract_eval(lambda x, y: x)
    ad.defbilinear(
        prim, lambda ct, x, y: prim.bind(ct, y), lambda ct, x, y: prim.bind(x, ct)
    )
    batching.defbroadcasting(prim)
    return prim


def test_bilinear_and_broadcasting():
    prim = _product()
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 5.0])
    grads = curta.grad(lambda x, y: prim.bind(x, y).sum(), (0, 1))(x, y)
    np.testing.assert_array_equal(grads[0], y)
    np.testing.assert_array_equal(grads[1], x)
    rows = curta.vmap(prim.bind, (0, None))(jnp.stack([x, y]), y)
    np.testing.assert_array_equal(rows, jnp.stack([x, y]) * y)


def test_defjvp2_and_deflinear():
    exp = Primitive("own_exp")
    exp.def_impl(jnp.exp)
    exp.def_abstract_eval(lambda x: x)
    ad.defjvp2(exp, lambda t, out, x: t * out)
    assert curta.grad(exp.bind)(1.0) == np.exp(np.float32(1.0))
    twice = Primitive("twice")
    twice.def_impl(lambda x: 2 * x)
    twice.def_abstract_eval(lambda x: x)
    ad.deflinear(twice, lambda ct: [twice.bind(ct)])
    assert curta.grad(twice.bind)(1.0) == 2
    assert ad.get_primitive_transpose(twice) is ad.primitive_transposes[twice]
    with pytest.raises(NotImplementedError, match="Transpose rule .* for 'own_exp'"):
        ad.get_primitive_transpose(exp)


def test_reducers():
    total = Primitive("total")
    total.def_impl(lambda x, axes: jnp.sum(x, axes))
    total.def_abstract_eval(
        lambda x, axes: x.update(
            shape=tuple(s for i, s in enumerate(x.shape) if i not in axes)
        )
    )
    batching.defreducer(total)
    x = jnp.arange(24.0).reshape(2, 3, 4)
    for axis in 0, 1, 2:
        got = curta.vmap(lambda x: total.bind(x, axes=(1,)), axis)(x)
        want = curta.vmap(lambda x: jnp.sum(x, 1), axis)(x)
        np.testing.assert_array_equal(got, want)
    assert batching.broadcast(x, 5, 1).shape == (2, 5, 3, 4)
    assert batching.bdim_at_front(x, 2, 4).shape == (4, 2, 3)


def batch_sum():
    """A primitive that sums over the examples of the axis it names."""
    primitive = Primitive("batch_sum")
    primitive.def_impl(lambda x, *, axis_name: x)
    primitive.def_abstract_eval(lambda x, *, axis_name: x)
    return primitive


def test_rules_that_know_the_axis():
    primitive = batch_sum()

    def rule(axis, args, dims, *, axis_name):
        assert axis.spmd_name is axis.explicit_mesh_axis is None
        (x,), (dim,) = args, dims
        if axis.name != axis_name:
            return primitive.bind(x, axis_name=axis_name), dim
        return (axis.size * x if dim is None else x.sum(dim)), None

    batching.fancy_primitive_batchers[primitive] = rule
    x = jnp.arange(6.0).reshape(2, 3)
    total = lambda x: primitive.bind(x, axis_name="i")  # noqa: E731
    found = curta.vmap(total, axis_name="i", out_axes=None)(x)
    np.testing.assert_array_equal(found, x.sum(0))
    found = curta.vmap(lambda x: x + total(2.0), axis_name="i")(x)
    np.testing.assert_array_equal(found, x + 4)
    inner = curta.vmap(curta.vmap(total), axis_name="i", out_axes=None)(x)
    np.testing.assert_array_equal(inner, x.sum(0))


def test_rules_by_size_and_name():
    primitive = batch_sum()

    def rule(size, name, main_type, args, dims, *, axis_name):
        assert (size, name, main_type) == (2, "i", None)
        return args[0].sum(dims[0]), None

    batching.axis_primitive_batchers[primitive] = rule
    total = lambda x: primitive.bind(x, axis_name="i")  # noqa: E731
    found = curta.jit(curta.vmap(total, axis_name="i", out_axes=None))(jnp.ones((2, 3)))
    np.testing.assert_array_equal(found, [2, 2, 2])


def test_values_without_a_type():
    half = Primitive("half")
    half.def_impl(lambda x: x // 2)
    assert half.bind(7) == 3 and half.bind(np.arange(3)).tolist() == [0, 0, 1]
    assert curta.vmap(lambda x: x + half.bind(7))(jnp.arange(2)).tolist() == [3, 4]
    for wrap in curta.jit, curta.make_jaxpr:
        with pytest.raises(NotImplementedError, match="Abstract evaluation for 'half'"):
            wrap(half.bind)(7)
        with pytest.raises(NotImplementedError, match="def_abstract_eval"):
            wrap(lambda: half.bind(7))()


def test_missing_rules_say_how_to_give_them():
    double = Primitive("double")
    double.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="def_impl") as error:
        double.bind(1.0)
    assert error.type is NotImplementedError
    with pytest.raises(NotImplementedError, match=r"primitive_jvps\[primitive\] ="):
        curta.grad(double.bind)(1.0)
    with pytest.raises(NotImplementedError, match="primitive_batchers"):
        curta.vmap(double.bind)(jnp.ones(2))


class Parts(Primitive):
    """A primitive whose rules are methods."""

    multiple_results = True

    def __init__(self):
        super().__init__(name="parts")

    def impl(self, x, *, at):
        return [x[:at], x[at:]]

    def abstract_eval(self, x, *, at):
        sizes = at, x.shape[0] - at
        return [x.update(shape=(size,)) for size in sizes], set()


def test_rules_that_are_methods():
    parts = Parts()
    x = jnp.arange(3.0)
    for run in parts.bind, curta.jit(parts.bind, static_argnames="at"):
        assert [p.tolist() for p in run(x, at=1)] == [[0], [1, 2]]
    assert "parts[at=2]" in str(curta.make_jaxpr(lambda x: parts.bind(x, at=2))(x))


def test_equal_parameters_that_rules_can_tell_apart():
    primitive = Primitive("kind_of")
    primitive.def_impl(lambda x, of: np.float32(f"{of!r}" in ("-0.0", "1", "(-0.0,)")))
    primitive.def_abstract_eval(lambda x, of: x)
    values = [0.0, -0.0, 1, 1.0, True, (0.0,), (-0.0,)]

    def f(x):
        return [primitive.bind(x, of=v) for v in values]

    expected = [0, 1, 1, 0, 0, 0, 1]
    assert [int(y) for y in f(jnp.float32(2))] == expected
    assert [int(y) for y in curta.jit(f)(jnp.float32(2))] == expected


def test_rules_can_be_asked_for():
    double = Primitive("double")
    assert not (double.call_primitive or double.map_primitive or double.is_effectful)
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'double'"):
        double.impl(2.0)
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'double'"):
        double.abstract_eval(curta.typeof(2.0))
    rule = double.def_impl(lambda x: 2 * x)
    double.def_abstract_eval(lambda aval: aval)
    assert double.impl is rule and double.impl(3) == 6
    aval = curta.typeof(jnp.ones(3))
    assert double.abstract_eval(aval) == (aval, set())
    double.impl = lambda x: x + x
    assert double.bind(jnp.ones(2)).tolist() == [2, 2]


def test_effects_that_a_rule_gives():
    noisy, effect = Primitive("noisy"), object()
    noisy.def_effectful_abstract_eval(lambda aval: (aval, {effect}))
    aval = curta.typeof(1.0)
    assert noisy.abstract_eval(aval) == (aval, {effect})
    assert curta.make_jaxpr(noisy.bind)(1.0).effects


def test_rules_of_the_package():
    aval = curta.typeof(jnp.ones(3))
    assert lax.add_p.impl(1, 2) == 3
    assert lax.mul_p.abstract_eval(aval, aval) == (aval, set())

    def inner(x):
        y = lax.sin_p.impl(2.0)  # at once, whatever is traced
        assert not isinstance(y, curta.core.Tracer)
        return x + y

    assert curta.jit(inner)(1.0) == 1 + jnp.sin(2.0)
    assert call_p.call_primitive and not jit_p.call_primitive
    assert lax.add_p.is_effectful is None
    plain, printing = (
        curta.make_jaxpr(curta.jit(f))(1.0).eqns[0]
        for f in (lambda x: x + 1, lambda x: curta.debug.print("{}", x))
    )
    assert not jit_p.is_effectful(plain.params)
    assert jit_p.is_effectful(printing.params)


def test_closed_jaxprs_show_their_jaxpr():
    table = jnp.arange(3.0)
    closed = curta.make_jaxpr(lambda x: x + table)(table)
    jaxpr = closed.jaxpr
    for name in ("invars", "outvars", "constvars", "eqns", "effects", "debug_info"):
        assert getattr(closed, name) is getattr(jaxpr, name)
    other = closed.replace(consts=[2 * table])
    assert isinstance(other, ClosedJaxpr) and other.jaxpr is jaxpr
    assert other.consts[0].tolist() == [0, 2, 4] and closed.consts[0] is table
    fewer = closed.map_jaxpr(lambda j: j.replace(outvars=j.invars))
    assert fewer.outvars == jaxpr.invars and fewer.consts == closed.consts


def test_rules_of_evaluation_get_arrays():
    seen = []
    primitive = Primitive("first")
    primitive.def_abstract_eval(lambda aval: aval.update(shape=()))

    @primitive.def_impl
    def impl(x):
        seen.append(x)
        return x.at[0].add(1)[0]  # what NumPy arrays do not have

    def loop(x):
        body = lambda i, c: (c[0] + i, primitive.bind(c[0]))  # noqa: E731
        return lax.fori_loop(0, 3, body, (x, 0.0))[1]

    x = jnp.array([2.0, 5.0])
    assert primitive.bind(x) == 3
    assert curta.jit(primitive.bind)(x) == 3
    assert curta.jit(loop)(x) == 4
    assert all(isinstance(each, curta.Array) for each in seen)
    # Each has its own memory, which the loop does not write to.
    assert [each[0] for each in seen[-3:]] == [2, 2, 3]


def test_parameters_without_a_hash():
    scale = Primitive("scale")
    scale.def_impl(lambda x, *, by: x * by[0])
    scale.def_abstract_eval(lambda aval, *, by: aval)
    batching.primitive_batchers[scale] = lambda xs, dims, *, by: (
        scale.bind(*xs, by=by),
        dims[0],
    )
    ad.defjvp(scale, lambda t, x, *, by: scale.bind(t, by=by))
    by, x = [2], jnp.ones(2)

    def apply(x):
        return scale.bind(x, by=by)

    assert apply(x).tolist() == curta.vmap(apply)(x).tolist() == [2, 2]
    assert curta.jit(apply)(x).tolist() == [2, 2]
    assert curta.jvp(apply, (x,), (x,))[1].tolist() == [2, 2]
    by[0] = 3
    assert apply(x).tolist() == [3, 3]


@pytest.mark.parametrize("kind", [ad.Zero, ad.UndefinedPrimal])
def test_what_stands_for_values_is_a_tree_without_leaves(kind):
    """Rules that are batched may get and give one among their values."""
    given = kind(curta.typeof(jnp.ones(3)))
    assert curta.tree.leaves((given, 1)) == [1]
    for transform in curta.vmap, curta.jit:
        x, out = transform(lambda x, given: (x, given))(jnp.arange(3.0), given)
        assert x.tolist() == [0, 1, 2]
        assert type(out) is kind
        assert out.aval == given.aval
