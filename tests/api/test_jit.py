"""`jit`: signatures, static and donated arguments, errors, caching, stages."""

import functools
import inspect
import logging
import pickle
import threading
import warnings

import numpy as np
import pytest

import curta
import curta.numpy
from curta import Inline
from curta._settings.api_version import jax_api_version
from curta.api.grad import grad
from curta.api.inner import inner_jit
from curta.api.jit import jit
from curta.api.jit_cache import clear_caches
from curta.api.vmap import vmap
from curta.config import (
    backend,
    debug_infs,
    debug_nans,
    disable_jit,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    no_tracing,
)
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.stage import stage
from curta.dtypes import float0
from curta.primitives.elementwise.arithmetic import add, mul
from curta.primitives.structure import ReduceSum
from curta.runtime.devices import devices
from curta.runtime.transfer import to_array


def arange(n):
    return to_array(np.arange(n, dtype=np.float32))


F3 = ShapedArray((3,), np.dtype(np.float32))


class TestTrees:
    def test_in_and_out(self):
        @jit
        def f(pair, *, scale):
            return {"sum": add(*pair), "none": None, "scaled": [mul(pair[0], scale)]}

        x = arange(3)
        for _ in range(3):  # the first call, and the ready ones
            out = f((x, x), scale=x)
            assert out["none"] is None
            assert out["sum"].tolist() == [0, 2, 4]
            assert out["scaled"][0].tolist() == [0, 1, 4]

    def test_scalars_and_numpy_arrays(self):
        f = jit(lambda x: x)
        assert repr(f(1)) == "Array(1, dtype=int32, weak_type=True)"
        assert repr(f(1j)) == "Array(0.+1.j, dtype=complex64, weak_type=True)"
        assert repr(f(True)) == "Array(True, dtype=bool)"
        assert repr(f(np.arange(3.0))) == "Array([0., 1., 2.], dtype=float32)"
        assert repr(f(np.float64(2))) == "Array(2., dtype=float32)"

    def test_constants_and_nothing(self):
        assert jit(lambda: None)() is None
        out = jit(lambda x: (x, 2, np.ones(2)))(1)
        assert repr(out[1]) == "Array(2, dtype=int32, weak_type=True)"
        assert repr(out[2]) == "Array([1., 1.], dtype=float32)"

    def test_results_do_not_share_memory_with_numpy_arguments(self):
        x = np.ones(3, np.float32)
        y = jit(lambda x: x)(x)
        x[0] = 5
        assert y.tolist() == [1, 1, 1]


class TestForms:
    def test_decorator_with_options(self):
        @jit(static_argnums=1)
        def power(x, n):
            return x if n == 0 else mul(x, power(x, n - 1))

        assert power(2.0, 3).item() == 16

    def test_partial(self):
        @functools.partial(jit, static_argnames="flag")
        def f(x, flag=False):
            return x if flag else add(x, x)

        assert f(1).item() == 2
        assert f(1, flag=True).item() == 1
        assert f(1, True).item() == 1

    def test_attributes_of_the_function(self):
        def double(x):
            "Twice x."
            return add(x, x)

        f = jit(double)
        assert f.__wrapped__ is double
        assert (f.__name__, f.__doc__) == ("double", "Twice x.")
        assert repr(f) == f"<PjitFunction of {double!r}>"

    def test_methods(self):
        class Model:
            weight = 3.0

            @functools.partial(jit, static_argnums=0)
            def apply(self, x):
                return mul(x, self.weight)

        assert Model().apply(2.0).item() == 6

    def test_partial_objects_and_bound_methods(self):
        assert jit(functools.partial(add, 1))(2).item() == 3
        assert jit(arange(3).item)  # a method of a builtin signature

    def test_disable_jit(self):
        seen = []
        f = jit(lambda x: seen.append(type(x)) or x)
        with disable_jit():
            f(1)
        assert seen == [int]

    def test_device_and_backend_are_deprecated(self):
        for options in ({"device": devices()[0]}, {"backend": "cpu"}):
            with pytest.warns(DeprecationWarning, match="backend and device argument"):
                f = jit(lambda x: x, **options)
            assert f(1).committed


