"""Native functions in memory, with what it takes to find them again in another process.

    code = Source.of(target, module.text(), GOOD, ("dot",))
    (function,) = link([code])
    relinked(function.recipe)  # the same from the cache, or LookupError

What is linked together and is not in the cache is compiled at the same time, on as many
threads as there are processors: LLVM runs without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.once import Interned, cached_property
from curta.compiler.library import blas
from curta.compiler.llvm.builder import Module
from curta.compiler.machine_code import cache
from curta.compiler.machine_code.link import LoadedCode, load
from curta.compiler.targets import Target
from curta.core.recorder import span

Recipe = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ModuleSource:
    """A module of IR with functions of these `names`, the first of which it stands for.

    It calls functions of other modules, and routines of BLAS by name (`externals`).
    `file` is the name of its object file in the cache.
    """

    file: str
    write: Callable[[], str]
    level: int
    target: Target
    names: tuple[str, ...]
    callees: tuple[ModuleSource, ...] = ()
    externals: tuple[str, ...] = ()

    @staticmethod
    def of(
        target: Target,
        ir: str,
        level: int,
        names: Sequence[str],
        callees: Sequence[ModuleSource] = (),
        externals: Sequence[str] = (),
    ) -> ModuleSource:
        """IR that is written already."""
        file = cache.text_key(target, ir, level)
        return ModuleSource(
            file, lambda: ir, level, target,
            tuple(names), tuple(callees), tuple(externals),
        )  # fmt: skip

    @staticmethod
    def fixed(
        target: Target,
        emit: Callable[[Module], None],
        level: int,
        python: Sequence[ModuleType],
        names: Sequence[str],
        callees: Sequence[ModuleSource] = (),
    ) -> ModuleSource:
        """Functions that code of Python modules emits, given their names alone.

        They are found in the cache without being emitted.
        """

        def write() -> str:
            module = Module.of(target)
            emit(module)
            return module.text()

        file = cache.fixed_key(
            target, write, level, [m.__name__ for m in python], *names
        )
        return ModuleSource(file, write, level, target, tuple(names), tuple(callees))

    @cached_property
    def recipe(self) -> Recipe:
        """What `relinked` finds the functions by."""
        callees = tuple(c.recipe for c in self.callees)
        return self.file, self.names, callees, self.externals

    @cached_property
    def made(self) -> list[Linked]:
        """The functions in memory, when they are, for as long as this object."""
        return []


@dataclass(frozen=True, eq=False)
class Linked:
    """The native functions of a module, at their addresses.

    `keeps` holds their code and that of their callees in memory.
    """

    addresses: Mapping[str, int]
    recipe: Recipe
    keeps: tuple[LoadedCode | Linked, ...]

    @property
    def address(self) -> int:
        """The address of the first function."""
        return next(iter(self.addresses.values()))


def link(sources: Sequence[ModuleSource]) -> list[Linked]:
    """The functions of modules, compiled or from the cache, and of those they call.

    Raises:
        ImportError: some are not in the cache and llvmlite is not installed.
    """
    absent: dict[str, ModuleSource] = {}
    for source in sources:
        _collect(source, absent)
    codes = [cache.Code(s.file, s.write, s.level, s.target) for s in absent.values()]
    with span("LLVM, or the kernel cache", "phase"):
        objects = dict(zip(absent, cache.object_files(codes), strict=True))
    return [_linked_source(s, objects) for s in sources]


def _collect(source: ModuleSource, absent: dict[str, ModuleSource]) -> None:
    """Add what a module needs and is not in memory."""
    if not source.made:
        result = _in_memory.get(source.recipe)
        if result is None:
            absent[source.file] = source
            for callee in source.callees:
                _collect(callee, absent)
        else:
            source.made.append(result)


def _linked_source(source: ModuleSource, objects: Mapping[str, bytes]) -> Linked:
    if not source.made:
        callees = [_linked_source(c, objects) for c in source.callees]
        source.made.append(_linked(source.recipe, objects[source.file], callees))
    return source.made[0]


def _linked(recipe: Recipe, data: bytes, callees: Sequence[Linked]) -> Linked:
    _, names, _, externals = recipe
    imports = {name: at for c in callees for name, at in c.addresses.items()}
    imports.update(blas.addresses(externals))
    code = load(data, names, imports)
    addresses = {name: code.address(name) for name in names}
    return _in_memory.shared(recipe, Linked(addresses, recipe, (code, *callees)))


def relinked(recipe: Recipe) -> Linked:
    """The functions of a recipe.

    Raises:
        LookupError: some of its code is no longer in the cache.
    """
    file, names, callees, _ = recipe
    data = cache.read(file)
    if data is None:
        raise LookupError(f"no code of {names[0]} in the cache")
    return _linked(recipe, data, [shared(r) for r in callees])


def shared(recipe: Recipe) -> Linked:
    """The functions of a recipe, the same for every program that calls them.

    Raises:
        LookupError: they are not in memory, and not in the cache either.
    """
    return _in_memory.get(recipe) or relinked(recipe)


_in_memory: Interned[Linked] = Interned()
