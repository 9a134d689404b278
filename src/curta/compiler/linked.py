"""Native functions in memory, with what it takes to find them again in another process.

function = linked(module.text(), target.GOOD, "dot")
relinked(function.recipe)  # the same from the cache, or LookupError
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curta.compiler import cache
from curta.compiler.library import blas
from curta.compiler.link import LoadedCode, load
from curta.lazy_dataclass import dataclass
from curta.once import Interned

Recipe = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Linked:
    """A native function at an address.

    `recipe` is the name of its object file in the cache, its own name, the recipes of
    the functions that it calls, by name, and the routines of BLAS among them. `keeps`
    holds its code and that of its callees in memory.
    """

    address: int
    recipe: Recipe
    keeps: tuple[LoadedCode | Linked, ...]


def linked(
    ir: str,
    level: int,
    name: str,
    callees: Mapping[str, Linked] = {},
    externals: Sequence[str] = (),
) -> Linked:
    """A function of some IR, compiled or from the cache, with the code that it calls.

    Raises:
        ImportError: it is not in the cache and llvmlite is not installed.
    """
    return kept_linked(cache.text_key(ir, level), lambda: ir, level, name, callees,
                       externals)  # fmt: skip


def kept_linked(
    file: str,
    write: Callable[[], str],
    level: int,
    name: str,
    callees: Mapping[str, Linked] = {},
    externals: Sequence[str] = (),
) -> Linked:
    """The same for IR that need not be written if its object file is in the cache."""
    data = cache.kept_object_file(file, write, level)
    return _linked(file, data, name, callees, externals)


def _linked(
    file: str,
    data: bytes,
    name: str,
    callees: Mapping[str, Linked],
    externals: Sequence[str],
) -> Linked:
    imports = {called: code.address for called, code in callees.items()}
    imports.update(blas.addresses(externals))
    code = load(data, [name], imports)
    recipes = tuple((called, c.recipe) for called, c in callees.items())
    recipe = (file, name, recipes, tuple(externals))
    made = Linked(code.address(name), recipe, (code, *callees.values()))
    return _in_memory.shared(recipe, made)


def relinked(recipe: Recipe) -> Linked:
    """The function of a recipe.

    Raises:
        LookupError: some of its code is no longer in the cache.
    """
    file, name, recipes, externals = recipe
    data = cache.read(file)
    if data is None:
        raise LookupError(f"no code of {name} in the cache")
    callees = {called: shared(r) for called, r in recipes}
    return _linked(file, data, name, callees, externals)


def shared(recipe: Recipe) -> Linked:
    """The function of a recipe, the same for every program that calls it.

    Raises:
        LookupError: it is not in memory, and not in the cache either.
    """
    return _in_memory.get(recipe) or relinked(recipe)


_in_memory: Interned[Linked] = Interned()
