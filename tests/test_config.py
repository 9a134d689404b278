"""Settings: names, environment, overrides of one thread, keys of caches."""

import ast
import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.runtime.test_threads import needs_fork, run_script

import curta
from curta._settings import accepted as config_accepted, options as config_options
from curta.config import (
    config,
    debug_nans,
    disable_jit,
    disable_most_optimizations,
    enable_checks,
    enable_x64,
    logging_level,
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


FLAGS = """
import sys
from absl import app
import curta
curta.config.config_with_absl()
assert not curta.config.jax_enable_x64
def main(argv):
    assert argv[1:] == ["rest"], argv
    print(curta.config.jax_enable_x64, curta.config.jax_random_seed_offset)
sys.argv = ["program", "--jax_enable_x64", "--jax_random_seed_offset=9", "rest"]
app.run(main)
"""


def test_flags_of_absl():
    command = [sys.executable, "-c", FLAGS]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("True 9\n", 0), done.stderr


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


CHANGED_MEANWHILE = """
import os, threading
from curta._settings import options as config_options
from curta.config import Config, config

changing, given = threading.Event(), config_options._make_context

def slow(overrides):  # between a setting and the context that has it
    changing.set()
    threading.Event().wait(0.2)
    return given(overrides)

config_options._make_context = slow
change = threading.Thread(target=config.update, args=("jax_enable_x64", True))
change.start()
changing.wait()
child = os.fork()
config_options._make_context = given
if child:
    change.join()
    os.waitpid(child, 0)
print(config.jax_enable_x64, config.context is given({}), flush=True)
"""


@needs_fork
def test_a_fork_waits_for_who_changes_a_setting():
    assert run_script(CHANGED_MEANWHILE) == "True True\n" * 2


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


ENVIRONMENT = [
    ("JAX_ENABLE_X64", "1", "jax_enable_x64", True),
    ("CURTA_SOFTMAX_CUSTOM_JVP", "true", "jax_softmax_custom_jvp", True),
    ("CURTA_BACKEND", "numpy", "curta_backend", "numpy"),
    ("CURTA_CACHE", "off", "jax_enable_compilation_cache", False),
    ("CURTA_CACHE_DIR", "/tmp/x", "jax_compilation_cache_dir", "/tmp/x"),
    ("JAX_NUM_CPU_DEVICES", "4", "jax_num_cpu_devices", 4),
    ("CURTA_NUM_THREADS", "2", "curta_num_threads", 2),
]


def test_environment():
    settings = [setting for _, _, setting, _ in ENVIRONMENT]
    program = "from curta.config import config\n"
    program += f"print([config.read(name) for name in {settings}])"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **{name: value for name, value, _, _ in ENVIRONMENT}},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ast.literal_eval(result.stdout) == [value for *_, value in ENVIRONMENT]


def test_a_wrong_value_in_the_environment_names_the_variable(monkeypatch):
    monkeypatch.setenv("JAX_TEST_OF_NUMBERS", "many")
    with pytest.raises(ValueError, match="environment variable JAX_TEST_OF_NUMBERS: "):
        config_options.define("curta_test_of_numbers", 3, int, "For this test.")


def test_seed_offset_and_checks_take_effect():
    with random_seed_offset(5):
        assert curta.random.PRNGKey(1).tolist() == [0, 6]
        assert curta.random.PRNGKey(np.int32(1)).tolist() == [0, 6]
    with enable_checks(True):
        assert curta.grad(curta.jit(lambda x: x * x))(3.0) == 6.0


def test_no_execution():
    f = curta.jit(lambda x: x + 1)
    f(1.0)
    with curta.no_execution(True):
        assert curta.eval_shape(f, 1.0).shape == ()
        for run in f, lambda x: curta.numpy.sin(x):
            with pytest.raises(RuntimeError, match="but the no_execution config"):
                run(1.0)
    assert f(1.0) == 2.0


def test_captured_constants():
    x = curta.numpy.ones(300)
    config.update("jax_captured_constants_warn_bytes", 1000)
    try:
        with pytest.warns(UserWarning, match=r"constants were captured .*1,200 bytes"):
            curta.jit(lambda: x + 1)()
        curta.jit(lambda x: x + 1)(x)  # no warning
        config.update("jax_captured_constants_warn_bytes", -1)
        curta.jit(lambda: x + 2)()
    finally:
        config.update("jax_captured_constants_warn_bytes", 2_000_000_000)


