"""Mutable references: eager, compiled, in loops and branches, transformed."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.ref import RefEffect
from curta.test_util import check_grads

MAYBE_JIT = pytest.mark.parametrize("wrap", [lambda f: f, curta.jit])


def bump(ref):
    ref[...] += 1.0
    ref[0] += 1
    ref[1:] = ref[1:] * 2.0


@MAYBE_JIT
def test_arguments_and_closures_are_written(wrap):
    ref = curta.new_ref(jnp.zeros(3))
    wrap(bump)(ref)
    assert ref[...].tolist() == [2.0, 2.0, 2.0]

    @wrap
    def closing(x):
        bump(ref)
        return x + ref[2]

    assert closing(1.0) == 7.0
    assert closing(1.0) == 15.0  # again, what was compiled writes again
    assert ref[...].tolist() == [6.0, 14.0, 14.0]


def test_methods_and_parts():
    ref = curta.new_ref(jnp.arange(6).reshape(2, 3))
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == (
        (2, 3),
        jnp.int32,
        2,
        6,
        2,
    )
    assert (
        ref[1, ::-1].tolist()
        == [5, 4, 3]
        == ref.get((1, slice(None, None, -1))).tolist()
    )
    assert ref.swap(9, (0, 0)) == 0
    ref.set(jnp.array([7, 7]), (slice(None), 1))
    ref.addupdate(jnp.ones((2, 3), int))
    ref.addupdate(1, (1, 2))
    assert ref[...].tolist() == [[10, 8, 3], [4, 8, 7]]
    assert ref.format == ref[...].format and not ref.committed
    assert ref.unsafe_buffer_pointer() == ref[...].unsafe_buffer_pointer()
    view = ref.at[1]
    view[0] = 0
    view[1:] += 1
    assert view[...].tolist() == [0, 9, 8] and view.shape == (3,)
    assert ref[np.arange(2), np.array([0, 2])].tolist() == [10, 8]
    assert repr(ref).startswith("Ref([[10,")
    curta.ref.set(ref, ..., jnp.zeros((2, 3), int))
    assert not ref[...].any()


def test_initial_arrays_and_read_ones_stay():
    x = jnp.zeros(2)
    ref = curta.new_ref(x)
    before = ref[...]
    ref[0] = 1.0
    assert x.tolist() == before.tolist() == [0.0, 0.0]


def test_python_numbers_take_the_dtype():
    ref = curta.new_ref(jnp.zeros((), "bfloat16"))
    ref[...] += 1.0
    assert ref[...].dtype == jnp.bfloat16 and not ref[...].weak_type
    key = curta.new_ref(curta.random.key(0))
    key[...] = curta.random.fold_in(key[...], 1)


def test_freezing():
    ref = curta.new_ref(1.0)
    assert curta.freeze(ref) == 1.0
    with pytest.raises(ValueError, match="frozen or freed"):
        ref[...]
    other = curta.empty_ref(curta.ShapeDtypeStruct((2,), "float32"))
    other[...] = jnp.ones(2)
    curta.free_ref(other)
    with pytest.raises(ValueError, match="frozen or freed"):
        curta.free_ref(other)


# ---- loops and branches


@MAYBE_JIT
def test_scan_over_closed_over_and_scanned_references(wrap):
    total, rows = curta.new_ref(0), curta.new_ref(jnp.arange(4))

    def step(count, row_and_x):
        row, x = row_and_x
        row[...] += x
        total[...] += row[...]
        return count + 1, total[...]

    count, sums = wrap(lambda: lax.scan(step, 0, (rows, 10 * jnp.arange(4))))()
    assert count == 4 and sums.tolist() == [0, 11, 33, 66]
    assert rows[...].tolist() == [0, 11, 22, 33] and total[...] == 66


@MAYBE_JIT
def test_loops_write_and_conditions_read(wrap):
    ref, halves = curta.new_ref(0.0), curta.new_ref(jnp.zeros(8, int))

    def body(i):
        ref[...] += 1.5
        halves[i] = i // 2
        return i + 1

    found = wrap(lambda: lax.while_loop(lambda i: ref[...] < 4.0, body, 0))()
    assert found == 3 and ref[...] == 4.5
    wrap(lambda: lax.fori_loop(0, 8, lambda i, _: body(i), 0))()
    assert halves[...].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@MAYBE_JIT
def test_branches_write(wrap):
    a, b = curta.new_ref(0.0), curta.new_ref(0.0)

    def fun(i):
        def first(x):
            a[...] = x
            return x

        def second(x):
            b[...] += a[...] + x
            return -x

        return lax.switch(i, [first, second, lambda x: 0 * x], 5.0)

    fun = wrap(fun)
    assert [fun(i) for i in (0, 1, 2, 1)] == [5.0, -5.0, 0.0, -5.0]
    assert a[...] == 5.0 and b[...] == 20.0
    lax.cond(True, lambda: b.set(1.0), lambda: None)
    assert b[...] == 1.0


# ---- transformations


def internally(x):
    """Sum of squares, by way of references and a loop."""
    squares, total = curta.new_ref(jnp.zeros_like(x)), curta.new_ref(x[0] * 0)

    def step(i, _):
        squares[i] = x[i] * x[i]
        total.addupdate(squares[i])

    lax.fori_loop(0, 3, step, None)

    @curta.jit
    def double():
        total[...] *= 2.0

    double()
    return curta.freeze(total)


@MAYBE_JIT
def test_functions_that_use_references_inside_are_transformed(wrap):
    x = jnp.array([1.0, 2.0, 3.0])
    fun = wrap(internally)
    assert fun(x) == 28.0
    assert curta.grad(fun)(x).tolist() == [4.0, 8.0, 12.0]
    check_grads(lambda x: fun(jnp.asarray(x)), (x,), 2)
    assert curta.vmap(fun)(jnp.stack([x, 2 * x])).tolist() == [28.0, 112.0]
    hessian = curta.vmap(curta.hessian(fun))(jnp.stack([x, x]))
    np.testing.assert_array_equal(hessian, np.stack([4 * np.eye(3)] * 2))
    assert curta.checkpoint(fun)(x) == 28.0
    assert curta.grad(curta.checkpoint(fun))(x).tolist() == [4.0, 8.0, 12.0]


@MAYBE_JIT
def test_vmap_maps_references(wrap):
    xs, scale = curta.new_ref(jnp.zeros((3, 2))), curta.new_ref(10.0)

    def fun(x_ref, y):
        x_ref[0] += y * scale[...]
        return x_ref[...].sum()

    mapped = curta.vmap(wrap(fun))
    assert mapped(xs, jnp.arange(3.0)).tolist() == [0.0, 10.0, 20.0]
    assert xs[...].tolist() == [[0.0, 0.0], [10.0, 0.0], [20.0, 0.0]]
    columns = curta.new_ref(jnp.zeros((2, 3)))
    curta.vmap(wrap(fun), (1, 0))(columns, jnp.ones(3))
    assert columns[...].tolist() == [[10.0] * 3, [0.0] * 3]


def test_what_is_not_differentiated_may_be_written():
    calls = curta.new_ref(0)

    def fun(x):
        calls[...] += 1
        return lax.scan(lambda c, _: (calls.addupdate(1), (c * x, None))[1], x, None, 3)

    curta.grad(lambda x: fun(x)[0])(2.0)
    assert calls[...] == 4
    log = curta.new_ref(0.0, kind="no_grad_no_remat")

    @curta.jit
    def logged(x):
        log[...] = 3.0 * x
        return x * x

    assert curta.grad(logged)(2.0) == 4.0 and log[...] == 6.0


@MAYBE_JIT
def test_backward_rules_write(wrap):
    @curta.custom_vjp
    def stash(ref, x):
        return x

    def backward(ref, ct):
        ref[...] = ct
        return None, ct

    stash.defvjp(lambda ref, x: (x, ref), backward)
    ref = curta.new_ref(0.0)

    def fun(ref, x):
        def step(x, _):
            return jnp.sin(stash(ref, jnp.sin(x))), None

        return lax.scan(step, x, None, 1)[0]

    curta.grad(wrap(fun), 1)(ref, 1.0)
    np.testing.assert_allclose(ref[...], np.cos(np.sin(1.0)), rtol=1e-6)


def test_pullbacks_add_to_references():
    total = curta.new_ref(jnp.zeros(3))
    _, pull = curta.vjp(lambda x, y: (x * x * y).sum(), jnp.arange(3.0), 2.0)
    for _ in range(2):
        found = pull.with_refs(total, None)(1.0)
    assert isinstance(found[0], curta.ad.GradRef) and found[1] == 5.0
    assert total[...].tolist() == [0.0, 8.0, 16.0]
    with pytest.raises(ValueError, match="Accumulator aval mismatch"):
        pull.with_refs(curta.new_ref(0.0), None)(1.0)


def test_ahead_of_time():
    ref = curta.new_ref(jnp.zeros(3))
    compiled = curta.jit(bump).lower(ref).compile()
    compiled(ref)
    compiled(ref)
    assert ref[...].tolist() == [4.0, 6.0, 6.0]


def test_jaxprs_show_what_is_done_to_references_of_others():
    ref = curta.new_ref(jnp.zeros(2))

    def fun(other):
        ref[...] += 1.0
        other.addupdate(2.0)
        return other.swap(3.0)

    closed = curta.make_jaxpr(fun)(curta.new_ref(0.0))
    assert str(closed) == (
        "{ lambda a:Ref{f32[2]}; b:Ref{f32[]}. let\n"
        "    c:f32[2] <- a[...]\n"
        "    d:f32[2] = add c 1.0:f32[]\n"
        "    a[...] <- d\n"
        "    b[...] += 2.0:f32[]\n"
        "    e:f32[], b[...] <- b[...], 3.0:f32[]\n"
        "  in (e,) }"
    )
    assert {e for e in closed.effects if isinstance(e, RefEffect)} == {
        "Read",
        "Write",
        "Accum",
    }
    assert ref[...].tolist() == [0.0, 0.0]  # tracing changes nothing
    inside = curta.make_jaxpr(internally)(jnp.ones(3))
    assert not inside.effects and "Ref" not in str(inside)


# ---- mistakes


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (jnp.zeros(4), r"Invalid shape for `swap`. Ref shape: \(3,\). Expected shape"),
        (1.0, r"Value shape: \(\). A value is not broadcast"),
        (
            jnp.zeros(3, int),
            "Invalid dtype for `swap`. Ref dtype: float32. Value dtype",
        ),
    ],
)
def test_values_of_another_type(value, message):
    ref = curta.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match=message):
        ref[...] = value
    with pytest.raises(ValueError, match="Out of bound indexer: idx=3, dim=3"):
        ref[3]
    with pytest.raises(ValueError, match="Cannot store a Ref into another Ref"):
        ref[0] = curta.new_ref(1.0)


def test_references_are_no_arrays():
    ref = curta.new_ref(jnp.zeros(3))
    assert isinstance(ref, curta.Ref) and not isinstance(ref, curta.Array)
    assert not isinstance(jnp.zeros(3), curta.Ref)
    for fun in (jnp.sin, curta.jit(jnp.sin), lax.neg, curta.jit(lax.neg)):
        with pytest.raises(TypeError):
            fun(ref)
    with pytest.raises(TypeError, match="iterate over"):
        list(ref)
    with pytest.raises(TypeError, match="Cannot store a Ref"):
        curta.new_ref(ref)
    with pytest.raises(TypeError, match="Error interpreting argument to new_ref"):
        curta.new_ref("text")


@pytest.mark.parametrize(
    ("fun", "what"),
    [
        (lambda r: curta.jit(lambda x_ref: x_ref)(r), "jit .*as the argument x_ref"),
        (lambda r: curta.jit(curta.new_ref)(1.0), "jit .*was created on line"),
        (lambda r: lax.scan(lambda c, x: (r, x), 0, jnp.ones(2)), "traced for scan"),
        (lambda r: lax.cond(True, lambda: r, lambda: r), "traced for cond"),
        (lambda r: curta.checkpoint(lambda: r)(), "traced for checkpoint"),
    ],
)
def test_references_are_not_returned(fun, what):
    with pytest.raises(ValueError, match=f"(?s){what}") as error:
        fun(curta.new_ref(0.0))
    assert "returned a mutable array reference of type Ref{float32[]}" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("fun", "what"),
    [
        (lambda r: curta.jit(lambda x, y: x[...])(r, r), "for jit .*both x and y"),
        (lambda r: curta.vmap(lambda a, b: 0)(r, r), "for vmap .*both a and b"),
        (
            lambda r: lax.scan(lambda c, _: (None, None), (r, r), None, 1),
            r"for scan .*both c\[0\] and c\[1\]",
        ),
        (
            lambda r: lax.cond(True, lambda a, b: 0, lambda a, b: 0, r, r),
            "both a and b",
        ),
        (
            lambda r: curta.jit(lambda y_ref: r[...] + y_ref[...])(r),
            "closed over and passed as the argument y_ref",
        ),
    ],
)
def test_one_reference_is_not_two_arguments(fun, what):
    with pytest.raises(ValueError, match=what):
        fun(curta.new_ref(jnp.zeros(2)))


@pytest.mark.parametrize("wrap", [lambda f: f, curta.jit])
def test_examples_do_not_write_to_one_reference(wrap):
    ref = curta.new_ref(jnp.zeros(2))

    def swapped(r, x):
        r[...] += 1.0  # the same for all examples
        return x + r[0]

    def added(r, x):
        r.addupdate(jnp.ones(2))
        return x

    for fun, what in (swapped, "a set/swap operation"), (added, "an addupdate"):
        if wrap is curta.jit:
            what = "a set/swap operation"
        with pytest.raises(ValueError, match=f"performing {what}.* vmapped value"):
            curta.vmap(wrap(fun), (None, 0))(ref, jnp.ones(3))
    assert ref[...].tolist() == [0.0, 0.0]
    got = curta.vmap(wrap(lambda r, x: x + r[0]), (None, 0))(ref, jnp.ones(3))
    assert got.tolist() == [1.0, 1.0, 1.0]


def test_lowered_text_has_no_dead_code():
    @curta.jit
    def inner(y):
        ref = curta.new_ref(y)
        ref[...] += 1
        return curta.freeze(ref)

    def fun(x, y):
        inner(y)
        return x

    traced = curta.jit(fun).trace(1, 2)
    assert "add" in str(traced.jaxpr)
    assert "add" not in traced.lower().as_text("jaxpr")
    assert not traced.lower().compiler_ir("jaxpr").eqns


def test_values_of_inner_transformations_stay_inside():
    ref = curta.new_ref(0.0)

    def write(x):
        ref[...] = x
        return x

    with pytest.raises(ValueError, match="unbatched array reference"):
        curta.vmap(write)(jnp.ones(2))
    with pytest.raises(ValueError, match="Move the array reference"):
        curta.jvp(write, (1.0,), (1.0,))
    with pytest.raises(ValueError, match="Move the array reference"):
        curta.grad(curta.jit(write))(1.0)
    kept = []
    curta.jit(lambda x: kept.append(curta.new_ref(x)))(1.0)
    with pytest.raises(curta.errors.UnexpectedTracerError, match="after the function"):
        kept[0][...]
    assert ref[...] == 0.0


def test_custom_rules_and_references_to_what_is_differentiated():
    @curta.custom_vjp
    def fun(ref):
        return ref[...]

    fun.defvjp(lambda ref: (fun(ref), None), lambda _, ct: (ct,))
    assert fun(curta.new_ref(3.0)) == 3.0 == curta.jit(fun)(curta.new_ref(3.0))
    for wrap in (lambda f: f, curta.jit):
        with pytest.raises(NotImplementedError, match="Pass the array|pass it the arr"):
            curta.grad(lambda x, wrap=wrap: wrap(fun)(curta.new_ref(x)))(3.0)


@MAYBE_JIT
def test_weak_types_stay_weak(wrap):
    count = curta.new_ref(0)
    halves = jnp.ones(2, jnp.bfloat16)

    @wrap
    def step(x):
        count[...] += jnp.int32(1)
        assert count[...].weak_type
        return x * 0.5 ** count[...]

    assert step(halves).dtype == jnp.bfloat16
    assert step(halves).tolist() == [0.25, 0.25]
    strong = curta.new_ref(jnp.int32(0))
    strong[...] = 3
    assert not strong[...].weak_type and count[...].weak_type


OUTSIDE = [(4, 3), (7, 3), (-1, 3), (-5, 0), (-9, 0)]


@pytest.mark.parametrize(("index", "row"), OUTSIDE)
def test_scalars_out_of_bounds_are_clamped(index, row):
    def replaced(index):
        ref = curta.new_ref(jnp.arange(8.0).reshape(4, 2))
        before = ref[index, 1]
        ref[index] = jnp.full(2, 50.0)
        curta.ref.addupdate(ref, index, jnp.ones(2))
        return before, ref[...]

    want = np.arange(8.0).reshape(4, 2)
    first = want[row, 1]
    want[row] = 51
    runs = [
        curta.jit(lambda: replaced(index))(),
        curta.jit(replaced)(index),
        curta.jit(replaced)(jnp.int8(index)),
        [x[0] for x in curta.vmap(replaced)(jnp.array([index]))],
    ]
    for before, after in runs:
        np.testing.assert_array_equal(np.ravel(before)[0], first)
        np.testing.assert_array_equal(np.reshape(after, (-1, 4, 2))[0], want)


def test_known_scalars_beyond_the_end_of_known_references():
    ref = curta.new_ref(jnp.arange(8.0).reshape(4, 2))
    for index in 4, (0, 2), (..., 2):
        with pytest.raises(ValueError, match="Out of bound indexer"):
            ref[index]
