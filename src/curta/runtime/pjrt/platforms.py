"""What the plugins of known platforms need: libraries, options, and hardware."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.runtime.pjrt.values import Value

Environment = Mapping[str, str]


@dataclass(frozen=True)
class Platform:
    """A platform whose plugin is known.

    `alias` is a name that stands for whichever of several is there; of the plugins that
    load, that of the highest `priority` is the default. `prepare` runs before the
    plugin is loaded, `options` gives what a client is made with, `advice` says what to
    do where no device is found. Clients of several processes find each other by our
    store of keys if the plugin `takes_store`; else it has a way of its own.
    """

    name: str
    alias: str | None
    priority: int
    prepare: Callable[[], None]
    options: Callable[[Environment], dict[str, Value]]
    advice: Callable[[Environment], str]
    takes_store: bool = True


def package_folders(module: str) -> list[Path]:
    """Where a package lies, which is not imported; nowhere if it is not installed."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return []  # a parent is missing, or is no package
    if spec is None:
        return []
    return [Path(folder) for folder in spec.submodule_search_locations or ()]


# ---- CUDA and ROCm

# Libraries of CUDA in the order in which they need each other, by package of `nvidia`:
# those for CUDA 12 have one each, those for CUDA 13 share `cu13`. What is loaded is
# found by name afterwards, wherever it was; the rest comes from the system.
_CUDA = (
    (("cuda_runtime", "cu13"), "libcudart.so.*"),
    (("cuda_nvrtc", "cu13"), "libnvrtc.so.*"),
    (("nvjitlink", "cu13"), "libnvJitLink.so.*"),
    (("cublas", "cu13"), "libcublasLt.so.*"),
    (("cublas", "cu13"), "libcublas.so.*"),
    (("nccl",), "libnccl.so.*"),
    (("cuda_cupti", "cu13"), "libcupti.so.*"),
    (("cusparse", "cu13"), "libcusparse.so.*"),
    (("cusolver", "cu13"), "libcusolver.so.*"),
    (("cufft", "cu13"), "libcufft.so.*"),
    (("nvshmem",), "libnvshmem_host.so.*"),
    (("cudnn",), "libcudnn.so.*"),
)


def _load_cuda_libraries() -> None:
    for packages, pattern in _CUDA:
        for folder in package_folders("nvidia"):
            for package in packages:
                for library in sorted((folder / package / "lib").glob(pattern)):
                    _try_to_load(library)


def _try_to_load(library: Path) -> None:
    try:
        ctypes.CDLL(os.fspath(library))
    except OSError:
        return  # the plugin says what it misses when it wants it


def cuda_folder() -> str | None:
    """Where compilers for CUDA lie (`ptxas`, libdevice), if a wheel has them."""
    for folder in package_folders("nvidia"):
        for package in ("cu13", "cuda_nvcc"):
            if (folder / package).is_dir():
                return os.fspath(folder / package)
    return None


_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")


def _gpu_options(name: str, setting: str) -> Callable[[Environment], dict[str, Value]]:
    def options(environment: Environment) -> dict[str, Value]:
        result = memory_options(environment)
        visible = getattr(config, setting, "all")
        if visible != "all":
            result["visible_devices"] = [int(x) for x in visible.split(",")]
        return {"platform_name": name, **result}

    return options


def memory_options(environment: Environment) -> dict[str, Value]:
    """Options of GPUs' memory, from the variables that JAX has for them.

    Those that are not set are left out: a plugin refuses what it does not know.

    Raises ValueError for an allocator that is not known, and where the share of the
    memory is given by the old variable and the new.

    >>> memory_options({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    {'preallocate': False}
    """
    allocator = environment.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default").lower()
    if allocator not in _ALLOCATORS:
        raise ValueError(
            f"XLA_PYTHON_CLIENT_ALLOCATOR is {allocator!r}: it has to be one of"
            f" {', '.join(_ALLOCATORS)}"
        )
    share = environment.get("XLA_CLIENT_MEM_FRACTION", "")
    older = environment.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "")
    if share and older:
        raise ValueError(
            "XLA_CLIENT_MEM_FRACTION is specified together with"
            " XLA_PYTHON_CLIENT_MEM_FRACTION. Remove the latter one, it is deprecated."
        )
    preallocate = environment.get("XLA_PYTHON_CLIENT_PREALLOCATE", "")
    collective = environment.get("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "")
    abort = environment.get("XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE", "0")
    result: dict[str, Value] = {}
    if allocator != "default":
        result["allocator"] = allocator
    if share or older:
        result["memory_fraction"] = float(share or older)
    if preallocate:
        result["preallocate"] = preallocate not in ("false", "False", "0")
    if collective:
        result["collective_memory_size"] = int(collective) << 20
    if int(abort):
        result["abort_collectives_on_failure"] = True
    return result


def _cuda_advice(environment: Environment) -> str:
    if environment.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every GPU: unset it"
    if ctypes.util.find_library("cuda") is None and not Path("/dev/nvidiactl").exists():
        return (
            "no driver of NVIDIA is on this machine: install it (nvidia-smi then lists"
            " the GPUs) and, in a container, pass the GPUs on (docker run --gpus all)"
        )
    return (
        "nvidia-smi has to list a GPU; CUDA 13 wants driver 580 or newer, CUDA 12"
        " driver 525 or newer"
    )


def _rocm_advice(environment: Environment) -> str:
    if not Path("/dev/kfd").exists():
        return (
            "no driver of AMD is on this machine (/dev/kfd is missing): install amdgpu"
            " and, in a container, pass on --device=/dev/kfd --device=/dev/dri"
        )
    return "rocminfo has to list a GPU, and you have to be in its group `render`"


# ---- TPUs


def tpu_chips(devices: Path = Path("/sys/bus/pci/devices")) -> int:
    """How many TPUs are on this machine's bus."""
    google = [p for p in devices.glob("*/vendor") if _says(p, "0x1ae0")]
    known = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")
    return sum(_says(p.with_name("device"), *known) for p in google)


def _says(file: Path, *texts: str) -> bool:
    try:
        return file.read_text().strip() in texts
    except OSError:
        return False


def _prepare_tpu() -> None:
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    os.environ.setdefault("TPU_ML_PLATFORM", "JAX")
    if not tpu_chips():
        # Else the library asks the cloud's server of metadata, for minutes.
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
        # Several processes may compile at once; the lock is for using TPUs.
        os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "true")


def _tpu_advice(environment: Environment) -> str:
    if not tpu_chips():
        return "no TPU is on this machine's bus"
    return "another process may hold the TPU: only one at a time can"


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform(
            "cuda",
            "gpu",
            500,
            _load_cuda_libraries,
            _gpu_options("cuda", "jax_cuda_visible_devices"),
            _cuda_advice,
        ),
        Platform(
            "rocm",
            "gpu",
            500,
            lambda: None,
            _gpu_options("ROCM", "jax_rocm_visible_devices"),
            _rocm_advice,
        ),
        Platform(
            "tpu",
            None,
            300,
            _prepare_tpu,
            lambda environment: {},
            _tpu_advice,
            takes_store=False,
        ),
    )
}


def platform_of(name: str) -> Platform:
    """What is known of a platform; of others nothing is."""
    result = PLATFORMS.get(name)
    nothing: Any = {}
    return result or Platform(
        name, None, 400, lambda: None, lambda _: {**nothing}, lambda _: ""
    )
