"""Modules of StableHLO as portable artefacts, where jaxlib is installed.

Only MLIR writes its bytecode. Its readers take the text as well.
"""

from __future__ import annotations

from importlib import import_module


def portable_artifact(text: str) -> bytes:
    """A module as VHLO bytecode that readers of four weeks ago take; else as text."""
    try:
        return _bytecode(text)
    # `curta.as_jax`, where it stands for JAX, has the modules and refuses their calls.
    except (ModuleNotFoundError, NotImplementedError):
        return text.encode()


def _bytecode(text: str) -> bytes:
    ir = import_module("jaxlib.mlir.ir")
    stablehlo = import_module("jaxlib.mlir.dialects.stablehlo")
    sdy = import_module("jaxlib.mlir.dialects.sdy")
    others = import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    requirement = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(requirement)
    registry = ir.DialectRegistry()
    others.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        stablehlo.register_dialect(context)
        sdy.register_dialect(context)
        module = ir.Module.parse(text)
        serialize = import_module("jaxlib._jax").mlir.serialize_portable_artifact
        result: bytes = serialize(module, version, True)
    return result
