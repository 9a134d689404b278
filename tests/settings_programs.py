"""Results of programs under a setting: run by `test_settings_flipped`, in a process.

    python -m tests.settings_programs audit  # settings that cached functions read
    python -m tests.settings_programs flip   # results that a fresh process has not

Every function decorated with `functools.cache` or `lru_cache` is watched in the audit:
it may not read a setting, because its key has no settings.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import threading
import warnings

_inside: list[str] = []
_found: set[tuple[str, str]] = set()
_main = threading.current_thread()


def _watched(fun):
    name = f"{fun.__module__}.{fun.__qualname__}"
    inner = fun.__code__.co_name
    if not name.startswith("curta.") or inner in ("guarded", "compute"):
        return fun  # what is made once for the process; what has settings in its key

    @functools.wraps(fun)
    def call(*args, **kwargs):
        _inside.append(name)
        try:
            return fun(*args, **kwargs)
        finally:
            _inside.pop()

    return call


def watch() -> None:
    """Let `functools` make caches that say which settings are read when they miss."""
    plain = functools.lru_cache

    def lru_cache(maxsize=128, typed=False):
        if callable(maxsize):
            return plain(128, typed)(_watched(maxsize))
        return lambda fun: plain(maxsize, typed)(_watched(fun))

    functools.lru_cache = lru_cache
    functools.cache = lambda fun: plain(None)(_watched(fun))


def watch_reads() -> None:
    """Note the settings that are read inside of such functions."""
    from curta._settings.options import Config, _options

    read = Config.__getattribute__

    def __getattribute__(self, name):
        if _inside and threading.current_thread() is _main:
            if name in _options or name in ("context", "tuning"):
                _found.add((_inside[-1], name))
        return read(self, name)

    Config.__getattribute__ = __getattribute__


def programs():
    """Functions without arguments, by name; each call starts from nothing."""
    import numpy as np

    import curta
    import curta.numpy as jnp
    from curta import lax, random

    small, large = np.arange(1.0, 7.0), np.arange(1.0, 50_000.0)
    matrix = np.arange(9.0).reshape(3, 3) + 9 * np.eye(3)
    key = np.array([1, 2], np.uint32)

    @curta.jit
    def mixed(x, y):
        z = jnp.where(x > 2, x @ y, x.sum()) + jnp.arange(3)
        return jax_softmax(z), z.argmax(), z.astype(int), jnp.int32(1) + x

    jax_softmax = curta.nn.softmax

    @curta.jit
    def loop(x):
        def turn(c):
            return c[0] + 1, c[1] * x.mean()

        return lax.while_loop(lambda c: c[0] < 5, turn, (0, 1.0))

    @curta.jit
    def drawn(raw):
        k = random.wrap_key_data(raw)
        return random.normal(k, (3,)), random.gumbel(k, (2,)), random.split(k)

    def reused():
        k = random.key(7)
        return random.normal(k), random.normal(k)

    eye = np.eye(4, dtype=np.float32)
    return {
        "eager": lambda: jnp.asarray(small) / 3 + np.float32(1),
        "eager, large": lambda: jnp.sin(large)[-3:] + jnp.sum(large),
        "operators": lambda: (jnp.asarray(small) > 2, -(jnp.asarray(small) ** 2)),
        "promotion": lambda: jnp.ones(3, "int8") + jnp.ones(3, "float16"),
        "ranks": lambda: jnp.ones((2, 3)) * jnp.ones(3),
        "mixed": lambda: mixed(matrix, matrix),
        "gradient": lambda: curta.grad(lambda x: mixed(x, x)[0].max())(jnp.eye(3)),
        "softmax": lambda: curta.make_jaxpr(curta.grad(lambda x: jax_softmax(x)[0]))(
            jnp.ones(3)
        ),
        "loop": lambda: loop(small),
        "backwards": lambda: curta.linearize(lambda x: loop(x)[1], jnp.ones(3))[0],
        "drawn": lambda: drawn(key),
        "raw key": lambda: curta.jit(random.uniform)(key),
        "key": lambda: random.key(3),
        "PRNGKey": lambda: random.PRNGKey(3),
        "reused": reused,
        "infinite": lambda: curta.jit(lambda x: 1 / x)(0.0),
        "undefined": lambda: jnp.log(jnp.asarray(-small)),
        "index": lambda: curta.jit(lambda x: x[9])(small),
        "gather": lambda: curta.jit(lambda x, i: x[i])(small, np.array([1, 9])),
        "solve": lambda: jnp.linalg.solve(matrix, small[:3]),
        "fft": lambda: jnp.fft.fft(large[:4096])[:2],
        "half": lambda: lax.reduce_sum(jnp.ones(3, "float16"), (0,)),
        "wide": lambda: jnp.zeros(2, "float64") + 1,
        "product": lambda: curta.make_jaxpr(jnp.dot)(eye, eye),
        "device": lambda: (jnp.ones(2).device, curta.device_count()),
        "host": lambda: jnp.ones(2) + small[:2],
        "printed": lambda: curta.make_jaxpr(mixed)(matrix, matrix),
    }


def outcome(run) -> str:
    """The value with its types, or the error, and the warnings."""
    import curta

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = run()
            text = repr(curta.tree_util.tree_map(repr, value))
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    words = sorted({f"{w.category.__name__}: {w.message}" for w in caught})
    return "\n".join([text, *words])


def outcomes() -> dict[str, str]:
    return {name: outcome(run) for name, run in RUNS.items()}


# Another value than the default for each setting that traces depend on.
OTHER = {
    "jax_api_version": "0.10",
    "jax_enable_x64": True,
    "jax_explicit_x64_dtypes": "error",
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_default_matmul_precision": "highest",
    "jax_allow_f16_reductions": False,
    "jax_softmax_custom_jvp": True,
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_random_seed_offset": 5,
    "jax_high_dynamic_range_gumbel": True,
    "jax_legacy_prng_key": "error",
    "jax_enable_custom_prng": True,
    "jax_debug_key_reuse": True,
    "jax_disable_jit": True,
    "jax_debug_nans": True,
    "jax_debug_infs": True,
    "jax_check_static_indices": True,
    "curta_debug_index": True,
    "jax_no_execution": True,
    "jax_disable_most_optimizations": True,
    "jax_transfer_guard_host_to_device": "disallow",
    "jax_platforms": "cuda",
    "jax_platform_name": "cuda",
    "jax_num_cpu_devices": 2,
    "curta_backend": "numpy",
    "curta_while_checkpoints": 2,
    "curta_tuning": "shrunk",
    "jax_custom_vjp3": True,
}
# Those that no program above shows, or whose other values need a device, mesh or hosts.
ELSEWHERE = {
    *("jax_check_tracer_leaks", "jax_experimental_unsafe_xla_runtime_errors"),
    *("jax_disable_bwd_checks", "jax_auto_pcast", "jax_disable_vmap_shmap_error"),
    *("jax_remove_size_one_mesh_axis_from_type", "jax_default_device"),
    "jax_no_collectives",
    "jax_use_shardy_partitioner",
    *("curta_mesh_context", "curta_xla_notes", "curta_backward_logs"),
    *("curta_simulate_hosts", "curta_hosts_deterministic"),  # need several hosts
}


def fresh(name: str, value: object) -> dict[str, str]:
    """The results of a process with the setting from its start: a fork of this one."""
    import curta

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        curta.config.update(name, value)
        with os.fdopen(writer, "wb") as file:
            pickle.dump(outcomes(), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        found = pickle.load(file)
    os.waitpid(child, 0)
    return found


def flip() -> None:
    """Print what a setting leaves unchanged though a fresh process has it otherwise."""
    import curta
    from curta._settings.options import _traced

    assert {*_traced} <= OTHER.keys() | ELSEWHERE, {*_traced} - {*OTHER, *ELSEWHERE}
    expected = {name: fresh(name, value) for name, value in OTHER.items()}
    before = outcomes()
    for name, value in OTHER.items():
        given = curta.config.read(name)
        curta.config.update(name, value)
        found = outcomes()
        curta.config.update(name, given)
        for program, right in expected[name].items():
            if found[program] != right:
                print(f"{name}: {program}\n  {found[program]}\n  fresh: {right}")
    after = outcomes()
    for program, text in before.items():
        if after[program] != text:
            print(f"back: {program}\n  {after[program]}\n  fresh: {text}")


if __name__ == "__main__":
    if sys.argv[1] == "audit":
        watch()  # before anything of Curta is imported
        watch_reads()
    RUNS = programs()
    if sys.argv[1] == "audit":
        outcomes()
        for function, setting in sorted(_found):
            print(f"{function} reads {setting}")
    else:
        flip()
    print("done")
