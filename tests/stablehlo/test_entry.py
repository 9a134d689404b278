"""Arguments and results of a program in its module."""

import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax

X = jnp.ones(4)


def head(fun, *args, **options):
    """The line of `@main`."""
    text = curta.jit(fun, **options).lower(*args).as_text()
    return next(line for line in text.splitlines() if "@main" in line)


def test_names_of_results():
    found = head(lambda x, y: (x + 1, {"a": y["k"] * 2}), X, {"k": 2.0})
    assert found == (
        "  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<f32>) ->"
        ' (tensor<4xf32> {jax.result_info = "result[0]"},'
        " tensor<f32> {jax.result_info = \"result[1]['a']\"}) {"
    )
    assert head(lambda x: (), X) == "  func.func public @main() {"


def test_unused_arguments():
    assert "%arg1" not in head(lambda x, y: y + 1, X, X)
    assert "%arg1" in head(lambda x, y: y + 1, X, X, keep_unused=True)
    unread = curta.jit(lambda x: x)
    assert "%arg1" not in head(lambda x, y: (unread(y), x)[1], X, X)


def test_donation():
    found = head(lambda x, y: (y + 1, x * 2), X, X, donate_argnums=1)
    assert "%arg1: tensor<4xf32> {tf.aliasing_output = 0 : i32}" in found
    options = {"donate_argnums": 0, "keep_unused": True}
    with pytest.warns(UserWarning, match=r"donated buffers .* float32\[4\]"):
        assert "tf." not in head(lambda x: np.float32(1), X, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = head(lambda x: np.ones((2, 2), np.float32), X, **options)
    assert "jax.buffer_donor = true" in found


def test_names_of_modules():
    text = curta.jit(lambda x: x).lower(X).as_text()
    assert text.startswith("module @jit__lambda attributes {mhlo.num_partitions = 1 :")


def test_locations():
    @curta.vmap
    def model(x):
        with curta.named_scope("layer"):
            return curta.jit(curta.named_call(jnp.sin, name="wave"))(x)

    text = curta.jit(model).lower(X).as_text(debug_info=True)
    assert '"jit(model)/vmap(layer)/jit(sin)"' in text
    assert 'loc("wave/sin"' in text
    assert '%arg0: tensor<4xf32> loc("x")' in text
    assert 'test_entry.py":' in text
    assert "loc(" not in curta.jit(model).lower(X).as_text()


def test_what_depends_on_the_platform():
    fun = curta.jit(lambda x: lax.platform_dependent(x, tpu=jnp.cos, default=jnp.sin))
    traced = fun.trace(1.0)
    several = traced.lower(lowering_platforms=("cpu", "tpu")).as_text()
    assert '%0 = "stablehlo.case"(%arg0) ({' in several
    assert "sine" in several and "cosine" in several
    one = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "sine" not in one.replace("cosine", "") and "case" not in one


def test_constants_are_part_of_the_program():
    fun = curta.jit(lambda x: x + np.arange(4, dtype=np.float32))
    lowered = fun.lower(X)
    assert "stablehlo.constant dense<[0.000000e+00, 1.000000e+00," in lowered.as_text()
    compiled = lowered.compile()
    assert compiled._params.const_args == [] and len(compiled._executable.in_avals) == 1
