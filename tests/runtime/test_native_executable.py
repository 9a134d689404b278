"""The ways in which a compiled program is called."""

import numpy as np

import curta
import curta.numpy as jnp
from curta.runtime.backends import executable
from curta.runtime.native_executable import NativeExecutable


def test_every_call_of_a_program_gives_the_same():
    x = np.linspace(0, 1, 5, dtype=np.float32)
    run = executable(curta.make_jaxpr(lambda x: jnp.sin(x) + x)(x))
    assert type(run) is NativeExecutable
    first = run(x)[0].tobytes()
    assert {run(x)[0].tobytes() for _ in range(4)} == {first}


def test_the_first_call_is_checked_as_the_others_are():
    x = np.arange(12.0, dtype=np.float32)
    for calls in range(3):
        run = executable(curta.make_jaxpr(lambda x: jnp.flip(x) * 2)(x[:6]))
        for _ in range(calls):
            run(x[:6])
        assert np.array_equal(run(x[::2])[0], x[::2][::-1] * 2)  # not contiguous
