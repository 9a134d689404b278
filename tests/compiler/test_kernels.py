"""Kernels as data: their printed form, and the checks on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.programs import staged
from tests.compiler.test_fuse import layernorm, plan_of, softmax

import curta
import curta.numpy as jnp
from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import fuse
from curta.compiler.host_target import host
from curta.compiler.loops.bufferize import placement_of
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.check import InvalidKernel, check_kernel
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Buffer, Kernel, LoopNest, Store
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.memory.arena import live_ranges, plan_arena
from curta.compiler.pretty import pretty_scheduled
from curta.compiler.program.work import Scheduled
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.schedule.kernels import kernel_schedule
from curta.compiler.schedule.nests import unaligned_head

FLOAT32 = np.dtype("float32")
WIDE = replace(host(), vector_bytes=64)


@pytest.mark.parametrize("fun", [softmax, layernorm], ids=lambda f: f.__name__)
def test_normalisation(fun: Callable[..., object], golden: Callable[..., None]) -> None:
    x = np.zeros((512, 256), np.float32)
    plan = plan_of(staged(fun, x))
    program = lower_to_items(staged(fun, x).jaxpr, host())
    kernel = assemble(plan.groups[0], program.builder)
    plan_ = kernel_schedule(kernel, WIDE)
    ends = {b for b in kernel.buffers() if b.name.startswith("in")}
    ends.add(kernel.nests[-1].stores[-1].buffer)
    golden(
        pretty_scheduled(
            Scheduled(kernel, plan_, placement_of(kernel, plan_, ends, host().tuning))
        )
    )


@pytest.mark.parametrize("spec, by_columns", [("ij,j->i", False), ("i,ij->j", True)])
def test_products_of_complex_matrices_and_vectors_go_along_memory(
    spec: str, by_columns: bool
) -> None:
    args = [np.zeros((500,) * len(x), "complex64") for x in spec[:-3].split(",")]
    closed = staged(lambda x, y: [jnp.einsum(spec, x, y)], *args)
    program = lower_to_items(inline_calls(closed).jaxpr, host())
    kernel = assemble(fuse(program).groups[-1], program.builder)
    assert (kernel_schedule(kernel, WIDE).column is not None) == by_columns


def copying(size: int, extent: int, value_dtype: str = "float32") -> Kernel:
    b, i = ScalarBuilder(), LoopVar("i", extent)
    source, target = Buffer("x", FLOAT32, size), Buffer("y", FLOAT32, size)
    value = b.convert(b.load(source, as_index(i), FLOAT32), np.dtype(value_dtype))
    return Kernel((), (LoopNest((i,), (Store(target, as_index(i), value),), ()),))


def test_a_good_kernel_passes() -> None:
    check_kernel(copying(8, 8))


def test_an_index_out_of_range_is_found() -> None:
    with pytest.raises(InvalidKernel, match="leaves its 8 elements"):
        check_kernel(copying(8, 9))


def test_a_wrong_dtype_is_found() -> None:
    with pytest.raises(InvalidKernel, match="int32 is stored in y"):
        check_kernel(copying(8, 8, "int32"))


def test_an_unbound_variable_is_found() -> None:
    (nest,) = copying(8, 8).nests
    with pytest.raises(InvalidKernel, match="uses"):
        check_kernel(Kernel((), (LoopNest((), nest.stores, ()),)))


def test_the_arena_uses_the_places_of_dead_values_again() -> None:
    a, b, c = (Buffer(n, FLOAT32, 100) for n in "abc")
    arena = plan_arena(live_ranges([[a], [a, b], [b, c]], set()), {}, host().tuning)
    assert arena.offsets[a] == arena.offsets[c] != arena.offsets[b]
    assert arena.size == 2 * 448


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("shift", [1, 3, 64, 100])
def test_stores_that_begin_within_a_cache_line(dtype: str, shift: int) -> None:
    x = (np.arange(40_000) % 7).astype(dtype)
    first, second = x[shift:], x[:shift]
    with curta.enable_x64(True):
        found = curta.jit(lambda a, b: jnp.concatenate([b, a]))(first, second)
    np.testing.assert_array_equal(found, np.concatenate([second, first]))


def test_the_head_before_whole_cache_lines() -> None:
    i, j = LoopVar("i", 1 << 13), LoopVar("j", 8)
    buffer, other = Buffer("y", FLOAT32, 1 << 20), Buffer("z", FLOAT32, 1 << 20)
    value = ScalarBuilder().const(0.0, FLOAT32)

    def head(*stores: tuple[Buffer, object]) -> int:
        made = tuple(Store(b, as_index(offset), value) for b, offset in stores)
        return unaligned_head(LoopNest((i,), made, ()), i, WIDE)

    index = as_index(i)
    assert head((buffer, index)) == 0
    assert head((buffer, index + 1)) == 15
    assert head((buffer, index + 1), (other, index + 17)) == 15
    assert head((buffer, index + 1), (other, index + 2)) == 0
    assert head((buffer, index * 2 + 1)) == 0
    assert head((buffer, index + as_index(j) * 1000 + 1)) == 0
    assert head((buffer, index + as_index(j) * 1024 + 1)) == 15


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(640, 1000), (200, 4001), (9000, 71)])
def test_masks_are_for_what_is_left(shape, axis, monkeypatch, capfd):
    """Whole vectors have none: on AMD's processors a masked load takes 20 cycles."""
    x = np.random.default_rng(0).uniform(size=shape).astype(np.float32)
    monkeypatch.setenv("CURTA_DUMP", "llvm")
    found = curta.jit(lambda x: jnp.tanh(jnp.exp(x) * x).max(axis))(x)
    code = capfd.readouterr().err
    masked = re.findall(r"= call .*@llvm.masked.load", code)
    whole = re.findall(r"= load <.* x float>", code)
    assert len(masked) <= 4 < len(whole) or (axis == 1 and len(masked) <= 1 and whole)
    np.testing.assert_allclose(found, np.tanh(np.exp(x) * x).max(axis), 1e-5)
