"""Compiled programs are freed with the function that they belong to."""

import gc
import weakref

import numpy as np

import curta
import curta.numpy as jnp


def test_a_program_is_freed_without_the_garbage_collector():
    def run():
        fun = curta.jit(lambda x: jnp.sin(x) * 3 + x)
        closed = fun.trace(np.ones(3, np.float32)).jaxpr
        fun(np.ones(3, np.float32))
        return weakref.ref(closed)

    run()
    gc.collect()
    gc.disable()
    try:
        assert run()() is None
    finally:
        gc.enable()
