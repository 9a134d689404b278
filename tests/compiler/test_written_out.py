"""Scans that `unroll` says to write out: their iterations fuse."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.scipy import special

X = np.linspace(-2, 2, 3000, dtype=np.float32)


def both(start, rows, unroll, reverse=False):
    def step(carry, row):
        a, b = carry
        return (a * row + b, b - 1), a + b

    return lax.scan(step, start, rows, unroll=unroll, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [np.arange(5.0, dtype=np.float32), np.stack([X] * 4)])
def test_results_are_those_of_the_loop(rows, reverse):
    want = curta.jit(lambda x, r: both((x, x), r, 1, reverse))(X, rows)
    found = curta.jit(lambda x, r: both((x, x), r, len(rows), reverse))(X, rows)
    same = curta.tree.map(np.array_equal, found, want)
    assert curta.tree.all(same)


def kernels(fun, monkeypatch, capsys, *args):
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    curta.jit(fun)(*args)
    return capsys.readouterr().err


def test_a_polynomial_is_one_kernel(monkeypatch, capsys):
    text = kernels(jnp.polyval, monkeypatch, capsys, X[:5], np.stack([X, X]))
    assert text.count("kernel ") == 1 and "region" not in text


def test_so_is_its_gradient(monkeypatch, capsys):
    def grad(x, p):
        return curta.grad(lambda x: jnp.polyval(p, x).sum())(x)

    text = kernels(grad, monkeypatch, capsys, X, X[:5])
    assert text.count("kernel ") == 1 and "region" not in text
    slope = np.polyval(np.polyder(X[:5].astype(float)), X.astype(float))
    np.testing.assert_allclose(curta.jit(grad)(X, X[:5]), slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unroll", [1, 4])
def test_what_is_not_to_be_written_out_is_a_loop(unroll, monkeypatch, capsys):
    def fun(x, rows):
        return both((x, x), rows, unroll)

    assert "region" in kernels(fun, monkeypatch, capsys, X, X[:5])


def test_quantiles_of_many_numbers():
    p = np.linspace(0, 1, 4001, dtype=np.float32)
    found = special.ndtr(curta.jit(special.ndtri)(p))
    np.testing.assert_allclose(found, p, rtol=1e-4, atol=1e-6)
