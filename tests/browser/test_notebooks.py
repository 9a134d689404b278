"""Displays in IPython, by its own shell."""

import warnings

import pytest
from IPython.core.interactiveshell import InteractiveShell

from curta._base import advisor
from curta.config import traceback_filtering
from curta.errors import AdviceWarning


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("%load_ext curta.notebook")
    shell.run_cell("import curta, curta.numpy as jnp")
    with traceback_filtering("auto"):  # as users have it
        yield shell
    shell.run_cell("%unload_ext curta.notebook")


def shown(shell, cell):
    """The HTML of a cell's value, None if it is text."""
    result = shell.run_cell(cell)
    assert result.success, result
    return shell.display_formatter.format(result.result)[0].get("text/html")


def test_arrays_jaxprs_and_trees(shell):
    assert "<img" in shown(shell, "jnp.ones((5, 5))")
    assert "sin a" in shown(shell, "curta.make_jaxpr(jnp.sin)(1.0)")
    tree = shown(shell, "{'weights': [jnp.ones((5, 5))]}")
    assert "treescope" in tree and "<details" not in tree
    assert shown(shell, "{'numbers': [1, 2]}") is None
    assert "iframe" in shown(shell, "curta.explain(jnp.sin, seconds=0)(jnp.ones(3))")


@pytest.mark.parametrize(
    "line",
    ["jnp.ones(3) + jnp.ones(4)", "curta.jit(lambda x: x @ jnp.ones(4))(jnp.ones(3))"],
)
def test_tracebacks_end_at_the_cells_line(shell, capsys, line):
    assert not shell.run_cell(line).success
    printed = capsys.readouterr().out
    assert "----> 1" in printed and "curta/" not in printed.partition("TypeError: ")[0]


def test_timing_without_waiting_is_told_once(shell, capsys):
    shell.run_cell("f = curta.jit(lambda x: x @ x @ x)\nx = jnp.ones((1200, 1200))")
    advisor.forget()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for cell in (
            "%timeit -n1 -r1 f(x).block_until_ready()",
            "%timeit -n1 -r1 f(x)",
            "%timeit -n1 -r1 f(x)",
        ):
            assert shell.run_cell(cell).success
    shell.run_cell("curta.effects_barrier()")
    advice = [w for w in told if issubclass(w.category, AdviceWarning)]
    assert len(advice) == 1 and "block_until_ready" in str(advice[0].message)


def test_progress_bars(shell, capsys):
    cell = (
        "curta.jit(lambda: curta.debug.progress(curta.lax.fori_loop)"
        "(0, 50, lambda i, x: x + i, 0))()"
    )
    assert shell.run_cell(cell).success
    printed = capsys.readouterr()
    assert "50/50" in printed.out + printed.err
