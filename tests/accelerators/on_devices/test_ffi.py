"""Handlers of XLA's typed interface, compiled here, called by programs on devices."""

import ctypes
import subprocess
import textwrap
from functools import partial

import numpy as np
import pytest
from tests.accelerators import shim

import curta
import curta.numpy as jnp
from curta import ffi
from curta.errors import JaxRuntimeError
from curta.experimental.layout import Layout

X = np.arange(6, dtype=np.float32).reshape(2, 3)
LIKE = curta.ShapeDtypeStruct(X.shape, X.dtype)

SOURCE = """
    #include "xla/ffi/api/ffi.h"
    namespace ffi = xla::ffi;

    // y = scale x + the sum of `more` + length of `name`, and how many there are
    ffi::Error Affine(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                      ffi::ResultBuffer<ffi::S32> count, float scale,
                      ffi::Span<const int64_t> more, std::string_view name,
                      ffi::Dictionary rest) {
      if (scale == 0) return ffi::Error::InvalidArgument("scale is zero");
      float added = name.size() + rest.get<int64_t>("last").value();
      for (int64_t m : more) added += m;
      for (size_t i = 0; i < x.element_count(); ++i)
        y->typed_data()[i] = scale * x.typed_data()[i] + added;
      count->typed_data()[0] = x.element_count();
      return ffi::Error::Success();
    }
    XLA_FFI_DEFINE_HANDLER_SYMBOL(
        Scaled, Affine,
        ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>()
            .Ret<ffi::Buffer<ffi::S32>>().Attr<float>("scale")
            .Attr<ffi::Span<const int64_t>>("more").Attr<std::string_view>("name")
            .Attr<ffi::Dictionary>("rest"));
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    """The plugin with the handler `scaled`."""
    device = curta.devices()[0]
    if device.platform_name.lower() != "cpu":
        pytest.skip("the handler is one for CPUs")
    folder = tmp_path_factory.mktemp("handler")
    source, library = folder / "handler.cc", folder / "handler.so"
    source.write_text(textwrap.dedent(SOURCE))
    include = f"-I{shim.tensorflow() / 'include'}"
    command = [shim.compiler(), "-std=c++17", "-w", "-shared", "-fPIC", include]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    handler = ctypes.CDLL(str(library)).Scaled
    name = device.platform
    for _ in range(2):  # the same one again changes nothing
        ffi.register_ffi_target("scaled", ffi.pycapsule(handler), platform=name)
    return name


def scaled(x, scale=2.0, **options):
    options.setdefault("vmap_method", "sequential")
    call = ffi.ffi_call(
        "scaled", (LIKE, curta.ShapeDtypeStruct((1,), np.int32)), **options
    )
    rest = {"last": 100}
    return call(x, scale=np.float32(scale), more=np.arange(4), name="four", rest=rest)


@pytest.mark.parametrize("wrap", [curta.jit, lambda f: f], ids=["jit", "eager"])
def test_results(platform, wrap):
    for _ in range(3):
        y, count = wrap(scaled)(jnp.asarray(X))
        np.testing.assert_array_equal(y, 2 * X + 110)
        assert count.tolist() == [6] and y.devices() == {curta.devices()[0]}


def test_errors(platform):
    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT.*scale is zero"):
        curta.jit(lambda x: scaled(x, 0.0))(jnp.asarray(X))[0].block_until_ready()
    with pytest.raises(ValueError, match="`scaled` cannot be differentiated"):
        curta.grad(lambda x: scaled(x)[0].sum())(jnp.asarray(X))
    host = curta.device_put(X, curta.devices("cpu")[0])
    with pytest.raises(NotImplementedError, match="called by plugins"):
        curta.jit(scaled)(host)
    with pytest.raises(ValueError, match="another handler"):
        other = ctypes.pythonapi.Py_IncRef
        ffi.register_ffi_target("scaled", ffi.pycapsule(other), platform=platform)


def test_layouts(platform):
    x = jnp.asarray(X)
    y, _ = curta.jit(lambda x: scaled(x, input_layouts=[(1, 0)]))(x)
    np.testing.assert_array_equal(y, (2 * X.T.ravel() + 110).reshape(X.shape))
    columns = {"input_layouts": [Layout((1, 0))], "output_layouts": ((1, 0), None)}
    np.testing.assert_array_equal(scaled(x, **columns)[0], 2 * X + 110)
    many = jnp.stack([x, x + 1])
    for method in "sequential", "broadcast_all":
        call = partial(scaled, input_layouts=[(1, 0)], vmap_method=method)
        y, _ = curta.vmap(call)(many)
        turned = np.asarray(many).transpose(0, 2, 1).reshape(many.shape)
        np.testing.assert_array_equal(y, 2 * turned + 110)
    with pytest.raises(ValueError, match="no order of the 2 dims"):
        scaled(x, input_layouts=[(0, 2)])
    with pytest.raises(ValueError, match="number of output layouts"):
        scaled(x, output_layouts=[(0, 1)])


def test_batches_and_effects(platform):
    many = jnp.stack([X, X + 1])
    y, count = curta.vmap(scaled)(many)
    np.testing.assert_array_equal(y, 2 * np.asarray(many) + 110)
    assert count.tolist() == [[6], [6]]
    with pytest.raises(NotImplementedError, match="vmap_method"):
        curta.vmap(lambda x: scaled(x, vmap_method=None))(many)

    def fun(x):
        scaled(x, has_side_effect=True)
        return x

    text = curta.jit(fun).lower(jnp.asarray(X)).as_text()
    assert "@scaled" in text and "has_side_effect = true" in text
    with pytest.raises(JaxRuntimeError, match="scale is zero"):
        bad = curta.jit(lambda x: (scaled(x, 0.0, has_side_effect=True), x)[1])
        bad(jnp.asarray(X)).block_until_ready()
