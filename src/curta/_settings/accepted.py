"""Settings of JAX that change nothing here, and why.

Programs that set them run as they are, and read back what they set. Each is given with
JAX's default.
"""

from __future__ import annotations

from typing import Any

from curta._settings.options import define
from curta._settings.parsers import parse_boolean

_ACCEPTED: dict[str, dict[str, Any]] = {
    "it chooses between two ways of doing the same, of which Curta has one": {
        "jax_compiler_enable_remat_pass": True,
        "jax_mutable_array_checks": True,
        "jax_refs_to_pins": False,
        "jax_remat3": False,
        "jax_scan3": False,
        "jax_threefry_gpu_kernel_lowering": False,
        "jax_use_direct_linearize": True,
        "jax_use_simplified_jaxpr_constants": False,
    },
    "jaxprs are printed in colour only where pretty_print is asked to": {
        "jax_pprint_use_color": True,
    },
    "kernels compile in milliseconds, and all of them are kept": {
        "jax_persistent_cache_min_compile_time_secs": 1.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
        "jax_compilation_cache_include_metadata_in_key": False,
        "jax_compilation_cache_check_contents": False,
    },
    "it is for GPUs and TPUs, and Curta runs on the CPU": {
        "jax_bcoo_cusparse_lowering": False,
        "jax_compilation_cache_expect_pgle": False,
        "jax_enable_pgle": False,
        "jax_mock_gpu_topology": "",
        "jax_mosaic_allow_hlo": False,
        "jax_oneapi_visible_devices": "all",
        "jax_pallas_enable_debug_checks": False,
        "jax_pallas_use_mosaic_gpu": True,
        "jax_pallas_verbose_errors": False,
        "jax_pgle_aggregation_percentile": 90,
        "jax_pgle_profiling_runs": 3,
        "jax_ragged_dot_use_ragged_dot_instruction": True,
        "jax_use_magma": "auto",
    },
    "it is for computations of several processes, and here there is one": {
        "jax_cpu_collectives_implementation": "gloo",
        "jax_enable_preemption_service": True,
        "jax_enable_recoverability": False,
        "jax_distributed_debug": False,
        "jax_share_binary_between_hosts": False,
        "jax_share_binary_between_hosts_timeout_ms": 1200000,
    },
    "it is for the conversion to TensorFlow, and there is none": {
        "jax2tf_associative_scan_reductions": False,
    },
    "it is for XLA and its runtime, and Curta has a compiler of its own": {
        "jax_compiler_detailed_logging_min_ops": 10,
        "jax_dump_ir_modes": "stablehlo",
        "jax_dump_ir_to": "",
        "jax_exec_time_optimization_effort": 0.0,
        "jax_export_calling_convention_version": 10,
        "jax_export_ignore_forward_compatibility": False,
        "jax_include_debug_info_in_dumps": True,
        "jax_include_full_tracebacks_in_locations": True,
        "jax_memory_fitting_effort": 0.0,
        "jax_memory_fitting_level": "O2",
        "jax_optimization_level": "UNKNOWN",
        "jax_persistent_cache_enable_xla_caches": (
            "xla_gpu_per_fusion_autotune_cache_dir"
        ),
        "jax_traceback_in_locations_limit": 100,
        "jax_xla_backend": "",
        "jax_xla_profile_version": 0,
    },
}

REASONS = {name: why for why, names in _ACCEPTED.items() for name in names}


def define_accepted() -> None:
    """Declare them all."""
    for reason, settings in _ACCEPTED.items():
        for name, default in settings.items():
            parse = parse_boolean if isinstance(default, bool) else type(default)
            define(name, default, parse, f"Accepted without effect: {reason}.")
