"""The one door to LLVM: llvmlite, imported only when something must be compiled.

A program whose kernels are in the cache never opens it. llvmlite's Python layer takes
30 ms to import and holds one lock around every call; both are avoided for versions
whose C functions are known here, by calling the library of the wheel through ctypes.
That is sound because every compile has a context and, as long as it lasts, a target
machine of its own, which is what LLVM asks of concurrent users. Any other version goes
through llvmlite's public Python functions.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from curta._base.once import once
from curta.core.buffers import ensure

# Versions of llvmlite whose C functions have the signatures of `_PROTOTYPES`.
_KNOWN_VERSIONS = ("0.50.",)
_MINIMUM = (0, 50)
REMEDY = "pip install 'llvmlite>={}.{}'".format(*_MINIMUM)
# LLVM ends the process where it finds no memory: the bytes of the library, and those
# that it works in, for a small module and for each character of IR.
_LIBRARY_BYTES = 1 << 27
_WORK_BYTES, _BYTES_PER_CHARACTER = 1 << 24, 128

_P, _S, _I = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "InitializeAllTargetInfos": (None, []),
    "InitializeAllTargets": (None, []),
    "InitializeAllTargetMCs": (None, []),
    "InitializeAllAsmPrinters": (None, []),
    "InitializeNativeTarget": (_I, []),
    "InitializeNativeAsmPrinter": (_I, []),
    "InitializeNativeAsmParser": (_I, []),
    "ContextCreate": (_P, []),
    "ContextDispose": (None, [_P]),
    "ParseAssembly": (_P, [_P, _S, _P]),
    "VerifyModule": (ctypes.c_bool, [_P, _P]),
    "DisposeModule": (None, [_P]),
    "DisposeString": (None, [_P]),
    "GetProcessTriple": (None, [_P]),
    "GetHostCPUName": (None, [_P]),
    "GetHostCPUFeatures": (_I, [_P]),
    "GetTargetFromTriple": (_P, [_S, _P]),
    "CreateTargetMachine": (_P, [_P, _S, _S, _S, _I, _S, _S, _I, _I, _S]),
    "TargetMachineEmitToMemory": (_P, [_P, _P, _I, _P]),
    "GetBufferStart": (_P, [_P]),
    "GetBufferSize": (ctypes.c_size_t, [_P]),
    "DisposeMemoryBuffer": (None, [_P]),
    "CreateTargetMachineData": (_P, [_P]),
    "CopyStringRepOfTargetData": (None, [_P, _P]),
    "DisposeTargetData": (None, [_P]),
    "SetDataLayout": (None, [_P, _S]),
    "CreatePipelineTuningOptions": (_P, []),
    "DisposePipelineTuningOptions": (None, [_P]),
    "CreatePassBuilder": (_P, [_P, _P]),
    "DisposePassBuilder": (None, [_P]),
    "CreateNewModulePassManager": (_P, []),
    "DisposeNewModulePassManger": (None, [_P]),
    "module_AddInstCombinePass": (None, [_P]),
    "module_AddSCCPPass": (None, [_P]),
    "module_AddSimplifyCFGPass": (None, [_P]),
    "RunNewModulePassManager": (None, [_P, _P, _P]),
}

# The level at which passes simplify the IR, before code is generated as at level 1.
SIMPLIFIED = 2


class LLVMMachine(NamedTuple):
    """The machine that LLVM makes code for.

    Fields:
        triple: LLVM's name of machine and system; empty for those of this process.
        cpu: LLVM's name of the processor; `native` is the one at hand.
        attributes: features with their signs, separated by commas.
        abi: the variant of the calling convention, if the triple leaves it open.
    """

    triple: str = ""
    cpu: str = "native"
    attributes: str = ""
    abi: str = ""

    @property
    def relocation(self) -> str:
        """How code finds addresses. Modules of WebAssembly have fixed ones."""
        return "static" if self.triple.startswith("wasm") else "pic"


NATIVE = LLVMMachine()


class CompileError(RuntimeError):
    """LLVM refused some IR: an error of Curta's compiler, not of the user."""


