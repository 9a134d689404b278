"""The seam between the runtime and what executes: with LLVM, and without."""

import subprocess
import sys

import numpy as np
import pytest

import curta
from curta import lax, numpy as jnp
from curta.config import backend
from curta.errors import JaxRuntimeError, OutOfMemoryError
from curta.runtime.backends import Backend, NumpyExecutable, register_backend
from curta.runtime.executables import Executable
from curta.runtime.native_executable import NativeExecutable

WITHOUT_LLVM = """
import sys, warnings
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.startswith("llvmlite")
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Hiding if f is PathFinder else f for f in sys.meta_path]

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import curta, curta.numpy as jnp
    f = curta.jit(lambda d: {"y": jnp.exp(d["x"]).sum() / 2})
    for n in (3, 4, 100_000):
        out = f({"x": jnp.zeros(n)})["y"]
        assert out.item() == n / 2, out
    assert (jnp.ones(100_000) + 1)[-1].item() == 2
    assert curta.grad(lambda x: (x * x).sum())(jnp.ones(3)).tolist() == [2, 2, 2]
print([str(w.message) for w in seen if "llvmlite" in str(w.message)])
"""


def run_without_llvm(**settings):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LLVM],
        env={"PATH": "/usr/bin", "CURTA_CACHE": "0", **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_llvmlite_there_is_one_warning():
    out = run_without_llvm()
    assert out.count("llvmlite is not installed") == 1


def test_the_numpy_backend_needs_no_llvmlite():
    assert "llvmlite is not installed" not in run_without_llvm(CURTA_BACKEND="numpy")


@pytest.mark.parametrize(
    ("name", "kind"), [("llvm", NativeExecutable), ("numpy", NumpyExecutable)]
)
def test_backends(name, kind):
    with backend(name):
        compiled = curta.jit(lambda x: x * 2 + 1).lower(jnp.arange(3.0)).compile()
        assert isinstance(compiled.runtime_executable(), kind)
        assert compiled(jnp.arange(3.0)).tolist() == [1, 3, 5]


@pytest.mark.parametrize("name", ["llvm", "numpy"])
def test_arguments_of_other_layouts(name):
    f = curta.jit(lambda x: x + 1)
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    unaligned = np.frombuffer(b"\0" + square.tobytes(), np.float32, 9, 1)
    with backend(name):
        for x in (square.T, square[:, ::2], square[::-1]):
            np.testing.assert_array_equal(f(x), x + 1)
        np.testing.assert_array_equal(f(unaligned), unaligned + 1)


@pytest.mark.parametrize("name", ["llvm", "numpy"])
def test_results_are_contiguous_and_their_own(name):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with backend(name):
        for f in (lambda x: x.T, lambda x: x, lambda x: x[::-1], lambda x: x.ravel()):
            out = curta.jit(f)(x)
            assert out._data.flags.c_contiguous
            assert not np.shares_memory(np.asarray(out), x)


@pytest.mark.parametrize("margin", [1 << 24, 1 << 28])
def test_temporaries_for_which_there_is_no_memory(margin):
    def convolved(x, kernel):
        strides, padding = (margin // 4,) * 2, [(margin, margin)] * 2
        return lax.conv_general_dilated(x, kernel, strides, padding)

    args = jnp.ones((1, 2, 5, 5)), jnp.ones((2, 2, 2, 2))
    compiled = curta.jit(convolved).lower(*args).compile()
    assert compiled.memory_analysis().temp_size_in_bytes > 1 << 50
    for run in compiled, curta.jit(convolved), convolved:
        with pytest.raises(MemoryError, match="allocat"):
            run(*args)
    with pytest.raises(JaxRuntimeError, match="RESOURCE_EXHAUSTED: Out of memory"):
        compiled(*args)
    assert issubclass(OutOfMemoryError, JaxRuntimeError)


class Started(NumpyExecutable):
    """Notes by which way it is called."""

    is_async = may_be_async = True
    temporary_bytes = 123
    ways: list[str] = []

    def start(self, args, borrowed=()):
        self.ways.append("start")
        return super().start(args, borrowed)

    def on_ready(self):
        return lambda *args: self.ways.append("on_ready") or self(*args)


def test_dispatch_asks_the_executable_whatever_its_class():
    class Starting(Backend):
        def compile(self, closed, options):
            return Started(closed)

    register_backend("starting", Starting())
    f = curta.jit(lambda x: x + 1, donate_argnums=0)
    with backend("starting"):
        x = jnp.arange(3.0)
        memory = f.lower(x).compile().memory_analysis()
        assert memory.temp_size_in_bytes == Started.temporary_bytes
        Started.ways.clear()
        assert f(x).tolist() == [1, 2, 3] and x.is_deleted()
        assert Started.ways == ["start"]
        lax.cond(True, lambda x: x, lambda x: -x, f(jnp.ones(3)))
        assert Started.ways == ["start"] * 3


def test_one_slow_call_of_a_loop_does_not_queue_all_others(monkeypatch):
    compiled = []
    init = NativeExecutable.__init__
    monkeypatch.setattr(
        NativeExecutable,
        "__init__",
        lambda self, *args: compiled.append(self) or init(self, *args),
    )
    f = curta.jit(lambda x: lax.while_loop(lambda x: x < 10, lambda x: x + 1, x))
    for _ in range(3):
        assert f(0).block_until_ready() == 10
    (run,) = [run for run in compiled if run.measured]
    run.is_async = True  # as if the system had done something else meanwhile
    for _ in range(100):  # a call by the queue is slow only now and then
        assert f(0).block_until_ready() == 10
        if not run.is_async:
            break
    assert not run.is_async


def test_a_function_is_an_executable():
    run = Executable(lambda x: [x + 1])
    assert run(1) == run.on_ready()(1) == run.start([1]) == [2]
    asked = run.is_async, run.measured, run.borrows, run.native
    assert not any(asked) and not run.overwrites and not run.temporary_bytes
