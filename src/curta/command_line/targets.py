"""`curta targets`: the machines that libraries are built for."""

from __future__ import annotations

import argparse
from typing import Any

from curta.compiler.triples import TRIPLES, named

# What `make test-ship` does with libraries for a target.
_RUN = {
    "x86_64-linux-gnu": "run",
    "aarch64-linux-gnu": "run by qemu-user",
    "riscv64-linux-gnu": "run by qemu-user",
    "armv7-linux-gnueabihf": "run by qemu-user",
    "x86_64-windows-gnu": "linked by MinGW",
    "wasm32": "run by Node",
}


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "targets",
        help="the machines that `curta build` makes code for",
        description="List the triples of `curta build --target`, with the format of"
        " their object files, the size of addresses, and how they were tested.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    del options
    print(f"{'target':<24}{'objects':<9}{'bits':<6}tested")
    for triple in ("host", *TRIPLES):
        target = named("x86_64-linux-gnu" if triple == "host" else triple)
        bits = "" if triple == "host" else str(8 * target.pointer_bytes)
        objects = "" if triple == "host" else target.object_format
        how = "run" if triple == "host" else _RUN.get(triple, "objects read")
        print(f"{triple:<24}{objects:<9}{bits:<6}{how}")
    print("A processor and features follow: x86_64-linux-gnu:x86-64-v3+avx512vnni")
    return 0
