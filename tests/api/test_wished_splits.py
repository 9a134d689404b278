"""Values that the compiler splits because their readers are split."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, jit, lax, random
from curta.runtime.host_runs import spans_hosts
from curta.sharding import AxisType


def put(shape, *spec):
    mesh = curta.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    return curta.device_put(np.ones(shape, np.float32), NamedSharding(mesh, P(*spec)))


def drawn(*shape):
    return random.normal(random.key(0), shape)


def with_itself(make, *then):
    """Add the result of `make` to the argument, apply `then`, and return both."""

    def fun(x):
        y = make()
        return [x + y.reshape(x.shape), y, *(f(y) for f in then)]

    return fun


def plus_transposed(x):
    y = drawn(8, 8)
    return x + y.T, y


def plus_column(x):
    y = drawn(8)
    return x + y[:, None], y


def plus_constant(x):
    y = lax.iota(np.float32, 8) * 3
    return x + y, y


def in_a_call(x):
    y = drawn(8, 8)
    return jit(lambda a, b: jnp.where(a > 0, a, b))(x, y), y


def multiplied(x):
    y = drawn(8, 8)
    return x @ y, y


CASES = {
    "drawn": (
        with_itself(lambda: drawn(8), lambda y: y * 2, jnp.sum),
        [(8,), "x"],
        [P("x"), P("x"), P("x"), P()],
    ),
    "two dims": (
        with_itself(lambda: drawn(8, 8), jnp.transpose),
        [(8, 8), "x", "y"],
        [P("x", "y"), P("x", "y"), P("y", "x")],
    ),
    "reshaped": (with_itself(lambda: drawn(4, 2, 8)), [(8, 8), "x"], [P("x")] * 2),
    "transposed": (plus_transposed, [(8, 8), "x"], [P("x"), P(None, "x")]),
    "broadcast": (plus_column, [(8, 8), "x", "y"], [P("x", "y"), P("x")]),
    "in a call": (in_a_call, [(8, 8), "x"], [P("x"), P("x")]),
    "factor": (multiplied, [(8, 8), "x", "y"], [P("x"), P("y")]),
    "constant": (plus_constant, [(8,), "x"], [P("x"), P()]),
    "unrelated": (lambda x: (x, drawn(8)), [(8,), "x"], [P("x"), P()]),
    "indivisible": (lambda x: (x[:6] + drawn(6), x), [(8,), "x"], [P(), P("x")]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results(case):
    fun, (shape, *spec), expected = case
    outs = jit(fun)(put(shape, *spec))
    assert [out.sharding.spec for out in curta.tree.leaves(outs)] == expected
    for one, other in zip(curta.tree.leaves(fun(jnp.ones(shape))), outs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_constraints_and_free_arguments():
    x = put((8, 8), "x")
    mesh = x.sharding.mesh

    def fun(a):
        b = drawn(8, 8) * a
        return lax.with_sharding_constraint(b, NamedSharding(mesh, P("y"))), b, a

    for free in (np.ones((8, 8)), jnp.ones((8, 8))):
        assert [out.sharding.spec for out in jit(fun)(free)] == [P("y")] * 3
    # A placed argument stays where it is, and nothing is wanted of explicit axes.
    whole = put((8, 8))
    assert [out.sharding.spec for out in jit(fun)(whole)] == [P("y"), P("y"), P()]
    typed = curta.make_mesh((4, 2), ("x", "y"))
    y = curta.device_put(np.ones((8, 8), np.float32), NamedSharding(typed, P()))
    assert all(out.is_fully_replicated for out in jit(plus_transposed)(y))


def test_no_axis_is_wished_for_twice():
    x = put((8, 8), "x", "y")
    place = NamedSharding(x.sharding.mesh, P("x", "y"))

    def fun(x):
        y = drawn(8, 8)
        return lax.with_sharding_constraint(x @ y, place), y

    product, factor = jit(fun)(x)
    assert (product.sharding.spec, factor.sharding.spec) == (P("x", "y"), P("y"))


def test_inspected_once():
    seen = []

    def fun(x):
        y = drawn(8)
        curta.debug.inspect_array_sharding(y, callback=seen.append)
        return x + y

    compiled = jit(fun).lower(put((8,), "x")).compile()
    assert [s.spec for s in seen] == [P("x")]
    assert "f32[8@x]" in compiled.as_text()
    compiled(put((8,), "x"))
    assert len(seen) == 1


def test_text():
    lowered = jit(lambda x: (x + drawn(8, 8)) @ x).lower(put((8, 8), "x", "y"))
    assert "@" not in lowered.as_text("jaxpr")
    text = lowered.compile().as_text()
    assert "u32[8@x,8@y] = random_bits" in text and "u32[8,8]" not in text
    assert "f32[8,8]" not in text and "f32[8@x,8@y] = add" in text
    plain = jit(jnp.sin).lower(jnp.ones(3))
    assert plain.as_text("jaxpr") == plain.compile().as_text()


def test_collectives_in_the_text():
    """By their names in XLA's programs; nothing is said where nothing is sent."""
    x, batch = put((8, 8), "x", None), put((8, 4, 4), "x")
    for fun, args, sent in (
        (jnp.linalg.cholesky, (x,), {"all-gather", "all-to-all"}),
        (jnp.linalg.cholesky, (batch,), set()),
        (curta.lax.linalg.lu, (batch,), set()),
        (lambda x: jnp.sin(x) + 1, (x,), set()),
        (lambda x: x.sum(), (x,), {"all-reduce"}),
        (lambda x: jnp.roll(x, 1, 0), (x,), {"collective-permute"}),
    ):
        text = jit(fun).lower(*args).compile().as_text()
        assert {
            line.split()[1] for line in text.splitlines() if "bytes" in line
        } == sent
        within = bool(sent) and not spans_hosts(curta.devices())
        assert ("# nothing is sent in the memory of one host" in text) == within


def test_functions_of_references():
    x = put((8, 2), "x")
    ref = curta.new_ref(x)

    @jit
    def fun(ref, x):
        ref[...] = 2 * ref[...]
        return ref[...] + x

    compiled = fun.lower(ref, x).compile()
    assert compiled.output_shardings == compiled.out_info.sharding == x.sharding
    assert "f32[8@x,2] = add" in compiled.as_text()
    out = compiled(ref, x)
    assert out.sharding == x.sharding
    np.testing.assert_array_equal(out, np.full((8, 2), 3))
    alone = jit(lambda ref: ref[...]).lower(curta.new_ref(jnp.ones(3))).compile()
    assert alone.output_shardings == jnp.ones(3).sharding
