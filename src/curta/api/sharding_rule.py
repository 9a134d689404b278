"""Rules in the words of einsum for how results are split, given how operands are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from curta.core.partition_spec import PartitionSpec, entry_axes, entry_of

BATCHING = "…"
"""What stands for all leading dims in a mapping."""


class CompoundFactor(tuple[str, ...]):
    """One dim made of several factors; the first factor varies slowest.

    >>> from curta.experimental.custom_partitioning import ArrayMapping, CompoundFactor
    >>> ArrayMapping("i", CompoundFactor("j", "k"))
    ('i', ('j', 'k'))
    """

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """For each dim of an array its factor: a name, or a `CompoundFactor`.

    >>> from curta.experimental.custom_partitioning import ArrayMapping
    >>> ArrayMapping("i", "j")
    ('i', 'j')
    """

    def __new__(cls, *dims: Any) -> ArrayMapping:
        if BATCHING in dims[1:]:
            raise ValueError(
                "Ellipsis can only be used at the beginning of a dimension"
            )
        return super().__new__(cls, dims)


class SdyShardingRule:
    """The factors of all operands and results.

    Args:
      operand_mappings, result_mappings: an `ArrayMapping`, or a tuple, for each.
      factor_sizes: the sizes of factors that are only parts of dims.

    >>> from curta.experimental.custom_partitioning import ArrayMapping, SdyShardingRule
    >>> x, y = ArrayMapping("i", "j"), ArrayMapping("j", "k")
    >>> rule = SdyShardingRule((x, y), (ArrayMapping("i", "k"),))
    >>> len(rule.operand_mappings), len(rule.result_mappings)
    (2, 1)
    """

    def __init__(
        self, operand_mappings: Any, result_mappings: Any, **factor_sizes: int
    ):
        self.operand_mappings: tuple[ArrayMapping, ...] = tuple(
            ArrayMapping(*m) for m in operand_mappings
        )
        self.result_mappings: tuple[ArrayMapping, ...] = tuple(
            ArrayMapping(*m) for m in result_mappings
        )
        self.factor_sizes = factor_sizes

    def __str__(self) -> str:
        sizes = f" {self.factor_sizes}" if self.factor_sizes else ""
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}{sizes})"
        )

    def result_specs(
        self, specs: Sequence[PartitionSpec], ranks: Sequence[int], outs: Sequence[int]
    ) -> list[PartitionSpec]:
        """How results of the ranks `outs` are split, given the specs of operands.

        Raises ValueError if the numbers or ranks of arrays are not those of the rule.
        """
        axes_of: dict[Any, tuple[Any, ...]] = {}
        given = zip(self.operand_mappings, specs, ranks, strict=True)
        for mapping, spec, rank in given:
            entries = spec.for_rank(rank).partitions
            for factor, entry in zip(_factors(mapping, rank), entries, strict=True):
                axes_of[factor] = axes_of.get(factor) or entry_axes(entry)
        result = []
        for mapping, rank in zip(self.result_mappings, outs, strict=True):
            used: set[Any] = set()
            split = []
            for factor in _factors(mapping, rank):
                axes = [n for n in axes_of.get(factor, ()) if n not in used]
                used.update(axes)
                split.append(entry_of(axes))
            result.append(PartitionSpec(*split))
        return result


def _factors(mapping: ArrayMapping, rank: int) -> Iterator[Any]:
    """The factor that splits each dim: of several, the first."""
    dims: list[Any] = [d[0] if isinstance(d, CompoundFactor) else d for d in mapping]
    if dims and dims[0] == BATCHING:
        leading = rank - len(dims) + 1
        dims = [(BATCHING, i) for i in range(leading)] + dims[1:]
    if len(dims) != rank:
        raise ValueError(
            f"a sharding rule has {len(dims)} dims {tuple(mapping)} for an array of"
            f" rank {rank}"
        )
    return iter(dims)


def parsed_rule(text: str, **factor_sizes: int) -> SdyShardingRule:
    """The rule of a text such as `... i j, ... j k -> ... i k`.

    Raises TypeError if it is not text, ValueError if it is not a rule.
    """
    if not isinstance(text, str):
        raise TypeError(f"rule must be a str, but got {type(text)}")
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{text}'")
    operands, results = (
        [_parsed_mapping(part) for part in side.split(",")] for side in sides
    )
    return SdyShardingRule(operands, results, **factor_sizes)


def _parsed_mapping(text: str) -> ArrayMapping:
    text = text.replace("...", f" {BATCHING} ")
    dims: list[Any] = []
    for word in re.findall(r"\([^()]*\)|[^\s()]+|[()]", text):
        if word.startswith("(") and len(word) > 1:
            dims.append(CompoundFactor(*word[1:-1].split()))
        elif word in "()":
            raise ValueError(f"Brackets are not balanced: '{text.strip()}'")
        elif word != BATCHING and not word.isidentifier():
            raise ValueError(f"Factor names have to start with a letter: '{word}'")
        else:
            dims.append(word)
    return ArrayMapping(*dims)
