"""cond, switch, while_loop, fori_loop, scan, map, under every transformation."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import grad, jit, lax, vmap


def both(fun, *args):
    """The result, which is the same eagerly and compiled."""
    eager, compiled = fun(*args), jit(fun)(*args)
    for a, b in zip(curta.tree.leaves(eager), curta.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
        assert a.dtype == b.dtype
    return eager


def choose(p, x):
    return lax.cond(p, lambda x: x**2, lambda x: jnp.sin(x), x)


@pytest.mark.parametrize("p", [True, False])
def test_cond(p):
    x = 1.3
    value, slope = (x**2, 2 * x) if p else (np.sin(x), np.cos(x))
    np.testing.assert_allclose(both(choose, p, x), value, rtol=1e-6)
    np.testing.assert_allclose(both(grad(choose, 1), p, x), slope, rtol=1e-6)
    second = 2.0 if p else -np.sin(x)
    found = both(grad(grad(choose, 1), 1), p, x)
    np.testing.assert_allclose(found, second, rtol=1e-6)


def test_cond_batched():
    flags, xs = jnp.array([True, False]), jnp.array([2.0, 0.5])
    np.testing.assert_allclose(
        both(vmap(choose), flags, xs), [4, np.sin(0.5)], rtol=1e-6
    )
    np.testing.assert_allclose(
        both(vmap(choose, (None, 0)), True, xs), [4, 0.25], rtol=1e-6
    )
    np.testing.assert_allclose(
        both(vmap(grad(choose, 1)), flags, xs), [4, np.cos(0.5)], rtol=1e-6
    )


def test_switch_and_closures():
    y = jnp.arange(3.0)

    def f(i, x):
        return lax.switch(i, [lambda x: x + y, lambda x: x * y, lambda x: y], x)

    for i, expected in [(-1, y + 2), (0, y + 2), (1, 2 * y), (7, y)]:
        np.testing.assert_allclose(both(f, i, 2.0), expected)
    found = both(vmap(f, (0, None)), jnp.array([0, 1, 2]), 2.0)
    np.testing.assert_allclose(found, np.stack([y + 2, 2 * y, y]))
    np.testing.assert_allclose(grad(lambda x: f(1, x).sum())(2.0), 3.0)


def doubling(limit, x):
    return lax.while_loop(
        lambda s: s[1] < limit, lambda s: (s[0] + 1, 2 * s[1]), (0, x)
    )


def test_while_loop():
    steps, value = both(doubling, 100.0, 3.0)
    assert (int(steps), float(value)) == (6, 192.0)
    steps, values = both(
        vmap(doubling, (None, 0)), 100.0, jnp.array([3.0, 60.0, 200.0])
    )
    assert steps.tolist() == [6, 1, 0]
    np.testing.assert_allclose(values, [192, 120, 200])
    _, dot = curta.jvp(lambda x: doubling(100.0, x)[1], (3.0,), (1.0,))
    assert dot == 64.0
    assert grad(lambda x: doubling(100.0, x)[1])(3.0) == 64.0


def test_fori_loop():
    def power(n, x):
        return lax.fori_loop(0, n, lambda i, v: v * x, 1.0)

    assert both(lambda x: power(5, x), 2.0) == 32.0
    assert both(power, 5, 2.0) == 32.0
    assert both(grad(lambda x: power(5, x)), 2.0) == 80.0
    found = both(vmap(power), jnp.array([0, 1, 3]), jnp.array([2.0, 3.0, 4.0]))
    np.testing.assert_allclose(found, [1, 3, 64])
    assert lax.fori_loop(0, 3, lambda i, x: x + i, 0).dtype == jnp.int32


def recurrence(c0, a, xs):
    def step(c, x):
        c = jnp.tanh(a * c + x)
        return c, {"c": c, "x2": x**2}

    return lax.scan(step, c0, xs)


def unrolled(c, a, xs):
    ys = []
    for i in range(xs.shape[0]):
        c = jnp.tanh(a * c + xs[i])
        ys.append(c)
    return c, {"c": jnp.stack(ys), "x2": xs**2}


XS = jnp.array([0.1, -0.4, 0.7, 0.2])


def test_scan():
    for a, b in zip(
        curta.tree.leaves(both(recurrence, 0.5, 1.5, XS)),
        curta.tree.leaves(unrolled(0.5, 1.5, XS)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("argnum", [0, 1, 2])
def test_scan_derivatives(argnum):
    def loss(fun):
        def total(*args):
            carry, ys = fun(*args)
            return carry + (ys["c"] * ys["x2"]).sum()

        return total

    args = (0.5, 1.5, XS)
    expected = grad(loss(unrolled), argnum)(*args)
    np.testing.assert_allclose(
        both(grad(loss(recurrence), argnum), *args), expected, rtol=1e-5
    )
    forward = curta.jacfwd(loss(recurrence), argnum)(*args)
    np.testing.assert_allclose(forward, expected, rtol=1e-5)
    second = curta.jacfwd(grad(loss(recurrence), argnum), argnum)(*args)
    np.testing.assert_allclose(
        second, curta.jacfwd(grad(loss(unrolled), argnum), argnum)(*args), rtol=1e-4
    )


def test_scan_batched():
    many = jnp.stack([XS, 2 * XS, -XS])
    carry, ys = both(vmap(recurrence, (None, None, 0)), 0.5, 1.5, many)
    for i in range(3):
        one, row = recurrence(0.5, 1.5, many[i])
        np.testing.assert_allclose(carry[i], one, rtol=1e-6)
        np.testing.assert_allclose(ys["c"][i], row["c"], rtol=1e-6)
    _, ys = vmap(recurrence, (0, None, None))(jnp.arange(2.0), 1.5, XS)
    assert ys["c"].shape == (2, 4)
    batched_grad = vmap(grad(lambda a, xs: recurrence(0.5, a, xs)[0]), (None, 0))
    np.testing.assert_allclose(
        batched_grad(1.5, many)[1],
        grad(lambda a: unrolled(0.5, a, many[1])[0])(1.5),
        rtol=1e-5,
    )


def test_scan_reverse_length_and_none():
    carry, ys = both(lambda: lax.scan(lambda c, _: (c + 1, c), 0, None, length=3))
    assert (int(carry), ys.tolist()) == (3, [0, 1, 2])
    carry, ys = lax.scan(lambda c, x: (x, c), 0.0, XS, reverse=True)
    np.testing.assert_allclose(ys, [*XS[1:], 0.0])
    carry, ys = lax.scan(lambda c, x: (c + x, None), 0.0, jnp.zeros((0,)))
    assert carry == 0.0
    assert ys is None


def test_map():
    np.testing.assert_allclose(both(lambda x: lax.map(jnp.sin, x), XS), np.sin(XS))


def test_loops_in_loops():
    def f(x):
        def row(c, i):
            inner = lax.fori_loop(0, 3, lambda j, v: v * jnp.cos(c) + i, x)
            return lax.cond(inner > 1, lambda c: c + inner, lambda c: c - inner, c), c

        return lax.scan(row, x, jnp.arange(4.0))

    def plain(x):
        c, out = x, []
        for i in range(4):
            v = x
            for _ in range(3):
                v = v * np.cos(c) + i
            out.append(c)
            c = c + v if v > 1 else c - v
        return c, np.array(out)

    carry, ys = both(f, 0.7)
    np.testing.assert_allclose(carry, plain(0.7)[0], rtol=1e-5)
    np.testing.assert_allclose(ys, plain(0.7)[1], rtol=1e-5)
    h = 1e-3
    slope = (plain(0.7 + h)[0] - plain(0.7 - h)[0]) / (2 * h)
    np.testing.assert_allclose(grad(lambda x: f(x)[0])(0.7), slope, rtol=1e-2)


def test_disable_jit_runs_python():
    seen = []
    with curta.disable_jit():
        lax.fori_loop(0, 3, lambda i, x: seen.append(int(i)) or x, 0.0)
        lax.scan(lambda c, x: (c, seen.append(float(x))), 0.0, jnp.arange(2.0))
    assert seen == [0, 1, 2, 0.0, 1.0]


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "Pred must be a scalar", lambda: lax.cond(XS, abs, abs, 1.0)),
        (
            TypeError,
            "same pytree structure",
            lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
        ),
        (
            TypeError,
            "equal output types",
            lambda: lax.cond(True, lambda x: x, lambda x: x.astype(int), XS),
        ),
        (TypeError, "Index type must be", lambda: lax.switch(1.0, [abs, abs], 1.0)),
        (ValueError, "Empty branch sequence", lambda: lax.switch(0, [], 1.0)),
        (
            TypeError,
            "cond_fun must return a boolean scalar",
            lambda: lax.while_loop(lambda x: x, lambda x: x, 1.0),
        ),
        (
            TypeError,
            r"carry component x\[1\] has type float32\[4\]",
            lambda: lax.while_loop(
                lambda x: x[0] < 1, lambda x: (x[0], x[1].astype(int)), (1.0, XS)
            ),
        ),
        (
            TypeError,
            "scan body output must be a pair",
            lambda: lax.scan(lambda c, x: c, 1.0, XS),
        ),
        (
            ValueError,
            "different leading axis sizes: 4, 3",
            lambda: lax.scan(lambda c, x: (c, x), 1.0, (XS, XS[1:])),
        ),
        (
            ValueError,
            "`length` not provided",
            lambda: lax.scan(lambda c, x: (c, x), 1.0),
        ),
        (
            ValueError,
            "disagrees with leading",
            lambda: lax.scan(lambda c, x: (c, x), 1.0, XS, length=3),
        ),
        (
            TypeError,
            "must have equal types, got",
            lambda: lax.fori_loop(0.0, 3, lambda i, x: x, 1.0),
        ),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_untaken_branch_does_no_harm_to_gradients_under_vmap():
    def root(x):
        return lax.cond(x > 0, jnp.sqrt, lambda x: 0.0 * x, x)

    found = both(vmap(grad(root)), jnp.array([4.0, 0.0]))
    np.testing.assert_allclose(found, [0.25, 0.0])


def test_messages_name_where_structures_differ():
    with pytest.raises(TypeError) as caught:
        lax.cond(True, lambda x: (x, [x]), lambda x: (x, [x, x]), 1.0)
    assert (
        "true_fun output at path [1] is a list of length 1 but false_fun output at path"
        " [1] is a list of length 2, so the lengths do not match." in str(caught.value)
    )
    with pytest.raises(TypeError) as caught:
        lax.scan(lambda c, x: ({"a": x, "b": (c["a"], x)}, x), {"a": 1.0, "b": XS}, XS)
    message = str(caught.value)
    assert "The input carry component c['b'] is a " in message
    assert "output is a <class 'tuple'>, so their Python types differ." in message
    with pytest.raises(TypeError, match="carry component loop_carry"):
        lax.fori_loop(0, 3, lambda i, x: x.astype(int), XS)


def test_numbers_of_steps_that_are_not_known():
    def step(c, x):
        return c, x

    error = curta.errors.ConcretizationTypeError
    for name in ("length", "unroll"):
        with pytest.raises(error, match=f"The `{name}` argument to `scan` expects a"):
            jit(lambda n, k=name: lax.scan(step, 0, **{"length": 2, k: n}))(3)
    lower, upper = np.int16(0), 3
    assert jit(lambda n: lax.fori_loop(lower, n, lambda i, s: s + i, 0))(upper) == 3
    with pytest.raises(TypeError, match="must have equal types"):
        lax.fori_loop(np.int8(0), np.int16(3), lambda i, s: s, 0)


def test_disable_jit_with_vmap_and_arrays_updated_in_place():
    def count(x):
        def body(carry):
            x, y = carry
            x += 1
            return x, y + x

        return lax.while_loop(lambda c: c[0] < 10, body, (x, x))[1]

    with curta.disable_jit():
        assert count(np.array(1.0)) == 55
        np.testing.assert_array_equal(vmap(count)(jnp.array([1.0, 9.0])), [55, 19])


def test_carry_that_no_step_changes_is_not_batched():
    def powers(w, x, n):
        start = 0, x, w
        carry = lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ c[2], c[2]), start
        )
        return carry[2], carry[1]

    w, xs, counts = 2 * jnp.eye(2), jnp.ones((3, 2)), jnp.arange(3)
    same, found = jit(vmap(powers, (None, 0, 0), (None, 0)))(w, xs, counts)
    np.testing.assert_array_equal(same, w)
    np.testing.assert_array_equal(found[:, 0], [1, 2, 4])


def test_what_no_step_changes_is_a_constant_of_the_loop():
    def fun(x, y):
        _, x, y = lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * c[2], c[2]), (0, x, y)
        )
        return x, y

    (eqn,) = list(curta.make_jaxpr(fun)(1.0, 2.0).eqns)
    assert len(eqn.outvars) == 2 and eqn.params["body_nconsts"] == 1
    assert fun(1.0, 2.0) == (8.0, 2.0) == jit(fun)(1.0, 2.0)
    assert grad(lambda x, y: sum(fun(x, y)), (0, 1))(1.0, 2.0) == (8.0, 13.0)

    def scanned(x, ys):
        (x, total), out = lax.scan(
            lambda c, y: ((c[0], c[1] + c[0] * y), (y, c[1])), (x, 0.0), ys
        )
        return x, total, out

    ys = jnp.arange(3.0)
    eqns = curta.make_jaxpr(scanned)(2.0, ys).eqns
    (eqn,) = [e for e in eqns if e.primitive.name == "scan"]
    assert len(eqn.outvars) == 2 and eqn.params["num_consts"] == 1
    x, total, (same, before) = jit(scanned)(2.0, ys)
    assert (x, total) == (2.0, 6.0)
    assert same.tolist() == [0, 1, 2] and before.tolist() == [0, 0, 2]
    batched = vmap(scanned, (0, None))(jnp.array([1.0, 2.0]), ys)
    assert batched[0].tolist() == [1, 2] and batched[1].tolist() == [3, 6]
    count, out = lax.scan(lambda c, x: (c, x), 0, ys)
    assert isinstance(count, curta.Array) and out.tolist() == [0, 1, 2]


def test_branches_share_the_places_of_residuals():
    def dear(x):
        return jnp.sin(x) * jnp.cos(x)

    def fun(i, x):
        return lax.switch(i, [dear, jnp.exp, lambda x: 2 * x, dear], x).sum()

    x = jnp.arange(3.0)
    eqns = curta.make_jaxpr(curta.grad(fun, 1))(0, x).eqns
    forward, _ = [e for e in eqns if e.op.name == "cond"]
    assert len(forward.outvars) == 1 + 4
    for i, branch in enumerate([dear, jnp.exp, lambda x: 2 * x, dear]):
        expected = curta.vjp(branch, x)[1](jnp.ones(3))[0]
        np.testing.assert_allclose(curta.grad(fun, 1)(i, x), expected, rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_with_counters_are_transposed(reverse):
    def sums(x):
        def step(carry, row):
            weight, total = carry
            total = weight * total + row
            return (2 * weight, total), jnp.cos(weight) * total

        return lax.scan(step, (1.0, 0 * x[0]), x, reverse=reverse)[1]

    x, ct = jnp.arange(3.0), jnp.array([1.0, -2.0, 0.5])
    (found,) = both(lambda ct: curta.linear_transpose(sums, x)(ct), ct)
    np.testing.assert_allclose(found, curta.vjp(sums, x)[1](ct)[0], rtol=1e-6)
    powers = curta.linear_transpose(
        lambda x: lax.fori_loop(0, 4, lambda i, c: c * (i + 1), x), 1.0
    )
    assert powers(1.0)[0] == 24
    slope = curta.vmap(
        grad(
            lambda a: curta.linear_transpose(
                lambda x: lax.fori_loop(0, 3, lambda i, c: c * (i + a), x), 1.0
            )(1.0)[0]
        )
    )
    assert slope(jnp.array([0.0, 2.0])).tolist() == [2, 26]


def loops_of(fun):
    """Calls of a function of one number as the body of every construct."""
    condition, index = lambda x: x < 10, lambda i, x: fun(x)
    return [
        lambda x: lax.scan(lambda c, _: (fun(c), None), x, None, 3)[0],
        lambda x: lax.fori_loop(0, 3, index, x),
        lambda x: lax.while_loop(condition, fun, x),
        lambda x: lax.cond(x > 1, fun, fun, x),
        lambda x: lax.switch(1, [fun, fun], x),
    ]


def test_functions_are_traced_once_for_a_signature():
    count = 0

    def fun(x):
        nonlocal count
        count += 1
        return 2 * x

    for run in loops_of(fun)[1:]:
        run(1.0)
        before = count
        run(1.5)
        assert count == before
        run(1)
        assert count > before
    before = count
    curta.clear_caches()
    loops_of(fun)[-1](1.0)
    assert count == before + 1


def test_functions_that_close_over_tracers_are_traced_in_each_trace():
    scale = None

    def fun(x):
        return x * scale

    def outer(y, run):
        nonlocal scale
        scale = y
        return run(2.0)

    for run in loops_of(fun):
        expected = grad(outer)(1.5, run)
        for _ in range(2):
            assert jit(grad(outer), static_argnums=1)(1.5, run) == expected
            assert vmap(grad(outer), (0, None))(jnp.full(2, 1.5), run)[1] == expected


def test_carry_with_data_that_has_no_hash():
    class Tagged:
        def __init__(self, value):
            self.value = value

    curta.tree_util.register_pytree_node(
        Tagged, lambda x: ((x.value,), ["tag"]), lambda _, xs: Tagged(*xs)
    )
    out = lax.fori_loop(0, 3, lambda i, x: Tagged(x.value + i), Tagged(1))
    assert out.value == 4


def test_maps_and_solvers_see_that_what_their_functions_read_has_changed():
    setting = {}

    def scaled(x):
        return setting["scale"] * x

    def solve(matvec, b):
        return b / setting["scale"]

    def newton(f, x):
        return x - f(x) / setting["scale"]

    found = []
    for setting["scale"] in 1.0, 2.0:
        mapped = lax.map(scaled, jnp.array([1.0, 3.0]))
        batched = lax.map(scaled, jnp.array([1.0, 3.0]), batch_size=2)
        solved = lax.custom_linear_solve(scaled, 8.0, solve, symmetric=True)
        root = lax.custom_root(lambda x: scaled(x) - 8.0, 1.0, newton, solve)
        prefixes = lax.associative_scan(lambda a, b: scaled(a * b), jnp.ones(3))
        found.append([*mapped, *batched, solved, root, *prefixes])
    assert found == [[1, 3, 1, 3, 8, 8, 1, 1, 1], [2, 6, 2, 6, 4, 4, 1, 2, 4]]


def test_operands_that_all_branches_hand_on():
    def f(p, x, y):
        return lax.cond(p, lambda x, y: (x, x + 1, y), lambda x, y: (x, x + 2, x), x, y)

    (_, choice) = curta.make_jaxpr(f)(True, 1.0, 2.0).eqns
    assert len(choice.outvars) == 2
    preds = jnp.array([True, False])
    axes = {"in_axes": (0, None, None), "out_axes": (None, 0, 0)}
    found = curta.vmap(f, **axes)(preds, 1.0, 2.0)  # the first is one for all
    assert [x.tolist() for x in found] == [1.0, [2, 3], [2, 1]]
    assert curta.grad(lambda x: sum(f(True, x, 2.0)))(1.0) == 2
    same = curta.jit(lambda i, x: lax.switch(i, [lambda x: x] * 3, x))
    assert same(1, jnp.ones(2)).tolist() == [1, 1]
