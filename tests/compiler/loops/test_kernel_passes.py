"""Passes on kernels: a program in, the loops out."""

import numpy as np
from tests.compiler.printing import (
    AVX2,
    body_lines,
    first_kernel,
    kernel_text,
    program,
    program_text,
)

import curta.numpy as jnp
from curta import lax
from curta.compiler.loops.bufferize import placement_of
from curta.compiler.loops.canonical import canonical_form, outline
from curta.compiler.loops.costs import cost, kernel_cost, weight
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.index_set_splitting import read_by_maps
from curta.compiler.loops.lower import Elements, loop_dims, variables
from curta.compiler.loops.narrow_rows import widen_rows
from curta.compiler.loops.nodes import Buffer, Load, walk
from curta.compiler.loops.rewriter import Rewriter, are_one, collapse, indices_of
from curta.compiler.loops.split import piece_index, split_folds
from curta.compiler.loops.walks import (
    dependences,
    has_few_rows,
    is_light,
    is_running,
    prefers_columns,
    varies,
)
from curta.compiler.schedule.kernels import kernel_schedule


def by_rows(x):
    return x.sum(1)


def by_columns(x):
    return x.sum(0)


# ------------------------------------------------------------------ from elements


def test_elements_of_virtual_values_are_expressions(prints):
    """An addition and a transposition are arithmetic in the loop that reads them."""
    prints(
        kernel_text(first_kernel(lambda x: (x + 1).T * 2, "f32[3,5]")[0]),
        """
        kernel i0:5, 5 iterations, 1 chunks
          memory v1 in0
          for i1:3 by 2 lanes of i1:
            t0:float32 = in0[i0 + 5*i1]
            t1:float32 = add t0, 1.0
            t2:float32 = mul t1, 2.0
            v1[i1 + 3*i0] = t2
        """,
    )


def test_dims_of_one_element_have_no_loop():
    index = loop_dims((4, 1, 5))
    assert [str(getattr(i, "name", i)) for i in index] == ["i0", "0", "i1"]
    assert [v.extent for v in variables(index)] == [4, 5]


def test_an_element_is_a_load_or_a_constant():
    closed = program(lambda x: x + 1, "f32[4]")
    kernel, b = first_kernel(lambda x: x + 1, "f32[4]")
    (x,) = closed.jaxpr.invars
    elements = Elements(b, {x: Buffer("x", np.dtype("float32"), 4)}, {})
    (i,) = loop_dims((4,))
    load = elements.at(x, (i,))
    assert isinstance(load, Load) and load is elements.at(x, (i,))
    assert elements.at(closed.eqns[0].invars[1], ()).value == 1
    assert kernel.nests


# ------------------------------------------------------------------ dims


def test_neighboring_dims_become_one(prints):
    """Rows that follow each other in all arrays are one long row."""
    kernel, builder = first_kernel(lambda x, y: x * y, "f32[3,5]", "f32[3,5]")
    prints(
        kernel_text(collapse(kernel, builder)),
        """
        kernel , 1 iterations, 1 chunks
          memory v2 in0 in1
          for i0i1:15 by 8 lanes of i0i1:
            t0:float32 = in0[i0i1]
            t1:float32 = in1[i0i1]
            t2:float32 = mul t0, t1
            v2[i0i1] = t2
        """,
    )
    i, j = LoopVar("i", 3), LoopVar("j", 5)
    assert are_one(i, j, [as_index(i) * 5 + j])
    assert not are_one(i, j, [as_index(i) * 6 + j])


def test_a_rewriter_exchanges_indices():
    kernel, builder = first_kernel(lambda x: x * 2, "f32[8]")
    (nest,) = kernel.nests
    (i,) = nest.dims or kernel.dims
    stores, _ = Rewriter(builder, {i: as_index(3)}.get).body(nest)
    assert stores[0].offset == as_index(3)
    assert [*indices_of(walk([stores[0].value]))] == [as_index(3)]


# ------------------------------------------------------------------ splits, columns


def test_the_sum_of_a_long_row_is_cut_into_blocks(prints):
    """A kernel for the full blocks, one for the rest, and one that joins them."""
    kernel, builder = first_kernel(lambda x: x.sum(), "f32[1000003]")
    parts = split_folds(kernel, builder, AVX2)
    prints(
        "\n".join(map(kernel_text, parts)),
        """
        kernel block:244, 244 iterations, 31 chunks
          memory partial1 in0
          for i0:4096 by 32 lanes of i0:
            t0:float32 = in0[4096*block + i0]
            fold t0 from 0.0
              t0:float32 = sum left0, right0
              left = t0
              partial1[block] = left0
        kernel , 1 iterations, 1 chunks
          memory partial1 in0
          for i0:579 by 32 lanes of i0:
            t0:float32 = in0[i0 + 999424]
            fold t0 from 0.0
              t0:float32 = sum left0, right0
              left = t0
              partial1[244] = left0
        kernel , 1 iterations, 1 chunks
          memory v1 partial1
          for block:245 by 1 lanes of block:
            t0:float32 = partial1[block]
            fold t0 from 0.0
              t0:float32 = sum left0, right0
              left = t0
              v1[0] = left0
        """,
    )
    assert piece_index(4).name == "piece"


def test_the_greatest_of_a_long_row_is_found_in_pieces(prints):
    kernel, builder = first_kernel(lambda x: x.max(), "f32[1000003]")
    prints(
        "\n".join(map(kernel_text, split_folds(kernel, builder, AVX2))),
        """
        kernel  split i0 by 67072, 15 iterations, 15 chunks
          memory partial1 in0
          for i0:1000003 by 32 lanes of i0:
            t0:float32 = in0[i0]
            fold t0 from -inf
              t0:float32 = max left0, right0
              left = t0
              partial1[piece] = left0
        kernel , 1 iterations, 1 chunks
          memory v1 partial1
          for piece:15 by 8 lanes of piece:
            t0:float32 = partial1[piece]
            fold t0 from -inf
              t0:float32 = max left0, right0
              left = t0
              v1[0] = left0
        """,
    )