class TestStatic:
    def test_values_of_different_types_differ(self):
        f = jit(lambda n: str(n) == "1" or str(n) == "1.0", static_argnums=0)
        f(1), f(1.0), f(True)
        assert f.cache_statistics().traces == 3

    def test_defaults(self):
        f = jit(lambda x, n=2: mul(x, n), static_argnums=1)
        assert [f(3).item(), f(3, 3).item(), f(3, n=4).item()] == [6, 9, 12]

    def test_negative(self):
        f = jit(lambda x, n: x if n == "same" else add(x, x), static_argnums=-1)
        assert f(2, "same").item() == 2

    @pytest.mark.parametrize("value", [[1], np.arange(3), {}])
    def test_unhashable(self, value):
        with pytest.raises(ValueError, match="Non-hashable static arguments are not"):
            jit(lambda x, n: x, static_argnums=1)(1, value)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"static_argnums": 1}, r"has static_argnums=\(1,\), but only accepts 1"),
            ({"static_argnums": -2}, r"static_argnums=\(-2,\), but only accepts 1"),
            ({"static_argnames": "q"}, r"invalid argnames \{'q'\} in static_argnames"),
            ({"donate_argnums": 7}, r"has donate_argnums=\(7,\), but only accepts 1"),
            (
                {"donate_argnums": 0, "static_argnums": 0},
                "static_argnames and donate_argnames cannot intersect",
            ),
        ],
    )
    def test_no_such_argument(self, options, message):
        with pytest.raises(ValueError, match=message):
            jit(lambda x: x, **options)

    def test_wrong_kinds(self):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            jit(lambda x: x, static_argnums="a")
        with pytest.raises(TypeError, match="'int' object is not iterable"):
            jit(lambda x: x, static_argnames=1)
        with pytest.raises(TypeError, match="Expected a callable value, got 1"):
            jit(1)


class TestMistakes:
    def test_arguments_that_are_no_arrays(self):
        def f(x, y=0):
            return x

        message = (
            r"Error interpreting argument to f at .*test_jit.py:\d+ as an abstract"
            r" array. The problematic value is of type <class .{}.> and was passed to"
            r" the function at path {}\.\nThis typically means that a jit-wrapped"
        )
        for call, kind, path in [
            (lambda: jit(f)("abc"), "str", "x"),
            (lambda: jit(f)(1, y=object()), "object", "y"),
            (lambda: jit(f)({"a": 1, "b": "c"}), "str", r"x\['b'\]"),
            (lambda: jit(f)(np.array(["a"])), "numpy.ndarray", "x"),
        ]:
            with pytest.raises(TypeError, match=message.format(kind, path)):
                call()

    def test_results_that_are_no_arrays(self):
        with pytest.raises(
            TypeError,
            match=r"function <lambda> at .*test_jit.py:\d+ traced for jit returned a"
            r" value of type <class 'str'>, which is not a valid JAX type",
        ):
            jit(lambda x: "a")(1)
        with pytest.raises(
            TypeError, match=r" at output component \[1\]\['q'\], which"
        ):
            jit(lambda x: [x, {"q": object()}])(1)

    def test_calls_the_function_would_refuse(self):
        def f(x):
            return x

        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            jit(f)()
        with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
            jit(f)(1, 2)

    def test_overflow(self):
        with pytest.raises(
            OverflowError,
            match="An overflow was encountered while parsing an argument to a jitted"
            " computation, whose argument path is x",
        ):
            jit(lambda x: x)(2**40)

    def test_shapes_are_no_values(self):
        with pytest.raises(TypeError, match=r"Argument 'x' of shape float32\[3\] of"):
            jit(lambda x: x)(ShapeDtypeStruct((3,), np.float32))

    def test_no_tracing(self):
        with no_tracing(True), pytest.raises(RuntimeError, match="re-tracing"):
            jit(lambda x: x)(1)


class TestDonation:
    def test_donated_arrays_are_gone(self):
        f = jit(lambda x, y: add(x, y), donate_argnums=0)
        for _ in range(2):
            x, y = arange(3), arange(3)
            assert f(x, y).tolist() == [0, 2, 4]
            assert x.is_deleted() and not y.is_deleted()
            with pytest.raises(RuntimeError, match="Array has been deleted with shape"):
                add(x, y)
            with pytest.raises(RuntimeError, match="deleted"):
                f(x, y)

    def test_by_name(self):
        f = jit(lambda x, y: add(x, y), donate_argnames="y")
        x, y = arange(3), arange(3)
        f(x, y=y)
        assert y.is_deleted() and not x.is_deleted()

    def test_the_same_array_twice(self):
        f = jit(lambda x, y: add(x, y), donate_argnums=0)
        x = arange(3)
        with pytest.raises(RuntimeError, match="donate a buffer which is also used"):
            f(x, x)
        assert not x.is_deleted()

    def test_unusable(self):
        f = jit(lambda x: ReduceSum((0,))(x), donate_argnums=0)
        x = arange(3)
        with pytest.warns(UserWarning, match="Some donated buffers were not usable"):
            f(x)
        assert not x.is_deleted()


