"""Passes over loops: aliases, dead results, sinking, invariant code, sums, blocks."""

import dataclasses

from tests.compiler.printing import avx2, program

import curta.numpy as jnp
from curta import lax
from curta.compiler.rewrite.aliases import without_aliases
from curta.compiler.rewrite.branches import Branches
from curta.compiler.rewrite.dead_results import without_dead_results
from curta.compiler.rewrite.licm import hoist, hoist_products
from curta.compiler.rewrite.loop import Loop
from curta.compiler.rewrite.loop_sums import sum_after
from curta.compiler.rewrite.sinking import sunk
from curta.compiler.rewrite.strip_mining import moved_out_of_loops
from curta.core.jaxpr import Jaxpr

ONE_EACH = lax.GatherDimensionNumbers((), (0,), (0,))


def after(change, jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with the loops changed by a function of a `Loop`."""
    eqns = []
    for eqn in jaxpr.eqns:
        loop = Loop.of(eqn)
        if loop is not None:
            change(loop, avx2().tuning)
        eqns += [eqn] if loop is None else loop.all_eqns()
    return jaxpr.replace(eqns=eqns)


def scanned(step):
    """A function of constants, a carry and rows: the scan with this step."""

    def run(c, h, xs):
        return lax.scan(lambda h, x: step(c, h, x), h, xs)

    return lambda c, h, xs: [*run(c, h, xs)]


def test_a_loop_reads_what_lies_outside_by_its_name(prints):
    """`to_eqn` finds the constants of the body, and makes them operands."""
    closed = program(
        scanned(lambda c, h, x: (h * c + x, h)), "f32[4]", "f32[4]", "f32[3,4]"
    )
    loop = Loop.of(closed.eqns[0])
    carried, row = loop.carry[0], loop.rows[0]
    assert closed.jaxpr.invars[0] in loop.eqns[0].invars
    assert loop.length == 3
    assert {carried.inner, row[0]} < loop.bound
    prints(
        after(lambda *_: None, closed.jaxpr),
        """
        { lambda ; a:f32[4] b:f32[4] c:f32[3,4]. let
            d:f32[4] e:f32[3,4] = scan[
              jaxpr={ lambda ; a:f32[4] f:f32[4] g:f32[4]. let
                  h:f32[4] = mul f a
                  i:f32[4] = add h g
                in (i, f) }
              length=3
            ] a b c
          in (d, e) }
        """,
    )


def test_a_while_loop_tests_its_carry(prints):
    def f(n, x):
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, x)
        )

    prints(
        after(lambda *_: None, program(f, "i32[]", "f32[]").jaxpr),
        """
        { lambda ; a:i32[] b:f32[]. let
            c:i32[] d:f32[] = while[
              body_jaxpr={ lambda ; b:f32[] e:i32[] f:f32[]. let
                  g:i32[] = add e 1:i32[]
                  h:f32[] = mul f b
                in (g, h) }
              body_nconsts=1
              cond_jaxpr={ lambda ; a:i32[] e:i32[] f:f32[]. let
                  i:i32[] = convert_element_type[new_dtype=int32] e
                  j:bool[] = lt i a
                in (j,) }
              cond_nconsts=1
            ] a b 0:i32[] b
          in (c, d) }
        """,
    )


# ------------------------------------------------------------------ aliases


def test_operands_given_twice_are_given_once(prints):
    """Equal carries are merged; the unchanged one becomes a constant."""

    def f(x, y):
        def step(c, _):
            a, b, fixed = c
            return (a + fixed, b + fixed, fixed), None

        return lax.scan(step, (x, x, y), None, length=3)[0]

    prints(
        without_aliases(program(f, "f32[4]", "f32[4]").jaxpr),
        """
        { lambda ; a:f32[4] b:f32[4]. let
            c:f32[4] d:f32[4] = scan[
              jaxpr={ lambda ; b:f32[4] e:f32[4] f:f32[4]. let
                  g:f32[4] = add e b
                  h:f32[4] = add f b
                in (g, h) }
              length=3
            ] b a a
          in (c, d, b) }
        """,
    )


def test_results_of_branches_that_are_operands_go_around(prints):
    def f(i, x, y):
        return lax.cond(i > 0, lambda x, y: (x, x + y), lambda x, y: (x, y), x, y)

    prints(
        without_aliases(program(f, "i32[]", "f32[4]", "f32[4]").jaxpr),
        """
        { lambda ; a:i32[] b:f32[4] c:f32[4]. let
            d:bool[] = gt a 0:i32[]
            e:i32[] = convert_element_type[new_dtype=int32] d
            f:f32[4] = cond[
              branches=(
                { lambda ; c:f32[4] b:f32[4]. let  in (c,) }
                { lambda ; c:f32[4] b:f32[4]. let g:f32[4] = add b c in (g,) }
              )
            ] e c b
          in (b, f) }
        """,
    )


def test_branches_read_outer_names():
    """Both branches of a conditional name its operands as the program does."""
    closed = program(
        lambda i, x: lax.cond(i > 0, jnp.sin, jnp.cos, x), "i32[]", "f32[4]"
    )
    parts = Branches.of(closed.eqns[-1])
    assert [j.eqns[0].invars[0] for j in parts.jaxprs()] == [closed.jaxpr.invars[1]] * 2
    assert parts.hand_on() == {}
    parts.remove_unused([])
    assert [j.eqns for j in parts.jaxprs()] == [(), ()]
    assert Branches.of(closed.eqns[0]) is None


# ------------------------------------------------------------------ dead results


def test_unread_carries_and_rows_are_dropped(prints):
    """Neither the sum of squares nor the stored rows are read."""

    def f(x, xs):
        def step(c, row):
            total, squares = c
            return (total + row, squares + row * row), row * 2

        return lax.scan(step, (x, x), xs)[0][0]

    prints(
        without_dead_results(program(f, "f32[4]", "f32[3,4]").jaxpr),
        """
        { lambda ; a:f32[4] b:f32[3,4]. let
            c:f32[4] = scan[
              jaxpr={ lambda ; d:f32[4] e:f32[4]. let f:f32[4] = add d e in (f,) }
              length=3
            ] a b
          in (c,) }
        """,
    )


def test_a_carry_that_another_needs_is_kept(prints):
    def f(x, xs):
        def step(c, row):
            a, b = c
            return (a + b, b * row), None

        return lax.scan(step, (x, x), xs)[0][0]

    prints(
        without_dead_results(program(f, "f32[4]", "f32[3,4]").jaxpr),
        """
        { lambda ; a:f32[4] b:f32[3,4]. let
            c:f32[4] _:f32[4] = scan[
              jaxpr={ lambda ; d:f32[4] e:f32[4] f:f32[4]. let
                  g:f32[4] = add d e
                  h:f32[4] = mul e f
                in (g, h) }
              length=3
            ] a a b
          in (c,) }
        """,
    )


# ------------------------------------------------------------------ sinking


def test_rows_that_follow_from_other_rows_are_not_stored(prints):
    """The second loop computes `1 - z` from the stored z."""

    def f(xs):
        def forward(c, x):
            z = lax.logistic(x)
            return c + z, (z, 1 - z)

        def backward(c, rows):
            z, rest = rows
            return c * z + rest, None

        total, rows = lax.scan(forward, jnp.zeros(4, jnp.float32), xs)
        return lax.scan(backward, total, rows)[0]

    prints(
        without_dead_results(sunk(program(f, "f32[3,4]").jaxpr, avx2())),
        """
        { lambda ; a:f32[3,4]. let
            b:f32[4] = broadcast_in_dim 0.0:f32[]
            c:f32[4] d:f32[3,4] = scan[
              jaxpr={ lambda ; e:f32[4] f:f32[4]. let
                  g:f32[4] = logistic f
                  h:f32[4] = add e g
                in (h, g) }
              length=3
            ] b a
            i:f32[4] = scan[
              jaxpr={ lambda ; j:f32[4] k:f32[4]. let
                  l:f32[4] = sub 1.0:f32[] k
                  m:f32[4] = mul j k
                  n:f32[4] = add m l
                in (n,) }
              length=3
            ] c d
          in (i,) }
        """,
    )


def test_an_array_of_indices_is_computed_in_the_loop_that_reads_at_it(prints):
    """Its elements are parts of addresses there, and not read from memory."""

    def f(x):
        at = lax.iota("int32", 8)[:, None] * 2

        def step(total, i):
            return total + lax.gather(x, at + i, ONE_EACH, (1,)), None

        rows = jnp.arange(3, dtype="int32")
        return lax.scan(step, jnp.zeros(8, jnp.float32), rows)[0]

    prints(
        sunk(program(f, "f32[32]").jaxpr, avx2()),
        """
        { lambda ; a:f32[32]. let
            b:i32[8] = iota[dimension=0 dtype=int32 shape=(8,)]
            c:i32[8,1] = broadcast_in_dim[broadcast_dimensions=(0,)] b
            _:i32[8,1] = mul c 2:i32[]
            d:i32[3] = iota[dimension=0 dtype=int32 shape=(3,)]
            e:f32[8] = broadcast_in_dim 0.0:f32[]
            f:f32[8] = scan[
              jaxpr={ lambda ; a:f32[32] g:f32[8] h:i32[]. let
                  i:i32[8] = iota[dimension=0 dtype=int32 shape=(8,)]
                  j:i32[8,1] = broadcast_in_dim[broadcast_dimensions=(0,)] i
                  k:i32[8,1] = mul j 2:i32[]
                  l:i32[8,1] = add k h
                  m:f32[8] = gather[
                    numbers=(collapsed=(0,), start_index_map=(0,))
                    slice_sizes=(1,)
                  ] a l
                  n:f32[8] = add g m
                in (n,) }
              length=3
            ] a e d
          in (f,) }
        """,
    )


def test_a_cheap_array_is_made_row_by_row(prints):
    """It is neither computed before the loop nor stored."""

    def f(c, x, xs):
        return lax.scan(lambda h, row: (h * row, None), x, -xs + c)[0]

    prints(
        sunk(program(f, "f32[]", "f32[4]", "f32[3,4]").jaxpr, avx2()),
        """
        { lambda ; a:f32[] b:f32[4] c:f32[3,4]. let
            d:f32[3,4] = neg c
            _:f32[3,4] = add d a
            e:f32[4] = scan[
              jaxpr={ lambda ; a:f32[] f:f32[4] g:f32[4]. let
                  h:f32[4] = neg g
                  i:f32[4] = add h a
                  j:f32[4] = mul f i
                in (j,) }
              length=3
            ] a b c
          in (e,) }
        """,
    )


def test_a_dear_array_is_computed_before_the_loop():
    def f(x, xs):
        return lax.scan(lambda h, row: (h * row, None), x, jnp.sin(xs))[0]

    jaxpr = program(f, "f32[4]", "f32[3,4]").jaxpr
    assert str(sunk(jaxpr, avx2())) == str(jaxpr)


# ------------------------------------------------------------------ invariant code


def test_dear_invariant_code_leaves_the_loop(prints):
    """Cheap invariant code stays: an addition costs less than to read its result."""

    def step(c, h, x):
        return h * jnp.sin(c) + (c + 1) * x, h

    prints(
        after(hoist, program(scanned(step), "f32[4]", "f32[4]", "f32[3,4]").jaxpr),
        """
        { lambda ; a:f32[4] b:f32[4] c:f32[3,4]. let
            d:f32[4] = sin a
            e:f32[4] f:f32[3,4] = scan[
              jaxpr={ lambda ; d:f32[4] a:f32[4] g:f32[4] h:f32[4]. let
                  i:f32[4] = mul g d
                  j:f32[4] = add a 1.0:f32[]
                  k:f32[4] = mul j h
                  l:f32[4] = add i k
                in (l, g) }
              length=3
            ] d a b c
          in (e, f) }
        """,
    )


def test_a_matrix_is_transposed_once(prints):
    """A product that contracts the last dim of a constant reads a transposed copy."""

    def step(c, h, x):
        return lax.dot_general(h, c, (((1,), (1,)), ((), ()))) + x, None

    def f(c, h, xs):
        return lax.scan(lambda h, x: step(c, h, x), h, xs)[0]

    prints(
        after(hoist, program(f, "f32[4,4]", "f32[2,4]", "f32[3,2,4]").jaxpr),
        """
        { lambda ; a:f32[4,4] b:f32[2,4] c:f32[3,2,4]. let
            d:f32[4,4] = transpose[permutation=(1, 0)] a
            e:f32[2,4] = scan[
              jaxpr={ lambda ; d:f32[4,4] f:f32[2,4] g:f32[2,4]. let
                  h:f32[2,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] f d
                  i:f32[2,4] = add h g
                in (i,) }
              length=3
            ] d b c
          in (e,) }
        """,
    )


def test_an_inner_loop_stays_in_one_that_may_have_no_iterations():
    """Code that may raise or not end must not run before the first test."""

    def f(n, x):
        def body(c):
            inner = lax.while_loop(lambda y: y < 10.0, lambda y: y * x, x)
            return c[0] + 1, c[1] + inner

        return lax.while_loop(lambda c: c[0] < n, body, (0, x))

    text = str(after(hoist, program(f, "i32[]", "f32[]").jaxpr))
    assert text.count("while[") == 2
    (eqn,) = after(hoist, program(f, "i32[]", "f32[]").jaxpr).eqns
    assert eqn.op.name == "while"


def test_products_of_rows_are_one_product_before_the_loop(prints):
    def step(c, h, x):
        return jnp.tanh(h + x @ c), None

    def f(c, h, xs):
        return lax.scan(lambda h, x: step(c, h, x), h, xs)[0]

    prints(
        after(hoist_products, program(f, "f32[4,5]", "f32[5]", "f32[3,4]").jaxpr),
        """
        { lambda ; a:f32[4,5] b:f32[5] c:f32[3,4]. let
            d:f32[3,5] = dot_general[
              dimension_numbers=(([1], [0]), ([], []))
              preferred_element_type=float32
            ] c a
            e:f32[5] = scan[
              jaxpr={ lambda ; f:f32[5] g:f32[4] h:f32[5]. let
                  i:f32[5] = add f h
                  j:f32[5] = tanh i
                in (j,) }
              length=3
            ] b c d
          in (e,) }
        """,
    )


# ------------------------------------------------------------------ sums and blocks


def test_a_sum_of_products_is_one_product_after_the_loop(prints):
    """The gradient of a weight: the outer products of all iterations at once."""

    def f(total, h, xs):
        def step(c, x):
            total, h = c
            h = jnp.tanh(h + x)
            return (total + h[:, None] @ x[None], h), None

        return lax.scan(step, (total, h), xs)[0]

    prints(
        after(
            lambda loop, _: sum_after(loop),
            program(f, "f32[4,4]", "f32[4]", "f32[3,4]").jaxpr,
        ),
        """
        { lambda ; a:f32[4,4] b:f32[4] c:f32[3,4]. let
            d:f32[4] e:f32[3,4,1] f:f32[3,1,4] = scan[
              jaxpr={ lambda ; g:f32[4] h:f32[4]. let
                  i:f32[4] = add g h
                  j:f32[4] = tanh i
                  k:f32[4,1] = broadcast_in_dim[broadcast_dimensions=(0,)] j
                  l:f32[1,4] = broadcast_in_dim[broadcast_dimensions=(1,)] h
                  m:f32[4,4] = dot_general[
                    dimension_numbers=(([1], [0]), ([], []))
                    preferred_element_type=float32
                  ] k l
                in (j, k, l) }
              length=3
            ] b c
            n:f32[4,4] = dot_general[
              dimension_numbers=(([0, 2], [0, 1]), ([], []))
              preferred_element_type=float32
            ] e f
            o:f32[4,4] = add a n
          in (o, d) }
        """,
    )


def test_a_long_loop_is_cut_into_blocks(prints, limits):
    """A loop over blocks, each with one product for the rows of its iterations."""
    limits(loop_block_bytes=160, loop_block_iterations=8)

    def f(c, h, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h + x @ c), None), h, xs)[0]

    prints(
        moved_out_of_loops(program(f, "f32[4,5]", "f32[5]", "f32[32,4]").jaxpr, avx2()),
        """
        { lambda ; a:f32[4,5] b:f32[5] c:f32[32,4]. let
            d:f32[4,8,4] = reshape[new_sizes=(4, 8, 4)] c
            e:f32[5] = scan[
              jaxpr={ lambda ; a:f32[4,5] f:f32[5] g:f32[8,4]. let
                  h:f32[8,5] = dot_general[
                    dimension_numbers=(([1], [0]), ([], []))
                    preferred_element_type=float32
                  ] g a
                  i:f32[5] = scan[
                    jaxpr={ lambda ; j:f32[5] k:f32[5]. let
                        l:f32[5] = add j k
                        m:f32[5] = tanh l
                      in (m,) }
                    length=8
                  ] f h
                in (i,) }
              length=4
            ] a b d
          in (e,) }
        """,
    )


def test_stacked_rows_take_no_room_twice(limits):
    """If the products of all rows are too large, the loop stays as it is."""
    limits(loop_block_bytes=16, loop_bytes=16)

    def f(c, h, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h + x @ c), None), h, xs)[0]

    jaxpr = program(f, "f32[4,5]", "f32[5]", "f32[32,4]").jaxpr
    assert [e.op.name for e in moved_out_of_loops(jaxpr, avx2()).eqns] == ["scan"]
    assert dataclasses.replace(jaxpr.eqns[0].op) == jaxpr.eqns[0].op
