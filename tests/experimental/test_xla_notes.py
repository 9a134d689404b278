"""Annotations for XLA are accepted and transform like identities."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import curta
import curta.numpy as jnp
from curta.config import config
from curta.experimental.compilation_cache import compilation_cache
from curta.experimental.xla_metadata import set_xla_metadata
from curta.extend import source_info_util


def tagged(x):
    with set_xla_metadata(block=True):
        return set_xla_metadata({"y": jnp.sin(x)}, key=1)["y"]


def test_notes_change_nothing():
    x = jnp.arange(3.0)
    for wrap in curta.jit, curta.vmap, set_xla_metadata(function=1):
        np.testing.assert_allclose(wrap(tagged)(x), np.sin(x), rtol=3e-7)
    assert curta.grad(tagged)(0.0) == 1.0
    text = str(curta.make_jaxpr(curta.grad(tagged))(0.0))
    assert "xla_metadata_value[xla_metadata_kvs=(('key', 1),)]" in text


def noted(fun, *args):
    """The operations of a program that have notes, with these."""
    text = curta.jit(fun).lower(*args).as_text()
    notes = r"\{mhlo.frontend_attributes = \{(.*?)\}"
    return re.findall(rf"= ([\w.]+)[^\n]*?{notes}", text)


X = jnp.ones(3)


def test_blocks_note_the_ops_within():
    def fun(x):
        y = jnp.exp(x)
        with set_xla_metadata(a="b", n=1, on=True):
            y = jnp.sin(y) * 2
        return y + 1

    notes = 'a = "b", n = "1", on = "true"'
    assert noted(fun, X) == [("stablehlo.sine", notes), ("stablehlo.multiply", notes)]
    assert noted(set_xla_metadata(a="b")(jnp.negative), X) == [
        ("stablehlo.negate", 'a = "b"')
    ]


def test_blocks_in_blocks():
    @set_xla_metadata(a="b")
    def fun(x):
        with set_xla_metadata(c="d"):
            x = jnp.cos(x)
        with set_xla_metadata(a=None):
            x = jnp.tanh(x)
        return set_xla_metadata(jnp.sin(x), e="f")

    assert noted(fun, X) == [
        ("stablehlo.cosine", 'a = "b", c = "d"'),
        ("stablehlo.sine", 'a = "b", e = "f"'),
    ]


def test_notes_go_with_transformations_and_into_functions():
    def inner(x):
        with set_xla_metadata(a="b"):
            return jnp.sin(x)

    cosine, product = "stablehlo.cosine", "stablehlo.multiply"
    derivative = noted(curta.grad(lambda x: inner(x).sum()), X)
    assert derivative[0] == (cosine, 'a = "b"') and derivative[-1][0] == product
    assert noted(curta.vmap(inner), X) == [("stablehlo.sine", 'a = "b"')]
    function = curta.jit(jnp.cos)

    def calls(x):
        with set_xla_metadata(a="b"):
            y = function(x)
        return y + function(x)

    # The function is another one where it is told something.
    assert noted(calls, X) == [("call", 'a = "b"'), (cosine, 'a = "b"')]

    def loop(x):
        with set_xla_metadata(a="b"):
            return curta.lax.while_loop(lambda c: c[0] < 9, lambda c: c + 1, x)

    assert ("stablehlo.add", 'a = "b"') in noted(loop, X)
    text = curta.jit(loop).lower(X).as_text()
    assert 'attributes {mhlo.frontend_attributes = {a = "b"}}' in text


def test_notes_around_a_program():
    def f(x):
        return jnp.sin(x)

    assert noted(f, X) == []
    with set_xla_metadata(a="b"):
        assert noted(f, X) == [("stablehlo.sine", 'a = "b"')]
        assert not str(curta.make_jaxpr(f)(X)).count("a=")
    assert noted(f, X) == []


def test_threads_have_notes_and_names_of_their_own():
    both = threading.Barrier(2)

    @set_xla_metadata(inner=True)
    @curta.named_scope("inner")
    def f(x):
        both.wait(10)
        return jnp.sin(x)

    def run(name):
        with curta.named_scope(name), set_xla_metadata(name=name):
            jaxpr = curta.make_jaxpr(lambda x: jnp.cos(f(x)))(X).jaxpr
            both.wait(10)
            f(X)
            after = source_info_util.current_name_stack()
        places = [eqn.source_info.name_stack for eqn in jaxpr.eqns]
        return [str(p) for p in places], [p.notes for p in places], str(after)

    with ThreadPoolExecutor(2) as pool:
        for name, result in zip("ab", pool.map(run, "ab"), strict=True):
            around = {"name": name}
            assert result == (["inner", ""], [{**around, "inner": True}, around], name)


def test_the_folder_of_kernels(tmp_path):
    before = config.jax_compilation_cache_dir
    try:
        compilation_cache.set_cache_dir(tmp_path)
        compilation_cache.reset_cache()
        assert config.jax_compilation_cache_dir == str(tmp_path)
        curta.jit(lambda x: x * 2.5 + 17.25)(jnp.arange(3.0))
    finally:
        compilation_cache.set_cache_dir(before)