class TestCache:
    def test_sizes_and_statistics(self):
        def f(x):
            return add(x, x)

        jit(f)(arange(3))
        jit(f)(arange(4))
        jit(f)(arange(4))
        assert jit(f)._cache_size() == 2  # shared by all jit(f)
        jit(f).clear_cache()
        assert jit(f)._cache_size() == 0

    def test_tracing_happens_once(self):
        count = []
        f = jit(lambda x: count.append(1) or x)
        for n in (3, 3, 4, 3):
            f(arange(n))
        assert len(count) == 2
        clear_caches()
        f(arange(3))
        assert len(count) == 3

    def test_settings_are_part_of_the_key(self):
        f = jit(lambda x: x)
        with enable_x64(True):
            assert f(1.0).dtype == np.float64
        assert f(1.0).dtype == np.float32

    def test_inner_jaxprs_are_shared(self):
        inner = jit(lambda x: add(x, x))
        staged = stage(lambda x: [add(inner(x), inner(x))], [F3])
        first, second, _ = staged.eqns
        assert first.op.jaxpr is second.op.jaxpr

    def test_captured_tracers(self):
        def outer(x):
            inner = jit(lambda y: add(x, y))
            return [add(inner(x), inner(x))]

        staged = stage(outer, [F3])
        call, _, _ = staged.eqns
        assert len(call.invars) == 2
        assert not call.op.jaxpr.consts
        here = []
        shared = jit(lambda y: add(y, here[-1]))
        for _ in range(2):  # a second trace must not find the first one's values
            stage(lambda x: here.append(x) or [shared(x)], [F3])

    def test_threads(self):
        f = jit(lambda x, y: {"sum": add(x, y), "product": mul(x, y)})
        failures = []

        def work(seed):
            for n in range(1, 20):
                x = arange(n + seed % 2)
                out = f(x, x)
                if not np.array_equal(out["product"], np.square(np.asarray(x))):
                    failures.append(n)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures
        assert f.cache_statistics().signatures == 20


def _double(x):
    return add(x, x)


jitted_double = jit(_double)


def test_pickling():
    f = pickle.loads(pickle.dumps(jitted_double))
    assert f(2).item() == 4
    assert f.__name__ == "_double"


def test_values_without_bits():
    x = np.zeros(3, float0)
    out, _ = jit(lambda x, y: (x, y))(x, 1.0)
    assert type(out) is np.ndarray and out.dtype == float0


class TestLog:
    def test_compiles(self, caplog):
        f = jit(lambda x: add(x, x))
        f(arange(3))
        assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
        with log_compiles(True):
            f(arange(4))
        text = caplog.text
        assert "Finished tracing <lambda> for jit in" in text
        assert "Compiling jit(<lambda>) with global shapes and types [ShapedAr" in text
        assert "Finished compilation of jit(<lambda>) in" in text

    def test_reasons(self, caplog):
        def f(x, n="a"):
            return x

        jitted = jit(f, static_argnames="n")
        for args, reason in [
            ((arange(3),), "never seen function:\n  f defined at"),
            ((arange(4),), "* at x, now f32[4] and before f32[3]"),
            ((1.0,), "different input types"),
            ((np.float32(1),), "now f32[]{weak_type=False} and before f32[]{weak_ty"),
            (([1.0],), "different input pytree"),
            ((arange(3), "b"), "different value of static args:\n    now 'b' and"),
        ]:
            caplog.clear()
            with explain_cache_misses(True):
                jitted(*args)
            assert "TRACING CACHE MISS at" in caplog.text
            assert reason in caplog.text
            caplog.clear()
            with explain_cache_misses(True):
                jitted(*args)
            assert not caplog.text


