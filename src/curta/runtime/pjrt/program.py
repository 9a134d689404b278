"""What can be asked of a compiled program, loaded or not."""

from __future__ import annotations

import ctypes
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from curta._base.once import cached_property
from curta.runtime.pjrt.buffers import dtype_of
from curta.runtime.pjrt.hlo_text import program_text
from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.values import bytes_of, decode, integers, pointers, text

if TYPE_CHECKING:
    from curta.runtime.pjrt.abi import Struct


class PluginProgram:
    """A compiled program: its results, cost, memory and code."""

    def __init__(self, library: Library, address: int) -> None:
        self.library = library
        self.address: int | None = address

    def _ask(self, what: str, *nested: Struct, **fields: Any) -> Any:
        return self.library.call(
            f"Executable_{what}", *nested, executable=self.address, **fields
        )

    @cached_property
    def name(self) -> str:
        """The name of its module."""
        result = self._ask("Name")
        return text(result.executable_name, result.executable_name_size)

    @cached_property
    def replicas(self) -> int:
        return self._ask("NumReplicas").num_replicas

    @cached_property
    def partitions(self) -> int:
        return self._ask("NumPartitions").num_partitions

    @cached_property
    def results(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes and dtypes of the results, of one device."""
        types = self._ask("OutputElementTypes")
        codes = integers(types.output_types, types.num_output_types, ctypes.c_int32)
        dims = self._ask("OutputDimensions")
        ranks = integers(dims.dim_sizes, dims.num_outputs, ctypes.c_size_t)
        sizes = iter(integers(dims.dims, sum(ranks)))
        shapes = [tuple(next(sizes) for _ in range(rank)) for rank in ranks]
        return [(s, dtype_of(c)) for s, c in zip(shapes, codes, strict=True)]

    @cached_property
    def memory_kinds(self) -> list[str]:
        """The kinds of memory that the results lie in."""
        result = self._ask("OutputMemoryKinds")
        sizes = integers(result.memory_kind_sizes, result.num_outputs, ctypes.c_size_t)
        names = pointers(result.memory_kinds, result.num_outputs)
        return [text(a, n) for a, n in zip(names, sizes, strict=True)]

    @cached_property
    def fingerprint(self) -> str:
        """Equal for programs that were compiled from the same in the same way."""
        result = self._ask("Fingerprint")
        return text(result.executable_fingerprint, result.executable_fingerprint_size)

    def cost_analysis(self) -> dict[str, Any]:
        """Estimates: `flops`, `bytes accessed`, ..."""
        result = self._ask("GetCostAnalysis")
        return decode(result.properties, result.num_properties)

    def memory_stats(self) -> dict[str, int]:
        """Bytes of code, arguments, results and temporaries."""
        result = self._ask("GetCompiledMemoryStats")
        head = ("struct_size", "extension_start", "executable", "spare")
        return {n: getattr(result, n) for n, _ in result._fields_ if n not in head}

    def code_size(self) -> int:
        """Bytes of machine code."""
        return self._ask("SizeOfGeneratedCodeInBytes").size_in_bytes

    def optimized(self) -> tuple[str, bytes]:
        """The program that was compiled, after all passes: its format, and itself."""
        program: Any = self.library.struct("Program")
        self._ask("OptimizedProgram", program, program=ctypes.addressof(program))
        code = bytes_of(b"\0" * program.code_size)
        program.code = ctypes.addressof(code)
        self._ask("OptimizedProgram", program, program=ctypes.addressof(program))
        format_ = text(program.format, program.format_size)
        return format_, code.raw[: program.code_size]

    def optimized_text(self) -> str:
        """The same as text, with a line for each instruction."""
        return program_text(*self.optimized())

    def serialize(self) -> bytes:
        """The program, to be loaded by the same plugin on the same kind of device."""
        result = self._ask("Serialize")
        data = ctypes.string_at(result.serialized_bytes, result.serialized_bytes_size)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        free(result.serialized_executable_deleter)(result.serialized_executable)
        return data

    def close(self) -> None:
        """Free it."""
        address, self.address = self.address, None
        if address:
            self.library.call("Executable_Destroy", executable=address)

    def __enter__(self) -> PluginProgram:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()


# A constant of many booleans, as MLIR's printer writes it.
_BOOLEANS = re.compile(r'dense<"0x([0-9A-F]+)"> : tensor<((?:\d+x)+)i1>')


def portable(text: str) -> str:
    """The text of a module as any version of MLIR reads it.

    Bytes of booleans in hex are one a byte for newer versions, one a bit for older.

    >>> portable('%c = stablehlo.constant dense<"0x0100"> : tensor<1x2xi1>')
    '%c = stablehlo.constant dense<[[true, false]]> : tensor<1x2xi1>'
    """

    def listed(match: re.Match[str]) -> str:
        shape = [int(n) for n in match[2].split("x")[:-1]]
        values = np.frombuffer(bytes.fromhex(match[1]), np.bool_).reshape(shape)
        return f"dense<{json.dumps(values.tolist())}> : tensor<{match[2]}i1>"

    return _BOOLEANS.sub(listed, text)


class PluginModule:
    """A module of StableHLO as plugins take it, with what it points to.

    `program` may be text or bytecode; both have the format "mlir".
    """

    def __init__(self, library: Library, program: str | bytes, options: bytes) -> None:
        code = portable(program).encode() if isinstance(program, str) else program
        self._keep = bytes_of(code), bytes_of(b"mlir"), bytes_of(options)
        addresses = [ctypes.addressof(data) for data in self._keep]
        self.struct: Struct = library.struct(
            "Program",
            code=addresses[0],
            code_size=len(code),
            format=addresses[1],
            format_size=len(b"mlir"),
        )
        #: The arguments of a function that compiles it.
        self.arguments: dict[str, int] = {
            "program": ctypes.addressof(self.struct),
            "compile_options": addresses[2],
            "compile_options_size": len(options),
        }
