"""Loops with a progress bar: their results, and the calls of the bar."""

import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.debug import bars

told = []


class Bar:
    """Records its calls."""

    def __init__(self, description, total):
        told.append((description, total))

    def update(self, count):
        told.append(count)

    def close(self):
        told.append("closed")


@pytest.fixture(autouse=True)
def clear():
    told.clear()


def with_bar(loop, **options):
    return curta.debug.progress(loop, bar=Bar, **options)


def agree(one, other, *args):
    """Both give the same values and types."""
    for a, b in zip(*(curta.tree.leaves(f(*args)) for f in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
        assert a.dtype == b.dtype


def scanned(loop, **options):
    def f(xs):
        def body(c, x):
            return c * 0.9 + x, {"y": c * x}

        return loop(body, 0.5, xs, **options)

    return f


TRANSFORMS = {
    "none": lambda f: f,
    "jit": curta.jit,
    "grad": lambda f: curta.grad(lambda x: f(x)[1]["y"].sum()),
    "jit of grad": lambda f: curta.jit(curta.grad(lambda x: f(x)[0])),
    "checkpoint": lambda f: curta.grad(curta.checkpoint(lambda x: f(x)[0])),
    "forward mode": lambda f: curta.jacfwd(lambda x: f(x)[0]),
    "jit of vmap": lambda f: lambda x: curta.jit(curta.vmap(f))(jnp.stack([x, -x])),
}


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 2}], ids=str)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_scan(transform, options):
    change = TRANSFORMS[transform]
    loop = with_bar(lax.scan, updates=4)
    agree(
        change(scanned(loop, **options)),
        change(scanned(lax.scan, **options)),
        jnp.arange(11.0),
    )
    assert told[:6] == [("body", 11), 3, 3, 3, 2, "closed"]


def test_scan_without_arrays_and_with_keys():
    agree(
        lambda: with_bar(lax.scan)(lambda c, _: (c + 1, c), 0, None, 5),
        lambda: lax.scan(lambda c, _: (c + 1, c), 0, None, 5),
    )
    keys = curta.random.split(curta.random.key(0), 7)

    def draw(loop):
        return lambda: loop(lambda c, k: (c + curta.random.normal(k), c), 0.0, keys)

    agree(draw(with_bar(lax.scan, updates=2)), draw(lax.scan))


def test_a_carry_that_takes_its_type_from_the_body():
    def f(loop):
        return lambda: loop(lambda c, x: (c + x, c), 0, jnp.arange(4.0))

    agree(f(with_bar(lax.scan, updates=2)), f(lax.scan))


def counted(loop, lower=0, upper=10):
    return lambda x: loop(lower, upper, lambda i, c: c * 1.1 + i, x)


SIMPLE = {
    "none": lambda f: f,
    "jit": curta.jit,
    "grad": curta.grad,
    "jit of grad": lambda f: curta.jit(curta.grad(f)),
    "vmap": lambda f: lambda x: curta.vmap(f)(jnp.stack([x, 2 * x, 90 * x])),
}


@pytest.mark.parametrize("transform", SIMPLE)
def test_fori_loop(transform):
    change = SIMPLE[transform]
    agree(
        change(counted(with_bar(lax.fori_loop, updates=3))),
        change(counted(lax.fori_loop)),
        jnp.asarray(2.0),
    )
    assert told == [("lambda", 10), 4, 4, 2, "closed"]


@pytest.mark.parametrize(
    "bounds", [(np.int8(3), 9), (2, np.int16(7)), (-4, np.uint8(3)), (5, 5), (5, 2)]
)
def test_bounds_of_fori_loop(bounds):
    def f(loop):
        return lambda: loop(*bounds, lambda i, c: c + 2 * i, i_zero(bounds))

    def i_zero(bounds):
        return sum(b.dtype.type(0) for b in bounds if isinstance(b, np.generic))

    try:
        wanted = f(lax.fori_loop)()
    except TypeError as error:
        with pytest.raises(TypeError, match=str(error)[:30]):
            f(with_bar(lax.fori_loop))()
        return
    agree(f(with_bar(lax.fori_loop)), lambda: wanted)


