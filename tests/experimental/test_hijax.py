"""Operations and types of a program's own."""

from __future__ import annotations

import pytest

import curta
import curta.numpy as jnp
from curta.core.effects import Effect
from curta.experimental import hijax


class Interval:
    """Two numbers: the least and the greatest."""

    def __init__(self, low, high):
        self.low, self.high = low, high


class IntervalType(hijax.HiType):
    pass


hijax.register_hitype(Interval, lambda x: IntervalType())


class MakeInterval(hijax.HiPrimitive):
    def abstract_eval(self, low, high):
        return IntervalType(), set()

    def to_lojax(self, low, high):
        return Interval(jnp.minimum(low, high), jnp.maximum(low, high))

    def jvp(self, primals, tangents):
        raise AssertionError("an interval is no array")


class Width(hijax.HiPrimitive):
    def abstract_eval(self, interval):
        assert isinstance(interval, IntervalType)
        return hijax.ShapedArray((), jnp.dtype("float32")), set()

    def to_lojax(self, interval):
        return interval.high - interval.low


class SafeLog(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, x, *, floor):
        return [x, x], set()

    def to_lojax(self, x, *, floor):
        return [jnp.log(jnp.maximum(x, floor)), x]

    def jvp(self, primals, tangents, *, floor):
        (x,), (t,) = primals, tangents
        return self.bind(x, floor=floor), [t / jnp.maximum(x, floor), t]


make, width, safe_log = MakeInterval("make"), Width("width"), SafeLog("safe_log")


def spread(x):
    return width.bind(make.bind(x[0], x[1]))


def test_values_of_its_own_are_used_within_functions():
    x = jnp.array([3.0, 1.0])
    assert curta.jit(spread)(x) == spread(x) == 2
    assert curta.grad(curta.jit(spread))(x).tolist() == [1, -1]
    assert curta.vmap(spread)(jnp.stack([x, -x])).tolist() == [2, 2]
    assert {e.primitive.name for e in curta.make_jaxpr(spread)(x).eqns} >= {"sub"}


def test_they_do_not_go_in_or_out():
    with pytest.raises(TypeError, match="called with a non-array argument"):
        curta.jit(lambda x: x.low)(Interval(1.0, 2.0))
    with pytest.raises(TypeError, match="not a valid JAX type"):
        curta.jit(make.bind)(1.0, 2.0)


def test_a_derivative_of_its_own():
    def fun(x):
        log, same = safe_log.bind(x, floor=0.5)
        return log + same

    assert curta.grad(fun)(0.25) == 3  # where that of its parts would be 1
    assert curta.jvp(fun, (2.0,), (1.0,))[1] == 1.5
    assert curta.vmap(curta.grad(fun))(jnp.array([0.25, 2.0])).tolist() == [3, 1.5]


def test_rules_that_are_missing():
    bare = hijax.HiPrimitive("bare")
    with pytest.raises(NotImplementedError, match="'to_lojax' of bare"):
        bare.bind(1.0)


def test_effects():
    class Log(Effect):
        pass

    class Loud(Log):
        pass

    allowed = hijax.control_flow_allowed_effects
    assert not allowed.contains(Loud())
    allowed.add_type(Log)
    assert allowed.contains(Loud()) and str(Loud()) == "Loud"
    closed = curta.make_jaxpr(lambda x: curta.debug.print("{}", x))(1.0)
    assert all(isinstance(e, Effect) for e in closed.effects)
    assert [str(e) for e in closed.effects] == ["Debug"]
