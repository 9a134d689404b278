"""The machine that code is made for, as data.

A `Target` is made of the processor at hand (host_target.py) or of a triple
(triples.py), and handed down: no pass and no lowering asks the process which machine it
runs on, or how it is set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta._settings.tuning import DEFAULT as DEFAULT, Tuning as Tuning
from curta.compiler.llvm_binding import NATIVE, LLVMMachine
from curta.hosts.transport import IN_PYTHON, Transport

CACHE_LINE = 64  # bytes

_VENDORS = {"darwin": "apple", "win32": "pc"}
_SYSTEMS = {"darwin": "macosx11.0.0", "win32": "windows", "none": "unknown"}
_FORMATS = {"darwin": "macho", "win32": "coff", "none": "wasm"}
_CONVENTIONS = {
    "x86_64": "sysv", "aarch64": "aapcs64", "arm": "aapcs-vfp", "riscv64": "lp64d",
    "wasm32": "wasm-basic-c", "wasm64": "wasm-basic-c",
}  # fmt: skip


@dataclass(frozen=True)
class Services:
    """What surrounds a program where it runs, for its code to call.

    Fields:
        threads: a function that runs chunks of work on threads.
        lapack: the routines of BLAS and LAPACK.
        cancellation: a flag that asks long work to end.
        python: the interpreter, with its objects.
        callbacks: functions of Python that a program calls.
    """

    threads: bool = True
    lapack: bool = True
    cancellation: bool = True
    python: bool = True
    callbacks: bool = True


IN_PROCESS = Services()
ALONE = Services(False, False, False, False, False)


@dataclass(frozen=True)
class Target:
    """A machine that code is made for.

    Fields:
        machine: the instruction set: `x86_64`, `aarch64`, `arm`, `riscv64`, `wasm32`.
        system: the operating system, as `sys.platform` names it; `none` for
            WebAssembly.
        model: the processor, or a level of the psABI.
        features: the names of the processor's features.
        vector_bytes: the width of a vector register.
        has_fma: True if it has fused multiply-add.
        has_f16: True if it converts half precision.
        words: kinds of packed numbers that its vectors multiply (tile_shape.py).
        transport: what carries arrays between hosts. Only programs with collectives
            depend on it.
        tuning: the limits by which code for it takes one path or another. They are no
            part of its identity: code that depends on them is found by its text.
        environment: the variant of the system's ABI: `gnu`, `msvc`, `gnueabihf`.
        cpu: the processor as LLVM names it; `native` is the one at hand, with all its
            features.
        attributes: the features that LLVM adds to those of `cpu` (`+avx2`, `-fma`).
        services: what surrounds a program. They are no part of the identity either.
    """

    machine: str
    system: str
    model: str
    features: frozenset[str]
    vector_bytes: int
    has_fma: bool
    has_f16: bool
    words: frozenset[str] = frozenset()
    transport: Transport = IN_PYTHON
    tuning: Tuning = DEFAULT
    environment: str = ""
    cpu: str = "native"
    attributes: tuple[str, ...] = ()
    services: Services = IN_PROCESS

    @cached_property
    def identity(self) -> str:
        """A digest of the processor, for the keys of the kernel cache."""
        flags = self.vector_bytes, self.has_fma, self.has_f16, *sorted(self.words)
        names = self.machine, self.system, self.model, *sorted(self.features)
        others = () if self.is_native else (self.triple, self.cpu, *self.attributes)
        text = " ".join(map(str, (*names, *flags, *others)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def is_native(self) -> bool:
        """Whether LLVM makes code for the processor at hand."""
        return self.cpu == "native"

    @property
    def triple(self) -> str:
        """The triple of LLVM: `aarch64-unknown-linux-gnu`."""
        arm64 = self.machine == "aarch64" and self.system == "darwin"
        machine = {"arm": "armv7"}.get(self.machine, self.machine)
        names = (
            "arm64" if arm64 else machine,
            _VENDORS.get(self.system, "unknown"),
            _SYSTEMS.get(self.system, self.system),
            self.environment,
        )
        return "-".join(filter(None, names))

    @property
    def pointer_bytes(self) -> int:
        """The size of an address."""
        return 4 if self.machine in ("arm", "wasm32") else 8

    @property
    def object_format(self) -> str:
        """The format of object files: `elf`, `macho`, `coff` or `wasm`."""
        return _FORMATS.get(self.system, "elf")

    @property
    def calling_convention(self) -> str:
        """How functions of C are called, by the name of the ABI's document."""
        if self.system == "win32" and self.machine == "x86_64":
            return "win64"
        return _CONVENTIONS[self.machine]

    @property
    def llvm(self) -> LLVMMachine:
        """The machine that LLVM makes code for."""
        if self.is_native:
            return NATIVE
        abi = "lp64d" if self.machine == "riscv64" else ""
        return LLVMMachine(self.triple, self.cpu, ",".join(self.attributes), abi)

    @property
    def assembles(self) -> bool:
        """Whether modules may contain assembly of x86-64 for the System V ABI."""
        return self.system == "linux" and self.machine == "x86_64"

    @property
    def call_bytes(self) -> int:
        """The width of operands of functions of vector math that are called."""
        return self.tuning.apart_registers * self.vector_bytes

    @property
    def picked_stride(self) -> int:
        """The largest stride of lanes that are picked out of whole vectors."""
        return self.tuning.few_apart

    def lanes(self, kind: str) -> int:
        """How many elements of a kind (`f32`, `i8`, ...) fill a vector register."""
        bits = int(kind.lstrip("bfi"))
        return self.vector_bytes // max(1, bits // 8)


def describe(
    machine: str, model: str, features: Iterable[str], system: str = "linux"
) -> Target:
    """Return the target of a machine, a model and the names of its features."""
    names, machine = frozenset(features), machine.lower()
    if machine in ("aarch64", "arm64"):
        return Target("aarch64", system, model, names, 16, True, True)
    width = 64 if "avx512f" in names else 32 if "avx2" in names else 16
    words = _words({name.replace("_", "") for name in names})
    return Target(
        "x86_64" if machine == "amd64" else machine,
        system,
        model,
        names,
        width,
        has_fma="fma" in names,
        has_f16="f16c" in names,
        words=words if system == "linux" else frozenset(),
    )


def _words(features: set[str]) -> frozenset[str]:
    """Return the kinds of words that tiles in assembly multiply."""
    integers = {"i8x4", "i16x2"} if "avx512vnni" in features else set()
    return frozenset(integers | ({"bf16x2"} if "avx512bf16" in features else set()))
