"""Modules of a program: kernels at their own levels, compiled at the same time."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta._base.signals import at_once
from curta.compiler import code_generator, loading
from curta.compiler.emit import entry as entry_code
from curta.compiler.host_target import host
from curta.compiler.machine_code.linked import ModuleSource
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.support.threads import parallel_for_address
from curta.config import config, tuning

X = np.linspace(0, 1, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[ModuleSource]:
    """The entries that are linked during a test, with what they call."""
    found: list[ModuleSource] = []
    linking = loading.link

    def link(sources: Any) -> Any:
        found.extend(s for s in sources if s.names == (entry_code.ENTRY,))
        return linking(sources)

    monkeypatch.setattr(loading, "link", link)
    return found


def run(fun: Any, *args: Any, fused: bool = True) -> list[np.ndarray[Any, Any]]:
    closed = curta.make_jaxpr(fun)(*args)
    made = compile_jaxpr(closed, parallel_for=parallel_for_address, optimise=fused)
    return made(*args)


def test_a_kernel_is_compiled_at_its_own_level(entries: list[ModuleSource]) -> None:
    def fun(x: Any, large: Any) -> Any:
        return x @ x.T, curta.nn.softmax(large, axis=-1)

    large = np.linspace(0, 3, 1 << 20, dtype=np.float32).reshape(1 << 10, 1 << 10)
    got = run(lambda x, y: (fun(x, y), jnp.sin(x.T)), X, large)
    (entry,) = entries
    assert entry.level == code_generator.QUICK
    assert sorted(m.level for m in entry.callees) == [
        code_generator.QUICK,
        code_generator.GOOD,
    ]
    np.testing.assert_allclose(got[1].sum(-1), 1, rtol=1e-5)


def test_a_short_program_of_one_level_is_one_module(
    entries: list[ModuleSource],
) -> None:
    run(lambda x: (jnp.sin(x), x.sum(0)), X)
    (entry,) = entries
    assert entry.callees == ()


def test_modules_are_cut_by_size_with_the_same_results(
    entries: list[ModuleSource],
) -> None:
    def fun(x: Any) -> Any:
        return [jnp.sin(x[:, : 1 + i % 5] * i).sum(i % 2) for i in range(12)]

    whole = run(fun, X, fused=False)
    with tuning(dataclasses.replace(config.tuning, module_ir=100, parallel_ir=0)):
        parts = run(fun, X, fused=False)
    one, many = entries
    assert len(one.callees) < len(many.callees)
    assert len({n for m in many.callees for n in m.names}) == sum(
        len(m.names) for m in many.callees
    )
    for a, b in zip(whole, parts, strict=True):
        assert a.tobytes() == b.tobytes()


def test_threads_are_made_for_programs_that_share_work_out() -> None:
    made: list[str] = []

    def launcher() -> int:
        made.append("pool")
        return parallel_for_address()

    def pools(fun: Any, x: Any) -> int:
        made.clear()
        compiled = compile_jaxpr(curta.make_jaxpr(fun)(x), parallel_for=launcher)
        wanted = fun(jnp.asarray(x))
        np.testing.assert_allclose(compiled(x)[0], wanted, rtol=1e-4)
        return len(set(made))

    def summed(x: Any) -> Any:
        return curta.lax.fori_loop(0, 9, lambda i, c: jnp.sin(c) + x[i % 4, 0], 0.5)

    def powers(x: Any) -> Any:
        return curta.lax.fori_loop(0, 3, lambda _, c: c @ x.T @ x / 9, x)

    large = np.full((400, 400), 0.01, np.float32)
    assert [pools(f, X) for f in (lambda x: x @ x.T, summed, powers)] == [0, 0, 0]
    assert [pools(lambda x: x @ x, large), pools(powers, large)] == [1, 1]


def test_code_that_only_calls_a_library_is_made_quickly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[ModuleSource] = []
    linking = loading.link
    monkeypatch.setattr(
        loading, "link", lambda made: (found.extend(made), linking(made))[1]
    )
    square = np.eye(70, dtype=np.float32) + 0.01
    run(lambda x: (jnp.linalg.cholesky(x), x.astype(complex) @ x), square)
    run(jnp.sort, np.linspace(1, 0, 100_000, dtype=np.float32))
    levels = {bool(s.externals): s.level for s in found if s.names != ("entry",)}
    assert levels == {True: code_generator.QUICK, False: code_generator.GOOD}


def test_what_is_compiled_at_once_comes_in_order() -> None:
    made_for = dataclasses.replace(
        host(), tuning=dataclasses.replace(config.tuning, parallel_ir=0)
    )
    texts = [
        code_generator.ModuleText(
            f"define i64 @f() {{\n  ret i64 {i}\n}}\n", level, made_for
        )
        for i in range(6)
        for level in (code_generator.QUICK, code_generator.GOOD)
    ]
    together = code_generator.compile_texts(texts)
    alone = [code_generator.compile_text(t.ir, t.level, target=host()) for t in texts]
    assert together == alone


def test_errors_of_threads_are_raised_and_the_first_wins() -> None:
    met = threading.Barrier(2)

    def work(x: int) -> int:
        met.wait(10)
        if x:
            raise ValueError(x)
        return x

    with pytest.raises(ValueError, match="2"):
        at_once(work, [0, 2], 2)


def test_a_program_that_is_called_once_makes_no_threads() -> None:
    program = """