def test_without_optimisations():
    f = curta.jit(lambda x: curta.numpy.sum(curta.numpy.exp(x) * 2 + 0))
    x = curta.numpy.arange(4.0)
    expected = f(x)
    with disable_most_optimizations(True):
        np.testing.assert_allclose(f(x), expected, rtol=1e-6)


def test_logging_settings(caplog, capsys):
    logger = logging.getLogger("curta")
    config.update("jax_logging_level", "ERROR")
    assert logger.level == logging.ERROR
    config.update("jax_logging_level", "NOTSET")
    assert logger.level == logging.NOTSET
    config.update("jax_debug_log_modules", "curta.api.jit")
    try:
        curta.jit(lambda x: x * 3)(1.0)
    finally:
        config.update("jax_debug_log_modules", "")
    assert "Compiling jit(<lambda>)" in capsys.readouterr().err
    with pytest.raises(TypeError, match="is for the whole process: call config.update"):
        logging_level("INFO")


def test_platforms_that_are_not_there():
    config.update("jax_platforms", "cuda")
    try:
        with pytest.raises(RuntimeError, match="Unable to initialize backend 'cuda'"):
            curta.devices()
        config.update("jax_platforms", "cuda,cpu")
        assert curta.devices()
    finally:
        config.update("jax_platforms", None)


def test_error_checking_behaviour_is_elsewhere():
    with pytest.raises(NotImplementedError, match="made by curta_debug_index: set"):
        config.update("jax_error_checking_behavior_oob", "raise")
    config.update("jax_error_checking_behavior_oob", "ignore")


def test_accepted_settings_say_why():
    assert config_accepted.REASONS.keys() <= config.values.keys()
    assert config.jax_use_magma == "auto"
    config.update("jax_use_magma", "off")
    assert config.jax_use_magma == "off"
    config.update("jax_use_magma", "auto")


def test_why_a_function_is_traced_again(caplog):
    f = curta.jit(lambda x, n=1: x + n, static_argnames="n")
    with curta.explain_cache_misses(True):
        f(1.0), f(1), f(1, n=2)
        with curta.enable_x64(True):
            f(1, n=2)
    new, dtype, static, context = (r.getMessage() for r in caplog.records)
    assert all(__file__ in text for text in (new, dtype, static, context))
    assert "never seen function" in new
    assert "at x, now i32[]" in dtype and "before f32[]" in dtype
    assert "now {n: 2} and before {}" in static
    assert "jax_enable_x64 now True and before False" in context


def test_contexts_of_the_program_are_keys_of_caches():
    factor = curta.make_user_context(1)
    traced = []

    @curta.jit
    def scaled(x):
        traced.append(factor.value)
        return x * factor.value

    assert scaled(2.0) == 2.0
    with factor(3):
        assert scaled(2.0) == 6.0
        with factor(4):
            assert scaled(2.0) == 8.0
        assert scaled(5.0) == 15.0
    assert scaled(3.0) == 3.0
    assert traced == [1, 3, 4]
    factor.set_global(5)
    assert factor.get_global() == 5 and scaled(1.0) == 5.0


def test_sums_of_half_precision_may_be_refused():
    x = curta.numpy.ones(3, "bfloat16")
    assert curta.lax.reduce_sum(x, [0]) == 3
    with curta.allow_f16_reductions(False):
        with pytest.raises(ValueError, match=r"operand bf16\[3\] is not allowed"):
            curta.lax.reduce_sum(x, [0])
        curta.lax.reduce_sum(x.reshape(1, 3), [0])
        assert curta.numpy.sum(x) == 3


def test_hosts_are_processes():
    for old, new in ("host_id", 0), ("host_count", 1), ("host_ids", [0]):
        with pytest.warns(UserWarning, match=f"{old} has been renamed"):
            assert getattr(curta, old)() == new


def test_gradients_of_what_enables_wide_types_itself():
    def wide(x):
        with curta.enable_x64(True):
            return curta.numpy.sin(curta.numpy.array(x, "float64"))

    gradient = curta.grad(wide)(0.5)
    assert gradient.dtype == "float32" and abs(gradient - 0.87758256) < 1e-6


def test_the_names_of_the_new_values():
    with curta.disable_jit(disable=True):
        assert curta.config.jax_disable_jit
        with curta.disable_jit(disable=False):
            assert not curta.config.jax_disable_jit
    with curta.debug_nans(new_val=True), curta.default_matmul_precision(new_val="high"):
        assert curta.config.jax_debug_nans
        assert curta.config.jax_default_matmul_precision == "high"
