"""Handlers of NVIDIA's linear algebra, registered with the plugin for its GPUs.

They come in JAX's package `jax_cuda13_plugin` (or `12`), which the extras bring, as
addresses of functions of XLA's typed interface; the package needs neither JAX nor
jaxlib. Without it, programs of other ops stand for what they do.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from curta.runtime.pjrt.abi import GPU_CUSTOM_CALL_EXTENSION, STATUS, structs
from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.values import bytes_of

logger: Any = logging.getLogger(__name__)

_MODULES = "_solver", "_linalg", "_sparse"
# The first version of cuSOLVER that has eigenvalues of matrices that are not symmetric.
_GEEV = 11701

# By platform: what was registered with its plugin in this process.
_registered: dict[str, frozenset[str]] = {}


def registered_targets(platform: str) -> frozenset[str]:
    """The names of the handlers that programs for a platform may call."""
    return _registered.get(platform, frozenset())


def register_vendor(library: Library, platform: str) -> None:
    """Register what the package beside a plugin has, if it is installed."""
    version = re.search(r"xla_cuda(\d+)", library.identity)
    register = library.extension_function(GPU_CUSTOM_CALL_EXTENSION)
    if platform != "cuda" or version is None or register is None:
        return
    known = _vendor(f"jax_cuda{version[1]}_plugin")
    _registered[platform] = frozenset(
        [
            name
            for name, stages in known
            if register_stages(library, register, name, stages)
        ]
    )


def _vendor(package: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The handlers of a package: by stage, the capsules of their functions."""
    for name in _MODULES:
        try:
            module = importlib.import_module(f"{package}.{name}")
        except ImportError as error:
            logger.info("linear algebra of NVIDIA is not used: %s", error)
            continue
        for target, value in module.registrations().items():
            if target == "cusolver_geev_ffi" and _cusolver_version(package) < _GEEV:
                continue
            stages = value if isinstance(value, Mapping) else {"execute": value}
            # Others are of an older interface, without types.
            if target.endswith("_ffi") or target.startswith("cu_"):
                yield target, stages


def _cusolver_version(package: str) -> int:
    try:
        versions = importlib.import_module(f"{package}._versions")
        return int(versions.cusolver_get_version())
    except (ImportError, RuntimeError):  # there is no such library
        return 0


def register_stages(
    library: Library, register: Any, name: str, stages: Mapping[str, Any]
) -> bool:
    """Register a handler; whether programs may call it now."""
    encoded = name.encode()
    data = bytes_of(encoded)
    args: Any = structs()["Gpu_Register_Custom_Call_Args"]()
    args.struct_size = type(args).c_size
    args.function_name, args.function_name_size = ctypes.addressof(data), len(encoded)
    args.api_version = 1
    for stage, capsule in stages.items():
        setattr(args, f"handler_{stage}", capsule_address(capsule))
    error = register(ctypes.addressof(args))
    if not error:
        return True
    code, message = library.take_error(error)
    if STATUS[code] == "ALREADY_EXISTS":  # JAX, in the same process, came first
        return True
    logger.warning("%s of NVIDIA's libraries is not used: %s", name, message)
    return False


def capsule_address(capsule: Any) -> int:
    """The address of the function in a capsule."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
