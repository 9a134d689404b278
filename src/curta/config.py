"""Settings: names, environment variables, and the scope of changes.

The names are JAX's (``jax_enable_x64``), so that programs run unchanged; those of
Curta alone start with ``curta_``. A setting takes its first value from the
environment (``JAX_ENABLE_X64`` or ``CURTA_ENABLE_X64``), is changed for the whole
process with ``config.update(name, value)``, and for the current thread and a block of
code with the context manager of the same name: ``with enable_x64(True): ...``.

Reading one is an attribute: ``config.jax_enable_x64``. How they are kept is in
``config_options``.
"""

from __future__ import annotations

from typing import Any

from curta._base.guarded_thread import guard
from curta._settings.accepted import define_accepted
from curta._settings.options import (
    Config as Config,
    Option as Option,
    Override as Override,
    TraceContext as TraceContext,
    config as config,
    define as _define,
    find_option as _find_option,
    make_user_context as make_user_context,
    trace_context as trace_context,
)
from curta._settings.parsers import (
    parse_advice,
    parse_backend,
    parse_boolean,
    parse_device,
    parse_instead,
    parse_never_text,
    parse_number,
    parse_one_of,
    parse_optional_text,
    parse_positive,
    parse_whole,
    set_debug_modules,
    set_logging_level,
)
from curta._settings.plugins import define_plugins
from curta._settings.tuning import parse_tuning


def _flag(name: str, doc: str, *, default: bool = False, **how: Any) -> Option:
    """Declare a setting that is on or off."""
    return _define(name, default, parse_boolean, doc, **how)


# ---- dtypes and shapes

enable_x64: Option = _flag(
    "jax_enable_x64",
    "Keep 64-bit integers, floats and complex numbers instead of halving them.",
    traced=True,
)
explicit_x64_dtypes: Option = _define(
    "jax_explicit_x64_dtypes",
    "warn",
    parse_one_of("warn", "error", "allow"),
    "What a 64-bit dtype asked for by name does while jax_enable_x64 is off.",
    traced=True,
)
numpy_dtype_promotion: Option = _define(
    "jax_numpy_dtype_promotion",
    "standard",
    parse_one_of("standard", "strict"),
    "'strict' refuses operands of different dtypes (Python scalars excepted).",
    traced=True,
)
numpy_rank_promotion: Option = _define(
    "jax_numpy_rank_promotion",
    "allow",
    parse_one_of("allow", "warn", "raise"),
    "What happens when operands of different rank are broadcast together.",
    traced=True,
)
default_matmul_precision: Option = _define(
    "jax_default_matmul_precision",
    None,
    parse_one_of(
        None,
        *("default", "high", "highest", "bfloat16", "tensorfloat32", "float32"),
        *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY"),
        *("ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32"),
        *("BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6"),
        *("BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32"),
        "F64_F64_F64",
    ),
    "The precision of dots and convolutions that name none.",
    traced=True,
)
allow_f16_reductions: Option = _flag(
    "jax_allow_f16_reductions",
    "Whether lax.reduce_sum takes float16 and bfloat16; its sums are of float32.",
    traced=True,
    default=True,
)
softmax_custom_jvp: Option = _flag(
    "jax_softmax_custom_jvp",
    "Differentiate softmax by its own rule instead of through its parts.",
    traced=True,
)

# ---- random numbers

