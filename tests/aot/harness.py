"""Built libraries called from C: the harness is written, compiled and run here."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.checks import as_list, assert_close, evaluate
from tests.conformance.samples import Case

from curta.aot.building import BuiltLibrary
from curta.aot.interface import Field, Interface, LeafField
from curta.compiler.library import blas

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]

_HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "%(name)s.h"

enum { GUARD = 64 };

static void *taken(FILE *in, size_t bytes) {
    unsigned char *made = malloc(bytes ? bytes : 1);
    if (bytes && fread(made, 1, bytes, in) != bytes) exit(90);
    return made;
}

static void *guarded(size_t bytes) {
    unsigned char *made = malloc(bytes + 2 * GUARD);
    memset(made, 0xA5, bytes + 2 * GUARD);
    return made + GUARD;
}

static void kept(FILE *out, const void *data, size_t bytes) {
    if (bytes && fwrite(data, 1, bytes, out) != bytes) exit(91);
}

static void unguarded(void *data, size_t bytes) {
    unsigned char *start = (unsigned char *)data - GUARD;
    for (size_t i = 0; i < GUARD; i++)
        if (start[i] != 0xA5 || start[GUARD + bytes + i] != 0xA5) exit(92);
    free(start);
}
"""


def member(path: Sequence[Field]) -> str:
    return ".".join(field.name for field in path)


def call_text(signature: Interface) -> str:
    """A C function that reads arguments, calls, and writes the results."""
    name = signature.name
    given = list(signature.inputs.leaves())
    made = list(signature.outputs.leaves())
    lines = [f"static int call_{name}(FILE *from, FILE *to) {{"]
    lines += [f"{name}_in in;", f"{name}_out out;", "memset(&in, 0, sizeof in);"]
    lines += ["memset(&out, 0, sizeof out);", "(void)from;", "(void)to;"]
    lines += ["(void)taken;"]  # which functions without inputs do not call
    for path, leaf in given:
        if leaf.is_value:
            at = f"&in.{member(path)}, 1, {leaf.nbytes}"
            lines.append(f"if (fread({at}, from) != {leaf.nbytes}) exit(90);")
        else:
            lines.append(f"in.{member(path)} = taken(from, {leaf.nbytes});")
    for path, leaf in made:
        if not leaf.is_value and leaf.in_place is None:
            lines.append(f"out.{member(path)} = guarded({leaf.nbytes});")
    lines += [
        f"size_t size = {name}_workspace();",
        "void *space = guarded(size);",
        f"int code = {name}_run(&in, &out, space, size);",
        f'if (code) fprintf(stderr, "{name}: %s\\n", {name}_error(code));',
        "if (code) return code;",
        "unguarded(space, size);",
    ]
    for path, leaf in made:
        data = f"out.{member(path)}"
        lines.append(f"kept(to, {'&' if leaf.is_value else ''}{data}, {leaf.nbytes});")
        if not leaf.is_value and leaf.in_place is None:
            lines.append(f"unguarded({data}, {leaf.nbytes});")
    for path, leaf in given:
        if not leaf.is_value:
            lines.append(f"free((void *)in.{member(path)});")
    return "\n    ".join([*lines, "return 0;"]) + "\n}\n"


def harness_text(library: BuiltLibrary) -> str:
    """The program: it calls every function of a library once."""
    calls = [f"if (call_{s.name}(from, to)) return 1;" for s in library.signatures]
    main = [
        'FILE *from = fopen(argc == 3 ? argv[1] : "", "rb");',
        'FILE *to = fopen(argc == 3 ? argv[2] : "", "wb");',
        "if (!from || !to) return 2;",
        *calls,
        "fclose(from);",
        "return fclose(to);",
    ]
    body = "\n    ".join(main)
    parts = [_HEAD % {"name": library.name}, *map(call_text, library.signatures)]
    return "\n".join([*parts, f"int main(int argc, char **argv) {{\n    {body}\n}}\n"])


def compiled(
    library: BuiltLibrary,
    folder: Path,
    compiler: Sequence[str],
    flags: Sequence[str] = (),
    own: Sequence[str] | None = None,
) -> Path:
    """The harness of a library as a program; `own` replaces the library's flags."""
    source, program = folder / "harness.c", folder / "harness"
    source.write_text(harness_text(library))
    command = [*compiler, "-std=c11", "-O1", *WARNINGS, str(source)]
    command += [*(library.flags if own is None else own), *flags]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def lapack_flags(library: BuiltLibrary, folder: Path, here: bool) -> list[str]:
    """The flags that link LAPACK: the library of the wheel, if it is for this machine.

    It has the routines under names of its own, so that a jump stands for each.
    """
    routines = [name for name in library.needs if name.endswith("_")]
    if not routines or not here:
        return []
    jump = "jmp" if platform.machine() == "x86_64" else "b"
    lines = [f".globl {x}\n{x}: {jump} scipy_{x}" for x in routines]
    source = folder / "names.s"
    source.write_text("\n".join([".text", *lines, ""]))
    place = blas.location()
    return [str(source), f"-L{place}", f"-Wl,-rpath,{place}", "-lscipy_openblas"]


def called(
    library: BuiltLibrary,
    folder: Path,
    command: Sequence[str],
    args: Mapping[str, Sequence[np.ndarray]],
) -> dict[str, list[np.ndarray]]:
    """The results of all functions of a library for arguments by their names."""
    given, results = folder / "given", folder / "results"
    with given.open("wb") as file:
        for signature in library.signatures:
            for leaf, x in zip(signature.arguments, args[signature.name], strict=True):
                file.write(in_memory(leaf, x).tobytes())
    # Sanitizers look for leaks by means that some containers do not have.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    subprocess.run([*command, str(given), str(results)], check=True, env=environment)
    data, at = results.read_bytes(), 0
    found: dict[str, list[np.ndarray]] = {}
    for signature in library.signatures:
        outs = found[signature.name] = []
        for leaf in signature.results:
            part = np.frombuffer(data, leaf.dtype, leaf.size, at)
            outs.append(part.reshape(leaf.shape))
            at += leaf.nbytes
    assert at == len(data)
    return found


def in_memory(leaf: LeafField, x: Any) -> np.ndarray:
    array = np.ascontiguousarray(x, leaf.dtype).reshape(leaf.shape)
    assert array.shape == leaf.shape
    return array


def program_of(found: Sequence[Case]) -> Any:
    """A function that runs all cases, on all their operands."""

    def program(*flat: Any) -> list[Any]:
        rest = iter(flat)
        outs = [as_list(c.op, c.op(*[next(rest) for _ in c.avals])) for c in found]
        return [x for several in outs for x in several]

    return program


def check_cases(
    found: Mapping[str, Sequence[Case]], outs: Mapping[str, Sequence[np.ndarray]]
) -> None:
    """Compare the results of libraries with `eval`."""
    for name, several in found.items():
        results = iter(outs[name])
        for case in several:
            for want in evaluate(case.op, case.args):
                got = next(results)
                assert_close(got, want.reshape(got.shape), f"{name}: {case}")
