"""Where Curta has what JAX keeps in private modules, and in those of `jaxlib`."""

from __future__ import annotations

from typing import Final

# Private modules of JAX that libraries import, and where Curta has the like.
MODULES: Final = {
    "ad_util": "interpreters.ad",
    "checkify": "experimental.checkify",
    "compiler": "runtime.backends",
    "dispatch": "runtime",
    "earray": "experimental.earray",
    "literals": "core",
    "mesh": "core.mesh",
    "nn.functions": "nn",
    "public_test_util": "test_util",
    "source_info_util": "core.source_info",
    "state": "core.refs",
    "state.types": "core.refs",
    "traceback_util": "core.tracebacks",
    "util": "api_util",
    "xla_bridge": "as_jax.xla_bridge",
}

# By private module of JAX: names that Curta has in other modules than that one's.
NAMES: Final[dict[str, dict[str, str]]] = {
    "api_util": {
        "infer_argnums_and_argnames": "curta.api.jit_options.infer_argnums_and_argnames"
    },
    "ad_util": {"stop_gradient_p": "curta.lax.stop_gradient_p"},
    "core": {"Primitive": "curta.core.primitive.Primitive"},
    "dispatch": {"wait_for_tokens": "curta.effects_barrier"},
    "distributed": {"global_state": "curta.api.processes.global_state"},
    "dtypes": {
        "DType": "numpy.dtype",
        "TypePromotionError": "curta.errors.TypePromotionError",
    },
    "interpreters.ad": {"CustomVJPException": "curta.errors.CustomVJPException"},
    "lax": {"lax": "curta.lax"},
    "mesh": {
        "get_abstract_mesh": "curta.core.mesh_scope.get_abstract_mesh",
        "get_concrete_mesh": "curta.core.mesh_scope.get_concrete_mesh",
        "thread_resources": "curta.interpreters.pxla.thread_resources",
        "use_abstract_mesh": "curta.core.mesh_scope.use_abstract_mesh",
    },
    "state": {},
    "traceback_util": {"_exclude_paths": "curta.core.source_info.excluded_paths"},
    "tree_util": {
        "_registry": "curta.tree.registration.default_registry",
        "flatten_one_level": "curta.tree_util.flatten_one_level",
    },
}

# Modules that tell the version of JAX whose interface this is.
VERSIONED: Final = frozenset({"jax", "jax.version", "jaxlib", "jaxlib.version"})

# Packages of JAX that Curta has not and that libraries import in any case, each with
# what calls of their functions are answered.
REFUSED: Final = {
    "experimental.pallas": (
        "kernels written by hand for one kind of device are not there in Curta, whose"
        " compiler fuses what jax.numpy and jax.lax say. Of libraries that have both,"
        " ask for the functions that are written without Pallas."
    ),
    "experimental.mosaic": (
        "kernels written by hand for one kind of device are not there in Curta. Ask for"
        " the functions that are written without them."
    ),
    "mlir": (
        "the bindings of MLIR are not there in Curta, which writes StableHLO as text:"
        " see jax.jit(f).lower(...).as_text()."
    ),
}

_OF_JAXLIB: Final = {
    "Device": "curta.Device",
    "PjitFunction": "curta.api.jit.PjitFunction",
    "XlaRuntimeError": "curta.errors.JaxRuntimeError",
}

# Modules that are nothing but names of other modules.
MADE: Final[dict[str, dict[str, str]]] = {
    "jax._src.lib": {},
    "jax._src.lib._jax": _OF_JAXLIB,
    "jax.version": {},
    "jaxlib": {},
    "jaxlib.version": {},
    "jaxlib._jax": _OF_JAXLIB,
    "jaxlib.xla_client": {
        "Device": "curta.Device",
        "XlaRuntimeError": "curta.errors.JaxRuntimeError",
    },
}
