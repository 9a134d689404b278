"""Programs in the kernel cache: found again, distinguished, verified."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.compiler.test_cache import entries, folder

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler import fingerprint
from curta.compiler.emit.dot_code import _code, _dot_call
from curta.compiler.emit.routine_code import _routine_call, function_code
from curta.compiler.fingerprint import program_name
from curta.compiler.host_target import host
from curta.compiler.machine_code import cache, linked
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.programs import find_program, keep_program
from curta.compiler.support.threads import parallel_for_address
from curta.config import config, tuning
from curta.extend.core import Primitive
from curta.interpreters import mlir

__all__ = ["folder"]


@pytest.fixture(autouse=True)
def settled(monkeypatch, folder):
    """Sources that did not change just now, and an empty cache."""
    monkeypatch.setattr(fingerprint, "_source_stamp", lambda: "stamp")
    monkeypatch.delenv("CURTA_CHECK", raising=False)


def forget_code():
    """Leave no code in memory that another program could call."""
    for made in (_dot_call, _code, _routine_call, function_code):
        made.cache_clear()
    linked._in_memory.clear()


def name(fun, *args, options=()):
    return program_name(curta.make_jaxpr(fun)(*args), host(), options, config.context)


X = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4)
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def looped(x):
    return lax.while_loop(
        lambda s: s[0] < 50, lambda s: (s[0] + 1, jnp.sin(s[1] @ s[1].T) @ s[1]), (0, x)
    )[1]


PROGRAMS = {
    "elementwise": (lambda x: jnp.tanh(x) * 2 + 1, X),
    "product": (lambda x: x @ x.T + x @ TABLE, X),
    "transposed product": (lambda x: jnp.einsum("ij,kj->ik", x, x), X.astype(np.int32)),
    "loop": (looped, X),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), X),
    "tables": (lambda x: jnp.abs(jnp.fft.fft(x)), X),
    "sort": (lambda x: jnp.sort(jnp.sin(9 * x), axis=0), X),
    "factors": (lambda x: jnp.linalg.solve(x[:, :3] + jnp.eye(3), x), X),
    "what comes in": (lambda x, y: (y, x, x, x + y), X, X),
    "nothing": (lambda x: (x[:0] * 2, x.sum()), X),
    "complex": (lambda x: jnp.exp(1j * x), X),
    "half": (lambda x: x.astype(jnp.bfloat16) * 3, X),
    "keys": (lambda k: curta.random.split(k), curta.random.key(1)),
    "branches": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), X),
}


@pytest.mark.parametrize("which", PROGRAMS)
def test_a_kept_program_gives_the_same(which):
    fun, *args = PROGRAMS[which]
    closed = curta.make_jaxpr(fun)(*args)
    key = program_name(closed, host(), (), config.context)
    made = compile_jaxpr(closed, parallel_for=parallel_for_address)
    assert key is not None and made.native is not None
    assert find_program(key, parallel_for_address) is None
    keep_program(key, made)
    found = find_program(key, parallel_for_address)
    storage = [x._storage() if hasattr(x, "_storage") else x for x in args]
    for a, b in zip(found(*storage), made(*storage), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    program, other = found.native, made.native
    for field in (
        "signature",
        "results",
        "cost",
        "arena_bytes",
        "temporaries",
        "in_place",
    ):
        assert getattr(program, field) == getattr(other, field)
    assert found.temporary_bytes == made.temporary_bytes


@pytest.mark.parametrize("which", ["product", "tables", "factors"])
def test_code_in_memory_is_found_without_its_file(which, tmp_path):
    fun, x = PROGRAMS[which]
    closed = curta.make_jaxpr(fun)(x)
    want = compile_jaxpr(closed, parallel_for=parallel_for_address)
    config.update("jax_compilation_cache_dir", str(tmp_path / "another"))
    kept = program_name(closed, host(), (), config.context)
    keep_program(kept, compile_jaxpr(closed, parallel_for=parallel_for_address))
    found = find_program(kept, parallel_for_address)
    assert found is not None
    for a, b in zip(found(x), want(x), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_donated_argument_is_overwritten_again():
    closed = curta.make_jaxpr(lambda x: x.at[1].set(5.0))(X)
    made = compile_jaxpr(closed, in_place={0: 0})
    kept = program_name(closed, host(), ((0, 0),), config.context)
    keep_program(kept, made)
    found = find_program(kept, parallel_for_address)
    assert found.native.in_place == made.native.in_place == {0}


def test_the_name_is_that_of_the_whole_jaxpr():
    def scaled(factor, table=TABLE):
        return lambda x: (x * factor) @ table

    same = name(scaled(2.0), X)
    assert same == name(lambda x: (x * 2.0) @ TABLE.copy(), X)
    others = [
        name(scaled(3.0), X),
        name(scaled(-0.0), X),
        name(scaled(0.0), X),
        name(scaled(float("nan")), X),
        name(scaled(2.0, TABLE + 1), X),
        name(scaled(2.0), X[:2]),
        name(scaled(2.0), X.astype(np.int32)),
        name(scaled(2.0), X, options=(True,)),
        name(lambda x: TABLE.T @ (x * 2.0).T, X),
        name(lambda x: (x + 2.0) @ TABLE, X),
        name(lambda x: (x * 2.0).sum(0), X),
        name(lambda x: (x * 2.0).sum(1), X),
        name(curta.jit(scaled(2.0)), X.astype(np.float16)),
    ]
    assert len({same, *others}) == 1 + len(others) and None not in others


def test_which_operand_is_which_counts():
    jaxprs = [lambda x, y: x - y, lambda x, y: y - x, lambda x, y: x - x]
    assert len({name(f, X, X) for f in jaxprs}) == 3
    outs = [lambda x, y: (x, y), lambda x, y: (y, x), lambda x, y: (x, x)]
    assert len({name(f, X, X) for f in outs}) == 3


def test_bodies_of_loops_count():
    def loop(by):
        return lambda x: lax.fori_loop(0, 9, lambda i, y: y * by, x)

    assert len({name(loop(2.0), X), name(loop(3.0), X), name(loop(2.0), X[0])}) == 3
    assert name(loop(2.0), X) == name(loop(2.0), X)


def test_settings_and_sources_count(monkeypatch):
    before = name(jnp.sin, X)
    with curta.debug_nans(True):
        assert name(jnp.sin, X) != before
    assert name(jnp.sin, X) == before
    monkeypatch.setattr(fingerprint, "_source_stamp", lambda: "later")
    assert name(jnp.sin, X) != before


def test_the_order_of_independent_eqns_does_not_count():
    def terms(order, x):
        found = {}
        for k in order:
            found[k] = {"a": jnp.sin, "b": jnp.cos, "c": lambda y: lax.tanh(y) @ y.T}[
                k
            ](x)
        return found["a"] + found["b"], found["c"]

    names = {name(lambda x, o=o: terms(o, x), X) for o in ("abc", "cab", "bca")}
    assert len(names) == 1
    bodies = (
        lambda x, o=o: lax.fori_loop(0, 3, lambda i, y: terms(o, y)[0], x)
        for o in ("abc", "bac")
    )
    assert len({name(f, X) for f in bodies}) == 1
    assert name(lambda x: (jnp.sin(x), x * 2)[1], X) == name(lambda x: x * 2, X)


def test_the_order_of_effects_counts():
    def printed(first, second):
        def f(x):
            curta.debug.callback(first, x, ordered=True)
            curta.debug.callback(second, x * 2, ordered=True)
            return x

        return f

    def swapped(first, second):
        def f(x):
            curta.debug.callback(second, x * 2, ordered=True)
            curta.debug.callback(first, x, ordered=True)
            return x

        return f

    assert name(printed(print, repr), X) == name(printed(str, repr), X)
    assert name(printed(print, repr), X) != name(swapped(print, repr), X)


def found_again(fun, make_other=None):
    """The result of a program that is found under the key of another trace."""
    first = curta.make_jaxpr(fun)(X)
    keep_program(
        program_name(first, host(), (), config.context),
        compile_jaxpr(first, parallel_for=parallel_for_address),
    )
    again = curta.make_jaxpr(make_other or fun)(X)
    name = program_name(again, host(), (), config.context)
    found = find_program(name, parallel_for_address)
    assert found is not None
    return [np.asarray(x) for x in found(X)]


@pytest.mark.parametrize("in_loop", [False, True])
def test_what_runs_in_python_is_found_and_called(in_loop):
    out = curta.ShapeDtypeStruct(X.shape, X.dtype)

    def calling(function):
        def body(x):
            y = curta.pure_callback(function, out, x)
            return jnp.sin(y) + curta.pure_callback(np.negative, out, x)

        return lambda x: (
            lax.fori_loop(0, 2, lambda i, y: body(y), x) if in_loop else body(x)
        )

    found = found_again(calling(np.tanh), calling(np.square))
    want = np.asarray(curta.jit(calling(np.square))(X))
    np.testing.assert_array_equal(found[0], want)


def test_what_primitives_of_the_program_stand_for_is_kept():
    def own(factor):
        scaled = Primitive("scaled")
        scaled.def_abstract_eval(lambda x, options: x)

        def rule(x, options):
            return x * factor + curta.pure_callback(np.square, x, x)

        lowering = mlir.lower_fun(rule, multiple_results=False)
        mlir.register_lowering(scaled, lowering)
        return lambda x: scaled.bind(x, options=(print, {"unhashable": []}))

    assert name(own(2.0), X) == name(own(2.0), X) != name(own(3.0), X)
    np.testing.assert_allclose(found_again(own(2.0))[0], X * 2 + X**2, rtol=1e-6)


def test_large_consts_are_told_apart_and_not_kept_twice(folder):
    table = np.random.default_rng(0).normal(size=(1000, 300)).astype(np.float32)
    other = table.copy()
    other[999, 299] += 1

    def looked_up(t):
        t = jnp.asarray(t)
        return lambda x: t[:3, :4] * x + t[-3:, -4:]

    assert name(looked_up(table), X) == name(looked_up(table.copy()), X)
    assert name(looked_up(table), X) != name(looked_up(other), X)
    got = found_again(looked_up(table), looked_up(table.copy()))
    np.testing.assert_array_equal(got[0], np.asarray(looked_up(table)(X)))
    assert sum(path.stat().st_size for path in entries(folder)) < table.nbytes


def test_the_log_says_what_was_found_and_why_not(monkeypatch, capsys):
    def said():
        return capsys.readouterr().err

    monkeypatch.setenv("CURTA_LOG", "cache")
    for outcome in ("miss: there is no ", "hit: "):
        curta.jit(lambda x: x * 3 + 1).lower(X).compile()
        assert f"<lambda> at {__file__}" in (text := said()) and outcome in text

    with tuning(dataclasses.replace(config.tuning, named_bytes=8)):
        assert name(lambda x: x + jnp.asarray(X), X) is None
    assert "not kept: more than 8 bytes of consts" in said()
    monkeypatch.setenv("CURTA_DUMP", "none")
    assert name(jnp.sin, X) is None
    assert "not kept: CURTA_DUMP or CURTA_CHECK is set" in said()


def test_what_is_not_known_for_sure_has_no_name(monkeypatch):
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    assert name(jnp.sin, X) is None


def test_sources_that_changed_just_now_are_not_relied_on(monkeypatch, tmp_path):
    monkeypatch.undo()
    stamp = fingerprint._source_stamp.__wrapped__
    monkeypatch.setattr(fingerprint, "_RECENT_NS", -(1 << 62))
    assert stamp() == stamp() != None  # noqa: E711
    monkeypatch.setattr(fingerprint, "_RECENT_NS", 1 << 62)
    assert stamp() is None
    monkeypatch.setattr(fingerprint, "_RECENT_NS", -(1 << 62))
    monkeypatch.setattr(fingerprint, "__file__", str(tmp_path / "a" / "b.py"))
    assert stamp() is None


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"", lambda d: d + d])
def test_damaged_entries_are_made_anew(folder, damage):
    def run():
        fun = curta.jit(lambda x: jnp.sin(x) * 3 + x)  # a function of its own
        return np.asarray(fun(X))

    want = run()
    assert cache.statistics.compiles > 0
    made = cache.statistics.compiles
    assert (run() == want).all() and cache.statistics.compiles == made
    for path in entries(folder):
        path.write_bytes(damage(path.read_bytes()))
    assert (run() == want).all() and cache.statistics.compiles > made
    made = cache.statistics.compiles
    assert (run() == want).all() and cache.statistics.compiles == made


def test_a_program_without_its_code_is_made_anew(folder):
    def run():
        return np.asarray(curta.jit(lambda x: x @ x.T * 3)(X))

    run()  # what a process makes but once is of no account
    cache.clear()
    forget_code()
    want = run()
    kept = {path: path.read_bytes() for path in entries(folder)}
    for path, data in kept.items():
        path.unlink()
        forget_code()
        assert (run() == want).all()
        assert path.read_bytes() == data


def test_nothing_is_compiled_in_a_later_process(folder):
    script = """
