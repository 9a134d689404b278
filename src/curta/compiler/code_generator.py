"""LLVM's code generator: from IR text to object files."""

from __future__ import annotations

from collections.abc import Sequence

from curta._base.signals import answering, at_once, processors
from curta.compiler import llvm_binding as binding
from curta.config import config

# LLVM's code generator: 0 selects instructions quickly (good for plain maps), 1 also
# schedules and allocates registers well (needed where a loop carries accumulators).
# SIMPLIFIED runs LLVM's simplest passes first, a fifth of the compile time: straight
# code of many ops has comparisons and divisions of which they leave half.
QUICK, GOOD, SIMPLIFIED = 0, 1, binding.SIMPLIFIED


def available() -> bool:
    """Whether code can be compiled here at all."""
    return binding.available()


def compile_text(ir: str, level: int = GOOD, verify: bool = False) -> bytes:
    """Compile LLVM IR to an object file in memory.

    Any number of threads may call this at once. `verify` checks the IR first, which
    tests do.

    Raises:
        ImportError: llvmlite is not installed.
        CompileError: LLVM does not accept the IR.
    """
    compile_module = binding.llvm().compile
    if len(ir) < config.tuning.interruptible_ir:
        return compile_module(ir, level, False, verify)
    return answering(compile_module, ir, level, False, verify)


def compile_texts(texts: Sequence[tuple[str, int]]) -> list[bytes]:
    """The object files of modules with their levels; long ones at the same time.

    Raises:
        ImportError: llvmlite is not installed.
        CompileError: LLVM does not accept some IR.
    """
    total = sum(len(ir) for ir, _ in texts)
    if len(texts) < 2 or total < config.tuning.parallel_ir:
        return [compile_text(*text) for text in texts]
    chosen = config.curta_num_threads
    threads = chosen if chosen > 0 else processors()
    return at_once(lambda text: compile_text(*text), texts, threads)


def assembly(ir: str, level: int = GOOD) -> str:
    """The assembly that `compile_text` would make, to read."""
    return binding.llvm().compile(ir, level, assembly=True, verify=True).decode()
