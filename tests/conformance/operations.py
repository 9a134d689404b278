"""All op classes of the package, found by importing it and walking subclasses."""

import importlib
import pkgutil
from functools import cache

import curta
from curta.core.op import Op

# Ops that hold jaxprs, reach outside, or need names in scope: a sample of arrays
# cannot show what they do. Each has tests of its own, named here.
TESTED_ELSEWHERE: dict[str, str] = (
    {
        "AssertConsumed": "tests/random/test_key_reuse.py",
        "JitCall": "tests/api/test_jit.py",
        "CallExported": "tests/export/test_export.py",
        "Check": "tests/transforms/test_checkify.py",
        "ClosedCoreCall": "tests/control/test_core_call.py",
        "ComputeOn": "tests/experimental/test_compute_on.py",
        "ProgramOrder": "tests/experimental/test_program_order.py",
        "Consume": "tests/random/test_key_reuse.py",
        "Cond": "tests/control/test_control_flow.py",
        "CoreCall": "tests/control/test_core_call.py",
        "HloOp": "tests/stablehlo/test_linalg.py",
        "CustomJVPCall": "tests/api/test_custom_derivatives.py",
        "CustomLinear": "tests/api/test_custom_derivatives.py",
        "CustomVmapCall": "tests/api/test_custom_batching.py",
        "CustomVJPCall": "tests/api/test_custom_derivatives.py",
        "DebugCallback": "tests/control/test_callbacks.py",
        "DebugPrint": "tests/control/test_callbacks.py",
        "FfiCall": "tests/api/test_ffi.py",
        "ForwardPass": "tests/api/test_custom_rule_arguments.py",
        "GreatestOfRows": "tests/compiler/test_sorting.py",
        "IOCallback": "tests/control/test_callbacks.py",
        "HostDone": "tests/hosts/test_overlap.py",
        "HostPoll": "tests/hosts/test_overlap.py",
        "HostStart": "tests/hosts/test_overlap.py",
        "HostIndex": "tests/hosts/test_partition.py",
        "HostBucket": "tests/hosts/test_partition.py",
        "HostReduce": "tests/hosts/test_partition.py",
        "HostGather": "tests/hosts/test_partition.py",
        "HostReduceScatter": "tests/hosts/test_partition.py",
        "HostExchange": "tests/hosts/test_partition.py",
        "HostPermute": "tests/hosts/test_partition.py",
        "LinearCall": "tests/api/test_custom_gradient.py",
        "LinearSolve": "tests/control/test_solves.py",
        "OrderOfRows": "tests/compiler/test_sorting.py",
        "PlatformIndex": "tests/control/test_platforms_and_barriers.py",
        "Progress": "tests/test_progress.py",
        "PureCallback": "tests/control/test_callbacks.py",
        "Composite": "tests/primitives/test_composite.py",
        "Precv": "tests/control/test_messages.py",
        "Psend": "tests/control/test_messages.py",
        "RaggedAllToAll": "tests/control/test_ragged_exchange.py",
        "RngUniform": "tests/primitives/test_generator.py",
        "ScatterApply": "tests/primitives/test_scatter_apply.py",
        "AfterAll": "tests/primitives/test_composite.py",
        "RandomPart": "tests/hosts/test_random_parts.py",
        "Reduce": "tests/primitives/test_fold.py",
        "ReduceWindow": "tests/primitives/test_reduce_window.py",
        "SelectAndScatter": "tests/primitives/test_reduce_window.py",
        "RefAddUpdate": "tests/control/test_references.py",
        "RefGet": "tests/control/test_references.py",
        "RefSwap": "tests/control/test_references.py",
        "Remat": "tests/api/test_checkpoint.py",
        "SortedRows": "tests/compiler/test_sorting.py",
        "TransformAlong": "tests/compiler/test_fourier.py",
        "Lapack": "tests/compiler/test_decompositions.py",
        "MatrixLoops": "tests/compiler/test_matrix_loops.py",
        "Scan": "tests/control/test_control_flow.py",
        "While": "tests/control/test_control_flow.py",
    }
    | dict.fromkeys(
        (
            *("AllGather", "AllToAll", "AxisIndex", "Pmax", "Pmin", "Ppermute", "Psum"),
            *("PsumScatter", "Pbroadcast", "Pcollect"),
        ),
        "tests/primitives/test_collective.py",
    )
    | dict.fromkeys(
        (
            *("AllGatherReduced", "Preduced", "ReducedVaryCast", "UnreducedPsum"),
            *("UnreducedReduceScatter", "VaryUnreducedCast"),
        ),
        "tests/api/test_unreduced.py",
    )
    | {"CustomPartitioning": "tests/api/test_custom_partitioning.py"}
    | dict.fromkeys(
        (
            *("BcooDotGeneral", "BcooDotGeneralSampled", "BcooExtract"),
            *("BcooFromdense", "BcooSortIndices", "BcooSpdotGeneral"),
            *("BcooSumDuplicates", "BcooTodense", "BcooTranspose", "BcsrDotGeneral"),
            *("BcsrExtract", "BcsrFromdense", "BcsrTodense", "CooFromdense"),
            *("CooMatmat", "CooMatvec", "CooSpmm", "CooSpmv", "CooTodense"),
            *("CsrFromdense", "CsrMatmat", "CsrMatvec", "CsrSpmm", "CsrSpmv"),
            *("CsrTodense", "Todense"),
        ),
        "tests/experimental/test_sparse_primitives.py",
    )
    | dict.fromkeys(
        (
            *("AllGatherInvariant", "OwnPart", "PsumInvariant", "PVary", "ShardMap"),
            *("DevicePut", "InspectSharding", "Reshard", "ShardAlike"),
            "ShardingConstraint",
        ),
        "tests/api/test_shard_map.py",
    )
    | {"LayoutConstraint": "tests/experimental/test_layout.py"}
    | dict.fromkeys(("HiOp", "HiLinear"), "tests/experimental/test_hijax.py")
    | {"NamedCall": "tests/core/test_core_call.py"}
)

# Ops that may be differentiated nowhere, as in JAX; asking raises MissingRule.
NOT_DIFFERENTIABLE = frozenset(
    {
        "geqrf",
        "householder_product",
        "igamma_grad_a",
        "random_gamma_grad",
        "zeta",
    }
)


@cache
def all_ops() -> list[type[Op]]:
    """Every concrete subclass of `Op`, by name."""
    for module in pkgutil.walk_packages(curta.__path__, "curta."):
        # That one takes JAX's place, which a comparison with JAX cannot have.
        if not module.name.startswith("curta.as_jax"):
            importlib.import_module(module.name)
    found = [c for c in _subclasses(Op) if hasattr(c, "name") and _is_concrete(c)]
    return sorted(found, key=lambda c: (c.name, c.__qualname__))


def sampled_ops() -> list[type[Op]]:
    """The ops that the conformance tests run on their samples."""
    return [c for c in all_ops() if c.__name__ not in TESTED_ELSEWHERE]


def _is_concrete(cls: type[Op]) -> bool:
    return cls.__module__.startswith("curta.") and not cls.__name__.startswith("_")


def _subclasses(cls: type) -> list[type]:
    below = {d: None for c in cls.__subclasses__() for d in [c, *_subclasses(c)]}
    return list(below)
