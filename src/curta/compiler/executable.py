"""Executables: compiled programs, called with NumPy arrays.

A program is a list of steps. A native step is one machine-code function that runs any
number of kernels; an op without compiled code is a step in Python, its `eval` rule.
Most programs are one native step, which the runtime calls directly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from curta.compiler.linked import Linked
from curta.compiler.loops.nodes import Buffer
from curta.compiler.native import NativeProgram
from curta.core.avals import ShapedArray
from curta.core.buffers import empty, workspace
from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Atom, Eqn, Literal
from curta.dtypes import physical_dtype
from curta.lazy_dataclass import dataclass

NDArray = np.ndarray[Any, Any]
Memory = dict[Buffer, NDArray]
Launcher = Callable[[], int]
"""Gives the address of the function that runs chunks on threads, when it is needed."""


@dataclass(frozen=True)
class NativeStep:
    """Machine code `void f(ptr table)`.

    The table has the addresses of `pointers`, of `parallel_for`, of an arena of so many
    bytes, and `words` for the functions and programs that the code calls. `cost`
    estimates a call in simple scalar operations, `temporaries` is what it takes of
    memory besides the arrays, in bytes; `parallel` says whether it asks for threads.
    """

    code: Linked
    callees: tuple[Linked | NativeProgram, ...]
    pointers: tuple[Buffer, ...]
    created: tuple[Buffer, ...]
    cost: int
    arena_bytes: int
    temporaries: int
    parallel: bool

    @property
    def words(self) -> tuple[int, ...]:
        words: list[int] = []
        for called in self.callees:
            words.append(called.address)
            if isinstance(called, NativeProgram):
                words.append(ctypes.addressof(called.words))
        return tuple(words)


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
        consts: Memory,
        avals: Mapping[Buffer, ShapedArray],
        parallel_for: Launcher | None = None,
        replaced: frozenset[int] = frozenset(),
    ) -> None:
        self.in_avals = tuple(in_avals)
        self.out_avals = tuple(out_avals)
        self.steps = tuple(steps)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.consts = {b: np.ascontiguousarray(x) for b, x in consts.items()}
        self._empty = {b: _new(a) for b, a in avals.items() if not a.size}
        self._avals = avals
        parallel = any(type(s) is NativeStep and s.parallel for s in self.steps)
        self._launcher = parallel_for() if parallel_for and parallel else 0
        # Results that may lie where their argument does, without being told so.
        self.replaced = replaced

    @property
    def temporary_bytes(self) -> int:
        """The memory that a call takes besides arguments, constants and results."""
        native = [s for s in self.steps if isinstance(s, NativeStep)]
        arrays = {b for s in native for b in s.created}
        arrays.update(
            b for s in self.steps if isinstance(s, PythonStep) for b in s.results
        )
        arrays.difference_update(self.outputs)
        own = max((s.temporaries for s in native), default=0)
        return own + sum(b.nbytes for b in arrays)

    @property
    def native(self) -> NativeProgram | None:
        """The program as one native function; None if it has steps in Python."""
        step = self.steps[0]
        if len(self.steps) != 1 or not isinstance(step, NativeStep):
            return None
        arrays = [*self.out_avals, *self.in_avals]
        given = {*self.inputs}
        return NativeProgram(
            self,
            step.code.address,
            tuple((physical_dtype(a.dtype), a.shape) for a in arrays),
            len(self.out_avals),
            (
                *(x.ctypes.data for x in self.consts.values()),
                self._launcher,
                0,
                *step.words,
            ),
            step.cost,
            len(self.consts) + 1,
            step.arena_bytes,
            step.temporaries,
            frozenset(i for i, b in enumerate(self.outputs) if b in given)
            | self.replaced,
        )

    def __call__(self, *args: NDArray) -> list[NDArray]:
        memory: Memory = {**self._empty, **self.consts}
        for buffer, array in zip(self.inputs, args, strict=True):
            memory[buffer] = _contiguous(array, self._avals[buffer])
        for step in self.steps:
            if isinstance(step, NativeStep):
                self._run_native(step, memory)
            else:
                _run_python(step, memory, self._avals)
        return [
            memory[buffer].reshape(aval.shape)
            for buffer, aval in zip(self.outputs, self.out_avals, strict=True)
        ]

    def _run_native(self, step: NativeStep, memory: Memory) -> None:
        for buffer in step.created:
            if buffer not in memory:  # an earlier step may have begun to fill it
                memory[buffer] = _new(self._avals[buffer])
        words = [memory[b].ctypes.data for b in step.pointers]
        arena = workspace(step.arena_bytes) if step.arena_bytes else None
        place = 0 if arena is None else arena.ctypes.data
        words += [self._launcher, place, *step.words]
        table = (ctypes.c_uint64 * len(words))(*words)
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(step.code.address)
        function(ctypes.addressof(table))


def _run_python(
    step: PythonStep, memory: Memory, avals: Mapping[Buffer, ShapedArray]
) -> None:
    args: list[NDArray] = []
    for x, atom in zip(step.operands, step.eqn.invars, strict=True):
        if isinstance(x, Literal):
            args.append(as_numpy(x.val, x.aval))
        else:
            args.append(memory[x].reshape(atom.aval.shape))  # type: ignore[index]
    with np.errstate(all="ignore"):
        results = evaluate_op(step.eqn.op, args)
    for buffer, result in zip(step.results, results, strict=True):
        memory[buffer] = _contiguous(result, avals[buffer])


def _new(aval: ShapedArray) -> NDArray:
    return empty(aval.shape, physical_dtype(aval.dtype))


def _contiguous(array: Any, aval: ShapedArray) -> NDArray:
    dtype = physical_dtype(aval.dtype)
    return np.ascontiguousarray(array, dtype).reshape(aval.shape)