default_prng_impl: Option = _define(
    "jax_default_prng_impl",
    "threefry2x32",
    parse_one_of(
        *("threefry2x32", "threefry4x32", "rbg", "unsafe_rbg"),
        *("philox2x32", "philox4x32"),
    ),
    "The generator behind random.key(seed) when none is named.",
    traced=True,
)
threefry_partitionable: Option = _flag(
    "jax_threefry_partitionable",
    "Threefry counts elements in 64 bits; False gives the bits of older releases.",
    traced=True,
    default=True,
)
random_seed_offset: Option = _define(
    "jax_random_seed_offset",
    0,
    parse_whole,
    "Added to every seed, to run a program again on other random numbers.",
    traced=True,
)
high_dynamic_range_gumbel: Option = _flag(
    "jax_high_dynamic_range_gumbel",
    "Draw Gumbel noise from two samples, to cover low probabilities better.",
    traced=True,
)
legacy_prng_key: Option = _define(
    "jax_legacy_prng_key",
    "allow",
    parse_one_of("allow", "warn", "error"),
    "What raw uint32 keys given to functions of curta.random do.",
    traced=True,
)
enable_custom_prng: Option = _flag(
    "jax_enable_custom_prng",
    "PRNGKey gives typed keys, as key does.",
    traced=True,
)
debug_key_reuse: Option = _flag(
    "jax_debug_key_reuse",
    "Raise KeyReuseError where a random key is used twice.",
    traced=True,
)

# ---- looking for mistakes

