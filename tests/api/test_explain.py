"""The output of `explain`: kernels, figures, Python steps, hints."""

import dataclasses
import doctest
import html.parser
import re
from pathlib import Path

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.api import explain_hints, explain_page
from curta.api.explain import waited_call
from curta.command_line import main
from curta.command_line.explain import argument
from curta.command_line.usage import UsageError
from curta.compiler.clocks import clocked
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.report import report
from curta.compiler.support.threads import parallel_for_address
from curta.sharding import AxisType

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def explained(fun, *args):
    return curta.explain(fun, seconds=0.0)(*args)


def softmax(x):
    e = jnp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_examples_of_the_page():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 5 and result.failed == 0


def test_bytes_flops_and_lines_of_one_kernel():
    x = jnp.ones((128, 64))
    found = explained(softmax, x)
    (kernel,) = found.kernels
    assert kernel.ops[0] == "reduce_max" and kernel.ops[-1] == "div"
    assert kernel.bytes == 2 * x.nbytes
    # a maximum, a difference, an exponential, a sum and a quotient of each element
    assert kernel.flops == 5 * x.size - 2 * 128
    assert any("e = jnp.exp(x - x.max" in line for line in kernel.lines)
    assert found.cost.memory["arguments"] == found.cost.memory["results"] == x.nbytes
    assert found.cost.call is not None
    assert all("Kernel 0 takes" in hint for hint in found.hints)  # if it is slow now


def test_results_of_the_kernels_are_those_of_the_program():
    """Kernels are timed on what the kernels before them leave."""

    def f(x, i):
        y = jnp.sort(jnp.tanh(x @ x), 1)
        return y[i], jnp.cumsum(y, 1).at[i].add(1.0)

    x = np.random.default_rng(0).uniform(size=(40, 40)).astype(np.float32)
    i = np.array([3, 39, 0], np.int32)
    made = report(curta.jit(f).trace(x, i).jaxpr)
    found = clocked(made, parallel_for_address).executable(x, i)
    for got, wanted in zip(found, curta.jit(f)(x, i), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_times_add_up_to_that_of_a_call():
    """The time of a call outside of its kernels has a row of its own."""
    x = jnp.ones((64, 64))
    found = explained(lambda x: jnp.sort(jnp.tanh(x @ x), 1), x)
    cost = found.cost
    assert len(cost.kernels) > 2 and all(k.seconds > 0 for k in cost.kernels)
    # They are parts of one call, whatever others took.
    assert 0 < cost.sum_of_kernels < cost.call <= cost.typical
    assert cost.seconds == pytest.approx(cost.call, rel=1e-9)
    assert "(median " in str(found)
    lines = str(found).splitlines()
    assert any("the call around the kernels" in x and "%" in x for x in lines)
    # A program that gives its arguments up cannot be called again and again.
    donating = explained(curta.jit(lambda x: x + 1, donate_argnums=0), x)
    assert donating.cost.call is None and not x.is_deleted()
    assert donating.cost.seconds == donating.cost.sum_of_kernels


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_clock_between_the_kernels_changes_no_result(size):
    """By native code, from the queue, with arrays of NumPy and trees."""

    def f(x, *, y):
        total = jnp.cumsum(jnp.sin(x) * table)
        return {"sorted": jnp.sort(total), "rest": (x, y + total)}

    table = jnp.arange(size, dtype=jnp.float32)
    x, y = jnp.linspace(0.0, 1.0, size), np.ones(size, np.float32)
    lowered = curta.jit(f).lower(x, y=y)
    program = clocked(report(lowered._live), parallel_for_address)
    results = []
    waited = waited_call(lowered.compile(), (x,), {"y": y}, program.executable)
    for _ in range(4):
        whole, kernels = program.sample(lambda: results.append(waited()))
        assert len(kernels) > 1 and 0 < min(kernels) and sum(kernels) < whole
    expected = curta.jit(f)(x, y=y)
    for result in results:
        curta.tree.map(np.testing.assert_array_equal, result, expected)


def test_kernels_side_by_side_share_the_time_that_they_take_together(limits):
    limits(job_cost=1, chunk_cost=1 << 13)
    xs = [jnp.ones(n) for n in (60_000, 30_000, 90_000)]
    lowered = curta.jit(lambda xs: [x * 2 for x in xs]).lower(xs)
    made = report(lowered._live)
    assert made.together == (3,)
    program = clocked(made, parallel_for_address)
    _, times = program.sample(lambda: program.executable(*map(np.asarray, xs)))
    np.testing.assert_allclose(
        np.array(times) / sum(times), (2 / 6, 1 / 6, 3 / 6), 1e-3
    )


def test_programs_that_a_loop_runs_are_timed_on_threads_as_they_run():
    def f(x):
        return curta.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c) * 2 + c.sum(), x)

    closed = curta.jit(f).trace(np.ones(1_000_000, np.float32)).jaxpr
    timed = clocked(report(closed), parallel_for_address).executable
    programs = [c for c in timed.code.callees if isinstance(c, NativeProgram)]
    assert any(p.launcher is not None for p in programs)