class TestUnderTracing:
    def test_call_eqn(self):
        def f(x):
            return mul(x, 2.0)

        (eqn,) = stage(lambda x: [jit(f, donate_argnums=0)(x)], [F3]).eqns
        assert eqn.op.name == "jit"
        assert eqn.params["name"] == "f"
        assert eqn.params["donated_invars"] == (True,)

    def test_inline(self):
        for version, inline, name in (
            ("0.11", True, "mul"),
            ("0.12", True, "jit"),
            ("0.12", Inline.JAX_EARLY, "mul"),
        ):
            with jax_api_version(version):
                double = jit(lambda y: mul(y, 2.0), inline=inline)
                (eqn,) = stage(lambda x, f=double: [f(x)], [F3]).eqns
                assert eqn.op.name == name

    def test_inner_jit(self):
        @inner_jit(static_argnames="n", name="_times")
        def times(x, n):
            return mul(x, float(n))

        (eqn,) = stage(lambda x: [times(x, n=2)], [F3]).eqns
        assert eqn.params["name"] == "_times"


class TestInnerJitEagerly:
    def test_the_function_is_called_once_for_each_signature(self):
        calls = []

        @inner_jit(static_argnames=("n", "flag"))
        def f(x, y=None, n=2, flag=False):
            calls.append(n)
            z = mul(x, float(n))
            return z if y is None else {"z": z, "sum": (add(z, y), flag)}

        for _ in range(3):
            assert f(arange(3)).tolist() == [0, 2, 4]
            assert f(arange(3), n=3).tolist() == [0, 3, 6]
            assert f(arange(3), None, 3).tolist() == [0, 3, 6]
            out = f(arange(3), arange(3), flag=True)
            assert out["sum"][0].tolist() == [0, 3, 6]
            assert f(1.5).item() == 3
        assert len(calls) == 5

    def test_what_it_does_not_remember(self):
        f = inner_jit(lambda xs, ys: add(xs[0], ys))
        assert f([arange(2)], np.ones(2, np.float32)).tolist() == [1, 2]

    def test_large_arrays(self):
        f = inner_jit(lambda x: add(mul(x, x), x))
        x = to_array(np.full(100_000, 2, np.float32))
        assert set(f(x).tolist()) == {6.0}

    def test_mistakes_are_those_of_the_function(self):
        def f(x):
            raise ValueError("not this")

        with pytest.raises(ValueError, match="not this"):
            inner_jit(f)(1.0)

    def test_under_differentiation(self):
        f = inner_jit(lambda x: mul(x, x))
        assert grad(f)(3.0).item() == 6
        assert vmap(grad(f))(arange(3)).tolist() == [0, 2, 4]


class TestStages:
    def test_lower_and_compile(self):
        f = jit(lambda x, y=2.0: {"out": add(x, y)})
        lowered = f.lower(arange(3))
        assert lowered.out_info == {"out": ShapeDtypeStruct((3,), np.float32)}
        assert lowered.in_avals == ((F3,), {})
        assert "add" in lowered.as_text()
        compiled = lowered.compile()
        assert compiled(arange(3))["out"].tolist() == [2, 3, 4]
        cost = compiled.cost_analysis()
        assert cost["bytes accessed"] == 24
        assert cost["bytes accessed0{}"] == cost["bytes accessedout{}"] == 12
        memory = compiled.memory_analysis()
        assert memory.peak_memory_in_bytes == 24 + memory.temp_size_in_bytes
        assert compiled.memory_analysis().output_size_in_bytes == 12
        assert f._cache_size() == 0

    def test_shapes_are_enough(self):
        f = jit(lambda x: add(x, x))
        struct = ShapeDtypeStruct((3,), np.float32)
        assert f.lower(struct).compile()(arange(3)).tolist() == [0, 2, 4]
        assert f.eval_shape(struct) == struct
        assert f.trace(struct).jaxpr.out_avals == (F3,)

    def test_static_arguments_are_left_out(self):
        f = jit(lambda x, n: mul(x, n), static_argnums=1)
        compiled = f.lower(arange(3), 3.0).compile()
        assert compiled(arange(3)).tolist() == [0, 3, 6]
        with pytest.raises(TypeError, match="Function compiled with input pytree does"):
            compiled(arange(3), 3.0)

    def test_what_comes_out(self):
        traced = jit(lambda x, y: {"a": x + y}).trace(np.ones(2, np.float32), 1)
        assert traced.out_avals == {"a": ShapedArray((2,), np.dtype(np.float32))}
        info = traced.lower().compile().out_info["a"]
        assert (info.shape, info.dtype) == ((2,), np.float32)
        assert info.sharding == arange(3).sharding

    def test_where_trees_differ(self):
        compiled = jit(lambda x: x["a"]).lower({"a": 1.0}).compile()
        for wrong, words in [
            ({"a": (1.0,)}, r"at args\[0\]\['a'\], seen pytree leaf but now given"),
            ({"b": 1.0}, r"1 mismatches, including:\n    \* at args\[0\], seen <class"),
        ]:
            with pytest.raises(TypeError, match=words):
                compiled(wrong)

    def test_other_types_are_refused(self):
        compiled = jit(lambda x: add(x, x)).lower(arange(3)).compile()
        with pytest.raises(
            TypeError,
            match=r"Argument types differ from the types for which this computation was"
            r" compiled[\s\S]*Argument 'x' compiled with float32\[3\] and called with"
            r" float32\[4\]",
        ):
            compiled(arange(4))

    def test_compiler_options(self):
        lowered = jit(lambda x: x).lower(1)
        lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})
        with pytest.raises(RuntimeError, match="No such compile option: 'other'"):
            lowered.compile(compiler_options={"other": 1})

    def test_no_transformations_of_compiled_functions(self):
        compiled = jit(lambda x: add(x, x)).lower(arange(3)).compile()
        with pytest.raises(TypeError, match="Cannot apply transformations to a"):
            stage(lambda x: [compiled(x)], [F3])