def test_short_sums_are_not_split():
    kernel, builder = first_kernel(lambda x: x.sum(), "f32[100]")
    assert split_folds(kernel, builder, AVX2) == [kernel]


def test_narrow_rows_become_wide_ones(prints):
    """Three columns become 192: 64 rows of three elements make one row."""
    kernel, builder = first_kernel(lambda x: x.max(0), "f32[64000,3]")
    prints(
        "\n".join(map(kernel_text, widen_rows(kernel, builder, AVX2))),
        """
        kernel i1i0:192, 1 iterations, 1 chunks
          memory partial1 in0
          for i1:1000 by 32 lanes of i1i0:
            t0:float32 = in0[i1i0 + 192*i1]
            fold t0 from -inf
              t0:float32 = max left0, right0
              left = t0
              partial1[i1i0] = left0
        kernel i0:3, 1 iterations, 1 chunks
          memory v1 partial1
          for i1_part:64 by 4 lanes of i0:
            t0:float32 = partial1[i0 + 3*i1_part]
            fold t0 from -inf
              t0:float32 = max left0, right0
              left = t0
              v1[i0] = left0
        """,
    )


def test_wide_rows_stay():
    kernel, builder = first_kernel(by_columns, "f32[6400,300]")
    assert [k.dims for k in widen_rows(kernel, builder, AVX2)] == [kernel.dims]


def test_sums_over_rows_go_along_columns():
    """Neighbors in memory are outer indices of the one kernel, inner of the other."""
    columns, _ = first_kernel(by_columns, "f32[64,48]")
    rows, _ = first_kernel(by_rows, "f32[64,48]")
    assert prefers_columns(columns) and not prefers_columns(rows)
    few, _ = first_kernel(by_columns, "f32[4,48]")
    assert has_few_rows(few.nests[0], AVX2.tuning)
    assert not has_few_rows(columns.nests[0], AVX2.tuning)
    assert is_light(rows.nests[0], AVX2.tuning)
    running, _ = first_kernel(lambda x: lax.cumsum(x, axis=1), "f32[64,48]")
    assert is_running(running.nests[0]) and not is_running(rows.nests[0])


def test_values_vary_with_the_loops_of_their_indices():
    kernel, _ = first_kernel(lambda x, y: x + y[:, None], "f32[3,5]", "f32[3]")
    (nest,) = kernel.nests
    found = dependences(nest.body)
    of_y = next(e for e in nest.body if isinstance(e, Load) and e.buffer.size == 3)
    of_x = next(e for e in nest.body if isinstance(e, Load) and e.buffer.size == 15)
    assert found[of_y] == varies(of_y) < found[of_x]


# ------------------------------------------------------------------ seams


def test_a_rolled_array_is_read_in_two_regions(prints):
    """The map is split where the index wraps around; both loads are contiguous."""

    def f(x):
        return jnp.concatenate([x[6000:], x[:6000]]) + x

    jaxpr = program(f, "f32[8000]").jaxpr
    assert read_by_maps(jaxpr, frozenset()) == {
        v for e in jaxpr.eqns[:-1] for v in e.outvars
    }
    prints(
        program_text(f, "f32[8000]"),
        """
        kernel , 1 iterations, 1 chunks
          memory v1 in0
          for i0:8000 by 8 lanes of i0:
            t0:bool = compare.lt (i0), 2000
            t1:float32 = in0[i0 + 6000] where t0
            t2:bool = compare.ge (i0), 2000
            t3:float32 = in0[i0 - 2000] where t2
            t4:float32 = select t2, t3, 0.0
            t5:float32 = select t0, t1, t4
            t6:float32 = in0[i0]
            t7:float32 = add t5, t6
            v1[i0] = t7
        """,
    )


# ------------------------------------------------------------------ costs, forms


def test_costs_are_counted_in_simple_operations():
    """A load and an addition are one each, a sine is 20, a division 4."""
    for fun, each in (
        (lambda x: x + 1, 2),
        (lambda x: jnp.sin(x), 21),
        (lambda x: 1 / x, 5),
    ):
        kernel, _ = first_kernel(fun, "f32[10]")
        (nest,) = kernel.nests
        assert sum(map(weight, nest.body)) == each
        assert cost(nest) == each + 1
        assert kernel_cost(kernel) == 10 * (each + 1)


def test_equal_layers_have_one_canonical_form():
    """Names of buffers do not count, constants and sizes do."""

    def form(fun, *types):
        kernel, _ = first_kernel(fun, *types)
        plan = kernel_schedule(kernel, AVX2)
        placement = placement_of(kernel, plan, {*kernel.buffers()}, AVX2.tuning)
        return outline(kernel, plan), canonical_form(kernel, plan, placement)

    same = form(lambda x: jnp.tanh(x) * 2, "f32[10]")
    assert same == form(lambda y: jnp.tanh(y) * 2, "f32[10]")
    other = form(lambda x: jnp.tanh(x) * 3, "f32[10]")
    assert same[0] == other[0] and same[1] != other[1]
    assert same[0] != form(lambda x: jnp.tanh(x) * 2, "f32[11]")[0]
    zero, negative = (form(lambda x, z=z: x + z, "f32[4]")[1] for z in (0.5, -0.5))
    assert zero != negative
    assert body_lines(first_kernel(lambda x: x + 1, "f32[4]")[0])
