"""`curta explain module:function`: what the compiler makes of a function."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.explain import Explanation, explain
from curta.command_line.usage import UsageError, check_writable
from curta.core.source_info import is_users

_TYPE = re.compile(r"([a-z_0-9]+)\[([\d, ]*)\]")
_SEED = 0


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "explain",
        help="what the compiler makes of a function, and what it costs",
        description="An argument is a type, as `f32[128,256]`, of which there is an"
        " array of random numbers, or a number or structure of Python.",
    )
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    parser.add_argument("--html", metavar="FILE", help="write a page instead")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the explanation, or write the page."""
    importlib.import_module("curta.as_jax")
    if options.html:
        check_writable(options.html)
    function = function_named(options.function)
    arguments = [*map(argument, options.arguments)]
    _check_call(options.function, function, arguments)
    explained = _explained(options.function, function, arguments)
    if options.html:
        explained.save(options.html)
    else:
        print(explained)
    return 0


def function_named(name: str) -> Callable[..., Any]:
    """Return the function that MODULE:FUNCTION names."""
    module, colon, path = name.partition(":")
    if not colon or not path:
        raise UsageError(f"{name!r} is not MODULE:FUNCTION, such as `models.mlp:loss`.")
    if os.getcwd() not in sys.path and not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    try:
        result: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise UsageError(f"there is no module {module!r} here") from None
    try:
        function: Callable[..., Any] = reduce(getattr, path.split("."), result)
    except AttributeError as error:
        raise UsageError(str(error)) from None
    return function


def _check_call(name: str, function: Any, arguments: list[Any]) -> None:
    """Raise UsageError for what cannot be called so."""
    if not callable(function):
        raise UsageError(f"{name} is not a function, but {function!r}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # it is written in C, and does not say
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise UsageError(
            f"{name}{signature} and {len(arguments)} arguments: {error}"
        ) from None


def _explained(name: str, function: Any, arguments: list[Any]) -> Explanation:
    """The explanation; UsageError where only Curta's own code refuses the arguments."""
    try:
        return explain(function)(*arguments)
    except (TypeError, ValueError) as error:
        frames = traceback.walk_tb(error.__traceback__)
        if any(is_users(frame.f_code) for frame, _ in frames):
            raise
        raise UsageError(f"{name} refuses these arguments: {error}") from None


def argument(text: str) -> Any:
    """An argument of the command line: a type or a literal.

    >>> argument("f32[2,3]").shape, argument("(1, 2.5)")
    ((2, 3), (1, 2.5))
    """
    result = type_of(text)
    if result is None:
        return literal(text)
    shape, dtype = result
    try:
        numbers = np.random.default_rng(_SEED).uniform(size=shape)
    except (MemoryError, ValueError) as error:
        raise UsageError(f"there is no room for {text}: {error}") from None
    if dtype.kind in "iub":  # indices that are in range of most arrays
        numbers = numbers * 2
    return numbers.astype(dtype)


def literal(text: str) -> Any:
    """Return a number or structure of Python."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(
            f"{text!r} is neither a type, as f32[128,256], nor a number or"
            " structure of Python"
        ) from None


def type_of(text: str) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return the shape and dtype that a text as `f32[2,3]` stands for, if it is one."""
    result = _TYPE.fullmatch(text)
    if result is None:
        return None
    name, dims = result.groups()
    shape = tuple(int(n) for n in dims.split(",") if n.strip())
    try:
        return shape, _DTYPES[name]
    except KeyError:
        known = ", ".join(_DTYPES)
        raise UsageError(f"there is no dtype {name!r}; there are {known}") from None


_KINDS = {"float": "f", "int": "i", "uint": "u", "complex": "c"}
_DTYPES = {
    **{
        f"{letter}{bits}": np.dtype(f"{kind}{bits}")
        for kind, letter in _KINDS.items()
        for bits in (8, 16, 32, 64, 128)
        if hasattr(np, f"{kind}{bits}")
    },
    "bf16": np.dtype(dtypes.bfloat16),
    "bool": np.dtype(bool),
}
