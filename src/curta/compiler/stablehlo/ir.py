"""Operations, blocks, functions and modules of MLIR, as data.

Only what StableHLO needs: SSA values with a type, operations with attributes and
regions of one block each. `asm.py` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta.core.source_info import UNKNOWN, SourceInfo


class HloValue:
    """A result of an operation or an argument of a block: its type, as text.

    `hint` is the name it is printed under, if that is none of the numbers.
    """

    __slots__ = ("hint", "type")

    def __init__(self, type_: str, hint: str = "") -> None:
        self.type: str = type_
        self.hint: str = hint


class Operation:
    """`results = name(operands) {attributes} (regions)`.

    Attributes are text, or Python values that `attributes.text` knows how to write.
    """

    __slots__ = ("attributes", "location", "name", "operands", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: Sequence[HloValue],
        results: Sequence[HloValue],
        attributes: Mapping[str, Any],
        regions: Sequence[HloBlock],
        location: SourceInfo,
    ) -> None:
        self.name: str = name
        self.operands: Sequence[HloValue] = operands
        self.results: Sequence[HloValue] = results
        self.attributes: Mapping[str, Any] = attributes
        self.regions: Sequence[HloBlock] = regions
        self.location: SourceInfo = location


class HloBlock:
    """Operations in order; the last is the terminator."""

    __slots__ = ("arguments", "operations")

    def __init__(self, arguments: Sequence[HloValue] = ()) -> None:
        self.arguments: list[HloValue] = list(arguments)
        self.operations: list[Operation] = []


class HloFunction:
    """A function of the module; attributes of arguments and results are text."""

    def __init__(
        self,
        name: str,
        body: HloBlock,
        result_types: Sequence[str],
        public: bool = False,
    ) -> None:
        self.name = name
        self.body = body
        self.public = public
        self.argument_attributes: list[dict[str, Any]] = [{} for _ in body.arguments]
        self.argument_names: Sequence[str] = ()
        self.location: SourceInfo = UNKNOWN
        self.set_results(result_types)

    def set_results(self, types: Sequence[str]) -> None:
        """Give the types of the results, without attributes."""
        self.result_types: list[str] = list(types)
        self.result_attributes: list[dict[str, Any]] = [{} for _ in types]


class HloModule:
    """A module: functions by name, in order, and the meshes they speak of."""

    def __init__(self, name: str, attributes: Mapping[str, Any]) -> None:
        self.name = name
        self.attributes: dict[str, Any] = dict(attributes)
        self.meshes: dict[str, str] = {}
        self.functions: dict[str, HloFunction] = {}
        self._conflicts = 0

    def unused_name(self, wanted: str) -> str:
        """`wanted`, with a number if a function has that name."""
        name = wanted
        while name in self.functions:
            # One count for all names, as MLIR's symbol tables have.
            name = f"{wanted}_{self._conflicts}"
            self._conflicts += 1
        return name
