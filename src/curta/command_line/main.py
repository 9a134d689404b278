"""What the command line takes: a parser of commands, each a module of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from curta.command_line import (
    bench,
    build,
    doctor,
    explain,
    info,
    kernels,
    programs,
    targets,
)
from curta.command_line.usage import UsageError
from curta.version import __version__

_COMMANDS = (info, programs, bench, explain, kernels, doctor, build, targets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says.

    Args:
      arguments: the words after the program's name; those of the process if None.

    Returns:
      The exit status: 0, 1 if a check has failed, 2 if the arguments make no sense, or
      that of the program that was run.

    Raises:
      SystemExit: by `argparse`, for words that it does not know, and for `--help`.

    >>> from curta.command_line import main
    >>> main(["run", "no-such-file.py"])
    2
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except UsageError as error:
        print(f"curta {options.name}: {error}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="curta", description="Array programs, compiled: tools around them."
    )
    parser.add_argument("--version", action="version", version=f"curta {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_to(commands)
    return parser