def test_loops_show_the_programs_that_they_run():
    def f(x):
        return curta.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ c), x)

    (loop,) = [k for k in explained(f, jnp.ones((32, 32))).kernels if k.inner]
    ops = [k.ops for program in loop.inner for k in program]
    assert ("dot_general",) in ops and ("tanh",) in ops
    assert loop.flops >= 3 * 2 * 32**3


def test_a_callback_is_a_step_in_python_and_runs_once():
    calls = []

    def f(x):
        curta.debug.callback(lambda v: calls.append(float(v)), x[0])
        return x + 1

    found = explained(f, jnp.full(3, 2.0))
    assert calls == [2.0]
    (step,) = found.cost.python_steps
    assert "debug_callback calls a Python function" in step.reason
    assert any("runs in Python" in hint for hint in found.hints)
    assert "in Python: debug_callback" in str(found)
    assert found.cost.call is None


def test_python_inside_of_a_loop_is_found():
    def f(x):
        def body(_, c):
            curta.debug.callback(lambda v: None, c[0])
            return c * 2

        return curta.lax.fori_loop(0, 2, body, x)

    found = explained(f, jnp.ones(100))
    assert found.cost.python_steps
    assert any("runs in Python" in hint for hint in found.hints)
    assert 'class="python"' in found._repr_html_().replace("&quot;", '"')


def hint_of(fun, *args):
    return " ".join(explained(fun, *args).hints)


def test_hints_for_seeded_faults():
    table = jnp.ones((600, 600))
    assert "constants of the program" in hint_of(lambda x: (x + table).sum(), 1.0)
    x = jnp.ones((512, 512))
    copying = hint_of(lambda x: jnp.transpose(x).copy(), x)
    assert "only copies (transpose" in copying and "test_explain.py" in copying
    with curta.enable_x64(True):
        doubled = hint_of(lambda x: jnp.sin(x) * 2, np.ones(100_000))
    assert "computes in float64" in doubled


def test_a_hint_for_a_transpose_that_is_fused():
    x = jnp.ones((1024, 1024))
    found = curta.explain(lambda x: jnp.exp(x.T).reshape(-1), seconds=0.0)(x)
    (kernel,) = found.kernels
    across = "across its rows" in " ".join(found.hints)
    assert across == (kernel.bound == "memory" and kernel.share_of_limit < 0.25)


def test_a_hint_for_arrays_of_numpy_that_each_call_converts():
    x = np.ones(1_000_000, np.int64)
    converting = hint_of(lambda x: x + 1, x)
    assert "Argument x is a NumPy array of int64" in converting
    assert "converts to int32" in converting
    assert hint_of(lambda x: x + 1, jnp.asarray(x)) == ""


def test_a_hint_for_a_loop_of_python_and_a_short_text():
    def f(x):
        for i in range(200):
            x = x.at[i % 7].add(jnp.sin(x[i % 5]))
        return x

    found = explained(f, jnp.ones(10))
    hint = found.hints[-1]
    assert "200 times in the program by one line" in hint and "fori_loop" in hint
    assert re.search(r"1\d\d more, in `kernels`", str(found))
    assert len(str(found).splitlines()) < 30


def kernel(**changes):
    """A kernel's costs as they might be."""
    (made,) = explained(softmax, jnp.ones((8, 8))).kernels
    return dataclasses.replace(made, seconds=1.0, share_of_limit=0.1, **changes)


def hints_of(kernels, total=None):
    found = explained(softmax, jnp.ones((8, 8))).cost
    closed = curta.make_jaxpr(softmax)(jnp.ones((8, 8)))
    cost = dataclasses.replace(found, kernels=tuple(kernels), call=None)
    return list(explain_hints.hints(cost, closed, ()))


def test_each_large_kernel_far_from_the_limit_has_a_hint():
    sort, exp = kernel(ops=("sort",), index=3), kernel(ops=("exp",), index=4)
    near = dataclasses.replace(kernel(ops=("sort",)), share_of_limit=0.9)
    small = dataclasses.replace(kernel(ops=("sort",)), seconds=0.01)
    first, second = hints_of([sort, exp, near, small])
    assert first.startswith("Kernel 3 takes 33% of the time (test_explain.py:")
    assert "at 10% of the limit of" in first and "top_k" in first
    assert "Kernel 4" in second and "transcendental" in second
    loop = kernel(ops=("scan",), inner=((dataclasses.replace(exp, seconds=0.9),),))
    (hint,) = hints_of([loop])
    assert "most of it is exp (test_explain.py:" in hint
    (hint,) = hints_of([dataclasses.replace(sort, seconds=1e-6)])
    assert "it has little work" in hint


# ---- lines


def heavy_and_light(x):
    y = jnp.sin(jnp.cos(jnp.tanh(jnp.exp(x) * 2)))  # heavy
    z = y + 1  # light

    def body(i, c):
        return jnp.tanh(c @ c)  # in the loop

    return jax_loop(body, z)


