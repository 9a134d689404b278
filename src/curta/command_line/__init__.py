"""The command line: `curta`, or `python -m curta`."""

from curta.command_line.main import main as main
