"""Classes of trouble from JAX's public reports of 2025 and 2026 on CPU.

Numbers are those of the reports in jax-ml/jax; each test has the programs of a class.
Longer borders, narrow indices and far exponents are in numpy/test_ends.py.
"""

import math
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import enable_x64
from curta.custom_derivatives import SymbolicZero, zero_from_primal
from curta.experimental import io_callback

WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, curta.jit], ids=["eager", "jit"])


# ---- index dtypes: 31396, 37921, 37920, 22501, 10540


def test_narrow_index_next_to_a_python_number():
    numbers = jnp.arange(100_000).reshape(10_000, 10)
    for column in jnp.int8(3), jnp.uint8(3), np.int8(3):
        assert numbers[1000, column] == 10_003
        assert numbers[jnp.array(1000), column] == 10_003
        changed = numbers.at[1000, column].set(-1)
        assert_array_equal(np.argwhere(changed == -1), [[1000, 3]])


def test_dtypes_of_indices_and_running_sums_in_64_bits():
    with enable_x64(True):
        x = jnp.array([1, 3, 5], jnp.int32)
        found = (
            jnp.searchsorted(x, x),
            jnp.argmax(x),
            jnp.argsort(x),
            jnp.nonzero(x)[0],
        )
        assert {i.dtype.name for i in found} == {"int64"}
        assert jnp.indices((3,)).dtype == jnp.arange(3).dtype
    assert jnp.searchsorted(jnp.arange(3.0), 1.0).dtype == np.int32


def test_flat_index_whose_shape_exceeds_its_dtype():
    assert [int(i) for i in jnp.unravel_index(0, (201_996, 201_996))] == [0, 0]


# ---- empty arrays


EMPTY = {
    "sum": lambda z: (jnp.sum(z, 0), np.zeros(3)),
    "max": lambda z: (jnp.max(z, 1), np.zeros(0)),
    "product": lambda z: (z.T @ z, np.zeros((3, 3))),
    "scan": lambda z: (lax.scan(lambda c, x: (c + x.sum(), x), 0.0, z)[1], z),
    "loop": lambda z: (lax.fori_loop(0, 0, lambda i, x: x + 1, z), z),
    "sort": lambda z: (jnp.sort(z, 0), z),
    "update": lambda z: (z.at[jnp.zeros(0, int)].set(1.0), z),
    "segments": lambda z: (
        curta.ops.segment_sum(z, jnp.zeros(0, int), 2),
        np.zeros((2, 3)),
    ),
    "convolution": lambda z: (
        lax.conv_general_dilated(
            jnp.zeros((1, 0, 4)), jnp.ones((2, 0, 2)), (1,), "VALID"
        ),
        np.zeros((1, 2, 3)),
    ),
    "attention": lambda z: (
        curta.nn.dot_product_attention(
            jnp.zeros((1, 0, 2, 4)), jnp.zeros((1, 3, 2, 4)), jnp.zeros((1, 3, 2, 4))
        ),
        np.zeros((1, 0, 2, 4)),
    ),
    "determinant": lambda z: (jnp.linalg.det(z[:, :0]), 1.0),
    "gradient": lambda z: (curta.grad(lambda x: jnp.sum(x**2))(z), z),
}


@WRAPS
@pytest.mark.parametrize("name", EMPTY)
def test_empty_arrays(name, wrap):
    got, want = wrap(EMPTY[name])(jnp.zeros((0, 3)))
    assert got.shape == np.shape(want)
    assert_array_equal(got, want)


# ---- NaN under fast maths: 29537, 39352, 28637


NANS = {
    "exp": lambda x: jnp.exp(x * jnp.nan),
    "minimum": lambda x: jnp.minimum(x, 1.0),
    "clip": lambda x: jnp.clip(x, 0.0, 1.0),
    "difference": lambda x: x - x,
    "product": lambda x: x * 0,
    "quotient": lambda x: x / x,
    "comparison": lambda x: jnp.where(x == x, 0.0, x),
    "largest": jnp.max,
    "softmax": curta.nn.softmax,
    "norm": jnp.linalg.norm,
}


@WRAPS
@pytest.mark.parametrize("name", NANS)
def test_nan_stays(name, wrap):
    x = jnp.full(70, jnp.nan).at[0].set(1.0)
    assert np.isnan(wrap(NANS[name])(x)).any()


def test_signs_of_zeros_and_long_vectors():
    for f in (lambda x: -x, lambda x: x * -1.0, lambda x: jnp.copysign(x, -1.0)):
        assert_array_equal(1 / curta.jit(f)(jnp.zeros(50)), np.full(50, -np.inf))
    x = np.linspace(-5, 5, 200, dtype=np.float32)
    assert_allclose(jnp.arctan(x), np.arctan(x), rtol=1e-6)
    nan = jnp.full((2, 2), jnp.nan)
    assert np.isnan(jnp.linalg.tensorinv(nan, 1)).all()


