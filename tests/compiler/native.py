"""Small native functions for tests: build with the IR builder, call with arrays."""

from __future__ import annotations

import ctypes

import numpy as np

from curta.compiler import code_generator
from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I64, PTR, Type
from curta.compiler.machine_code import link

DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


class Native:
    """A function of a module, called with arrays (their addresses) and integers."""

    def __init__(
        self, module: Module, name: str, imports=None, level=code_generator.QUICK
    ):
        compiled = code_generator.compile_text(module.text(), level, verify=True)
        self.name = name
        self.code = link.load(compiled, [name], imports)
        self.address = self.code.address(name)

    def __call__(self, *args, result=None):
        words = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
        kinds = [
            ctypes.c_void_p if isinstance(a, np.ndarray) else ctypes.c_int64
            for a in args
        ]
        return ctypes.CFUNCTYPE(result, *kinds)(self.address)(*words)


def elementwise(emit, kinds, result, lanes=1, module=None):
    """`emit(b, *values)` as a function on arrays of one length."""
    module = module or Module.of(host())
    b = module.function("f", [PTR] * (len(kinds) + 1) + [I64])
    out, *ins, size = b.arguments
    types = [Type(k, lanes) for k in kinds]
    with b.loop(0, size, lanes) as loop:
        values = []
        mask = b.first_lanes(size - loop.index, lanes)
        for pointer, type_ in zip(ins, types, strict=True):
            place = b.offset(pointer, loop.index, type_)
            if lanes == 1:
                values.append(b.load(type_, place))
            else:
                values.append(b.masked_load(type_, place, mask))
        value = emit(b, *values)
        if value.type.kind == "i1":
            value = b.convert(value, "i8")
        place = b.offset(out, loop.index, value.type)
        if lanes == 1:
            b.store(value, place)
        else:
            b.masked_store(value, place, mask)
    b.ret()
    native = Native(module, "f")

    def call(*arrays):
        arrays = [np.ascontiguousarray(a) for a in arrays]
        answer = np.empty(arrays[0].shape, DTYPES[result])
        native(answer, *arrays, answer.size)
        return answer

    return call
