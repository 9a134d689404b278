"""Programs in, text out: helpers for the tests of single passes and stages."""

from __future__ import annotations

import ast
import dataclasses
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import curta.runtime.eager  # noqa: F401  (installs the trace of eager values)
from curta import dtypes
from curta.compiler.emit.emission import emit
from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import fuse
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.emit import emit_kernel
from curta.compiler.loops import complexes
from curta.compiler.loops.bufferize import placement_of
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Buffer, Kernel, LoopNest, Store
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.pipeline import lower
from curta.compiler.pretty import pretty_scheduled, pretty_work
from curta.compiler.program.work import Scheduled
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.rewrite.prepare import prepare, unplaced
from curta.compiler.schedule.kernels import kernel_schedule
from curta.compiler.targets import Target, describe
from curta.config import config, enable_x64
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage

SHORT = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": dtypes.bfloat16,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
    "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip

AVX2 = describe("x86_64", "x86-64-v3", ["avx2", "fma", "f16c"], "linux")
AVX512 = describe(
    "x86_64", "x86-64-v4", ["avx2", "fma", "f16c", "avx512f", "avx512vl"], "linux"
)


def avx2() -> Target:
    """A machine with AVX2, and the current limits."""
    return dataclasses.replace(AVX2, tuning=config.tuning)


def aval(text: str) -> ShapedArray:
    """The type that `f32[2,3]` stands for."""
    name, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()
    shape = tuple(int(d) for d in dims.split(",") if d)
    return ShapedArray(shape, np.dtype(SHORT[name]))


def program(
    fun: Callable[..., Any], *types: str, barriers: bool = False
) -> ClosedJaxpr:
    """The program of a function on arrays of types such as `f32[2,3]`; calls inlined.

    The function returns an array, or a list or tuple of arrays. With `barriers`
    recomputation stays separate, as the compiler needs it.
    """

    def listed(*args: Any) -> list[Any]:
        out = fun(*args)
        return list(out) if isinstance(out, list | tuple) else [out]

    with enable_x64(any("64" in t and not t.startswith("c") for t in types)):
        return unplaced(
            inline_calls(stage(listed, [aval(t) for t in types]), barriers=barriers)
        )


def ready(fun: Callable[..., Any], *types: str, target: Target = AVX2) -> ClosedJaxpr:
    """The program after all passes from jaxpr to jaxpr."""
    return prepare(program(fun, *types), target)


def scalar_code(fun: Callable[..., Any], *types: str) -> str:
    """The code that `fun(b, *elements)` writes for elements of these dtypes."""
    b, i = ScalarBuilder(), as_index(LoopVar("i", 4))
    dtypes = [np.dtype(SHORT[name]) for name in types]
    elements = [
        b.load(Buffer(name, dtype, 4), i, dtype)
        for name, dtype in zip("xyzw", dtypes, strict=False)
    ]
    found = fun(b, *elements)
    results = found if isinstance(found, tuple) else (found,)
    values = [b.value(part) for x in results for part in complexes.parts(x)]
    stores = [Store(Buffer(f"out{n}", v.dtype, 4), i, v) for n, v in enumerate(values)]
    kernel = Kernel((), (LoopNest((LoopVar("i", 4),), tuple(stores), ()),))
    return "\n".join(body_lines(kernel))


def body_lines(kernel: Kernel, target: Target = AVX2) -> list[str]:
    """The statements of a kernel of one nest."""
    _, *lines = kernel_text(kernel, target).split("\n    ")
    return lines


def kernel_text(kernel: Kernel, target: Target = AVX2) -> str:
    """A kernel with its schedule; all of its buffers are arrays in memory."""
    plan = kernel_schedule(kernel, target)
    ends = set(kernel.buffers())
    placement = placement_of(kernel, plan, ends, target.tuning)
    return pretty_scheduled(Scheduled(kernel, plan, placement))


def first_kernel(
    fun: Callable[..., Any], *types: str, target: Target = AVX2
) -> tuple[Kernel, ScalarBuilder]:
    """The kernel of the first group of a program, before the passes on kernels."""
    items = lower_to_items(ready(fun, *types, target=target).jaxpr, target)
    return assemble(fuse(items).groups[0], items.builder), items.builder


def kernel_ir(fun: Callable[..., Any], *types: str, target: Target = AVX2) -> str:
    """The LLVM IR of the first kernel of a program, without declarations."""
    kernel, _ = first_kernel(fun, *types, target=target)
    plan = kernel_schedule(kernel, target)
    module = Module.of(target)
    ends = {b for b in kernel.buffers() if b.name.startswith("in")}
    ends |= {s.buffer for s in kernel.nests[-1].written()}
    placement = placement_of(kernel, plan, ends, target.tuning)
    emit_kernel(module, "kernel", kernel, plan, placement)
    return module.text()


def region_ir(fun: Callable[..., Any], *types: str, target: Target = AVX2) -> str:
    """The LLVM IR of a program: of its kernels and regions, then of its entry."""
    (*_, code) = emit(lower(program(fun, *types), target))
    return "\n".join(s.write() for s in (*code.entry.callees, code.entry))