def test_numpy_backend_agrees():
    def f(x, y):
        return {"a": add(x, y), "b": mul(x, x)}

    x = arange(5)
    want = jit(f)(x, x)
    with backend("numpy"), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = jit(f)(x, x)
    assert isinstance(got["a"], Array)
    assert {k: v.tolist() for k, v in got.items()} == {
        k: v.tolist() for k, v in want.items()
    }


def test_debug_nans():
    f = jit(lambda x: mul(add(x, x), 0.0))
    bad, endless = to_array(np.float32(np.nan)), to_array(np.float32(np.inf))
    assert np.isnan(f(bad).item())
    with debug_nans(True):
        for use, x in ((f, bad), (lambda x: add(x, x), bad)):
            with pytest.raises(FloatingPointError, match=r"\(nan\) encountered in add"):
                use(x)
        with pytest.raises(FloatingPointError, match=r"\(nan\) encountered in mul"):
            f(endless)
        with pytest.raises(FloatingPointError, match="input or a literal"):
            jit(lambda x: np.nan)(1.0)
        assert f(1.0).item() == 0


def test_debug_infs():
    with debug_infs(True), pytest.raises(FloatingPointError, match=r"\(inf\) .* mul"):
        jit(lambda x: mul(x, x))(1e30)


class TestDialects:
    def test_the_text_is_stablehlo_or_the_jaxpr(self):
        lowered = jit(lambda x: add(x, x)).lower(1.0)
        for dialect in (None, "hlo", "stablehlo"):
            assert "stablehlo.add %arg0, %arg0" in lowered.as_text(dialect)
        assert "add a a" in lowered.as_text("jaxpr")
        assert str(lowered.compiler_ir("stablehlo")) == lowered.as_text()
        assert lowered.compiler_ir() is lowered.compiler_ir("stablehlo")
        [main] = lowered.compiler_ir().operation.body.operations
        assert main.name == "main"
        assert lowered.compiler_ir("jaxpr").eqns
        with pytest.raises(NotImplementedError, match="a program of XLA"):
            lowered.compiler_ir("hlo")  # it would have methods of XLA's
        with pytest.raises(ValueError, match="unknown dialect: mhlo"):
            lowered.as_text("mhlo")


def test_python_scalars_have_the_dtype_of_the_call_in_derivatives():
    def fun(x):
        with enable_x64(True):
            return curta.numpy.sin(x)

    assert curta.grad(fun)(0.5).dtype == np.float32
    assert curta.jvp(fun, (0.5,), (1.0,))[1].dtype == np.float32


def test_constants_are_what_they_were_when_traced():
    scale = np.ones(3, np.float32)
    fun = jit(lambda x: x * scale)
    fun(1.0)
    scale[0] = 100
    assert fun(2.0).tolist() == [2, 2, 2]


def test_stages_made_where_an_axis_is_named_are_for_there_alone():
    fun = jit(lambda x: x * curta.lax.axis_size("i"))
    inner = vmap(lambda x: (fun.eval_shape(x), fun(x))[1], axis_name="i")
    assert inner(curta.numpy.arange(3)).tolist() == [0, 3, 6]
    with pytest.raises(NameError, match="unbound axis name: i"):
        fun(curta.numpy.int32(1))
    assert inner(curta.numpy.arange(2)).tolist() == [0, 2]


