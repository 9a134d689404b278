"""Curta: array programs in Python, differentiated, vectorized and compiled.

The programming model of JAX, with a compiler of its own. Programs written for JAX run
after `import jax` is changed to `import curta`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from curta._base.import_pause import collector_at_rest as _collector_at_rest
from curta._settings.api_version import version_info as _version_info

with _collector_at_rest():
    from curta import (
        ad as ad,
        ad_checkpoint as ad_checkpoint,
        checkpoint_policies as checkpoint_policies,
        core as core,
        custom_batching as custom_batching,
        custom_derivatives as custom_derivatives,
        dlpack as dlpack,
        dtypes as dtypes,
        errors as errors,
        flatten_util as flatten_util,
        lax as lax,
        monitoring as monitoring,
        nn as nn,
        numpy as numpy,
        ops as ops,
        random as random,
        ref as ref,
        sharding as sharding,
        stages as stages,
        tree as tree,
        tree_util as tree_util,
        typing as typing,
    )
    from curta._base.on_demand import on_demand as _on_demand
    from curta.api.callbacks import (
        effects_barrier as effects_barrier,
        pure_callback as pure_callback,
    )
    from curta.api.checkpoint import checkpoint as checkpoint, remat as remat
    from curta.api.compiler_options import (
        CompilerEffortLevel as CompilerEffortLevel,
        Inline as Inline,
    )
    from curta.api.custom_derivatives import (
        custom_jvp as custom_jvp,
        custom_vjp as custom_vjp,
    )
    from curta.api.custom_gradient import (
        closure_convert as closure_convert,
        custom_gradient as custom_gradient,
    )
    from curta.api.devices import (
        block_until_ready as block_until_ready,
        copy_to_host_async as copy_to_host_async,
        device_get as device_get,
        device_put as device_put,
    )
    from curta.api.environment import (
        live_arrays as live_arrays,
        print_environment_info as print_environment_info,
    )
    from curta.api.explain import explain as explain
    from curta.api.grad import grad as grad, value_and_grad as value_and_grad
    from curta.api.host_names import (
        host_count as host_count,
        host_id as host_id,
        host_ids as host_ids,
    )
    from curta.api.jacobian import (
        hessian as hessian,
        jacfwd as jacfwd,
        jacobian as jacobian,
        jacrev as jacrev,
    )
    from curta.api.jit import jit as jit
    from curta.api.jit_cache import clear_caches as clear_caches
    from curta.api.jvp import jvp as jvp
    from curta.api.kernel_cache import (
        kernel_cache_statistics as kernel_cache_statistics,
    )
    from curta.api.meshes import (
        get_mesh as get_mesh,
        make_mesh as make_mesh,
        set_mesh as set_mesh,
    )
    from curta.api.placing import reshard as reshard
    from curta.api.platforms import (
        default_backend as default_backend,
        device_count as device_count,
        local_device_count as local_device_count,
        process_count as process_count,
        process_index as process_index,
        process_indices as process_indices,
    )
    from curta.api.pmap import pmap as pmap
    from curta.api.scopes import named_call as named_call, named_scope as named_scope
    from curta.api.shard_map import shard_map as shard_map, smap as smap
    from curta.api.sharded_arrays import (
        device_put_replicated as device_put_replicated,
        device_put_sharded as device_put_sharded,
        make_array_from_callback as make_array_from_callback,
        make_array_from_process_local_data as make_array_from_process_local_data,
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from curta.api.tracing import (
        eval_shape as eval_shape,
        make_jaxpr as make_jaxpr,
        typeof as typeof,
    )
    from curta.api.transfer_guard import transfer_guard as transfer_guard
    from curta.api.vjp import (
        fwd_and_bwd as fwd_and_bwd,
        linear_transpose as linear_transpose,
        linearize as linearize,
        vjp as vjp,
    )
    from curta.api.vmap import vmap as vmap
    from curta.config import (
        advice as advice,
        allow_f16_reductions as allow_f16_reductions,
        auto_pcast as auto_pcast,
        check_tracer_leaks as check_tracer_leaks,
        config as config,
        debug_index as debug_index,
        debug_infs as debug_infs,
        debug_key_reuse as debug_key_reuse,
        debug_nans as debug_nans,
        default_device as default_device,
        default_matmul_precision as default_matmul_precision,
        default_prng_impl as default_prng_impl,
        disable_jit as disable_jit,
        enable_checks as enable_checks,
        enable_custom_prng as enable_custom_prng,
        enable_x64 as enable_x64,
        explain_cache_misses as explain_cache_misses,
        jax2tf_associative_scan_reductions as jax2tf_associative_scan_reductions,
        legacy_prng_key as legacy_prng_key,
        log_compiles as log_compiles,
        make_user_context as make_user_context,
        no_execution as no_execution,
        no_tracing as no_tracing,
        numpy_dtype_promotion as numpy_dtype_promotion,
        numpy_rank_promotion as numpy_rank_promotion,
        remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type,
        softmax_custom_jvp as softmax_custom_jvp,
        thread_guard as thread_guard,
        threefry_partitionable as threefry_partitionable,
        traceback_filtering as traceback_filtering,
        transfer_guard_device_to_device as transfer_guard_device_to_device,
        transfer_guard_device_to_host as transfer_guard_device_to_host,
        transfer_guard_host_to_device as transfer_guard_host_to_device,
    )
    from curta.core.array import Array as Array
    from curta.core.compile_time import (
        ensure_compile_time_eval as ensure_compile_time_eval,
    )
    from curta.core.mesh_scope import (
        get_abstract_mesh as get_abstract_mesh,
        use_abstract_mesh as use_abstract_mesh,
    )
    from curta.core.partition_spec import PartitionSpec as _PartitionSpec
    from curta.core.shape_struct import ShapeDtypeStruct as ShapeDtypeStruct
    from curta.core.sharding import NamedSharding as NamedSharding
    from curta.dtypes import float0 as float0
    from curta.numpy.sized_slices import ds as ds
    from curta.ref import (
        Ref as Ref,
        empty_ref as empty_ref,
        free_ref as free_ref,
        freeze as freeze,
        new_ref as new_ref,
    )
    from curta.runtime.devices import (
        Device as Device,
        devices as devices,
        local_devices as local_devices,
    )
    from curta.runtime.garbage_guard import (
        array_garbage_collection_guard as array_garbage_collection_guard,
    )
    from curta.runtime.shards import Shard as Shard
    from curta.tree_util import (
        tree_leaves as tree_leaves,
        tree_map as tree_map,
    )
    from curta.version import __version__ as __version__

P = _PartitionSpec
checking_leaks = check_tracer_leaks
tree_multimap = tree_map

if _TYPE_CHECKING:
    from curta import (
        api_util as api_util,
        debug as debug,
        distributed as distributed,
        experimental as experimental,
        extend as extend,
        ffi as ffi,
        image as image,
        interpreters as interpreters,
        lib as lib,
        memory as memory,
        profiler as profiler,
        scipy as scipy,
        state as state,
    )
    from curta.version import __version_info__ as __version_info__

__getattr__, __dir__ = _on_demand(
    __name__,
    frozenset(
        {
            *("api_util", "debug", "distributed", "experimental", "extend", "ffi"),
            *("image", "interpreters", "lib", "memory", "profiler", "scipy", "state"),
        }
    ),
    public=frozenset(
        {
            "ad",
            "ad_checkpoint",
            "checkpoint_policies",
            "core",
            "custom_batching",
            "custom_derivatives",
            "dlpack",
            "dtypes",
            "errors",
            "flatten_util",
            "lax",
            "monitoring",
            "nn",
            "numpy",
            "ops",
            "random",
            "ref",
            "sharding",
            "stages",
            "tree",
            "tree_util",
            "typing",
            "version",
        }
    ),
    made={"__version_info__": _version_info},
)
