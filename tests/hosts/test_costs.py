"""Bytes between hosts, counted: those of the textbook, to 4,096 hosts."""

import pytest

import curta.numpy as jnp
from benchmarks.hosts_bytes import (
    CASES,
    data_parallel_step,
    f32,
    product_over_parts,
    program,
    transformer_layer,
)
from curta import P, lax
from curta.config import enable_x64
from curta.partition.costs import traffic_of


def traffic(*args):
    """The traffic of one host, where each device of a mesh is one."""
    return traffic_of(program(*args))


@pytest.mark.parametrize(
    ("case", "mesh"), [(c, m) for c, meshes in CASES.items() for m in meshes]
)
def test_as_many_bytes_as_in_the_textbook(case, mesh):
    found = case(*mesh)
    assert found.traffic.total == found.nbytes


def test_gradients_are_summed_at_once_and_activations_twice():
    assert data_parallel_step(64).traffic.counts == {"all_reduce": 1}
    assert transformer_layer(64, 8).traffic.counts == {"all_reduce": 2}
    assert product_over_parts(64).traffic.counts == {"reduce_scatter": 1}


def test_loops_count_for_all_iterations():
    def f(x):
        return lax.scan(lambda c, _: (jnp.tanh(c) * c.sum(), None), x, None, length=7)

    found = traffic(f, [f32(16)], {"x": 8}, [P("x")], [P("x")])
    assert found.counts == {"all_reduce": 7} and found.rounds == 7 * 2 * 3
    assert found.seconds(1e9, 1e-6) == found.total / 1e9 + 42e-6


def test_a_listing_names_the_line():
    def f(x):
        return x / x.sum(0)

    text = str(traffic(f, [f32(16, 4)], {"x": 8}, [P("x")], [P("x")]))
    first, line = text.splitlines()
    assert first == "28 bytes leave each host"
    assert line.startswith("all_reduce over x (8 hosts), 28 bytes: ")
    assert "test_costs.py" in line


def test_rows_that_an_int32_cannot_count_are_counted_or_refused():
    large = 1 << 33
    axes, rows = {"x": 8}, [P("x")]
    with enable_x64(True):
        local = program(lambda: lax.iota("int64", large), [], axes, [], rows)
    assert f"{large // 8}:i64[]" in str(local)
    with pytest.raises(NotImplementedError, match="another dim"):
        program(lambda: lax.iota("float32", large), [], axes, [], rows)
