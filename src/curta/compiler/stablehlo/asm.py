"""The text of a module, in MLIR's assembly format.

Values are numbered in the order of their definition, function by function; the
numbers and names of a region are free again after it, as in MLIR's own printer. Most
operations have a short form (`forms.py`); the others are written in the general one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from curta.compiler.stablehlo.attributes import dictionary, symbol
from curta.compiler.stablehlo.forms import FORMS, signature
from curta.compiler.stablehlo.ir import (
    HloBlock,
    HloFunction,
    HloModule,
    HloValue,
    Operation,
)
from curta.compiler.stablehlo.locations import Locations

_PRINTS_ALL = {"stablehlo.custom_call"}
"""Operations whose short form has the attributes that dialects add among its own."""


class PrintedModule(HloModule):
    """A module that is shown as its text, and has what programs ask MLIR's bindings."""

    def text(self, *, debug_info: bool = False) -> str:
        """The text, with `debug_info` with the lines of the program."""
        return module_text(self, debug_info)

    def __str__(self) -> str:
        return self.text()

    def get_asm(self, *, enable_debug_info: bool = False, **others: Any) -> str:
        """The text, by MLIR's name for it."""
        return module_text(self, enable_debug_info)

    @property
    def operation(self) -> PrintedModule:
        """The module itself."""
        return self

    @property
    def body(self) -> SimpleNamespace:
        """Its functions, as `body.operations`."""
        return SimpleNamespace(operations=[*self.functions.values()])


def module_text(module: HloModule, debug_info: bool = False) -> str:
    """The text of the module, with `debug_info` with the lines of the program."""
    where = Locations() if debug_info else None
    end = where.unknown() if where else ""
    lines = [
        f"module {symbol(module.name)} attributes {dictionary(module.attributes)} {{"
    ]
    lines += [
        f"  sdy.mesh @{name} = {text}{end}" for name, text in module.meshes.items()
    ]
    for function in module.functions.values():
        lines += _Printer(where).function(function)
    lines.append("}" + end)
    if where:
        return "\n".join([where.base(), *lines, *where.definitions()]) + "\n"
    return "\n".join(lines) + "\n"


