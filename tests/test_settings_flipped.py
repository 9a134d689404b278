"""Cached results belong to the current settings: see `settings_programs`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.runtime.test_threads import needs_fork

import curta
import curta.numpy as jnp
from curta.config import backend, config, disable_most_optimizations
from curta.primitives.elementwise.trigonometric import sin
from curta.runtime.backends import executable
from curta.runtime.eager import _plans

# Settings that remembered functions read: those that are among their arguments; of the
# tuning, what decides when memory is kept and which thread compiles.
READ = {
    "curta.compiler.emit.routine_code.function_code": {"tuning", "curta_tuning"},
    "curta.core.buffers.allocator": {"tuning", "curta_tuning"},
    "curta.compiler.fingerprint._settings": {"tuning", "curta_tuning"},
    "curta.compiler.emit.dot_code._dot_call": {"tuning", "curta_tuning"},
    "curta.compiler.library.products._product_plan": {"tuning", "curta_tuning"},
    "curta.compiler.emit.routine_code._routine_call": {"tuning", "curta_tuning"},
    "curta.dtypes.promotion._promote": {"jax_enable_x64"},
    "curta.numpy.folds._widened_dtypes": {"jax_enable_x64"},
    "curta.runtime.shortcuts._find_scalar_aval": {"jax_enable_x64"},
}
# Where object files are kept.
CACHE = {"jax_enable_compilation_cache", "jax_compilation_cache_dir"}
CACHE |= {"jax_compilation_cache_max_size"}


def output_of(*arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning"]
        + ["-m", "tests.settings_programs", *arguments],
        cwd=Path(__file__).parents[1],
        # What is said once in a process is not said again for another setting.
        env={**os.environ, "CURTA_ENABLE_CHECKS": "0", "CURTA_ADVICE": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_remembered_functions_read_no_settings_but_their_arguments():
    *lines, end = output_of("audit")
    assert end == "done"
    read = [line.split(" reads ") for line in lines]
    unknown = [
        (function, setting)
        for function, setting in read
        if setting not in READ.get(function, set()) | CACHE
    ]
    assert unknown == [], "put the setting into the key, or use kept_by_settings"


@needs_fork
def test_a_setting_that_changes_between_calls_is_followed():
    assert output_of("flip") == ["done"]


def test_programs_are_made_anew_for_other_settings():
    closed = curta.make_jaxpr(lambda x: jnp.sin(x) + 1)(jnp.ones(3))
    plain = executable(closed)
    with disable_most_optimizations(True):
        assert executable(closed) is not plain
    assert executable(closed) is plain


def test_plans_of_eager_ops_are_made_anew_for_other_settings():
    x = jnp.ones(100_000)
    jnp.sin(x)
    with backend("numpy"):
        key = config.context, sin, x.aval
        assert key not in _plans
        jnp.sin(x)
        assert key in _plans