_disable_jit: Option = _flag(
    "jax_disable_jit",
    "Run jitted functions as the Python they are, for a debugger or print.",
    traced=True,
)


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions as plain Python, in a block or a function.

    >>> import curta
    >>> with curta.disable_jit():
    ...     curta.jit(lambda x: print(x))(1)
    1
    """
    return _disable_jit(disable)


debug_nans: Option = _flag(
    "jax_debug_nans",
    "Raise FloatingPointError where a computation yields NaN.",
    traced=True,
)
debug_infs: Option = _flag(
    "jax_debug_infs",
    "Raise FloatingPointError where a computation yields an infinity.",
    traced=True,
)
check_tracer_leaks: Option = _flag(
    "jax_check_tracer_leaks",
    "Raise when a traced value outlives the function that was traced.",
    traced=True,
)
check_static_indices: Option = _flag(
    "jax_check_static_indices",
    "Raise IndexError for known indices out of bounds, instead of clamping them.",
    traced=True,
)
enable_checks: Option = _flag(
    "jax_enable_checks",
    "Check every jaxpr that is traced: its types and its scoping; slow.",
)
debug_index: Option = _flag(
    "curta_debug_index",
    "Raise IndexError for indices out of range, in compiled programs as well.",
    traced=True,
)
unsafe_runtime_errors: Option = _flag(
    "jax_experimental_unsafe_xla_runtime_errors",
    "Raise what checkify.check finds in programs that were not checkified.",
    traced=True,
)
no_execution: Option = _flag(
    "jax_no_execution",
    "Raise where anything would be computed; tracing is allowed.",
    traced=True,
)
captured_constants_warn_bytes: Option = _define(
    "jax_captured_constants_warn_bytes",
    2_000_000_000,
    parse_whole,
    "Warn of functions whose constants take more bytes; -1 never.",
)
disable_most_optimizations: Option = _flag(
    "jax_disable_most_optimizations",
    "Compile without rewriting or fusing anything.",
    traced=True,
)
logging_level: Option = _define(
    "jax_logging_level",
    "NOTSET",
    parse_one_of("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    "The level of the logger 'curta'.",
    on_change=set_logging_level,
)
debug_log_modules: Option = _define(
    "jax_debug_log_modules",
    "",
    str,
    "Comma-separated modules ('curta.api') that log at the level DEBUG to stderr.",
    on_change=set_debug_modules,
)
for _what, _instead in {
    "nan": "jax_debug_nans",
    "divide": "checkify.div_checks",
    "oob": "curta_debug_index",
}.items():
    _define(
        f"jax_error_checking_behavior_{_what}",
        "ignore",
        parse_instead("raise", _instead),
        f"Only 'ignore': {_instead} finds such errors.",
    )
log_compiles: Option = _flag(
    "jax_log_compiles",
    "Log a warning for every function that is traced and compiled.",
)
show_compiling: Option = _flag(
    "curta_show_compiling",
    "Show a line in terminals and notebooks while a function compiles, after a second.",
    default=True,
)
advice: Option = _define(
    "curta_advice",
    "warn",
    parse_advice,
    "What advice does: warn, ignore or raise, for all or as 'float64=ignore'.",
)
log_checkpoint_residuals: Option = _flag(
    "jax_log_checkpoint_residuals",
    "Log a warning of what functions under checkpoint keep for the backward pass.",
)
explain_cache_misses: Option = _flag(
    "jax_explain_cache_misses",
    "Log why a jitted function had to be traced again.",
)
no_tracing: Option = _flag(
    "jax_no_tracing",
    "Raise where a jitted function would be traced again.",
)
disable_bwd_checks: Option = _flag(
    "jax_disable_bwd_checks",
    "Let backward rules of custom_vjp return what is not like the arguments.",
    traced=True,
)
custom_vjp3: Option = _flag(
    "jax_custom_vjp3",
    "Refuse custom_vjp functions that close over traced values.",
    traced=True,
)
array_garbage_collection_guard: Option = _define(
    "jax_array_garbage_collection_guard",
    None,
    parse_one_of(None, "allow", "log", "fatal"),
    "What happens when arrays die late, as part of reference cycles.",
)
traceback_filtering: Option = _define(
    "jax_traceback_filtering",
    "auto",
    parse_one_of(
        "off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"
    ),
    "Whether tracebacks of errors in transformed functions have frames of Curta.",
)

# ---- devices, threads, compiler

_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
transfer_guard_host_to_device: Option = _define(
    "jax_transfer_guard_host_to_device",
    "allow",
    parse_one_of(*_GUARDS),
    "Whether NumPy arrays and Python scalars may become arrays without device_put.",
    traced=True,
)
transfer_guard_device_to_device: Option = _define(
    "jax_transfer_guard_device_to_device",
    "allow",
    parse_one_of(*_GUARDS),
    "Whether arrays may change their device.",
)
transfer_guard_device_to_host: Option = _define(
    "jax_transfer_guard_device_to_host",
    "allow",
    parse_one_of(*_GUARDS),
    "Accepted: elements are in the host's memory, where NumPy reads them.",
)
_DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")


def _guard_all(level: str) -> None:
    for direction in _DIRECTIONS:
        config.update(f"jax_transfer_guard_{direction}", level)


transfer_guard_everywhere: Option = _define(
    "jax_transfer_guard",
    "allow",
    parse_one_of(*_GUARDS),
    "The three settings above at once.",
    on_change=_guard_all,
)
auto_pcast: Option = _flag(
    "jax_auto_pcast",
    "In shard_map, operands that vary over different axes are made alike by pvary.",
    traced=True,
    default=True,
)
remove_size_one_mesh_axis_from_type: Option = _flag(
    "jax_remove_size_one_mesh_axis_from_type",
    "Types do not mention mesh axes of size one.",
    traced=True,
)
disable_vmap_shmap_error: Option = _flag(
    "jax_disable_vmap_shmap_error",
    "vmap may split its axis over one that a shard_map within it uses too.",
    traced=True,
)
use_shardy_partitioner: Option = _flag(
    "jax_use_shardy_partitioner",
    "StableHLO has Shardy's attributes; else those of XLA's older partitioner.",
    default=True,
)
default_device: Option = _define(
    "jax_default_device",
    None,
    parse_device,
    "The device that holds new arrays: a Device, a platform's name, or None.",
    traced=True,
)
platforms: Option = _define(
    "jax_platforms",
    None,
    parse_optional_text,
    "Platforms to look for, comma-separated; devices raise unless cpu is among them.",
    traced=True,
)
platform_name: Option = _define(
    "jax_platform_name",
    "",
    str,
    "The older spelling of jax_platforms.",
    traced=True,
)
num_cpu_devices: Option = _define(
    "jax_num_cpu_devices",
    -1,
    parse_whole,
    "How many devices the CPU poses as; -1 is what XLA_FLAGS says, or one on each"
    " host.",
    traced=True,
)
simulate_hosts: Option = _define(
    "curta_simulate_hosts",
    1,
    parse_positive,
    "On how many hosts the CPU's devices pose to be: each with memory of its own.",
    traced=True,
)
mesh_context: Option = _define(
    "curta_mesh_context",
    None,
    parse_never_text,
    "The mesh in scope; curta.set_mesh sets it.",
    traced=True,
)
backward_logs: Option = _define(
    "curta_backward_logs",
    None,
    parse_never_text,
    "Whether a backward pass gives logs; VJP.with_logs sets it.",
    traced=True,
)
xla_notes: Option = _define(
    "curta_xla_notes",
    None,
    parse_never_text,
    "What XLA is told of eqns; curta.experimental.xla_metadata sets it.",
    traced=True,
)
async_dispatch: Option = _flag(
    "jax_cpu_enable_async_dispatch",
    "Let calls of long programs return before these are done.",
    default=True,
)
backend: Option = _define(
    "curta_backend",
    "llvm",
    parse_backend,
    "'numpy' runs compiled functions by the eval rules, 'pjrt:NAME' by a plugin.",
    traced=True,
)
while_checkpoints: Option = _define(
    "curta_while_checkpoints",
    64,
    parse_positive,
    "How many states of a while loop are kept in memory while it runs backwards.",
    traced=True,
)
num_threads: Option = _define(
    "curta_num_threads",
    0,
    parse_whole,
    "Worker threads of compiled functions; 0 is one for each processor allowed.",
)
hosts_timeout: Option = _define(
    "curta_hosts_timeout",
    600.0,
    parse_number,
    "Seconds that a host waits in a collective for others before the program ends.",
)
hosts_patience: Option = _define(
    "curta_hosts_patience",
    60.0,
    parse_number,
    "Seconds after which a host that waits for others says what it waits for.",
)
hosts_checks: Option = _define(
    "curta_hosts_checks",
    "always",
    parse_one_of("always", "first"),
    "Whether processes compare a program at each run over MPI, or at the first alone.",
)
hosts_deterministic: Option = _flag(
    "curta_hosts_deterministic",
    "Sum floats of several processes in the order of the processes, whatever MPI does.",
    traced=True,
)
cpu: Option = _define(
    "curta_cpu",
    "host",
    parse_one_of("host", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    "The processor that code is made for: the one at hand, or a level that it has.",
)
tuning: Option = _define(
    "curta_tuning",
    "default",
    parse_tuning,
    "From what sizes on work is done differently; 'shrunk' is for tests of all paths.",
    traced=True,
)
dump: Option = _define(
    "curta_dump",
    "",
    str,
    "Comma-separated compiler stages to print, for example 'fuse,llvm'.",
)

# ---- compilation cache

enable_compilation_cache: Option = _flag(
    "jax_enable_compilation_cache",
    "Keep compiled kernels on disk.",
    environment=("CURTA_CACHE",),
    default=True,
)
compilation_cache_dir: Option = _define(
    "jax_compilation_cache_dir",
    None,
    parse_optional_text,
    "Where compiled kernels are kept; None is a folder in the user's cache.",
    environment=("CURTA_CACHE_DIR",),
)
compilation_cache_max_size: Option = _define(
    "jax_compilation_cache_max_size",
    -1,
    parse_whole,
    "Bytes the folder may hold before the oldest kernels go; -1 is the built-in bound.",
    environment=("CURTA_CACHE_MAX_SIZE",),
)

define_accepted()
define_plugins()
thread_guard: Option = _flag(
    "jax_thread_guard",
    "Within a block, other threads may not run programs over several processes.",
)
thread_guard.on_block = guard
jax2tf_associative_scan_reductions: Option = _find_option(
    "jax2tf_associative_scan_reductions"
)
