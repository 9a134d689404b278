"""Statistics of the kernel cache in this process."""

from dataclasses import replace

from curta.compiler.machine_code import cache


def kernel_cache_statistics() -> cache.Statistics:
    """Return the numbers of kernels found on disk, missed and compiled in this process.

    A program that runs a second time compiles nothing, unless the cache was switched
    off or cleared in between.

    >>> import curta
    >>> import curta.numpy as jnp
    >>> f = curta.jit(lambda x: jnp.tanh(x) * 2)
    >>> ones, zeros = jnp.ones(10), jnp.zeros(10)
    >>> _ = f(ones)
    >>> before = curta.kernel_cache_statistics()
    >>> _ = f(zeros)
    >>> curta.kernel_cache_statistics().compiles == before.compiles
    True
    """
    return replace(cache.statistics)
