"""Elements that are only moved: by their width, in whole vectors that may overlap."""

import itertools

import numpy as np
import pytest
from tests.compiler.programs import staged
from tests.compiler.test_ends_of_memory import between_guards

import curta
import curta.numpy as jnp
from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import fuse
from curta.compiler.host_target import host
from curta.compiler.loops.moves import by_width
from curta.compiler.lower.item_lowering import lower_to_items

DTYPES = ("bool", "int8", "float16", "bfloat16", "int32", "float32", "complex64")
MOVES = {
    "transposed": lambda x: x.T,
    "turned": lambda x: x[::-1, ::-1],
    "every third": lambda x: x[1:, ::3],
    "padded": lambda x: jnp.pad(x, ((1, 2), (3, 0)), constant_values=1),
    "joined": lambda x: jnp.concatenate([x, x[:, :3], x], 1),
    "chosen": lambda x: jnp.where(jnp.arange(x.shape[1]) % 3 == 1, x, x[:, ::-1]),
    "rolled": lambda x: jnp.roll(x, 2, 1),
    "gathered": lambda x: x[:, jnp.arange(x.shape[1]) * 7 % x.shape[1]],
    "set": lambda x: x.at[:, 1].set(1),
    "two of them": lambda x: (x.T, x[:, ::-1]),
    "moved and computed": lambda x: (x.T, x[:, ::-1] == x),
}


def drawn(shape, dtype):
    x = np.random.default_rng(0).integers(0, 99, shape)
    if dtype == "bool":
        return x % 2 == 1
    if dtype == "complex64":
        x = x - 1j * x[::-1]
    return np.asarray(jnp.asarray(x, dtype))


@pytest.mark.parametrize("shape", [(1, 2), (7, 5), (17, 33), (70, 150), (150, 271)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MOVES)
def test_values_are_those_of_single_ops(name, dtype, shape):
    x, move = drawn(shape, dtype), MOVES[name]
    with curta.disable_jit():
        want = curta.tree.map(np.asarray, move(jnp.asarray(x)))
    compiled = curta.jit(move)
    for at_end in (True, False):
        found = compiled(between_guards(x, at_end))
        curta.tree.map(np.testing.assert_array_equal, found, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("apart", range(3, 9))
def test_a_few_elements_apart(dtype, apart):
    x = drawn((2, 149 * apart), dtype)
    compiled = curta.jit(lambda x: (x[:, apart - 1 :: apart], x[0, ::apart] == x[1, 0]))
    for at_end in (True, False):
        picked, compared = compiled(between_guards(x, at_end))
        np.testing.assert_array_equal(picked, x[:, apart - 1 :: apart])
        np.testing.assert_array_equal(compared, x[0, ::apart] == x[1, 0])


def code(move, dtype, monkeypatch, capsys):
    """The LLVM IR of a move."""
    monkeypatch.setenv("CURTA_DUMP", "llvm")
    curta.jit(lambda x: move(x))(jnp.zeros((200, 150), dtype))
    return capsys.readouterr().err


WIDTHS = [("bool", "int8"), ("float16", "bfloat16"), ("int32", "float32")]


@pytest.mark.parametrize("name", ["transposed", "turned", "every third", "joined"])
@pytest.mark.parametrize("dtypes", WIDTHS)
def test_dtypes_of_a_width_have_the_same_code(name, dtypes, monkeypatch, capsys):
    first, second = (code(MOVES[name], t, monkeypatch, capsys) for t in dtypes)
    assert first == second


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex64"])
@pytest.mark.parametrize("name", ["transposed", "turned", "padded", "gathered"])
def test_what_is_left_is_moved_by_whole_vectors(name, dtype, monkeypatch, capsys):
    """Masked accesses of bytes are done one by one, with a jump for each."""
    text = code(MOVES[name], dtype, monkeypatch, capsys)
    assert "masked.store" not in text and "masked.load" not in text


def test_nothing_is_computed_twice_that_may_be_overwritten():
    """The result of a map may use the memory of a donated argument."""
    for size, donated in itertools.product((5, 67, 150, 1003), (0, 1)):
        x = jnp.arange(size * 3, dtype=jnp.float32).reshape(3, size)
        y = jnp.arange(size * 3, dtype=jnp.float32).reshape(3, size) * 5
        want = np.asarray(x) + np.asarray(y)[:, ::-1]
        found = curta.jit(lambda x, y: x + y[:, ::-1], donate_argnums=donated)(x, y)
        np.testing.assert_array_equal(found, want)
        z = jnp.arange(size, dtype=jnp.float32)
        found = curta.jit(lambda z: z * 2 + 1, donate_argnums=0)(z)
        np.testing.assert_array_equal(found, np.arange(size) * 2 + 1)


def test_deep_choices_are_left_as_they_are():
    """A chain of a thousand selects is not a move: the search must not recurse."""

    def fun(x):
        for i in range(1000):
            x = jnp.where(jnp.arange(x.size) == i % x.size, x[::-1], x)
        return x

    x = drawn((9,), "bool")
    want = x
    for i in range(1000):
        want = np.where(np.arange(9) == i % 9, want[::-1], want)
    np.testing.assert_array_equal(curta.jit(fun)(x), want)


def test_complex_numbers_are_one_element():
    x = np.zeros((20, 30), np.complex64)
    program = lower_to_items(staged(lambda x: [x.T], x).jaxpr, host())
    kernel = assemble(fuse(program).groups[0], program.builder)
    assert {b.dtype for b in kernel.buffers()} == {np.dtype("float32")}
    moved = by_width(kernel, program.builder, host().tuning)
    assert {(b.dtype, b.size) for b in moved.buffers()} == {(np.dtype("uint64"), 600)}