def jax_loop(body, x):
    return curta.lax.fori_loop(0, 20, body, x)


def test_the_time_of_each_line():
    cost = explained(heavy_and_light, jnp.ones((64, 64))).cost
    first = heavy_and_light.__code__.co_firstlineno
    seconds = {p.line - first: t for p, t in cost.by_line.items() if p.line >= first}
    assert seconds[1] > seconds.get(2, 0.0) and seconds[5] > 0
    assert sum(cost.by_line.values()) == pytest.approx(cost.sum_of_kernels, rel=1e-6)
    (source,) = [s for s in cost.sources if s.first == first]
    assert source.lines[1].endswith("# heavy") and "in the loop" in source.lines[5]


def test_kernels_of_a_body_share_the_time_of_the_loop():
    def f(x):
        return curta.lax.fori_loop(0, 20, lambda _, c: jnp.tanh(jnp.sort(c @ c, 0)), x)

    (loop,) = [k for k in explained(f, jnp.ones((64, 64))).kernels if k.inner]
    times = [k.seconds for program in loop.inner for k in program]
    assert len(times) > 1 and min(times) > 0
    assert sum(times) == pytest.approx(loop.seconds, rel=1e-6)


def test_the_page_begins_with_the_source():
    found = explained(heavy_and_light, jnp.ones((64, 64)))
    page = explain_page.page(found.cost)
    assert page.index('class="source"') < page.index("<h2>Kernels</h2>")
    assert "--heat: 85%" in page and "# in the loop" in page
    assert page.count('class="limit"') + page.count("in caches") > 0


def test_static_arguments_structures_and_types_alone():
    f = curta.jit(lambda p, n: p["a"] * n, static_argnums=1)
    struct = curta.ShapeDtypeStruct((3,), jnp.float32)
    (kernel,) = explained(f, {"a": struct}, 2).kernels
    assert kernel.ops == ("mul",)


def test_keys_and_small_dtypes_are_arguments_too():
    key = curta.random.key(0)
    assert explained(lambda k: curta.random.uniform(k, (8,)), key).kernels
    assert explained(lambda x: x + 1, jnp.ones(3, jnp.bfloat16)).kernels


def test_collectives_are_listed():
    mesh = curta.make_mesh((1,), ("i",), (AxisType.Auto,))
    spec = curta.P("i")

    @curta.shard_map(mesh=mesh, in_specs=spec, out_specs=curta.P())
    def f(x):
        return curta.lax.psum(x.sum(), "i")

    (collective,) = explained(f, jnp.ones(8)).cost.collectives
    assert collective.startswith("psum") and "4 bytes" in collective


def test_another_backend_is_refused():
    from curta.config import backend

    with backend("numpy"), pytest.raises(NotImplementedError, match="for CPUs"):
        explained(softmax, jnp.ones((2, 2)))


def test_differences_name_what_only_one_has():
    compare = curta.explain(softmax, seconds=0.0).diff(lambda x: jnp.sort(softmax(x)))
    text = str(compare(jnp.ones((16, 16))))
    assert "+" in text and "sorted_rows" in text


class Tags(html.parser.HTMLParser):
    """Checks that tags are closed, and keeps what they refer to."""

    void = frozenset({"meta", "input", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attributes):
        self.links += [v for k, v in attributes if k in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    def loop(x):
        return curta.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ c), x)

    for fun in (softmax, loop):
        path = tmp_path / "page.html"
        found = explained(fun, jnp.ones((8, 8)))
        found.save(path)
        page = path.read_text()
        tags = Tags()
        tags.feed(page)
        assert tags.open == [] and tags.links == [] and "http" not in page
        assert page.count("<tr") == 2 + len(found.kernels)
        assert "color-scheme: light dark" in page


def test_the_command(capsys, tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text("def double(x, n): return x * n\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("curta.command_line.explain.importlib", _Plain)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["explain", "models:double", "f32[10,10]", "2.5"]) == 0
    assert "loops: mul" in capsys.readouterr().out
    for words, message in (
        (["models"], "is not MODULE:FUNCTION"),
        (["no_such_module:f"], "there is no module 'no_such_module'"),
        (["models:no_such"], "no attribute 'no_such'"),
        (["models:double", "q7[3]"], "there is no dtype 'q7'"),
        (["models:double", "x +"], "neither a type"),
    ):
        assert main(["explain", *words]) == 2
        assert message in capsys.readouterr().err


class _Plain:
    """`importlib`, but that `jax` stays what it is in this process."""

    @staticmethod
    def import_module(name):
        import importlib

        return None if name == "curta.as_jax" else importlib.import_module(name)


def test_arguments_of_the_command():
    assert argument("i32[]").dtype == np.int32 and argument("bool[2]").dtype == bool
    assert argument("bf16[4, 2]").shape == (4, 2) and argument("c64[1]").size == 1
    assert argument("{'a': [1, 2]}") == {"a": [1, 2]}
    with pytest.raises(UsageError):
        argument("f31[2]")
