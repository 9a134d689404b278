"""Rewrites of eqns, tables by class of op, and the order of eqns."""

import numpy as np
from tests.compiler.printing import AVX2, AVX512, aval, program

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.library.routine import Routine
from curta.compiler.rewrite.by_class import by_class
from curta.compiler.rewrite.counted_consts import with_iotas
from curta.compiler.rewrite.in_place import with_late_updates
from curta.compiler.rewrite.joins import joined_twice, reshaped, slice_of_a_part
from curta.compiler.rewrite.library_op import LibraryOp
from curta.compiler.rewrite.outer_products import outer_products
from curta.compiler.rewrite.recomputation import without_idle_barriers
from curta.compiler.rewrite.rewriting import Context, Rewriting, key_of, rewrites
from curta.compiler.rewrite.scatters import add_one_to_each_row
from curta.compiler.rewrite.sorting import GreatestOfRows, OrderOfRows, SortedRows
from curta.core.jaxpr import Var
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.elementwise import mul, sin
from curta.primitives.elementwise.arithmetic import Add, Mul, Neg
from curta.transforms.dce import dce_jaxpr

# ------------------------------------------------------------------ rewriting


@rewrites(Neg)
def twice(eqn, context):
    """neg (neg x) -> x."""
    before = context.made_by(eqn.invars[0], Neg)
    return [before.invars[0]] if before else None


@rewrites(Mul)
def squares_as_sums(eqn, context):
    """mul x y -> add x y; no algebra, but easy to see."""
    return [context.apply(Add(), *eqn.invars)]


def test_a_rewrite_gives_other_results_for_an_eqn(prints):
    """The eqn of the first `neg` stays until dead code is eliminated."""
    closed = program(lambda x: lax.neg(-x) * x, "f32[3]")
    prints(
        Rewriting(twice)(closed.jaxpr, AVX2),
        """
        { lambda ; a:f32[3]. let _:f32[3] = neg a; b:f32[3] = mul a a in (b,) }
        """,
    )
    prints(
        dce_jaxpr(Rewriting(twice, squares_as_sums)(closed.jaxpr, AVX2)),
        """
        { lambda ; a:f32[3]. let b:f32[3] = add a a in (b,) }
        """,
    )