# ---- derivatives that leave the range: 39794, 39797, 39799, 40634, 40343, 37992, 38679


def test_derivatives_at_tiny_and_huge_arguments():
    with enable_x64(True):
        for f, x, want in (
            (jnp.expm1, -40.0, math.exp(-40)),
            (jnp.i0, 1e-300, 5e-301),
            (jnp.sqrt, 5e-324, 0.5 / math.sqrt(5e-324)),
            (jnp.arcsinh, 1e200, 1e-200),
            (jnp.arccosh, 1e200, 1e-200),
            (lambda x: jnp.hypot(x, x), 1e-200, math.sqrt(2)),
            (lambda x: jnp.hypot(x, x), 1e200, math.sqrt(2)),
            (lambda x: jnp.ldexp(x, 1), 0.0, 2.0),
            (lambda x: jnp.nextafter(x, 2.0), 1.0, 1.0),
            (lambda y: jnp.nextafter(1.0, y), 2.0, 0.0),
            (jnp.spacing, 1.0, 0.0),
        ):
            assert_allclose(curta.grad(f)(x), want, rtol=1e-14)
            assert_allclose(curta.jvp(f, (x,), (1.0,))[1], want, rtol=1e-14)
    assert_allclose(curta.grad(jnp.arcsinh)(jnp.float32(-1e22)), 1e-22, rtol=1e-6)
    assert curta.grad(jnp.hypot)(0.0, 0.0) == 0


# ---- custom rules with symbolic zeros: 28144, 25724, 31448, 28664


@curta.custom_jvp
def successor(x):
    return x + 1


@successor.defjvp
def _(primals, tangents):
    (x,) = primals
    return successor(x), zero_from_primal(x, symbolic_zeros=True)


@curta.custom_jvp
def with_count(x):
    return x, 1


@with_count.defjvp
def _(primals, tangents):
    out = with_count(*primals)
    zero = zero_from_primal(out[1], symbolic_zeros=True)
    return out, (jnp.ones_like(out[0]), zero)


def test_rules_that_return_symbolic_zeros():
    x = jnp.arange(3.0)
    out, tangent = curta.jvp(curta.vmap(curta.jit(successor)), (x,), (x,))
    assert_array_equal(out, x + 1)
    assert_array_equal(tangent, np.zeros(3))
    (_, count), _ = curta.jvp(curta.vmap(with_count), (x,), (x,))
    assert_array_equal(count, np.ones(3))


@curta.custom_vjp
def product_and_first(x, y):
    return x * y, x


def _forward(x, y):
    return (x.value * y.value, x.value), (x.value, y.value, x.perturbed, y.perturbed)


SEEN = []


def _backward(kept, cotangents):
    x, y, *perturbed = kept
    zeros = [isinstance(g, SymbolicZero) for g in cotangents]
    SEEN.append((tuple(perturbed), tuple(zeros)))
    g = 0.0 if zeros[0] else cotangents[0]
    first = 0.0 if zeros[1] else cotangents[1]
    return jnp.float32(g * y + first), jnp.float32(g * x)


product_and_first.defvjp(_forward, _backward, symbolic_zeros=True)


def test_rules_that_are_given_symbolic_zeros():
    SEEN.clear()
    x, y = jnp.float32(2.0), jnp.float32(3.0)
    assert curta.grad(lambda x: product_and_first(x, y)[0])(x) == 3
    assert curta.grad(lambda x: product_and_first(x, y)[1])(x) == 1
    assert curta.grad(lambda y: product_and_first(x, y)[0])(y) == 2
    assert SEEN == [
        ((True, False), (False, True)),
        ((True, False), (True, False)),
        ((False, True), (False, True)),
    ]

    def run(x):
        return lax.scan(lambda c, _: (product_and_first(c, y)[0], None), x, None, 2)[0]

    assert_array_equal(curta.vmap(curta.grad(run))(jnp.arange(3.0)), np.full(3, 9.0))


# ---- references under vmap, in loops and branches: 39288, 39293


@WRAPS
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_references_mapped_along_any_axis(axis, wrap):
    def steps(ref):
        def step(total, i):
            ref[0] = ref[0] + i
            return total + ref[0].sum(), None

        return lax.scan(step, 0.0, jnp.arange(3.0))[0]

    x = np.arange(24.0).reshape(2, 3, 4)
    ref = curta.new_ref(jnp.array(x))
    totals = wrap(curta.vmap(steps, in_axes=axis))(ref)
    want = np.moveaxis(x.copy(), axis, 0)
    expected = np.zeros(len(want))
    for i in range(3):
        want[:, 0] += i
        expected += want[:, 0].sum(1)
    assert_array_equal(totals, expected)
    assert_array_equal(np.moveaxis(np.asarray(ref[...]), axis, 0), want)