import sys
import numpy as np
import curta, curta.numpy as jnp
from curta.compiler import fingerprint, pipeline
from curta.compiler.machine_code import cache
fingerprint._source_stamp = lambda: "stamp"
if sys.argv[1] == "later":
    del pipeline.prepare
x = jnp.ones((40, 40))
print(float(curta.jit(lambda x: jnp.tanh(x @ x).sum() + np.arange(3.0).sum())(x)))
print(cache.statistics.compiles)
"""
    environment = os.environ | {"CURTA_CACHE_DIR": str(folder)}
    found = [
        subprocess.run(
            [sys.executable, "-c", script, when],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout.split()
        for when in ("first", "later")
    ]  # fmt: skip
    assert found[0][0] == found[1][0] == "1603.0"
    assert int(found[0][1]) > 0 and found[1][1] == "0"


def test_processes_with_other_hash_seeds_find_the_same(folder):
    script = """
import numpy as np
import curta, curta.numpy as jnp
from curta.compiler import fingerprint
from curta.compiler.machine_code import cache
from curta.extend.core import Primitive
from curta.interpreters import mlir
fingerprint._source_stamp = lambda: "stamp"
own = Primitive("own")
own.def_abstract_eval(lambda x: x)
mlir.register_lowering(own, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
table = jnp.arange(30000.0)
def f(x):
    terms = {k: (x + len(k)) * table[7] for k in {"one", "three", "seventeen", "lots"}}
    return own.bind(sum(terms[k] for k in sorted(terms)))
print(float(curta.jit(f)(1.0)), cache.statistics.compiles)
"""
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ
            | {"CURTA_CACHE_DIR": str(folder), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for seed in "123"
    ]  # fmt: skip
    assert [int(compiles) > 0 for _, compiles in found] == [True, False, False]
    assert len({value for value, _ in found}) == 1


def test_without_a_cache_programs_are_compiled(folder):
    config.update("jax_enable_compilation_cache", False)
    assert curta.jit(lambda x: x * 7)(X).shape == X.shape
    assert not folder.exists()
