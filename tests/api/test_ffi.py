"""Functions called by their address."""

import ctypes

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import ffi

SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
LIKE = curta.ShapeDtypeStruct((2,), np.float32)
X = jnp.array([1.0, 2.0])


def floats(address, n):
    return (ctypes.c_float * n).from_address(address)


def register(name, fun):
    kept.append(SIGNATURE(fun))
    ffi.register_ffi_target(name, ffi.pycapsule(kept[-1]), api_version=0)


kept = []  # functions of ctypes live as long as they are referred to


def call(name, like=LIKE, **options):
    return ffi.ffi_call(name, like, custom_call_api_version=1, **options)


def test_eager_compiled_and_mapped():
    def add(out, ins):
        x, y, z = (floats(p, 2) for p in (ins[0], ins[1], out))
        z[:] = [a + b for a, b in zip(x, y)]

    register("add", add)
    f = call("add", vmap_method="sequential")
    assert f(X, X).tolist() == curta.jit(f)(X, X).tolist() == [2, 4]
    rows = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    found = curta.vmap(f, in_axes=(0, None))(rows, X)
    assert found.tolist() == [[2, 4], [4, 6]]
    with pytest.raises(ValueError, match="custom_jvp"):
        curta.grad(lambda x: f(x, x).sum())(X)


def test_a_batch_in_one_call():
    calls = []

    def twice(out, ins):
        calls.append(1)
        floats(out, 6)[:] = [2 * x for x in floats(ins[0], 6)]

    register("twice", twice)
    f = call("twice", vmap_method="broadcast_all")
    x = jnp.arange(6.0).reshape(3, 2)
    assert curta.vmap(f)(x).tolist() == (2 * x).tolist() and len(calls) == 1


def test_several_results_and_effects():
    calls = []

    def halves(out, ins):
        calls.append(1)
        first, second = ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[:2]
        x = floats(ins[0], 2)
        floats(first, 2)[:], floats(second, 2)[:] = x, [-v for v in x]

    register("halves", halves)
    f = call("halves", [LIKE, LIKE], has_side_effect=True)
    assert [y.tolist() for y in curta.jit(f)(X)] == [[1, 2], [-1, -2]]
    curta.jit(lambda x: (f(x), x)[1])(X)
    curta.effects_barrier()
    assert len(calls) == 2


def test_what_needs_xla_is_refused():
    with pytest.raises(curta.errors.JaxRuntimeError, match="NOT_FOUND.*unregistered"):
        call("unregistered")(X)
    with pytest.raises(NotImplementedError, match="needs the runtime of XLA"):
        ffi.ffi_call("unregistered", LIKE)
    ffi.register_ffi_target("typed", ffi.pycapsule(SIGNATURE(lambda out, ins: None)))
    with pytest.raises(NotImplementedError, match="registered with api_version=1"):
        call("typed")(X)
    with pytest.raises(NotImplementedError, match="the layout"):
        call("typed", input_layouts=[(1, 0)])
    with pytest.raises(ValueError, match="vmap_method must be"):
        call("typed", vmap_method="none")
    for refuse in (ffi.include_dir, lambda: ffi.register_ffi_type("t", {})):
        with pytest.raises(NotImplementedError, match="pure_callback"):
            refuse()


def test_handlers_of_plugins():
    """The text is JAX's 0.10.2; what is called is in tests/accelerators/on_devices."""
    kept.append(SIGNATURE(lambda out, ins: None))
    handler = ffi.pycapsule(kept[-1])
    ffi.register_ffi_target("typed_there", handler, platform="CUDA")
    calls = ffi.ffi_call("typed_there", LIKE, vmap_method="broadcast_all")

    def fun(x):
        return calls(
            x, a=3, b=2.5, c=True, d="s", e=np.int32(4), f=np.float32(1.5),
            g=np.arange(3.0), h={"k": 1},
        )  # fmt: skip

    text = curta.jit(fun).lower(X).as_text()
    assert (
        '@typed_there(%arg0) {backend_config = "", mhlo.backend_config = {a = 3 : i64,'
        ' b = 2.500000e+00 : f64, c = true, d = "s", e = 4 : i32, f = 1.500000e+00 :'
        " f32, g = dense<[0.000000e+00, 1.000000e+00, 2.000000e+00]> : tensor<3xf64>,"
        " h = {k = 1 : i64}}, operand_layouts = [dense<0> : tensor<1xindex>],"
        " result_layouts = [dense<0> : tensor<1xindex>]}"
    ) in text
    two = ffi.ffi_call(
        "typed_there", (LIKE, LIKE), has_side_effect=True, input_output_aliases={0: 1}
    )
    text = curta.jit(lambda x: (two(x), x)[1]).lower(X).as_text()
    assert "has_side_effect = true" in text
    assert (
        "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices"
        " = [1], operand_index = 0, operand_tuple_indices = []>]"
    ) in text
    with pytest.raises(NotImplementedError, match="called by plugins"):
        fun(X)
    with pytest.raises(NotImplementedError, match="called by plugins"):
        curta.jit(fun)(X)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        curta.jvp(fun, (X,), (X,))
    with pytest.raises(TypeError, match="no attribute of type object"):
        curta.jit(lambda x: calls(x, bad=object())).lower(X).as_text()
    with pytest.raises(ValueError, match="another handler"):
        other = ffi.pycapsule(ctypes.pythonapi.Py_IncRef)
        ffi.register_ffi_target("typed_there", other, platform="cuda")
