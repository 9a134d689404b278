"""The files of a library for WebAssembly: code, an ES module and its types."""

from __future__ import annotations

from collections.abc import Sequence

from curta.aot.errors import BuildError
from curta.aot.lowered import BuiltProgram
from curta.aot.wasm.es_module import es_module
from curta.aot.wasm.linking import LinkError, link
from curta.aot.wasm.objects import read_object
from curta.aot.wasm.page_layout import frame_of
from curta.aot.wasm.support import support_object
from curta.aot.wasm.type_declarations import type_declarations

_RUN = "run"  # the name of a library's only function
_TAKEN = ("module", "memory")  # names of what `load` gives besides


def module_files(
    library: str, programs: Sequence[BuiltProgram], data: bytes
) -> dict[str, tuple[str, str | bytes]]:
    """Return the name and the content of each file, by what it is.

    Args:
        library: begins the names of the files.
        programs: its functions.
        data: the object file with their code.

    Raises:
        BuildError: the code needs routines that WebAssembly does not have.
    """
    for program in programs:
        _check_lapack(program)
    signatures = [p.signature for p in programs]
    made = read_object(data)
    functions = [_function(library, s.name) for s in signatures]
    for taken in set(functions).intersection(_TAKEN):
        raise BuildError(f"{library}: a function cannot have the name {taken!r}")
    symbols = {f: f"{s.name}_run" for f, s in zip(functions, signatures, strict=True)}
    try:
        linked = link([made, support_object()], symbols)
    except LinkError as error:
        text = f"{library} cannot be linked for WebAssembly: {error}"
        raise BuildError(text) from None
    frames = [frame_of(s, linked.heap) for s in signatures]
    return {
        "wasm": (f"{library}.wasm", linked.data),
        "module": (f"{library}.mjs", es_module(library, functions, signatures, frames)),
        "types": (f"{library}.d.ts", type_declarations(library, functions, signatures)),
    }


def _check_lapack(program: BuiltProgram) -> None:
    """Raise BuildError if a program calls LAPACK or BLAS."""
    sources = [s for code in program.codes for s in (code.entry, *code.library)]
    routines: dict[str, None] = {}
    while sources:
        source = sources.pop()
        routines.update(dict.fromkeys(source.externals))
        sources += source.callees
    if routines:
        raise BuildError(
            f"{program.signature.source} cannot be built for WebAssembly: it calls"
            f" routines of LAPACK: {', '.join(sorted(routines))}. Small matrices are"
            " decomposed without LAPACK."
        )


def _function(library: str, name: str) -> str:
    """Return the name of a function in JavaScript: without the library's."""
    return _RUN if name == library else name.removeprefix(f"{library}_")