@pytest.mark.parametrize("transform", SIMPLE)
def test_fori_loop_of_data(transform):
    change = SIMPLE[transform]

    def f(loop):
        run = curta.jit(lambda n, x: counted(loop, 0, n)(x))
        return change(lambda x: run(30, x))

    agree(f(with_bar(lax.fori_loop)), f(lax.fori_loop), jnp.asarray(2.0))
    assert told[0] == ("lambda", 30) and told[-1] == "closed"
    assert sum(told[1:-1]) == 30


@pytest.mark.parametrize("transform", SIMPLE)
def test_while_loop(transform):
    change = SIMPLE[transform]

    def f(loop):
        return lambda x: loop(lambda c: c < 1000, lambda c: c * 1.1 + 1, x)

    agree(
        change(f(with_bar(lax.while_loop))), change(f(lax.while_loop)), jnp.asarray(2.0)
    )
    assert told[0] == ("lambda", None) and told[-1] == "closed"
    assert sum(told[1:-1]) == 47  # of a batch, the longest


def test_a_long_loop_is_seldom_left():
    def f(loop):
        return loop(lambda c: c < 100_000, lambda c: c + 1, 0)

    assert curta.jit(lambda: f(with_bar(lax.while_loop)))() == 100_000
    assert len(told) < 250 and sum(told[1:-1]) == 100_000


def test_a_program_that_runs_twice_has_a_bar_each_time():
    f = curta.jit(scanned(with_bar(lax.scan)))
    f(jnp.ones(3)), f(jnp.ones(3))
    assert told == 2 * [("body", 3), 1, 1, 1, "closed"]


def test_nested_loops():
    def outer(c, x):
        return with_bar(lax.fori_loop)(0, 2, lambda i, c: c + x, c), None

    total, _ = curta.jit(
        lambda: with_bar(lax.scan, description="all")(outer, 0.0, jnp.ones(2))
    )()
    assert total == 4
    inner = [("lambda", 2), 1, 1, "closed"]
    assert told == [("all", 2), *inner, 1, *inner, 1, "closed"]


def test_without_jit():
    with curta.disable_jit():
        agree(scanned(with_bar(lax.scan)), scanned(lax.scan), jnp.arange(4.0))
        assert told == [("body", 4), 1, 1, 1, 1, "closed"]


def test_mistakes():
    for loop in (lax.map, print, "scan"):
        with pytest.raises(TypeError, match="takes lax.scan"):
            curta.debug.progress(loop)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        curta.debug.progress(lax.scan, updates=0)
    f = with_bar(lax.scan)
    for args, message in (
        ((3, 0.0, jnp.ones(3)), "should be a callable"),
        ((lambda c, x: (c, x), 0.0), "no values to scan over"),
        ((lambda c, x: (c, x), 0.0, 1.0), "no leading axis"),
        ((lambda c, x: (c, x), 0.0, jnp.ones(3), 4), "disagrees with"),
        ((lambda c, x: c, 0.0, jnp.ones(3)), "must be a pair"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            f(*args)
    with pytest.raises(TypeError, match="should be callable"):
        with_bar(lax.while_loop)(lambda c: True, 1, 0)


# ---- the bars that there are


def run(bar):
    for count in (2, 3):
        bar.update(count)
    bar.close()


def test_plain_text(capsys):
    run(bars.TextBar("training", 5))
    run(bars.TextBar("searching", None))
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    assert any(line.startswith(f"training [{'#' * 30}] 5/5") for line in lines)
    assert any(line.startswith("searching 5 ") for line in lines)


@pytest.mark.parametrize("installed", ["tqdm", "rich", ""])
def test_bars_by_what_is_installed(installed, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == installed)
    bar = bars.make_bar("training", 5)
    assert type(bar).__module__.partition(".")[0] == (installed or "curta").replace(
        "rich", "curta"
    )
    run(bar)
    printed = capsys.readouterr()
    assert "training" in printed.out + printed.err
    assert "5/5" in (printed.out + printed.err).replace(" ", "")
    sys.stderr.flush()