def test_equal_eqns_are_used_again(prints):
    closed = program(lambda x: -(lax.sin(x) + lax.sin(x)), "f32[3]")
    prints(
        Rewriting(twice)(closed.jaxpr, AVX2),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = sin a
            c:f32[3] = add b b
            d:f32[3] = neg c
          in (d,) }
        """,
    )


def test_a_jaxpr_without_such_ops_stays_as_it_is():
    jaxpr = program(lambda x: lax.sin(x) + lax.sin(x), "f32[3]").jaxpr
    assert Rewriting(twice)(jaxpr, AVX2) is jaxpr


def test_eqns_with_effects_are_never_merged():
    def f(x):
        key = lax.optimization_barrier(x)
        return key + lax.sin(x)

    barrier, dear, _ = program(f, "f32[3]").eqns
    assert key_of(barrier, barrier.invars) is None
    assert key_of(dear, dear.invars) == key_of(dear, dear.invars)


def test_literals_are_equal_by_type_and_bits():
    """0.0 and -0.0 compare equal as numbers, and are not merged."""
    jaxpr = program(lambda x: [x * 0.0, x * -0.0, x * 0.0], "f32[3]").jaxpr
    keys = [key_of(e, e.invars) for e in jaxpr.eqns]
    assert keys[0] != keys[1] and keys[0] == keys[2]


def test_rules_are_found_by_the_nearest_base_class():
    table = {Op: "any", Elementwise: "by element", Mul: "product"}
    assert [by_class(table, op) for op in (mul, sin)] == ["product", "by element"]
    assert by_class({Add: 1}, mul) is None


# ------------------------------------------------------------------ joins


def test_reshapes_of_reshapes_are_one():
    context = Context(AVX2.tuning)
    x = Var(aval("f32[2,6]"))
    (first,) = reshaped(x, (12,), context)
    (second,) = reshaped(first, (3, 4), context)
    assert context.made_by(second, Op).invars == (x,)
    assert reshaped(second, (2, 6), context) == [x]


def test_joined_arrays_are_joined_once(prints):
    def f(x, y):
        whole = lax.concatenate([lax.concatenate([x, y], 0), x], 0)
        return whole, whole[4:7]

    prints(
        dce_jaxpr(
            Rewriting(joined_twice, slice_of_a_part)(
                program(f, "f32[4]", "f32[3]").jaxpr, AVX2
            )
        ),
        """
        { lambda ; a:f32[4] b:f32[3]. let
            c:f32[11] = concatenate[dimension=0] a b a
          in (c, b) }
        """,
    )


# ------------------------------------------------------------------ order of eqns


def test_an_update_waits_for_reads_of_the_old_array(prints):
    """The sum reads x before the update, which can then be made in place."""

    def f(x, i):
        y = lax.dynamic_update_slice(x, jnp.ones(1, jnp.float32), [i])
        total = jnp.sum(x)
        return y, total

    prints(
        with_late_updates(program(f, "f32[8]", "i32[]").jaxpr),
        """
        { lambda ; a:f32[8] b:i32[]. let
            c:f32[1] = broadcast_in_dim 1.0:f32[]
            d:bool[] = lt b 0:i32[]
            e:i32[] = add b 8:i32[]
            f:i32[] = select_n d b e
            g:f32[] = reduce_sum[axes=(0,)] a
            h:f32[8] = dynamic_update_slice a c f
          in (h, g) }
        """,
    )


def test_an_update_precedes_reads_of_the_new_array(prints):
    def f(x, i):
        y = lax.dynamic_update_slice(x, jnp.ones(1, jnp.float32), [i])
        return jnp.sum(y), jnp.sum(x)

    prints(
        with_late_updates(program(f, "f32[8]", "i32[]").jaxpr),
        """
        { lambda ; a:f32[8] b:i32[]. let
            c:f32[1] = broadcast_in_dim 1.0:f32[]
            d:bool[] = lt b 0:i32[]
            e:i32[] = add b 8:i32[]
            f:i32[] = select_n d b e
            g:f32[8] = dynamic_update_slice a c f
            h:f32[] = reduce_sum[axes=(0,)] g
            i:f32[] = reduce_sum[axes=(0,)] a
          in (h, i) }
        """,
    )


# ------------------------------------------------------------------ products, consts


def test_a_product_over_no_dims_is_elementwise(prints):
    def f(x, y):
        return lax.dot_general(
            x, y, (((), ()), ((1,), (0,))), preferred_element_type="float32"
        )

    prints(
        outer_products(program(f, "bf16[2,3]", "f32[3,4]").jaxpr, AVX2),
        """
        { lambda ; a:bf16[2,3] b:f32[3,4]. let
            c:f32[2,3] = convert_element_type[new_dtype=float32] a
            d:f32[3,2] = transpose[permutation=(1, 0)] c
            e:f32[3,2,4] = broadcast_in_dim[broadcast_dimensions=(0, 1)] d
            f:f32[3,2,4] = broadcast_in_dim[broadcast_dimensions=(0, 2)] b
            g:f32[3,2,4] = mul e f
          in (g,) }
        """,
    )


def test_sums_and_narrowing_products_stay():
    for f, types in (
        (lambda x, y: x @ y, ("f32[3]", "f32[3]")),
        (lambda x, y: x[:, None] @ y[None], ("c64[3]", "c64[3]")),
    ):
        jaxpr = program(f, *types).jaxpr
        assert "dot_general" in str(outer_products(jaxpr, AVX2))


def test_constant_indices_that_count_are_iotas(prints):
    """Reads at 1, 3, 5, 7, 0, 2 need no array: a line with one jump."""
    at = np.array([[1], [3], [5], [7], [0], [2]], np.int32)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    closed = program(lambda x: lax.gather(x, at, numbers, (1,)), "f32[8]")
    prints(
        with_iotas(closed, AVX2).jaxpr,
        """
        { lambda ; a:f32[8]. let
            b:i32[6,1] = broadcast_in_dim 1:i32[]
            c:i32[6,1] = iota[dimension=0 dtype=int32 shape=(6, 1)]
            d:i32[6,1] = mul c 2:i32[]
            e:i32[6,1] = add b d
            f:i32[6,1] = add e -9:i32[]
            g:bool[6,1] = ge c 4:i32[]
            h:i32[6,1] = select_n g e f
            i:f32[6] = gather[
              numbers=(collapsed=(0,), start_index_map=(0,))
              slice_sizes=(1,)
            ] a h
          in (i,) }
        """,
    )
    random = np.array([[1], [3], [2], [7], [0], [5]], np.int32)
    closed = program(lambda x: lax.gather(x, random, numbers, (1,)), "f32[8]")
    assert with_iotas(closed, AVX2) is closed


# ------------------------------------------------------------------ recomputation


def test_barriers_hold_back_only_what_is_computed_twice(prints):
    """The sine of a checkpointed function is computed again, behind a barrier."""

    def f(x):
        y, back = curta.vjp(curta.checkpoint(lambda x: lax.sin(lax.sin(x))), x)
        return y, *back(y)

    closed = program(f, "f32[3]", barriers=True)
    prints(
        dce_jaxpr(without_idle_barriers(closed.jaxpr)),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = sin a
            c:f32[3] = sin b
            d:f32[3] = optimization_barrier a
            e:f32[3] = sin d
            f:f32[3] = cos d
            g:f32[3] = cos e
            h:f32[3] = mul c g
            i:f32[3] = mul h f
          in (c, i) }
        """,
    )


