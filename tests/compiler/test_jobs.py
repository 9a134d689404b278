"""Independent kernels are one job for the threads; others keep their order."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.compiler.program import jobs, works


@pytest.fixture
def made(limits, monkeypatch):
    """The numbers of kernels of the jobs that are made, which cost next to nothing."""
    limits(job_cost=1, job_tasks=1 << 12, chunk_cost=1 << 13)
    numbers = []

    def noted(*args):
        found = jobs.in_jobs(*args)
        numbers.extend(len(j.works) for j in found if isinstance(j, works.Job))
        return found

    monkeypatch.setattr(works, "in_jobs", noted)
    return numbers


def arrays(count, size):
    rng = np.random.default_rng(0)
    return [rng.normal(size=size).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("donated", [(), (0,)])
def test_kernels_of_arrays_that_do_not_need_each_other_are_a_job(made, donated):
    # Sizes differ, so that the maps are kernels of their own.
    xs = [x for n in range(7) for x in arrays(1, 3000 + 513 * n)]
    f = curta.jit(lambda xs: [x * 2 + 1 for x in xs], donate_argnums=donated)
    for _ in range(20):
        for x, y in zip(xs, f([jnp.array(x) for x in xs]), strict=True):
            np.testing.assert_array_equal(y, x * 2 + 1)
    assert max(made) > 1


def test_a_kernel_that_reads_what_another_one_writes_comes_after_it(made):
    def f(xs):
        ys = [jnp.cumsum(x) for x in xs]
        return [jnp.cumsum(y[::-1]) for y in ys]

    xs = [x for n in range(5) for x in arrays(1, 20_000 + 100 * n)]
    found = curta.jit(f)(xs)
    assert len(made) > 1
    for x, y in zip(xs, found, strict=True):
        np.testing.assert_allclose(y, np.cumsum(np.cumsum(x)[::-1]), rtol=1e-3, atol=1)


def test_a_donated_array_is_read_before_it_is_overwritten(made):
    def f(x, y):
        return jnp.flip(y) * 2, jnp.flip(x) + 1

    step = curta.jit(f, donate_argnums=(0, 1))
    x, y = arrays(2, 20_000)
    for _ in range(20):
        a, b = step(jnp.array(x), jnp.array(y))
        np.testing.assert_array_equal(a, y[::-1] * 2)
        np.testing.assert_array_equal(b, x[::-1] + 1)


def test_jobs_of_python_threads_are_run_side_by_side(made):
    f = curta.jit(lambda xs: [jnp.sin(x) for x in xs])
    xs = [x for n in range(6) for x in arrays(1, 4000 + 64 * n)]
    expected = [np.asarray(y) for y in f(xs)]

    def call(_):
        return [np.asarray(y) for _ in range(20) for y in f(xs)]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(call, range(4)):
            for i, y in enumerate(found):
                np.testing.assert_array_equal(y, expected[i % len(expected)])
    assert max(made) > 1


def test_short_kernels_are_no_job(made, limits):
    limits(job_cost=1 << 22, chunk_cost=1 << 10)
    curta.jit(lambda xs: [x * 2 for x in xs])(arrays(4, 1000))
    assert made == []
