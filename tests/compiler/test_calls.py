"""The convention of calls: tables are filled in at one place, as are modules loaded."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler import code_generator
from curta.compiler.callee import DONE, STOPPED
from curta.compiler.host_target import host
from curta.compiler.machine_code import calls
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.support import (
    arena_code,
    call_code,
    cancellation_code,
    entry_code,
    queue_code,
    thread_code,
)
from curta.compiler.support.cancellation import CancellationToken
from curta.compiler.support.loader import native_text
from curta.errors import JaxRuntimeError
from curta.runtime import native_call

PACKAGE = Path(curta.__file__).parent
FLOAT = (np.dtype(np.float32), (3,))


def program(**fields):
    given = {"signature": (FLOAT, FLOAT), "constants": (7, 0, 0, 8), "results": 1}
    given |= {"cost": 0, "arena_word": 1, "arena_bytes": 0, "temporaries": 0}
    return NativeProgram(**{"code": None, "address": 0, **given, **fields})


def test_what_comes_with_a_call_has_its_place_in_the_table():
    assert [*calls.table(program(), (1, 2), 3, 4)] == [1, 2, 7, 0, 0, 8]
    found = calls.table(program(arena_bytes=64, cancellable=True), (1, 2), 3, 4)
    assert [*found] == [1, 2, 7, 3, 4, 8]


def test_arrays_that_do_not_fit():
    x, y = np.zeros(3, np.float32), np.ones(3, np.float32)
    wanted = program()
    assert calls.fits(wanted, [x, y])
    for wrong in ([x], [x, y[:2]], [x, y.astype(float)], [x, np.ones((3, 1), "f4")]):
        assert not calls.fits(wanted, wrong)
    x.flags.writeable = False
    assert not calls.fits(wanted, [x, y]) and calls.fits(wanted, [y, x])


def native(fun, *args):
    return compile_jaxpr(curta.make_jaxpr(fun)(*args)).native


def run(found, *args, token=0):
    """The status of a program, and its results."""
    outs = [np.empty(shape, dtype) for dtype, shape in found.signature[: found.results]]
    arena = np.empty(found.arena_bytes + 64, np.uint8)
    places = [x.ctypes.data for x in (*outs, *args)]
    table = calls.table(found, places, arena.ctypes.data, token)
    function = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(found.address)
    return function(ctypes.addressof(table)), outs


def test_a_program_says_that_it_is_done():
    x = np.arange(3, dtype=np.float32)
    status, (out,) = run(native(lambda x: x * 2, x), x)
    assert status == DONE and out.tolist() == [0, 2, 4]


def test_a_program_that_is_cancelled_says_so_through_all_loops():
    def endless(x):
        def body(_, x):
            return lax.while_loop(lambda x: x[0] > -1, lambda x: x + 1, x)

        return lax.fori_loop(0, 3, body, x)

    x, token = np.ones(3, np.float32), CancellationToken()
    found = native(endless, x)
    assert found.cancellable
    token.cancel()
    assert run(found, x, token=token.address)[0] == STOPPED


@pytest.mark.parametrize("fails", [False, True])
def test_python_that_fails_within_loops_stops_all_programs(fails):
    def double(x):
        if fails:
            raise ValueError("here")
        return 2 * x

    def twice(x):
        def call(_, x):
            return curta.pure_callback(double, x, x)

        return lax.fori_loop(0, 2, lambda _, x: lax.fori_loop(0, 2, call, x), x)

    if not fails:
        assert curta.jit(twice)(jnp.ones(2)).tolist() == [16, 16]
        return
    with pytest.raises(JaxRuntimeError, match="here"):
        curta.jit(twice)(jnp.ones(2)).block_until_ready()


def users(*words):
    """The modules whose code has one of these words."""
    found = (p for p in PACKAGE.rglob("*.py") if any(w in p.read_text() for w in words))
    return {str(p.relative_to(PACKAGE)) for p in found}


def test_one_place_for_python_and_one_for_native_code_fill_tables_in():
    assert users("token_word") == {
        "compiler/machine_code/calls.py",  # for Python, and the record for
        "compiler/llvm/program_calls.py",  # a program within another
        "compiler/callee.py",
    }


def test_native_modules_have_one_loader():
    fixed = users("fixed_object_file(")
    assert fixed == {"compiler/machine_code/cache.py", "compiler/support/loader.py"}


@pytest.mark.parametrize(
    "code", [arena_code, cancellation_code, entry_code, queue_code, thread_code]
)
def test_native_code_is_what_llvm_accepts(code):
    text = native_text(code.EXPORTS, host())
    code_generator.compile_text(text, code_generator.QUICK, verify=True)


def test_native_code_of_calls_is_what_llvm_accepts():
    text = native_text(call_code.EXPORTS, host(), native_call.known_layout())
    code_generator.compile_text(text, code_generator.QUICK, verify=True)