@WRAPS
def test_references_in_mapped_branches_and_loops(wrap):
    def branch(p, x):
        ref = curta.new_ref(x)

        def double():
            ref[...] = ref[...] * 2

        def increase():
            ref[...] = ref[...] + 1

        lax.cond(p, double, increase)
        return ref[...]

    flags = jnp.array([True, False])
    assert_array_equal(wrap(curta.vmap(branch, (0, None)))(flags, 3.0), [6, 4])

    def loop(n):
        ref = curta.new_ref(jnp.zeros(4))

        def body(i):
            ref[i] = i + 1.0
            return i + 1

        lax.while_loop(lambda i: i < n, body, 0)
        return ref[...]

    want = [[1, 0, 0, 0], [1, 2, 3, 4]]
    assert_array_equal(wrap(curta.vmap(loop))(jnp.array([1, 4])), want)


# ---- callbacks and effects in loops: 28738, 16637, 33147, 25861, 24255


def _collector():
    seen = []
    return seen, lambda x: seen.append(float(x))


@WRAPS
def test_callbacks_in_differentiated_scans(wrap):
    seen, note = _collector()

    def run(x):
        def step(c, x):
            curta.debug.callback(note, x, ordered=True)
            return jnp.sin(c) + x, None

        return lax.scan(step, x, jnp.arange(4.0))[0]

    wrap(curta.grad(run))(1.0)
    curta.effects_barrier()
    assert seen == [0, 1, 2, 3]


def test_callbacks_without_operands_run_once_an_iteration():
    count = [0]

    def note():
        count[0] += 1

    def step(x, _):
        curta.debug.callback(note)
        return jnp.sin(x), None

    curta.jit(curta.grad(lambda x: lax.scan(step, x, length=5)[0]))(1.0)
    curta.effects_barrier()
    assert count == [5]


def test_errors_of_callbacks_in_scans():
    def check(x, bad):
        def fail(_):
            raise RuntimeError("beyond the end")

        shape = curta.eval_shape(lambda: x)
        return lax.cond(bad, lambda: curta.pure_callback(fail, shape, None), lambda: x)

    def run(rows):
        def step(i, _):
            return i + 1, rows[check(i, i >= rows.shape[0])]

        return lax.scan(step, 0, length=3)[1]

    for rows in (1, 2):
        with pytest.raises(Exception, match="beyond the end"):
            curta.block_until_ready(run(jnp.ones((rows, 2))))
    assert run(jnp.ones((3, 2))).shape == (3, 2)


def test_callbacks_that_compute_with_arrays_in_many_loops():
    def body(state):
        i, x = state
        shape = curta.ShapeDtypeStruct((), np.int32)
        io_callback(lambda i: np.int32(i), shape, i, ordered=True)
        y = curta.pure_callback(lambda v: jnp.sin(v), curta.typeof(x), x)
        return i + 1, y

    loop = curta.jit(lambda x: lax.while_loop(lambda s: s[0] < 5, body, (0, x)))
    for _ in range(20):
        count, _ = loop(jnp.ones(3))
        assert count == 5


# ---- static arguments: 28065, 24857


def test_static_arguments_in_another_order():
    def f(a, b, c):
        return (a + c) - b * c

    for order in ((0, 1), (1, 0), (-2, 0)):
        assert curta.jit(f, static_argnums=order)(1.5, 2.5, 3.5) == -3.75
        jaxpr = curta.make_jaxpr(f, static_argnums=order)(1.5, 2.5, 3.5)
        (out,) = curta.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, 3.5)
        assert out == -3.75
    name = "".join(["po", "wer"])  # a string that is not the one of the signature
    cube = curta.jit(lambda x, power: x**power, static_argnames=(name,))
    assert cube(2.0, power=3) == 8


# ---- loops that write to an array: 40101, 39120


def test_loops_do_not_copy_what_they_write_to():
    def seconds(n):
        f = curta.jit(
            lambda: lax.fori_loop(0, n, lambda i, a: a.at[i].set(i), jnp.zeros(n))
        )
        f().block_until_ready()
        runs = []
        for _ in range(3):
            start = time.process_time()
            f().block_until_ready()
            runs.append(time.process_time() - start)
        return min(runs)

    # Eight times the length: 64 times as long with a copy each time.
    assert seconds(160_000) < 30 * max(seconds(20_000), 1e-4)


