"""Settings: names, environment, overrides of one thread, keys of caches."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import curta
from curta.config import (
    config,
    debug_nans,
    disable_jit,
    enable_checks,
    enable_x64,
    numpy_dtype_promotion,
    random_seed_offset,
)


@pytest.fixture
def restored():
    """Gives back the process-wide value of the setting the test changes."""
    before = config.jax_random_seed_offset
    yield
    config.update("jax_random_seed_offset", before)


def test_override_in_a_block():
    assert config.jax_enable_x64 is False
    with enable_x64(True):
        assert config.jax_enable_x64 is True
        with enable_x64(False):
            assert config.jax_enable_x64 is False
        assert enable_x64.value is True
    assert config.jax_enable_x64 is False


def test_override_ends_with_an_error():
    with pytest.raises(RuntimeError), enable_x64(True):
        raise RuntimeError
    assert config.jax_enable_x64 is False


def test_decorator():
    @enable_x64(True)
    def read(again):
        inner = read(False) if again else None
        return config.jax_enable_x64, inner

    assert read(True) == (True, (True, None))
    assert config.jax_enable_x64 is False


def test_one_override_object_can_be_entered_again():
    on = debug_nans(True)
    with on:
        with on:
            pass
        assert config.jax_debug_nans
    assert not config.jax_debug_nans


def test_override_needs_a_value():
    with disable_jit():
        assert config.jax_disable_jit
    with pytest.raises(TypeError, match="requires an argument"):
        numpy_dtype_promotion()


def test_update(restored):
    config.update("jax_random_seed_offset", 3)
    assert config.jax_random_seed_offset == config.read("jax_random_seed_offset") == 3
    with random_seed_offset(5):
        config.update("jax_random_seed_offset", 4)
        assert config.jax_random_seed_offset == 5
    assert config.jax_random_seed_offset == 4
    assert config.values["jax_random_seed_offset"] == 4


def test_command_line(restored, monkeypatch):
    arguments = ["program", "--jax_random_seed_offset=9", "--other", "--", "--jax_spam"]
    monkeypatch.setattr("sys.argv", arguments)
    config.parse_flags_with_absl()
    assert config.jax_random_seed_offset == 9
    monkeypatch.setattr("sys.argv", ["program", "--jax_log_compiles"])
    config.parse_flags_with_absl()
    assert config.jax_log_compiles is True
    monkeypatch.setattr("sys.argv", ["program", "--nojax_log_compiles"])
    config.parse_flags_with_absl()
    assert config.jax_log_compiles is False


def test_unknown_names():
    with pytest.raises(AttributeError, match="Unrecognized config option: jax_spam"):
        config.update("jax_spam", True)
    with pytest.raises(AttributeError):
        config.read("jax_spam")
    with pytest.raises(AttributeError):
        config.jax_spam  # noqa: B018


def test_assignment_is_refused():
    with pytest.raises(AttributeError, match=r"config\.update\('jax_enable_x64'"):
        config.jax_enable_x64 = True
    assert config.jax_enable_x64 is False


def test_wrong_values():
    with pytest.raises(ValueError, match="new enum value must be in"):
        numpy_dtype_promotion("lenient")
    with pytest.raises(ValueError, match="invalid truth value"):
        config.update("jax_enable_x64", "maybe")
    with pytest.raises(ValueError, match="must be passed either a Device object"):
        config.update("jax_default_device", 3)
    with pytest.raises(TypeError, match="no truth"):
        bool(enable_x64)


def test_overrides_belong_to_their_thread():
    seen = []
    with enable_x64(True):
        thread = threading.Thread(
            target=lambda: seen.append((config.jax_enable_x64, config.context))
        )
        thread.start()
        thread.join()
    assert seen == [(False, config.context)]


def test_contexts_are_keys():
    outside = config.trace_context()
    with enable_x64(True):
        inside = config.trace_context()
        with enable_x64(False):
            assert config.trace_context() is outside
    assert inside is not outside
    assert config.trace_context() is outside
    with enable_x64(True):
        assert config.trace_context() is inside


def test_a_change_for_all_reaches_threads_with_overrides(restored):
    with enable_x64(True):
        before = config.context
        thread = threading.Thread(
            target=config.update, args=("jax_random_seed_offset", 7)
        )
        thread.start()
        thread.join()
        assert config.context is not before
        assert config.jax_random_seed_offset == 7
        config.update("jax_random_seed_offset", 0)
        assert config.context is before


@pytest.mark.parametrize(
    "variable, value, setting, expected",
    [
        ("JAX_ENABLE_X64", "1", "jax_enable_x64", "True"),
        ("CURTA_ENABLE_X64", "true", "jax_enable_x64", "True"),
        ("CURTA_BACKEND", "numpy", "curta_backend", "'numpy'"),
        ("CURTA_CACHE", "off", "jax_enable_compilation_cache", "False"),
        ("CURTA_CACHE_DIR", "/tmp/x", "jax_compilation_cache_dir", "'/tmp/x'"),
        ("JAX_NUM_CPU_DEVICES", "4", "jax_num_cpu_devices", "4"),
        ("CURTA_NUM_THREADS", "2", "curta_num_threads", "2"),
    ],
)
def test_environment(variable, value, setting, expected):
    program = f"from curta.config import config; print(repr(config.{setting}))"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == expected


def test_seed_offset_and_checks_take_effect():
    with random_seed_offset(5):
        assert curta.random.PRNGKey(1).tolist() == [0, 6]
        assert curta.random.PRNGKey(np.int32(1)).tolist() == [0, 6]
    with enable_checks(True):
        assert curta.grad(curta.jit(lambda x: x * x))(3.0) == 6.0
