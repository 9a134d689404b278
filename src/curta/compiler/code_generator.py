"""LLVM's code generator: from IR text to object files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from curta._base.signals import answering, at_once, processors
from curta.compiler import llvm_binding as binding
from curta.compiler.targets import DEFAULT, Target

# LLVM's code generator: 0 selects instructions quickly (good for plain maps), 1 also
# schedules and allocates registers well (needed where a loop carries accumulators).
# SIMPLIFIED runs LLVM's simplest passes first, a fifth of the compile time: straight
# code of many ops has comparisons and divisions of which they leave half.
QUICK, GOOD, SIMPLIFIED = 0, 1, binding.SIMPLIFIED


def available() -> bool:
    """Whether code can be compiled here at all."""
    return binding.available()


def compile_text(
    ir: str, level: int = GOOD, verify: bool = False, target: Target | None = None
) -> bytes:
    """Compile LLVM IR to an object file in memory.

    Any number of threads may call this at once. `verify` checks the IR first, which
    tests do. Without a target, the code is for the processor at hand.

    Raises:
        ImportError: llvmlite is not installed.
        CompileError: LLVM does not accept the IR.
    """
    compile_module = binding.llvm().compile
    machine = binding.NATIVE if target is None else target.llvm
    tuning = DEFAULT if target is None else target.tuning
    if len(ir) < tuning.interruptible_ir:
        return compile_module(ir, level, False, verify, machine)
    return answering(compile_module, ir, level, False, verify, machine)


class ModuleText(NamedTuple):
    """The IR of a module, its level of optimization and its target."""

    ir: str
    level: int
    target: Target


def compile_texts(texts: Sequence[ModuleText], threads: int = 0) -> list[bytes]:
    """The object files of modules; long ones at the same time.

    Args:
        texts: the modules.
        threads: the number of threads that compile; 0 is one for each processor.

    Raises:
        ImportError: llvmlite is not installed.
        CompileError: LLVM does not accept some IR.
    """

    def compiled(text: ModuleText) -> bytes:
        return compile_text(text.ir, text.level, target=text.target)

    total = sum(len(text.ir) for text in texts)
    if len(texts) < 2 or total < texts[0].target.tuning.parallel_ir:
        return [*map(compiled, texts)]
    return at_once(compiled, texts, threads if threads > 0 else processors())


def assembly(ir: str, level: int = GOOD) -> str:
    """The assembly that `compile_text` would make, to read."""
    return binding.llvm().compile(ir, level, assembly=True, verify=True).decode()
