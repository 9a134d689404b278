"""`curta build module:function`: a C library of functions."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from curta import tree_util
from curta.aot.building import build
from curta.aot.errors import BuildError
from curta.command_line.explain import function_named, literal, type_of
from curta.command_line.usage import UsageError
from curta.core.shape_struct import ShapeDtypeStruct


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "build",
        help="compile functions to a C library",
        description="Compile a function to a static library with a C header, or to"
        " WebAssembly with an ES module (`--target wasm32`). It runs without Python."
        " An argument is a type, as `f32[8,784]`, or a number or"
        " structure of Python; types may be in it as strings: `{'w': 'f32[784,10]'}`.",
    )
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("--args", nargs="*", default=[], metavar="ARGUMENT")
    parser.add_argument("--target", default="host", help="see `curta targets`")
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER")
    parser.add_argument("--name", help="begins the names of all that C sees")
    for option in ("static", "donate"):
        parser.add_argument(
            f"--{option}", nargs="*", type=int, metavar="NUMBER",
            help=f"positions of {option}d arguments".replace("staticd", "static"),
        )  # fmt: skip
    parser.add_argument(
        "--drop-prints", action="store_true", help="leave out what `debug` prints"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Build the library, and print its files."""
    importlib.import_module("curta.as_jax")
    function = function_named(options.function)
    arguments = [*map(_argument, options.args)]
    try:
        library = build(
            function,
            *arguments,
            directory=options.output,
            name=options.name,
            target=options.target,
            static_argnums=options.static,
            donate_argnums=options.donate,
            debug_print="drop" if options.drop_prints else "refuse",
        )
    except (BuildError, TypeError) as error:
        raise UsageError(str(error)) from None
    print(library)
    if "archive" in library.files:
        print("flags:", " ".join(library.flags))
    return 0


def _argument(text: str) -> Any:
    """Return an argument: a type, a literal, or a structure with types in it."""
    if type_of(text) is not None:
        return _typed(text)
    return tree_util.tree_map(_typed, literal(text))


def _typed(x: Any) -> Any:
    found = type_of(x) if isinstance(x, str) else None
    return x if found is None else ShapeDtypeStruct(*found)