@once
def _location() -> tuple[str, str] | None:
    """The folder and the version of llvmlite, without importing it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return folder, "unknown"
    values = (line.partition(" = '")[2] for line in text.splitlines())
    result = next((v for v in values if v[:1].isdigit()), "unknown")
    return folder, result.rstrip("'")


def version() -> str:
    """The version of llvmlite, `not installed` if there is none."""
    where = _location()
    return "not installed" if where is None else where[1]


@once
def available() -> bool:
    """Whether a version of llvmlite that understands Curta's IR is installed."""
    where = _location()
    if where is None:
        return False
    major, minor = [*where[1].split("."), ""][:2]
    known = major.isdigit() and minor.isdigit()
    return not known or (int(major), int(minor)) >= _MINIMUM


def trouble() -> str:
    """The reason if `available` returns False."""
    if _location() is None:
        return "llvmlite is not installed"
    return f"llvmlite {version()} is too old"


@once
def llvmlite() -> Any:
    """llvmlite's own Python layer, ready to make code for this machine."""
    binding = importlib.import_module("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    return binding


class _Machines:
    """Target machines, each of which one compile at a time uses; they stay."""

    triple: bytes
    host_cpu: bytes
    host_features: bytes

    def __init__(self) -> None:
        self._idle: dict[tuple[LLVMMachine, int], deque[Any]] = {}

    @contextlib.contextmanager
    def machine(self, made_for: LLVMMachine, level: int) -> Iterator[Any]:
        """A machine for a level, this block's own."""
        idle = self._idle.setdefault((made_for, min(level, 1)), deque())
        try:
            result = idle.pop()
        except IndexError:
            result = self._new_machine(self._resolved(made_for), min(level, 1))
        try:
            yield result
        finally:
            idle.append(result)

    def _resolved(self, machine: LLVMMachine) -> LLVMMachine:
        """The machine, with names instead of what stands for those at hand."""
        if machine.cpu == "native":
            cpu, features = self.host_cpu.decode(), self.host_features.decode()
            machine = machine._replace(cpu=cpu, attributes=features)
        if machine.triple:
            self._know_all()
        return machine._replace(triple=machine.triple or self.triple.decode())

    def _know_all(self) -> None:
        """Make the code generators of all processors known to LLVM."""
        raise NotImplementedError

    def _new_machine(self, machine: LLVMMachine, level: int) -> Any:
        raise NotImplementedError


class _Library(_Machines):
    """LLVM through the C functions of llvmlite's shared library."""

    def __init__(self, path: str) -> None:
        super().__init__()
        ensure(_LIBRARY_BYTES)
        library = ctypes.CDLL(path)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        self._call("InitializeNativeTarget")
        self._call("InitializeNativeAsmPrinter")
        self._call("InitializeNativeAsmParser")
        self.triple = self._string("GetProcessTriple")
        self.host_cpu = self._string("GetHostCPUName")
        self.host_features = self._string("GetHostCPUFeatures")

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._functions[name](*arguments)

    def _string(self, name: str) -> bytes:
        out = ctypes.c_char_p()
        self._call(name, ctypes.byref(out))
        return self._take(out)

    def _take(self, out: ctypes.c_char_p) -> bytes:
        text = out.value or b""
        if out:
            self._call("DisposeString", out)
        return text

    def _know_all(self) -> None:
        for name in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
            self._call(f"InitializeAll{name}")

    def _new_machine(self, machine: LLVMMachine, level: int) -> int:
        error, (triple, cpu, features, abi) = (
            ctypes.c_char_p(),
            map(str.encode, machine),
        )
        target = self._call("GetTargetFromTriple", triple, ctypes.byref(error))
        if not target:
            raise CompileError(self._take(error).decode())
        result: int = self._call(
            "CreateTargetMachine", target, triple, cpu, features,
            level, machine.relocation.encode(), b"small", 0, 1, abi,
        )  # fmt: skip
        if not result:
            raise CompileError(f"LLVM made no target machine for {machine}")
        return result

    def compile(
        self,
        ir: str,
        level: int,
        assembly: bool,
        verify: bool,
        made_for: LLVMMachine = NATIVE,
    ) -> bytes:
        """An object file, or assembly, of some IR."""
        with self.machine(made_for, level) as machine:
            return self._compile(machine, ir, level, assembly, verify)

    def _compile(
        self, machine: int, ir: str, level: int, assembly: bool, verify: bool
    ) -> bytes:
        ensure(_WORK_BYTES + len(ir) * _BYTES_PER_CHARACTER)
        context = self._call("ContextCreate")
        error = ctypes.c_char_p()
        module = None
        try:
            module = self._call(
                "ParseAssembly", context, ir.encode(), ctypes.byref(error)
            )
            if not module:
                raise CompileError(self._take(error).decode())
            self._take(error)
            if verify and self._call("VerifyModule", module, ctypes.byref(error)):
                raise CompileError(self._take(error).decode())
            if level == SIMPLIFIED:
                self._simplify(machine, module)
            return self._emit(machine, module, assembly)
        finally:
            if module:
                self._call("DisposeModule", module)
            self._call("ContextDispose", context)

    def _simplify(self, machine: int, module: int) -> None:
        # Without a layout LLVM would take addresses for 64 bits wide.
        data, layout = self._call("CreateTargetMachineData", machine), ctypes.c_char_p()
        self._call("CopyStringRepOfTargetData", data, ctypes.byref(layout))
        self._call("DisposeTargetData", data)
        self._call("SetDataLayout", module, self._take(layout))
        options = self._call("CreatePipelineTuningOptions")
        builder = self._call("CreatePassBuilder", machine, options)
        passes = self._call("CreateNewModulePassManager")
        for name in ("InstCombine", "SCCP", "SimplifyCFG"):
            self._call(f"module_Add{name}Pass", passes)
        self._call("RunNewModulePassManager", passes, module, builder)
        self._call("DisposeNewModulePassManger", passes)
        self._call("DisposePassBuilder", builder)
        self._call("DisposePipelineTuningOptions", options)

    def _emit(self, machine: int, module: int, assembly: bool) -> bytes:
        error = ctypes.c_char_p()
        buffer = self._call(
            "TargetMachineEmitToMemory", machine, module, 1 - assembly,
            ctypes.byref(error),
        )  # fmt: skip
        if not buffer:
            raise CompileError(self._take(error).decode())
        try:
            start = self._call("GetBufferStart", buffer)
            return ctypes.string_at(start, self._call("GetBufferSize", buffer))
        finally:
            self._call("DisposeMemoryBuffer", buffer)


class Public(_Machines):
    """LLVM through llvmlite's Python functions, for versions not known here."""

    def __init__(self) -> None:
        super().__init__()
        self._llvm = llvmlite()
        self.triple: Any = self._llvm.get_process_triple().encode()
        self.host_cpu: Any = self._llvm.get_host_cpu_name().encode()
        self.host_features: Any = self._llvm.get_host_cpu_features().flatten().encode()

    def _know_all(self) -> None:
        self._llvm.initialize_all_targets()
        self._llvm.initialize_all_asmprinters()

    def _new_machine(self, machine: LLVMMachine, level: int) -> Any:
        target = self._llvm.Target.from_triple(machine.triple)
        return target.create_target_machine(
            cpu=machine.cpu, features=machine.attributes, opt=level,
            reloc=machine.relocation, codemodel="small", jit=True, abiname=machine.abi,
        )  # fmt: skip

    def _simplify(self, machine: Any, module: Any) -> None:
        module.data_layout = str(machine.target_data)
        options = self._llvm.create_pipeline_tuning_options(1)
        passes = self._llvm.create_new_module_pass_manager()
        passes.add_instruction_combine_pass()
        passes.add_sccp_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, self._llvm.create_pass_builder(machine, options))

    def compile(
        self,
        ir: str,
        level: int,
        assembly: bool,
        verify: bool,
        made_for: LLVMMachine = NATIVE,
    ) -> bytes:
        """An object file, or assembly, of some IR."""
        try:
            context = self._llvm.create_context()
            module = self._llvm.parse_assembly(ir, context)
            if verify:
                module.verify()
            with self.machine(made_for, level) as machine:
                if level == SIMPLIFIED:
                    self._simplify(machine, module)
                if assembly:
                    return str(machine.emit_assembly(module)).encode()
                return bytes(machine.emit_object(module))
        except RuntimeError as error:
            raise CompileError(str(error)) from error


@once
def llvm() -> _Library | Public:
    """LLVM itself; the first call loads it.

    Raises:
        ImportError: llvmlite is not installed, or too old.
    """
    where = _location()
    if where is None or not available():
        raise ImportError(f"{trouble()}, and compiling needs it: {REMEDY}")
    if where[1].startswith(_KNOWN_VERSIONS):
        for name in ("libllvmlite.so", "libllvmlite.dylib", "llvmlite.dll"):
            path = os.path.join(where[0], "binding", name)
            if os.path.exists(path):
                try:
                    return _Library(path)
                except (OSError, AttributeError):
                    break
    return Public()