def test_padding_read_by_nested_scans():
    @curta.jit
    def blocks(x):
        x = jnp.pad(x, ((0, 1), (0, 0)))

        def outer(_, i):
            block = lax.dynamic_slice(x, (i * 19, 0), (23, 4))

            def inner(_, j):
                return None, lax.dynamic_slice(block, (0, j * 2), (23, 2))

            return None, lax.scan(inner, None, jnp.arange(2))[1]

        return lax.scan(outer, None, jnp.arange(3))[1]

    out = blocks(jnp.ones((60, 4)))
    assert_array_equal(out[-1, :, -1], np.zeros((2, 2)))
    assert out.sum() == 3 * 23 * 4 - 4


# ---- high ranks, branches in loops: 40412, 39257, 33348


def test_sums_of_products_of_rank_seven_and_eight():
    x = np.arange(3 * 2 * 2 * 4 * 2, dtype=np.float32).reshape(3, 1, 2, 2, 4, 1, 2)
    got = curta.jit(lambda a, b: jnp.sum(a * b, axis=3))(x, x + 1)
    assert_array_equal(got, np.sum(x * (x + 1), axis=3))
    y = x[..., None] % 7
    got = curta.jit(lambda a, b: jnp.sum(a * b, axis=(2, 5)))(y, y)
    assert_array_equal(got, np.sum(y * y, axis=(2, 5)))


def test_loop_whose_result_nobody_reads_in_a_loop():
    @curta.jit
    def run():
        start = jnp.array([1, 2])

        def body(x):
            lax.fori_loop(0, 3, lambda i, s: s, 0)
            return jnp.zeros_like(x)

        return lax.while_loop(lambda x: jnp.any(x != 0), body, start)

    assert_array_equal(run(), [0, 0])


# ---- linear algebra at its edges: 28603, 28617, 28618, 32666, 26347


def test_linear_algebra_as_in_numpy():
    flags = np.array([[True, True], [False, True]])
    assert_array_equal(
        jnp.linalg.matrix_power(jnp.array(flags), 2) != 0,
        np.linalg.matrix_power(flags, 2),
    )
    upper = np.array([[1.0, -1.0], [1.0, 1.0]])
    for half in "UL":
        got = jnp.linalg.eigvalsh(jnp.array(upper), UPLO=half, symmetrize_input=False)
        assert_allclose(got, np.linalg.eigvalsh(upper, UPLO=half), atol=1e-6)
    assert jnp.linalg.matrix_rank(jnp.ones((2, 2)), rtol=2.0) == 0
    solution = jnp.linalg.lstsq(jnp.zeros((2, 1)), jnp.ones((2, 1)))[0]
    assert_array_equal(solution, [[0.0]])
    sign, logdet = jnp.linalg.slogdet(jnp.diag(jnp.array([1e30, 1e30])))
    assert_allclose(float(sign) * float(logdet), 60 * math.log(10), rtol=1e-6)


# ---- random numbers of impossible parameters: 9719, 38459


def test_counts_of_impossible_rates_end():
    rates = jnp.array([jnp.inf, jnp.nan, 0.0, -1.0])
    most = np.iinfo(np.int32).max
    got = curta.random.poisson(curta.random.key(0), rates)
    assert_array_equal(got, [most, -1, 0, -1])


# ---- containers: 39802, 7714


def test_grids_and_ranges_as_arrays():
    rows, columns = jnp.ogrid[:2, :3]
    assert (rows.shape, columns.shape) == ((2, 1), (1, 3))
    edges = jnp.array([[-2, 2], [-2, 2]])
    counts, *_ = jnp.histogram2d(jnp.ones(4), jnp.ones(4), bins=2, range=edges)
    assert_array_equal(counts, [[0, 0], [0, 4]])


# ---- checkpoints and mapped axes: 39909


def test_checkpoints_mapped_along_some_operands():
    f = curta.checkpoint(lambda x, y: jnp.sin(x * y))
    x = jnp.arange(3.0)
    for g, want in ((f, np.sin(2 * x)), (curta.grad(f), 2 * np.cos(2 * x))):
        assert_allclose(curta.vmap(g, (0, None))(x, 2.0), want, rtol=1e-6)


# ---- indices that do not fit: 29254


def test_top_k_of_more_elements_than_its_indices_can_count():
    long = curta.ShapeDtypeStruct((2**31 + 8,), np.int8)
    with pytest.raises(ValueError, match="top_k returns int32 indices"):
        curta.eval_shape(lambda x: lax.top_k(x, 2), long)
    assert len(curta.eval_shape(lambda x: lax.top_k(x.reshape(8, -1), 2), long)) == 2