import curta, numpy as np
from curta import numpy as jnp
from curta.compiler.support.threads import is_pool_made
x = np.arange(160_000, dtype=np.float32).reshape(400, 400) / 1e5
for fun in (lambda x: x @ x, lambda x: jnp.sin(x).sum(0), lambda x: jnp.exp(x) * 2):
    f = curta.jit(fun)
    first = np.asarray(f(x))
    assert not is_pool_made(), fun
    calls.append((f, first))
for f, first in calls:
    assert np.asarray(f(x)).tobytes() == first.tobytes()
assert is_pool_made()
"""
    done = subprocess.run(
        [sys.executable, "-c", "calls = []" + program],
        env={**os.environ, "CURTA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


LARGE = np.ones((1 << 10, 1 << 10), np.float32)


@pytest.mark.parametrize(
    ("fun", "level"),
    [
        (lambda x: jnp.exp(x), code_generator.QUICK),  # a long body, with no branch
        (lambda x: jnp.sin(x), code_generator.GOOD),
        (lambda x: x * 2 + x[0], code_generator.GOOD),  # a short one
        (lambda x: x[:, :100] * 2, code_generator.QUICK),  # little to do
        (lambda x: x.sum(1), code_generator.GOOD),
        (
            lambda x: (x.reshape(-1, 32)[:8192] * 2).sum(1),
            code_generator.QUICK,
        ),  # a vector
        (lambda x: x.sum(0), code_generator.QUICK),
    ],
)
def test_levels_by_what_kernels_gain(
    fun: Any, level: int, entries: list[ModuleSource]
) -> None:
    run(fun, LARGE)
    (entry,) = entries
    assert max(m.level for m in (entry, *entry.callees)) == level


def test_kernels_of_one_form_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal but for their buffers: nothing else that the code follows from differs."""
    written: list[str] = []
    emit_kernel = entry_code.emit_kernel

    def emitted(module: Any, name: str, *rest: Any) -> Any:
        written.append(name)
        return emit_kernel(module, name, *rest)

    monkeypatch.setattr(entry_code, "emit_kernel", emitted)
    monkeypatch.delenv("CURTA_CHECK", raising=False)
    y, z = X - 0.5, X.T.copy()
    cases: list[Any] = [
        (jnp.floor, X),
        (jnp.ceil, y),
        (lambda x: jnp.where(x > 0.2, x, 0.0), X),
        (lambda x: jnp.where(x > 0.2, x, -0.0), y),
        (lambda x: jnp.where(x > 0.3, x, -0.0), y),
        (lambda x: x[:, 1:] - x[:, :-1], X),
        (lambda x: x[:, :-1] - x[:, 1:], X),
        (lambda x: x.sum(1), X),
        (lambda x: x.max(1), X),
        (lambda x: jnp.cumsum(x, 1), X),
        (lambda x: x.astype(np.int32) // 3, z),
        (lambda x: x.astype(np.uint32) // 3, z),
    ]

    def all_of(arrays: Any) -> Any:
        return [f(x) for (f, _), x in zip(cases, arrays, strict=True)]

    arrays = [x for _, x in cases]
    once = run(lambda *xs: all_of(xs), *arrays, fused=False)
    alone = len(written)
    assert len(set(written)) == alone
    twice = run(lambda *xs: (all_of(xs), all_of(xs[::-1][::-1])), *arrays, fused=False)
    assert len(written) == 2 * alone  # the second half of the second program is there
    for i, (f, x) in enumerate(cases):
        (expected,) = run(f, x, fused=False)
        for found in (once[i], twice[i], twice[i + len(cases)]):
            assert found.tobytes() == expected.tobytes()