@pytest.mark.parametrize(
    "fun",
    [
        lambda z: z * 2,
        lambda z: z / 3 + 1,
        lambda z: z**2,
        lambda z: z[0],
        lambda z: curta.numpy.where(z > 1, z, 0.0),
        lambda z: z.sum(),
        lambda z: curta.numpy.sin(z),
    ],
)
def test_arrays_of_64_bits_where_these_are_off(fun):
    with enable_x64(True):
        z = curta.numpy.arange(1.0, 4.0)
    out = fun(z)
    assert jit(fun)(z).dtype == out.dtype
    np.testing.assert_allclose(jit(fun)(z), out, rtol=1e-6)
    slope = grad(lambda z: fun(z).sum())(z)
    assert slope.dtype == np.float64
    exact = grad(lambda z: fun(z).sum())(z.astype(np.float32))
    np.testing.assert_allclose(slope, exact, rtol=1e-6)
    assert vmap(fun)(curta.numpy.stack([z, z])).dtype == out.dtype


def test_scalars_meet_64_bits_as_32():
    with enable_x64(True):
        z, i = curta.numpy.arange(3.0), curta.numpy.arange(3)
        assert (z * 2).dtype == np.float64
    assert (z * 2).dtype == jit(lambda z: z * 2)(z).dtype == np.float32
    assert (i + 1).dtype == np.int32 and z.sum().dtype == np.float32
    assert (z * z).dtype == np.float64


def test_shapes_may_be_returned_by_what_is_evaluated_for_shapes():
    struct = curta.ShapeDtypeStruct((2,), "int8")
    assert curta.eval_shape(lambda: struct) == struct
    found = curta.eval_shape(lambda x: {"a": struct, "b": (x, None, struct)}, 1.0)
    assert found["a"] == found["b"][2] == struct and found["b"][1] is None
    assert found["b"][0].shape == () and found["b"][0].dtype == "float32"
    with pytest.raises(TypeError, match="ShapeDtypeStruct does not have a value"):
        curta.jit(lambda: struct)()


def test_the_class_of_compiled_functions():
    # Libraries find out by its name whether a function is compiled.
    assert type(curta.jit(abs)).__name__ == "PjitFunction"


def test_signatures():
    def f(x, *, y=1):
        return x + y

    for options in ({}, {"follow_wrapped": False}):
        assert str(inspect.signature(jit(f), **options)) == "(x, *, y=1)"
    assert inspect.getfullargspec(jit(f)).kwonlydefaults == {"y": 1}
    assert inspect.signature(type(jit(f)))  # the class has one of its own
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(jit(max))


@pytest.mark.parametrize("wrap", [jit, curta.custom_jvp, curta.custom_vjp])
def test_signatures_are_those_of_the_function(wrap):
    def fun(a, b: int = 3, *c, d=4, **e):
        return a

    wrapped = wrap(fun)
    assert inspect.getfullargspec(wrapped) == inspect.getfullargspec(fun)
    for follow in (False, True):
        found = inspect.signature(wrapped, follow_wrapped=follow)
        assert found == inspect.signature(fun)
    assert "fun" in inspect.signature(type(wrapped)).parameters


def test_numpy_reads_the_dtype_of_tracers_without_a_warning():
    found = []

    @jit
    def fun(x):
        found.extend([np.dtype(x), np.result_type(x, np.float16), np.finfo(x).dtype])
        found.append(np.can_cast(x, np.float64))
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fun(np.float32(1))
    assert found == [np.float32, np.float32, np.float32, True]


def test_work_is_counted_where_numbers_are_computed():
    def flops(fun, *shapes):
        args = [ShapeDtypeStruct(s, np.float32) for s in shapes]
        cost = jit(fun).lower(*args).compile().cost_analysis()
        return cost["flops"], cost["transcendentals"]

    lax, jnp = curta.lax, curta.numpy
    assert flops(lambda x: jnp.broadcast_to(x, (100, 100)), ()) == (0, 0)
    assert flops(lambda x: x.T.reshape(-1)[::2], (10, 10)) == (0, 0)
    assert flops(lambda x: x + jnp.ones((10, 10)), (10, 10)) == (100, 0)
    assert flops(lambda x: lax.tanh(x).sum(), (10, 10)) == (99, 100)
    assert flops(lambda x: x @ x, (10, 10)) == (2000, 0)
