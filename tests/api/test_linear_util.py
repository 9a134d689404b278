"""Functions that transformations are added to one by one."""

import numpy as np
import pytest

import curta
from curta._settings.api_version import jax_api_version
from curta.extend import linear_util
from curta.extend.core import find_top_trace, set_current_trace, take_current_trace
from curta.extend.linear_util import StoreException, wrap_init


@linear_util.transformation
def scaled(factor, *args):
    out = yield args, {}
    yield factor * out


@linear_util.transformation_with_aux
def counted(*args):
    out = yield args, {}
    yield out, len(args)


def test_generators():
    fun, count = counted(scaled(wrap_init(max), 3))
    assert fun.call_wrapped(1, 4, 2) == 12 and count() == 3
    fun, count = counted(wrap_init(pow, {"exp": 3}))
    assert fun.call_wrapped(2) == 8 and count() == 1
    assert [layer.func for layer, _ in scaled(fun, 2).transforms] != []


def test_the_store_that_is_filled():
    (first, one), (_, other) = counted(wrap_init(max)), counted(wrap_init(max))
    with pytest.raises(StoreException, match="neither"):
        linear_util.merge_linear_aux(one, other)
    first.call_wrapped(1, 2)
    assert linear_util.merge_linear_aux(one, other) == (True, 2)
    assert linear_util.merge_linear_aux(other, one) == (False, 2)
    with pytest.raises(StoreException, match="both"):
        linear_util.merge_linear_aux(one, one)


def test_what_is_remembered():
    calls, explained = [], []

    def run(fun, *args):
        calls.append(args)
        return fun.call_wrapped(*args)

    cached = linear_util.cache(run, explain=lambda *given: explained.append(given))

    def f(*args):
        return sum(args)

    for _ in range(2):
        fun, count = counted(scaled(wrap_init(f), 2))
        assert cached(fun, 1, 2) == 6 and count() == 2
    assert len(calls) == 1
    assert cached(scaled(wrap_init(f), 3), 1, 2) == 9
    with curta.enable_x64(not curta.config.jax_enable_x64):
        cached(scaled(wrap_init(f), 3), 1, 2)
    assert len(calls) == 3 and not explained
    with curta.explain_cache_misses(True):
        cached.evict_function(f)
        cached(scaled(wrap_init(f), 3), 1, 2)
    assert len(calls) == 4 and explained[0][1] is True
    cached.cache_clear()
    cached(scaled(wrap_init(f), 3), 1, 2)
    assert len(calls) == 5


def test_the_trace_at_work():
    def f(x):
        with take_current_trace() as trace:
            assert float(curta.numpy.sin(0.0)) == 0
            assert find_top_trace([x]) is not trace
            with set_current_trace(trace):
                assert find_top_trace([x]) is trace
                return 2 * x

    np.testing.assert_array_equal(curta.jit(f)(np.ones(2)), [2, 2])


def test_names_of_types():
    assert isinstance(curta.typeof(1.0), curta.core.AbstractValue)
    assert curta.core.ParamDict == dict[str, curta.core.Value]
    assert curta.stages.CompilerOptions == dict[str, str | bool]
    assert isinstance(curta.jit(np.sin), curta.stages.Wrapped)
    assert not isinstance(np.sin, curta.stages.Wrapped)
    error = curta.extend.core.InconclusiveDimensionOperation
    assert error is curta.errors.InconclusiveDimensionOperation
    extend = curta.extend.core
    with jax_api_version("0.11"):  # the last that has them
        assert isinstance(extend.primitives.call_p, extend.CallPrimitive)
        assert extend.call_impl(wrap_init(lambda x: [2 * x]), 3) == [6]
    empty = curta.extend.core.primitives.empty2_p
    found = empty.bind(dtype=np.dtype("int32"), memory_space=curta.memory.Space.Device)
    assert found.shape == () and found.dtype == np.int32
