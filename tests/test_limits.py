"""Every number with which sizes and costs are compared is a field of `Tuning`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import curta

SOURCE = Path(curta.__file__).parent
# They write for other compilers, in formats that have numbers of their own.
FORMATS = ("stablehlo", "pjrt")
MODULES = sorted(
    p
    for package in ("compiler", "runtime")
    for p in (SOURCE / package).rglob("*.py")
    if not any(part in FORMATS for part in p.parts)
)
MODULES.append(SOURCE / "core" / "buffers.py")
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
SMALL = 8  # numbers up to this are counts of dims, operands, bits of a byte

# What is compared and yet no limit, by module and name or number.
NOT_LIMITS = {
    # Formats, of files and of numbers; bits of indices and of what an index may be.
    ("compiler/machine_code/elf.py", "64"): "the bytes of the header of an object file",
    ("compiler/machine_code/elf.py", "16"): "the alignment that processors ask for",
    ("compiler/machine_code/elf.py", "_FIRST_SPECIAL"): "a number of the format",
    ("compiler/emit/standalone.py", "_INCLUDED_BYTES"): "two forms of the same bytes",
    ("compiler/rewrite/simplify.py", "-100"): "powers of two that floats have",
    ("compiler/rewrite/simplify.py", "100"): "powers of two that floats have",
    ("compiler/library/lapack_calls.py", "_LARGEST"): "the indices of LAPACK",
    ("compiler/library/sort.py", "LARGEST"): "places are 32-bit integers",
    ("compiler/library/sort.py", "32"): "keys of so many bits go with their places",
    ("compiler/library/tile.py", "32"): "the bytes of a register of AVX2",
    ("compiler/library/tile_assembly.py", "16"): "registers that VEX can name",
    ("compiler/llvm_binding.py", "_MINIMUM"): "a version",
    ("compiler/llvm/index_values.py", "_SAFE"): "an index that cannot overflow",
    ("compiler/llvm/index_values.py", "_SIGNED32"): "the bits of an index",
    ("compiler/llvm/vectors.py", "32"): "the bits of what a register compares",
    ("compiler/llvm/vectors.py", "64"): "the lanes of a mask",
    ("compiler/fingerprint.py", "_RECENT_NS"): "the ticks of a file system's clock",
    # Part of what a function is: its bits must not depend on a setting.
    ("compiler/llvm/vector_math/common.py", "_LONG"): "the form of a polynomial",
    # The machine: cache lines, pages, vectors.
    ("compiler/library/select.py", "16"): "the lanes of a vector of keys",
    ("compiler/llvm/column_nests.py", "WIDEST"): "the lanes of the widest vector",
    ("compiler/llvm/row_blocks.py", "_CHUNK"): "the bytes that shuffles stay within",
    ("compiler/loops/bufferize.py", "ALIGNMENT"): "the bytes of a cache line",
    ("compiler/schedule/nests.py", "_FEWEST"): "the lanes of the least register",
    ("compiler/targets.py", "CACHE_LINE"): "the bytes of a cache line",
    ("core/buffers.py", "ALIGNMENT"): "the bytes of a cache line",
    ("core/buffers.py", "4096"): "the bytes of a page",
    ("core/buffers.py", "_HUGE_PAGE"): "the bytes of a huge page",
    # Estimates and iterations: what is right for any size.
    ("compiler/loops/costs.py", "STORE"): "a part of the cost model",
    ("compiler/callee.py", "UNKNOWN"): "the cost of a loop of unknown length",
    ("compiler/llvm/vector_math/incomplete.py", "_MOST_STEPS"): "steps to converge",
    ("compiler/llvm/vector_math/zeta.py", "_MOST_MORE"): "steps to a series",
    # Code of the process's one pool and one queue, which no tuning can replace.
    ("compiler/support/thread_code.py", "_CALLER_SPINS"): "turns of waiting",
    ("compiler/support/thread_code.py", "_CALLER_YIELDS"): "turns of waiting",
    ("compiler/support/cancellation_code.py", "LOOKED"): "a place in memory",
    ("compiler/support/thread_code.py", "WANTED"): "a place in memory",
    ("compiler/library/blas_buffers_code.py", "COUNT"): "a place in memory",
    ("compiler/support/call_code.py", "_STACK_WORDS"): "what threads have of a stack",
    ("compiler/support/cancellation_code.py", "_PATIENCE"): "time that signals wait",
    (
        "compiler/support/thread_code.py",
        "_FEW_WORKERS",
    ): "workers that find processors alone",
    ("compiler/support/thread_code.py", "_NO_CHUNK"): "a number that no chunk has",
}


@cache
def numbers() -> list[tuple[str, str, int]]:
    """Module, name or number, and line of what is compared with something."""
    return list(_numbers())


def _numbers() -> Iterator[tuple[str, str, int]]:
    trees = {p: [*ast.walk(ast.parse(p.read_text()))] for p in MODULES}
    constants = {p: [*_constants(nodes)] for p, nodes in trees.items()}
    defined: dict[str, str] = {}  # by module and name, the module that defines it
    for path, names in constants.items():
        for name in names:
            defined[f"{_module(path)}.{name}"] = _place(path)
    for path, nodes in trees.items():
        known = {name: _place(path) for name in constants[path]}
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    place = defined.get(f"{node.module}.{alias.name}")
                    if place is not None:
                        known[alias.asname or alias.name] = place
        compared = [*_compared(nodes)]
        for operand in (*compared, *_divisors(nodes)):
            for part in ast.walk(operand):
                if isinstance(part, ast.Name) and part.id in known:
                    yield known[part.id], part.id, part.lineno
        for operand in compared:
            number = _integer(operand)
            if number is not None and abs(number) > SMALL:
                yield _place(path), str(number), operand.lineno


def _place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _module(path: Path) -> str:
    return ".".join(["curta", *path.relative_to(SOURCE).with_suffix("").parts])


def _constants(nodes: list[ast.AST]) -> Iterator[str]:
    """Names of integers, and of tuples of them, that a module or class defines."""
    for scope in [n for n in nodes if isinstance(n, (ast.Module, ast.ClassDef))]:
        for node in scope.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                for target in targets:
                    yield from _names(target, node.value)


def _names(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for t, v in zip(target.elts, value.elts, strict=False):
            yield from _names(t, v)
    elif isinstance(target, ast.Name) and target.id.lstrip("_").isupper():
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        found = list(map(_integer, items))
        if None not in found and any(abs(n or 0) > 1 for n in found):
            yield target.id


def _integer(node: ast.expr) -> int | None:
    """The integer that an expression of literals stands for."""
    if not isinstance(node, (ast.Constant, ast.BinOp, ast.UnaryOp)):
        return None
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    parts = list(ast.walk(node))
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(p, plain) for p in parts):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"))
    return value if type(value) is int else None


def _compared(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """What is compared by order, or an argument of min or max."""
    for node in nodes:
        if isinstance(node, ast.Compare):
            if any(isinstance(op, ORDERED) for op in node.ops):
                yield from (node.left, *node.comparators)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
                yield from node.args


def _divisors(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """What a size is divided by, which gives a count of parts."""
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            yield node.right


def test_numbers_that_are_compared_are_limits_of_the_tuning() -> None:
    found = [
        f"{place}:{line} {name}"
        for place, name, line in numbers()
        if (place, name) not in NOT_LIMITS
    ]
    assert found == [], "make these fields of curta._settings.tuning.Tuning"


def test_what_is_no_limit_is_still_there() -> None:
    assert set(NOT_LIMITS) <= {(place, name) for place, name, _ in numbers()}
