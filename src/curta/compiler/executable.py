"""Executables: compiled programs, called with NumPy arrays.

A program is a list of steps. A native step is one machine-code function that runs any
number of kernels; an op without compiled code is a step in Python, its `eval` rule.
Most programs are one native step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curta.compiler.link import LoadedCode
from curta.compiler.loops.nodes import Buffer
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Atom, Eqn, Literal
from curta.dtypes import physical_dtype

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NativeStep:
    """One call of machine code; `pointers` are the buffers whose addresses it takes."""

    code: LoadedCode
    address: int
    pointers: tuple[Buffer, ...]
    created: tuple[Buffer, ...]
    arena_bytes: int


@dataclass(frozen=True)
class PythonStep:
    """An eqn that runs by the `eval` rule of its op."""

    eqn: Eqn
    operands: tuple[Buffer | Atom, ...]
    results: tuple[Buffer, ...]


Step = NativeStep | PythonStep


class Executable:
    """A compiled jaxpr: NumPy arrays of the physical dtypes in, a list of them out."""

    def __init__(
        self,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        steps: Sequence[Step],
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        consts: dict[Buffer, NDArray],
        avals: dict[Buffer, ShapedArray],
        parallel_for: int,
    ) -> None:
        self.in_avals = tuple(in_avals)
        self.out_avals = tuple(out_avals)
        self.steps = tuple(steps)
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._consts = consts
        self._avals = avals
        self._parallel_for = parallel_for

    @property
    def is_native(self) -> bool:
        """Whether the whole program is one native function."""
        return all(isinstance(s, NativeStep) for s in self.steps)

    def __call__(self, *args: NDArray) -> list[NDArray]:
        memory: dict[Buffer, NDArray] = dict(self._consts)
        for buffer, array in zip(self._inputs, args, strict=True):
            memory[buffer] = _contiguous(array, self._avals[buffer])
        for step in self.steps:
            if isinstance(step, NativeStep):
                self._run_native(step, memory)
            else:
                self._run_python(step, memory)
        return [
            _reshaped(memory, buffer, aval)
            for buffer, aval in zip(self._outputs, self.out_avals, strict=True)
        ]

    def _run_native(self, step: NativeStep, memory: dict[Buffer, NDArray]) -> None:
        for buffer in step.created:
            aval = self._avals[buffer]
            memory[buffer] = np.empty(aval.shape, physical_dtype(aval.dtype))
        arena = np.empty(step.arena_bytes + 64, np.uint8)
        base = -(-arena.ctypes.data // 64) * 64
        addresses = [memory[b].ctypes.data for b in step.pointers]
        table = (ctypes.c_uint64 * (len(addresses) + 2))(
            *addresses, base, self._parallel_for
        )
        _native(step.address)(ctypes.addressof(table))

    def _run_python(self, step: PythonStep, memory: dict[Buffer, NDArray]) -> None:
        args = []
        for x, atom in zip(step.operands, step.eqn.invars, strict=True):
            if isinstance(x, Literal):
                args.append(as_numpy(x.val, x.aval))
            else:
                args.append(_reshaped(memory, x, atom.aval))  # type: ignore[arg-type]
        with np.errstate(all="ignore"):
            results = evaluate_op(step.eqn.op, args)
        for buffer, result in zip(step.results, results, strict=True):
            memory[buffer] = _contiguous(result, self._avals[buffer])


def _native(address: int) -> Callable[[int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def _contiguous(array: Any, aval: ShapedArray) -> NDArray:
    dtype = physical_dtype(aval.dtype)
    return np.ascontiguousarray(array, dtype).reshape(aval.shape)


def _reshaped(
    memory: dict[Buffer, NDArray], buffer: Buffer, aval: ShapedArray
) -> NDArray:
    if not aval.size:  # nothing was computed
        return np.empty(aval.shape, physical_dtype(aval.dtype))
    return memory[buffer].reshape(aval.shape)
