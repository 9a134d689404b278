"""`build`: functions of Python become a library that C programs link."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.aot.archive import Member, archive
from curta.aot.c_header import LibraryText, header
from curta.aot.entry_code import add_functions
from curta.aot.errors import BuildError
from curta.aot.interface import Interface, identifier
from curta.aot.lowered import BuiltProgram, built, traced
from curta.aot.packages import cmake_config, pkg_config
from curta.aot.symbols import undefined_symbols
from curta.aot.wasm.files import module_files
from curta.aot.weights import Weights, add_init
from curta.compiler.code_generator import compile_text
from curta.compiler.emit.standalone import StandaloneModule
from curta.compiler.host_target import host
from curta.compiler.targets import Services, Target
from curta.compiler.triples import named

# Threads and LAPACK are those of the program that links the library.
_SERVICES = Services(cancellation=False, python=False, callbacks=False)
_LAMBDA = "<lambda>"
_DEBUG_PRINTS = ("refuse", "drop")
_WEIGHTS = ("library", "file")


@dataclass(frozen=True, eq=False)
class BuiltLibrary:
    """A built library: its files, and how to link it.

    Fields:
        name: its name; begins the names of all that it exports.
        directory: the folder of the files.
        target: the name of the target.
        files: the paths of the files by what they are: `header`, `object`, `archive`,
            `cmake`, `pkg_config`; for WebAssembly `wasm`, `module`, `types`.
        signatures: its functions, with their arguments and results.
        links: the system's libraries that a program links besides: `m`, `lapack`.
        needs: the symbols that it expects of these.
    """

    name: str
    directory: str
    target: str
    files: dict[str, str]
    signatures: tuple[Interface, ...]
    links: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def functions(self) -> list[str]:
        """The names of the functions in C, without `_run`."""
        return [s.name for s in self.signatures]

    @property
    def flags(self) -> list[str]:
        """The arguments of a C compiler for including and linking the library.

        >>> import curta, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = curta.aot.build(curta.numpy.sin, 1.0, directory=folder)
        ...     "-lsin" in made.flags
        True
        """
        folder = self.directory
        others = [f"-l{name}" for name in self.links]
        return [f"-I{folder}", f"-L{folder}", f"-l{self.name}", *others]

    def __str__(self) -> str:
        lines = [f"{self.name} for {self.target}"]
        for path in self.files.values():
            lines.append(f"  {os.path.getsize(path):>12,} bytes  {path}")
        lines += [
            f"  {s.name}: {s.workspace:,} bytes of workspace" for s in self.signatures
        ]
        return "\n".join(lines)


def build(
    fun: Any,
    *args: Any,
    directory: str | os.PathLike[str],
    name: str | None = None,
    target: str = "host",
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    debug_print: str = "refuse",
    weights: str = "library",
    **kwargs: Any,
) -> BuiltLibrary:
    """Compile functions to a library that C programs link, with a header.

    The library needs no Python and no Curta. It does not allocate memory, start threads
    or keep state; constants that the functions close over are in it.

    Args:
      fun: a function, jitted or not, an `Exported`, or a mapping of names to tuples of
        a function and its arguments, for several functions in one library.
      args: for each argument an array or `ShapeDtypeStruct`, or a pytree of them; the
        value of a static argument. Only shapes and dtypes count.
      directory: the folder that the files are written to; it is made if needed.
      name: begins the names of all files and of all that C sees; by default the name of
        the function. Functions of a mapping are called `NAME_KEY`.
      target: the machine that runs the library: `host` is the processor at hand,
        others are a triple with a processor and features, as `aarch64-linux-gnu` or
        `x86_64-linux-gnu:x86-64-v3`. `wasm32` makes a module of WebAssembly and an ES
        module that calls it, instead of files for C.
      static_argnums: as in `jit`; so are the next three. A donated argument shares
        its memory with a result: the call overwrites it.
      static_argnames: names of static arguments.
      donate_argnums: positions of arguments to overwrite.
      donate_argnames: names of arguments to overwrite.
      debug_print: `refuse` or `drop` what `curta.debug` prints and calls.
      weights: where large constants are: in the `library`, or in a `file`
        (NAME.safetensors) that the program maps and hands to `NAME_init`.
      kwargs: arguments by name.

    Returns:
      The `BuiltLibrary`, with the paths of its files.

    Raises:
      BuildError: if a function calls Python, other hosts, or has symbolic sizes; the
        message names the op and the user's line.
      ValueError: if `name` is needed and not given, or an option or target is unknown.
      TypeError: if arguments do not fit the function.

    >>> import curta, curta.numpy as jnp, tempfile
    >>> def predict(params, x):
    ...     return {"mean": jnp.tanh(x @ params["w"]).mean()}
    >>> w, x = curta.ShapeDtypeStruct((8, 4), jnp.float32), jnp.ones((16, 8))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     library = curta.aot.build(predict, {"w": w}, x, directory=folder)
    ...     text = open(library.files["header"]).read()
    >>> library.functions
    ['predict']
    >>> [line.strip() for line in text.splitlines() if "_run(" in line]
    ['int predict_run(const predict_in *in, predict_out *out,']
    """
    if debug_print not in _DEBUG_PRINTS:
        raise ValueError(f"debug_print is {debug_print!r}, not `refuse` or `drop`")
    if weights not in _WEIGHTS:
        raise ValueError(f"weights is {weights!r}, not `library` or `file`")
    options: dict[str, Any] = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
    }
    wanted = _functions(fun, args, kwargs, options)
    library = _library_name(name, fun)
    made_for = _target(target)
    programs = []
    for key, (function, given, by_name) in wanted.items():
        symbol = f"{library}_{identifier(key)}" if key else library
        one = traced(function, given, by_name, options)
        programs.append(built(one, symbol, made_for, debug_print == "drop"))
    apart = Weights() if weights == "file" else None
    return _written(library, programs, made_for, target, os.fspath(directory), apart)


def _functions(
    fun: Any, args: Sequence[Any], kwargs: dict[str, Any], options: dict[str, Any]
) -> dict[str, tuple[Any, Sequence[Any], dict[str, Any]]]:
    """Return each function with its arguments by key; a single one has none."""
    if not isinstance(fun, Mapping):
        return {"": (fun, args, kwargs)}
    if args or kwargs or any(v is not None for v in options.values()):
        raise TypeError(
            "several functions are built from a mapping of names to tuples of a"
            " function and its arguments, without further arguments; use `jit` for"
            " their options"
        )
    if not fun:
        raise ValueError("the mapping has no functions")
    return {str(k): (f, given, {}) for k, (f, *given) in fun.items()}


def _library_name(name: str | None, fun: Any) -> str:
    if name is None:
        own = str(getattr(fun, "fun_name", getattr(fun, "__name__", _LAMBDA)))
        if own == _LAMBDA:
            raise ValueError("this function has no name of its own: pass `name`")
        return identifier(own)
    if identifier(name) != name:
        raise ValueError(f"name={name!r} is not an identifier of C and C++")
    return name


def _target(name: str) -> Target:
    target = host() if name == "host" else named(name)
    if target.machine == "wasm64":
        raise BuildError(f"target {name!r}: modules have 32-bit addresses; use wasm32")
    if target.object_format == "wasm":
        return target  # with no services
    return dataclasses.replace(target, services=_SERVICES)


def _written(
    library: str,
    programs: Sequence[BuiltProgram],
    target: Target,
    target_name: str,
    directory: str,
    weights: Weights | None,
) -> BuiltLibrary:
    """Compile the programs and write all files."""
    os.makedirs(directory, exist_ok=True)
    if target.object_format == "wasm":
        if weights is not None:
            raise BuildError("WebAssembly has weights in the module, not in a file")
        data, signatures = _object(library, programs, target, None, {})
        files = _stored(module_files(library, programs, data), directory)
        return BuiltLibrary(
            library, directory, target_name, files, tuple(signatures), (), ()
        )
    files = {}
    if weights is not None:
        files["weights"] = os.path.join(directory, f"{library}.safetensors")
    data, signatures = _object(library, programs, target, weights, files)
    needs = undefined_symbols(data, target.object_format)
    links, count = _links(needs, target), len(weights.arrays) if weights else 0
    fortran = tuple(n for n in needs if n.endswith("_"))
    text = LibraryText(library, target_name, links, fortran, count)
    exported = [x for s in signatures for x in exported_names(s)]
    exported += [f"{library}_init"] * bool(count)
    start = "_" if target.object_format == "macho" else ""
    symbols = tuple(f"{start}{name}" for name in exported)
    member = Member(f"{library[:12]}.o", data, symbols)
    contents: dict[str, tuple[str, str | bytes]] = {
        "header": (f"{library}.h", header(text, signatures, target.pointer_bytes)),
        "object": (f"{library}.o", data),
        "archive": (f"lib{library}.a", archive([member], target.object_format)),
        "cmake": (f"{library}Config.cmake", cmake_config(library, links)),
        "pkg_config": (f"{library}.pc", pkg_config(library, links)),
    }
    files.update(_stored(contents, directory))
    return BuiltLibrary(
        library, directory, target_name, files, tuple(signatures), links, needs
    )


def _stored(
    contents: Mapping[str, tuple[str, str | bytes]], directory: str
) -> dict[str, str]:
    """Write files, whose names and contents are given; return their paths."""
    files = {}
    for kind, (file, content) in contents.items():
        files[kind] = os.path.join(directory, file)
        raw = content.encode() if isinstance(content, str) else content
        with open(files[kind], "wb") as out:
            out.write(raw)
    return files


def _object(
    library: str,
    programs: Sequence[BuiltProgram],
    target: Target,
    weights: Weights | None,
    files: dict[str, str],
) -> tuple[bytes, list[Interface]]:
    """Return the object file with all programs, and their interfaces."""
    signatures = []
    with tempfile.TemporaryDirectory() as folder:
        chosen = weights.index_of if weights is not None else None
        module = StandaloneModule(library, target, folder, chosen)
        for program in programs:
            made, signature = module.add(program.codes), program.signature
            if not made.is_fixed:
                signature = dataclasses.replace(signature, weights=f"{library}_weights")
            add_functions(module, made, signature)
            signatures.append(signature)
        if weights is not None:
            written = weights.write(files["weights"])
            if weights.arrays:
                add_init(module, library, written)
        data = compile_text(module.text(), target=target)
    return data, signatures


def exported_names(signature: Interface) -> list[str]:
    """Return the names that C knows of a function."""
    words = ["workspace", "run", "error"] + ["run_parallel"] * signature.parallel
    return [f"{signature.name}_{word}" for word in words]


def _links(needs: Sequence[str], target: Target) -> tuple[str, ...]:
    """Return the libraries with these symbols."""
    fortran = any(n.endswith("_") for n in needs)
    memory = {"memcpy", "memmove", "memset", "memcmp"}
    own = any(n not in memory and not n.endswith("_") for n in needs)
    maths = own and target.object_format == "elf"  # others have them in their C library
    return ("lapack", "blas") * fortran + ("m",) * maths
