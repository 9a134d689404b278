"""`curta run`: a program written for JAX, unchanged, in one process or in several."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from curta.command_line import processes
from curta.command_line.usage import UsageError

_FOR_CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "for_children")
_DESCRIPTION = """\
Run a program, of which `import jax` gives Curta. With -n, --of or --coordinator it runs
as several processes, which find one another by `curta.distributed.initialize()`.
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "run",
        help="run a program written for JAX, in one process or in several",
        description=_DESCRIPTION,
    )
    processes.add_options(parser)
    add_program(parser)
    parser.set_defaults(run=run)


def add_program(parser: argparse.ArgumentParser) -> None:
    """Take a program and its arguments, which come last."""
    add = parser.add_argument
    add("-m", dest="module", action="store_true", help="the program is a module")
    add("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(options: argparse.Namespace) -> int:
    """Run the program; the exit status."""
    check_program(options)
    if processes.are_asked_for(options):
        return processes.run(options)
    run_here(options.program, options.module)
    return 0


def check_program(options: argparse.Namespace) -> None:
    """Raise UsageError if the program does not exist."""
    if not options.program:
        raise UsageError("which program? Give a file, or a module after -m.")
    name = options.program[0]
    if options.module:
        _check_module(name)
    elif not os.path.exists(name):
        raise UsageError(f"there is no file {name!r}. A module is run by -m {name}.")
    elif os.path.isdir(name) and not os.path.exists(os.path.join(name, "__main__.py")):
        raise UsageError(f"{name!r} is a folder without a __main__.py to run")
    elif not os.access(name, os.R_OK):
        raise UsageError(f"{name!r} cannot be read: no permission")


def _check_module(name: str) -> None:
    """Raise UsageError where there is no module to run; packages around it load."""
    if not sys.flags.safe_path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    spec = _spec(name)
    if spec is None:
        raise UsageError(f"there is no module {name!r} here")
    if spec.submodule_search_locations is not None and not _spec(f"{name}.__main__"):
        raise UsageError(f"{name!r} is a package without a __main__ to run")


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # of what a package imports
        return None
    except ValueError:  # an empty name, say
        return None


def _let_children_import_it() -> None:
    """Let `import jax` give Curta in processes of Python that the program starts.

    Those of `multiprocessing` that are not forked import the program again, and have
    the paths of this process; others have those of its environment.
    """
    sys.path.insert(1, _FOR_CHILDREN)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _FOR_CHILDREN not in paths:
        joined = os.pathsep.join([_FOR_CHILDREN, *filter(None, paths)])
        os.environ["PYTHONPATH"] = joined


def run_here(program: Sequence[str], module: bool) -> None:
    """Run a program in this process, as `python` does, with Curta as `jax`."""
    importlib.import_module("curta.as_jax")
    _let_children_import_it()
    name = program[0]
    sys.argv = [*program]
    folder = os.getcwd() if module else os.path.dirname(os.path.abspath(name))
    if not sys.flags.safe_path:
        sys.path[0] = folder  # instead of the folder of this command
    if module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        # Errors name it wherever the program goes, as Python's own command has it.
        runpy.run_path(os.path.abspath(name), run_name="__main__")
