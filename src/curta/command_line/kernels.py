"""`curta cache`: the compiled kernels on disk, listed, removed or verified."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from curta.api.readable import sized
from curta.command_line.usage import UsageError
from curta.compiler.machine_code import cache
from curta.debug.bars import make_bar

_DAY = 86400.0
_SHOWN = 10


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser("cache", help="the compiled kernels on disk")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser
    listing = add("list", help="files, those used last first")
    listing.add_argument("-a", "--all", action="store_true", help="all, not just ten")
    listing.set_defaults(run=show)
    add("clear", help="remove all files").set_defaults(run=clear)
    checking = add("verify", help="compare the files with their checksums")
    checking.add_argument(
        "--remove", action="store_true", help="remove files that are never used"
    )
    checking.set_defaults(run=verify)


def show(options: argparse.Namespace) -> int:
    """Print the files of the cache."""
    folder = _folder()
    kept = sorted(cache.entries(folder), key=lambda e: -e.used)
    print(f"{folder}: {len(kept)} files, {sized(sum(e.size for e in kept))}")
    shown = kept if options.all else kept[:_SHOWN]
    for entry in shown:
        days = (time.time() - entry.used) / _DAY
        print(f"{entry.name[:16]}  {sized(entry.size):>10}  used {_ago(days)}")
    if len(kept) > len(shown):
        print(f"... and {len(kept) - len(shown)} more (curta cache list --all)")
    return 0


def _ago(days: float) -> str:
    """Files are touched once a day at most, so that hours say nothing."""
    return "today" if days < 1 else f"{days:.0f} days ago"


def clear(options: argparse.Namespace) -> int:
    """Remove all files of the cache."""
    folder = _folder()
    count = sum(1 for _ in cache.entries(folder))
    cache.clear()
    left = sum(1 for _ in cache.entries(folder))
    print(f"{folder}: {count - left} files removed")
    return 1 if left else 0


def verify(options: argparse.Namespace) -> int:
    """Compare all files with their checksums; 1 if damaged ones are left."""
    folder = _folder()
    kept = [e for e in cache.entries(folder) if e.is_whole]
    unsound = [e for e in _with_bar(kept) if not e.is_sound()]
    damaged = [e for e in unsound if e.is_of_this_version()]
    others = len(unsound) - len(damaged)
    for entry in damaged[:_SHOWN]:
        print(f"{entry.name}: damaged")
    print(
        f"{folder}: {len(kept)} files, {len(damaged)} damaged, {others} of other"
        " versions"
    )
    if not unsound:
        return 0
    if options.remove:
        count = sum(e.remove() for e in unsound)
        print(f"{count} files removed")
        return 0 if count == len(unsound) else 1
    print("Such files are never used; `curta cache verify --remove` removes them.")
    return 1 if damaged else 0


def _with_bar(entries: Sequence[cache.CachedFile]) -> Iterator[cache.CachedFile]:
    """The entries, with a progress bar at a terminal."""
    if not sys.stderr.isatty():
        yield from entries
        return
    bar = make_bar("files", len(entries))
    for entry in entries:
        yield entry
        bar.update(1)
    bar.close()


def _folder() -> str:
    folder = cache.usable_folder()
    if folder is None:
        raise UsageError(
            "there is no cache: it is switched off (CURTA_CACHE=0), or its folder"
            " cannot be used; `curta doctor` gives the reason."
        )
    return folder