def program_text(
    fun: Callable[..., Any], *types: str, target: Target = AVX2, **options: Any
) -> str:
    """The works of a program after lowering, its inner programs first."""
    parts = lower(program(fun, *types), target, **options).inner_first()
    return "\n".join(pretty_work(w) for part in parts for w in part.works)


# ---------------------------------------------------------------- expected text


# Parameters at their usual values, and trees of arguments: whole lines, and others.
_PLAIN_LINES = re.compile(
    r"\s*(ft_in=.*|ft_out=.*|reverse=False|unroll=1|fill_value=None|\w+_sharding=None"
    r"|indices_are_sorted=False|unique_indices=False|mode=.*PROMISE_IN_BOUNDS)"
)
_PLAIN = re.compile(r"(?<=\[| )(\w*sharding|dimensions)=None ?| weak_type=False")
_EMPTY_DIMS = re.compile(r"(?<=[( ])\w+_(dims|map)=\(\),? ?")
_SHORT_DIMS = {
    "scatter_indices_batching_dims": "index_batch",
    "start_indices_batching_dims": "index_batch",
    "operand_batching_dims": "batch",
    "scatter_dims_to_operand_dims": "scattered",
    "inserted_window_dims": "inserted",
    "collapsed_slice_dims": "collapsed",
}


def clean(text: str) -> str:
    """Text without common indentation and without parameters at their usual values."""
    lines = textwrap.dedent(text.strip("\n")).rstrip().splitlines()
    shown = (line for line in lines if not _PLAIN_LINES.fullmatch(line))
    return "\n".join(_short(line) for line in shown)


def _short(line: str) -> str:
    line = re.sub(r"(?<=\S) \]", "]", _PLAIN.sub("", line)).rstrip()
    if "DimensionNumbers(" in line:
        line = _EMPTY_DIMS.sub("", line).replace(", )", ")")
        line = re.sub(r"dimension_numbers=\w+DimensionNumbers", "numbers=", line)
        for name, short in _SHORT_DIMS.items():
            line = line.replace(name, short)
    return line


def matches(text: str, pattern: str) -> str | None:
    """Return None if lines of `text` match a pattern, else the first that is missing.

    The lines of the pattern are found in this order. A line `...` skips any number of
    lines, otherwise they follow one another; `...` inside a line skips characters. A
    name `%{x}` or `@{x}` stands for any register or symbol, the same one everywhere.

    Example:
        >>> matches("%7 = load p\\nret %7", "%{a} = load p\\nret %{a}")
        >>> matches("%7 = load p\\nret %8", "%{a} = load p\\nret %{a}")
        'ret %{a}'
    """
    lines = [" ".join(line.split()) for line in text.splitlines()]
    wanted = [" ".join(line.split()) for line in pattern.strip().splitlines()]
    wanted = [line for line in wanted if line]
    furthest = [0]

    def search(at: int, i: int, names: dict[str, str], free: bool) -> bool:
        furthest[0] = max(furthest[0], i)
        if i == len(wanted):
            return True
        if wanted[i] == "...":
            return search(at, i + 1, names, True)
        for j in range(at, len(lines) if free else min(at + 1, len(lines))):
            found = re.fullmatch(_expression(wanted[i], names), lines[j])
            if found and search(j + 1, i + 1, {**names, **found.groupdict()}, False):
                return True
        return False

    return None if search(0, 0, {}, True) else wanted[furthest[0]]


def _expression(line: str, names: dict[str, str]) -> str:
    result, seen = "", set[str]()
    for part in re.split(r"(\.\.\.|[%@]\{\w+\})", line):
        if part == "...":
            result += ".*"
        elif re.fullmatch(r"[%@]\{\w+\}", part):
            name = part[2:-1]
            result += re.escape(part[0])
            if name in names:
                result += re.escape(names[name])
            else:
                result += f"(?P={name})" if name in seen else rf"(?P<{name}>[\w.]+)"
            seen.add(name)
        else:
            result += re.escape(part)
    return result


def rewrite_expected(changes: Iterable[tuple[Path, int, str]]) -> None:
    """Put other text into calls `prints(found, expected)`, by their lines."""
    by_file: dict[Path, dict[int, str]] = {}
    for path, line, text in changes:
        by_file.setdefault(path, {})[line] = text
    for path, texts in by_file.items():
        lines = path.read_text().splitlines(keepends=True)
        calls = [
            n for n in ast.walk(ast.parse("".join(lines))) if isinstance(n, ast.Call)
        ]
        calls = [n for n in calls if getattr(n.func, "id", "") == "prints"]
        for call in sorted(calls, key=lambda n: -n.lineno):
            inside = [
                t for at, t in texts.items() if call.lineno <= at <= call.end_lineno
            ]
            old = call.args[1]
            indent = " " * (call.col_offset + 4)
            if not inside or textwrap.dedent(old.value).strip() == inside[0]:
                continue
            new = '"""\n' + textwrap.indent(inside[0], indent) + f'\n{indent}"""'
            start, end = old.lineno - 1, old.end_lineno - 1
            before = lines[start].encode()[: old.col_offset].decode()
            after = lines[end].encode()[old.end_col_offset :].decode()
            lines[start : end + 1] = [before + new + after]
        path.write_text("".join(lines))