def test_a_barrier_behind_which_all_is_new_is_dropped():
    """The cosine was not computed before, so that nothing could be merged with it."""

    def f(x):
        y, back = curta.vjp(curta.checkpoint(lax.sin), x)
        return y, *back(y)

    jaxpr = dce_jaxpr(program(f, "f32[3]", barriers=True).jaxpr)
    assert "optimization_barrier" in str(jaxpr)
    assert "optimization_barrier" not in str(without_idle_barriers(jaxpr))


# ------------------------------------------------------------------ scatters, library


def test_adding_one_number_to_each_row_is_a_selection(prints):
    """The gradient of the log-probability that a label chooses."""

    def f(at, update):
        numbers = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
        zeros = lax.broadcast(jnp.float32(0), (4, 3))
        return lax.scatter_add(zeros, at, update, numbers)

    prints(
        dce_jaxpr(
            Rewriting(add_one_to_each_row)(program(f, "i32[4,1]", "f32[4]").jaxpr, AVX2)
        ),
        """
        { lambda ; a:i32[4,1] b:f32[4]. let
            c:f32[4,3] = broadcast_in_dim 0.0:f32[]
            d:i32[4] = reshape[new_sizes=(4,)] a
            e:i32[4,3] = iota[dimension=1 dtype=int32 shape=(4, 3)]
            f:i32[4,3] = broadcast_in_dim[broadcast_dimensions=(0,)] d
            g:bool[4,3] = eq e f
            h:f32[4] = reshape[new_sizes=(4,)] b
            i:f32[4,3] = broadcast_in_dim[broadcast_dimensions=(0,)] h
            j:f32[4,3] = add c i
            k:f32[4,3] = select_n g c j
          in (k,) }
        """,
    )


def test_library_ops_name_their_routine():
    """The type of an op's results, and the routine for a target's vectors."""
    for op, out in (
        (SortedRows(), "f32[5,8]"),
        (OrderOfRows(), "i32[5,8]"),
        (GreatestOfRows(3), "i32[5,3]"),
    ):
        assert isinstance(op, LibraryOp)
        assert op.aval(aval("f32[5,8]")) == aval(out)
        routine = op.routine(AVX2, aval("f32[5,8]"))
        assert isinstance(routine, Routine)
    wide, narrow = (SortedRows().routine(t, aval("f32[5,8]")) for t in (AVX512, AVX2))
    assert wide != narrow
    assert not SortedRows.orders_rows and OrderOfRows.orders_rows
