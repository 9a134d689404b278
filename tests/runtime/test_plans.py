"""One table of plans for each function: what is kept, under which key, for how long."""

import gc
import weakref

import numpy as np

import curta
import curta.numpy as jnp
from curta._settings.tuning import Tuning
from curta.config import tuning
from curta.core.array import Array
from curta.core.trace import current_trace
from curta.runtime.array import ArrayImpl
from curta.runtime.plans import Plan, PlanTable, plan_tables
from curta.runtime.shortcuts import _plans_of, binary, traced


def signatures(f):
    return f.cache_statistics()[:2]


def test_one_plan_however_a_signature_is_written():
    f = curta.jit(lambda x, y, *, n=1, m=2: x * n + y * m, static_argnames=("n", "m"))
    x, y = np.float32(1), np.ones(2, np.float32)
    for first, second in [(x, y), (jnp.asarray(x), y), (x, jnp.asarray(y))]:
        f(first, second, n=1, m=2)
        f(first, second, m=2, n=1)
    assert signatures(f) == (1, 1)
    curta.grad(lambda x: f(x, y, n=1, m=2).sum())(x)
    assert signatures(f) == (1, 1)
    f(x, y=y, n=1, m=2)  # a keyword is another tree
    assert signatures(f) == (2, 2)


def test_lowering_finds_the_plan_of_calls():
    f = curta.jit(lambda d: d["x"] + 1)
    f({"x": jnp.ones(3)})
    f.lower({"x": curta.ShapeDtypeStruct((3,), np.float32)}).compile()
    assert signatures(f) == (1, 1)


def test_what_native_code_finds_goes_with_the_plan():
    f = curta.jit(lambda x: x + 1)
    with tuning(Tuning(plans=2)):
        for n in range(1, 6):
            for _ in range(2):  # native code makes no first call
                assert f(jnp.ones(n)).tolist() == [2.0] * n
            assert len(f._plans) <= 2 >= len(f._plans.entries)
        kept = [*f._plans.values()]
        assert all(p in kept for p in f._plans.entry_plans)
        assert f(jnp.ones(1)).tolist() == [2.0]


def test_entries_that_native_code_forgot_are_kept_by_nobody():
    table, plan = PlanTable(), Plan()
    entries = [type("Entry", (), {})() for _ in range(3)]
    alive = [*map(weakref.ref, entries)]
    with tuning(Tuning(native_entries=2)):
        for entry in entries:
            table.call_natively(plan, entry)
    del entries, entry
    assert [ref() is not None for ref in alive] == [False, True, True]


def test_the_oldest_plans_go():
    table = PlanTable()
    with tuning(Tuning(plans=3)):
        for i in range(5):
            table.keep(i, Plan())
    assert [*table] == [2, 3, 4]


def test_a_plan_that_closes_over_tracers_goes_with_the_trace():
    alive = []

    def outer(x):
        inner = curta.jit(lambda y: x * y)
        out = inner(2.0) + inner(3.0)
        assert signatures(inner) == (1, 0)
        trace = current_trace()
        alive.extend(map(weakref.ref, trace.memo().values()))
        return out

    assert curta.make_jaxpr(outer)(1.0) is not None
    gc.collect()
    assert alive and all(ref() is None for ref in alive)


def test_arrays_and_tracers_share_the_plans_of_an_operator():
    def general(x, y):
        calls.append(x)
        return Array.__add__(x, y)

    calls = []
    plans = _plans_of(general)
    add, add_tracers = binary(general, plans), traced(general, plans)
    x = jnp.ones(3)
    assert add(x, x).tolist() == [2.0] * 3
    assert str(curta.make_jaxpr(add_tracers)(x, x)).count("add") == 1
    assert len(plans) == len(calls) == 1


def test_all_tables_are_emptied():
    f = curta.jit(lambda x: x + 1)
    x = jnp.ones(3)
    f(x), x + x, jnp.sin(x), jnp.where(x > 0, x, -x)
    curta.clear_caches()
    assert not any(plan_tables())
    assert not any(table.entries for table in plan_tables())
    assert f(x).tolist() == [2.0] * 3 and type(x + x) is ArrayImpl