class _Printer:
    """Writes one function."""

    def __init__(self, where: Locations | None) -> None:
        self._where = where
        self._names: dict[HloValue, str] = {}
        self._used: set[str] = set()
        self._values = 0
        self._arguments = 0
        self._conflicts = 0

    # ---------------------------------------------------------------- names

    def name(self, value: HloValue) -> str:
        """The name of a value, as it is used."""
        return self._names[value]

    def names(self, values: Sequence[HloValue]) -> str:
        """`%0, %1`."""
        names = self._names
        return ", ".join([names[v] for v in values])

    def _number(self, values: Sequence[HloValue]) -> str:
        """Name the results of an operation; the text left of its `=`."""
        if not values:
            return ""
        if len(values) == 1:
            return f"{self._named(values)} = "
        # A result with a name of its own begins another group.
        starts = [i for i, v in enumerate(values) if not i or v.hint]
        ends = [*starts[1:], len(values)]
        groups = [values[i:j] for i, j in zip(starts, ends, strict=True)]
        return ", ".join(map(self._named, groups)) + " = "

    def _named(self, values: Sequence[HloValue]) -> str:
        """Name results under one name; `%0:2` is that of two."""
        hint = values[0].hint
        if hint:
            base = self._unique(hint)
        else:
            base = f"%{self._values}"
            self._values += 1
        if len(values) == 1:
            self._names[values[0]] = base
            return base
        for i, value in enumerate(values):
            self._names[value] = f"{base}#{i}"
        return f"{base}:{len(values)}"

    def _unique(self, hint: str) -> str:
        name = f"%{hint}"
        while name in self._used:
            name = f"%{hint}_{self._conflicts}"
            self._conflicts += 1
        self._used.add(name)
        return name

    def argument(self, value: HloValue) -> str:
        """Name an argument of a block."""
        if value.hint:
            name = self._unique(value.hint)
        else:
            name = f"%arg{self._arguments}"
            self._arguments += 1
        self._names[value] = name
        return name

    def rename(self, value: HloValue, name: str) -> None:
        """Print a value under a name that is in use for another."""
        self._names[value] = name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region, whose names and numbers are free again after it."""
        before = self._values, self._arguments, self._conflicts, set(self._used)
        yield
        self._values, self._arguments, self._conflicts, self._used = before

    # ----------------------------------------------------------------- text

    def function(self, function: HloFunction) -> Iterator[str]:
        """The lines of a function."""
        keyword = "public" if function.public else "private"
        values = function.body.arguments
        names = function.argument_names or [""] * len(values)
        given = zip(values, function.argument_attributes, names, strict=True)
        arguments = ", ".join(
            f"{self.argument(v)}: {v.type}{_attributes(a)}{self._argument_location(n)}"
            for v, a, n in given
        )
        results = _results(function.result_types, function.result_attributes)
        yield f"  func.func {keyword} {symbol(function.name)}({arguments}){results} {{"
        yield from self.block(function.body, "    ")
        yield "  }" + self.location(function.location)

    def block(self, block: HloBlock, indent: str) -> list[str]:
        """The lines of a block."""
        # Names of a block come before those of the regions in it.
        heads = [self._number(op.results) for op in block.operations]
        lines: list[str] = []
        for operation, results in zip(block.operations, heads, strict=True):
            text = self._operation(operation, indent)
            end = self._where.of(operation.location) if self._where else ""
            if type(text) is str:
                lines.append(f"{indent}{results}{text}{end}")
            else:
                lines += [f"{indent}{results}{text[0]}", *text[1:-1], text[-1] + end]
        return lines

    def _operation(self, operation: Operation, indent: str) -> str | list[str]:
        """An operation without its results; its lines if it has regions."""
        name, attributes = operation.name, operation.attributes
        form = FORMS.get(name)
        if form is None:
            return self._generic(operation, indent)
        text = form(self, operation, indent)
        if attributes and type(text) is str and name not in _PRINTS_ALL:
            return with_dialects_attributes(text, attributes)
        return text

    def _generic(self, operation: Operation, indent: str) -> str | list[str]:
        head = f'"{operation.name}"({self.names(operation.operands)})'
        own, others = by_dialect(operation.attributes)
        if own:
            head += f" <{dictionary(own)}>"
        tail = f" : {signature(operation)}"
        tail = (f" {dictionary(others)}" if others else "") + tail
        if not operation.regions:
            return head + tail
        lines = [f"{head} ({{"]
        for i, region in enumerate(operation.regions):
            with self.scope():
                lines += [f"{indent}}}, {{"] * (i > 0)
                lines += self.labelled(region, indent)
        return [*lines, f"{indent}}}){tail}"]

    def labelled(self, region: HloBlock, indent: str) -> list[str]:
        """The lines of a region, which begin with its arguments if it has any."""
        arguments = ", ".join(
            f"{self.argument(v)}: {v.type}{self._argument_location()}"
            for v in region.arguments
        )
        label = [f"{indent}^bb0({arguments}):"] if arguments else []
        return label + self.block(region, indent + "  ")

    # ------------------------------------------------------------ locations

    def location(self, loc: Any) -> str:
        """` loc(...)` if lines of the program are asked for."""
        return self._where.of(loc) if self._where else ""

    def _argument_location(self, name: str = "") -> str:
        return self._where.argument(name) if self._where else ""


def _attributes(attributes: Mapping[str, Any]) -> str:
    return " " + dictionary(attributes) if attributes else ""


def _results(types: Sequence[str], attributes: Sequence[Mapping[str, Any]]) -> str:
    if not types:
        return ""
    if len(types) == 1 and not attributes[0]:
        return f" -> {types[0]}"
    pairs = zip(types, attributes, strict=True)
    return " -> (" + ", ".join(t + _attributes(a) for t, a in pairs) + ")"


def by_dialect(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes that an operation has, and those that dialects add to any."""
    own = {k: v for k, v in attributes.items() if "." not in k}
    return own, {k: v for k, v in attributes.items() if "." in k}


def with_dialects_attributes(line: str, attributes: Mapping[str, Any]) -> str:
    """The short form of an operation with the attributes that dialects add.

    The accuracy that is asked for stands among them.
    """
    others = {k: v for k, v in attributes.items() if "." in k or k == _ACCURACY}
    if not others:
        return line
    before, _, types = line.rpartition(" : ")
    return f"{before} {dictionary(others)} : {types}"


_ACCURACY = "result_accuracy"
